//! The `blosc` step: frames of c-blosc 1, made by c-blosc, taken apart here.
//! <https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst>
//!
//! Reading frames ourselves lets every offset be checked before it is used and one context per thread be reused for
//! all blocks. No global state, no threads inside, no environment variables.

use std::ffi::{CString, c_char, c_int, c_void};

use super::gzip::Wrap;
use super::zstd::check_single;
use super::{Codecs, Inflated, blosclz};
use crate::fault::Fault;
use crate::scratch::Scratch;

pub const NAMES: [&str; 6] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
const HEADER: usize = 16;
const MAX_NBYTES: usize = (i32::MAX as usize) - HEADER;
/// A frame splits blocks into as many streams as elements have bytes only up to this many, and only blocks of this size.
const MAX_SPLITS: usize = 16;
const MIN_SPLIT_NBYTES: usize = 128;

#[derive(Clone, Debug)]
pub struct Blosc {
    name: CString,
    clevel: c_int,
    shuffle: c_int,
    typesize: usize,
    blocksize: usize,
}

unsafe extern "C" {
    // c-blosc's own entries below its frame format; the version is pinned by the lock file.
    fn blosc_internal_unshuffle(typesize: usize, nbytes: usize, src: *const u8, dst: *mut u8);
    fn blosc_internal_bitunshuffle(
        typesize: usize,
        nbytes: usize,
        src: *const u8,
        dst: *mut u8,
        spare: *mut u8,
    ) -> c_int;
    fn snappy_uncompressed_length(src: *const c_char, nbytes: usize, result: *mut usize) -> c_int;
    fn snappy_uncompress(src: *const c_char, nbytes: usize, dst: *mut c_char, room: *mut usize) -> c_int;
}

impl Blosc {
    pub fn new(cname: &str, clevel: i64, shuffle: i64, typesize: i64, blocksize: i64) -> Result<Blosc, String> {
        if !NAMES.contains(&cname) {
            return Err(format!("blosc: no compressor {cname:?}, there are {}", NAMES.join(", ")));
        }
        if !(0..=9).contains(&clevel) {
            return Err(format!("blosc: level {clevel} is not between 0 and 9"));
        }
        if !(0..=2).contains(&shuffle) {
            return Err(format!("blosc: shuffle {shuffle} is not 0 (none), 1 (byte) or 2 (bit)"));
        }
        if !(1..=255).contains(&typesize) {
            return Err(format!("blosc: typesize {typesize} is not between 1 and 255"));
        }
        if !(0..=i64::from(i32::MAX / 3)).contains(&blocksize) {
            return Err(format!("blosc: block size {blocksize} is not between 0 and {}", i32::MAX / 3));
        }
        Ok(Blosc {
            name: CString::new(cname).map_err(|error| error.to_string())?,
            clevel: clevel as c_int,
            shuffle: shuffle as c_int,
            typesize: typesize as usize,
            blocksize: blocksize as usize,
        })
    }

    pub fn encode(&self, src: &[u8], dst: &mut [u8]) -> Result<usize, Fault> {
        if src.len() > MAX_NBYTES {
            return Err(Fault::codec(format!("blosc: a frame holds {MAX_NBYTES} bytes at most, not {}", src.len())));
        }
        // SAFETY: both pointers come with the lengths of live slices that do not overlap; the name is a C string;
        // with one internal thread the call keeps all its state on its own stack and heap.
        let nbytes = unsafe {
            blosc_src::blosc_compress_ctx(
                self.clevel,
                self.shuffle,
                self.typesize,
                src.len(),
                src.as_ptr().cast::<c_void>(),
                dst.as_mut_ptr().cast::<c_void>(),
                dst.len(),
                self.name.as_ptr(),
                self.blocksize,
                1,
            )
        };
        match usize::try_from(nbytes) {
            Ok(nbytes) if nbytes > 0 => Ok(nbytes),
            _ => Err(Fault::codec(format!("blosc: {} bytes could not be encoded ({nbytes})", src.len()))),
        }
    }
}

pub fn bound(nbytes: usize) -> usize {
    nbytes.saturating_add(HEADER)
}

/// A frame's header, with everything in it checked against the frame's length.
struct Frame<'a> {
    bytes: &'a [u8],
    flags: u8,
    typesize: usize,
    nbytes: usize,
    blocksize: usize,
}

impl<'a> Frame<'a> {
    fn new(src: &'a [u8]) -> Result<Frame<'a>, Fault> {
        let Some(header) = src.first_chunk::<HEADER>() else {
            return Err(Fault::codec(format!("blosc: {} bytes do not hold a header of {HEADER}", src.len())));
        };
        let (version, flags, typesize) = (header[0], header[2], usize::from(header[3]));
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]) as usize;
        let (nbytes, blocksize, cbytes) = (word(4), word(8), word(12));
        if version != 2 {
            return Err(Fault::codec(format!("blosc: frame version {version}, only 2 is known")));
        }
        if cbytes != src.len() {
            return Err(Fault::codec(format!("blosc: the header says {cbytes} bytes, there are {}", src.len())));
        }
        if nbytes > MAX_NBYTES || (nbytes > 0 && (blocksize == 0 || blocksize > MAX_NBYTES || typesize == 0)) {
            return Err(Fault::codec(format!(
                "blosc: the header is damaged (bytes {nbytes}, block {blocksize}, element {typesize})"
            )));
        }
        let frame = Frame { bytes: src, flags, typesize, nbytes, blocksize };
        if frame.is_copy() {
            if src.len() != HEADER + nbytes {
                return Err(Fault::codec(format!(
                    "blosc: a stored frame of {nbytes} bytes has {}, not {}",
                    src.len(),
                    HEADER + nbytes
                )));
            }
        } else if nbytes > 0 && frame.nblocks() > (src.len() - HEADER) / 4 {
            return Err(Fault::codec(format!("blosc: {} bytes do not hold {} blocks", src.len(), frame.nblocks())));
        }
        Ok(frame)
    }

    fn is_copy(&self) -> bool {
        self.flags & 2 != 0
    }

    fn nblocks(&self) -> usize {
        self.nbytes.div_ceil(self.blocksize)
    }

    fn word(&self, at: usize) -> Result<usize, Fault> {
        match self.bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
            Some(word) => Ok(u32::from_le_bytes(*word) as usize),
            None => Err(Fault::codec(format!("blosc: a block starts at {at}, past the frame's end"))),
        }
    }
}

/// The decoded size that the header claims.
pub fn claimed(src: &[u8]) -> Result<u64, Fault> {
    Frame::new(src).map(|frame| frame.nbytes as u64)
}

pub fn decode(codecs: &mut Codecs, src: &[u8], dst: &mut [u8]) -> Result<Inflated, Fault> {
    let frame = Frame::new(src)?;
    if frame.nbytes > dst.len() {
        return Ok(Inflated::TooSmall);
    }
    let dst = &mut dst[..frame.nbytes];
    if frame.is_copy() {
        dst.copy_from_slice(&src[HEADER..]);
        return Ok(Inflated::Done(frame.nbytes));
    }
    if frame.nbytes == 0 {
        return Ok(Inflated::Done(0)); // whatever it says of its blocks
    }
    if frame.flags & 8 != 0 {
        return Err(Fault::codec("blosc: the frame is of a later format"));
    }
    let mut spare = std::mem::take(&mut codecs.blocks);
    let result = frame_blocks(codecs, &frame, dst, &mut spare);
    codecs.blocks = spare;
    result.map(|()| Inflated::Done(frame.nbytes))
}

fn frame_blocks(codecs: &mut Codecs, frame: &Frame, dst: &mut [u8], spare: &mut [Scratch; 2]) -> Result<(), Fault> {
    let typesize = frame.typesize;
    for (number, block) in dst.chunks_mut(frame.blocksize).enumerate() {
        let start = frame.word(HEADER + 4 * number)?;
        let byte_shuffled = frame.flags & 1 != 0 && typesize > 1;
        let bit_shuffled = !byte_shuffled && frame.flags & 4 != 0 && frame.blocksize.min(block.len()) >= typesize;
        if !byte_shuffled && !bit_shuffled {
            streams(codecs, frame, start, block)?;
            continue;
        }
        let [shuffled, more] = &mut *spare;
        let shuffled = shuffled.take(block.len())?;
        streams(codecs, frame, start, shuffled)?;
        let room = if bit_shuffled { block.len() + 8 * typesize } else { 0 };
        let more = more.take(room)?;
        // SAFETY: source and destination have the same length, given once; the third has that length and more.
        // Both functions read and write only within it, whatever the bytes are.
        unsafe {
            if byte_shuffled {
                blosc_internal_unshuffle(typesize, block.len(), shuffled.as_ptr(), block.as_mut_ptr());
            } else if blosc_internal_bitunshuffle(
                typesize,
                block.len(),
                shuffled.as_ptr(),
                block.as_mut_ptr(),
                more.as_mut_ptr(),
            ) < 0
            {
                return Err(Fault::codec(format!("blosc: block {number} could not be put in order")));
            }
        }
    }
    Ok(())
}

/// The streams of one block: each its length, then as many bytes, stored as they are where that is the full length.
fn streams(codecs: &mut Codecs, frame: &Frame, start: usize, block: &mut [u8]) -> Result<(), Fault> {
    let whole = block.len() == frame.blocksize;
    let split = frame.flags & 0x10 == 0
        && frame.typesize <= MAX_SPLITS
        && frame.blocksize / frame.typesize >= MIN_SPLIT_NBYTES
        && whole;
    let count = if split { frame.typesize } else { 1 };
    let extent = block.len() / count;
    let mut at = start;
    for stream in block[..extent * count].chunks_exact_mut(extent) {
        let cbytes = frame.word(at)?;
        at += 4;
        let Some(body) = frame.bytes.get(at..).and_then(|rest| rest.get(..cbytes)) else {
            return Err(Fault::codec(format!("blosc: a stream of {cbytes} bytes at {at} ends past the frame")));
        };
        at += cbytes;
        if cbytes == extent {
            stream.copy_from_slice(body);
            continue;
        }
        let made = match frame.flags >> 5 {
            0 => blosclz::decode(body, stream),
            1 => lz4(body, stream),
            2 => snappy(body, stream),
            3 => match codecs.deflate.decode(Wrap::Zlib, body, stream)? {
                Inflated::Done(nbytes) => Some(nbytes),
                Inflated::TooSmall => None,
            },
            4 => {
                check_single(body)?;
                match codecs.zstd.decode(body, stream)? {
                    Inflated::Done(nbytes) => Some(nbytes),
                    Inflated::TooSmall => None,
                }
            }
            other => return Err(Fault::codec(format!("blosc: no compressor has the number {other}"))),
        };
        if made != Some(extent) {
            return Err(Fault::codec(format!("blosc: a stream of {extent} bytes is damaged")));
        }
    }
    // A block that its streams do not divide has bytes that no stream holds: c-blosc leaves them as they were.
    block[extent * count..].fill(0);
    Ok(())
}

fn lz4(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let (room, nbytes) = (c_int::try_from(dst.len()).ok()?, c_int::try_from(src.len()).ok()?);
    // SAFETY: both pointers come with the exact lengths of live slices, which LZ4 neither reads nor writes past.
    let made = unsafe { lz4_sys::LZ4_decompress_safe(src.as_ptr().cast(), dst.as_mut_ptr().cast(), nbytes, room) };
    usize::try_from(made).ok()
}

fn snappy(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let mut nbytes = 0usize;
    // SAFETY: the lengths are those of live slices, and the decoded length is compared with the room for it before
    // anything is written.
    unsafe {
        if snappy_uncompressed_length(src.as_ptr().cast(), src.len(), &mut nbytes) != 0 || nbytes > dst.len() {
            return None;
        }
        let mut room = dst.len();
        let status = snappy_uncompress(src.as_ptr().cast(), src.len(), dst.as_mut_ptr().cast(), &mut room);
        (status == 0).then_some(room)
    }
}
