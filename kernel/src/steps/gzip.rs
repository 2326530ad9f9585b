//! The `gzip` and `zlib` steps, by libdeflate: RFC 1952 with any number of members, and RFC 1950.
//!
//! Encoded bytes depend on the level and the value alone: no time, no name in the header. Zero bytes after the
//! last member are padding, anything else there is a fault.

use libdeflate_sys as sys;

use super::Inflated;
use crate::fault::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrap {
    Gzip,
    Zlib,
}

impl Wrap {
    pub fn name(self) -> &'static str {
        match self {
            Wrap::Gzip => "gzip",
            Wrap::Zlib => "zlib",
        }
    }

    /// The fewest bytes of one member: header and trailer.
    fn smallest(self) -> usize {
        match self {
            Wrap::Gzip => 18,
            Wrap::Zlib => 6,
        }
    }
}

struct Compressor(*mut sys::libdeflate_compressor);

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: the pointer came from libdeflate_alloc_compressor, is not null and is freed once.
        unsafe { sys::libdeflate_free_compressor(self.0) }
    }
}

struct Decompressor(*mut sys::libdeflate_decompressor);

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: the pointer came from libdeflate_alloc_decompressor, is not null and is freed once.
        unsafe { sys::libdeflate_free_decompressor(self.0) }
    }
}

#[derive(Default)]
pub struct Deflate {
    compressor: Option<(Compressor, i32)>,
    decompressor: Option<Decompressor>,
}

/// The most that `nbytes` become: stored blocks of at least 5000 bytes with 5 bytes each, and a wrapper.
pub fn bound(nbytes: usize) -> usize {
    nbytes.saturating_add(nbytes / 1000 + 256)
}

impl Deflate {
    pub fn decode(&mut self, wrap: Wrap, src: &[u8], dst: &mut [u8]) -> Result<Inflated, Fault> {
        if self.decompressor.is_none() {
            // SAFETY: a plain allocation; null is handled.
            let made = unsafe { sys::libdeflate_alloc_decompressor() };
            if made.is_null() {
                return Err(Fault::memory(1 << 15));
            }
            self.decompressor = Some(Decompressor(made));
        }
        let context = self.decompressor.as_ref().expect("made above").0;
        let (mut consumed, mut produced) = (0usize, 0usize);
        loop {
            let rest = &src[consumed..];
            let room = &mut dst[produced..];
            let (mut used, mut made) = (0usize, 0usize);
            // SAFETY: the context is alive and used by this thread alone; both pointers come with the exact
            // lengths of live slices, beyond which libdeflate neither reads nor writes.
            let result = unsafe {
                let input = rest.as_ptr().cast();
                let output = room.as_mut_ptr().cast();
                match wrap {
                    Wrap::Gzip => sys::libdeflate_gzip_decompress_ex(
                        context,
                        input,
                        rest.len(),
                        output,
                        room.len(),
                        &mut used,
                        &mut made,
                    ),
                    Wrap::Zlib => sys::libdeflate_zlib_decompress_ex(
                        context,
                        input,
                        rest.len(),
                        output,
                        room.len(),
                        &mut used,
                        &mut made,
                    ),
                }
            };
            match result {
                sys::libdeflate_result_LIBDEFLATE_SUCCESS => {}
                sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => return Ok(Inflated::TooSmall),
                _ => {
                    let name = wrap.name();
                    let place = if consumed == 0 { String::new() } else { format!(" at byte {consumed}") };
                    return Err(Fault::codec(format!("{name}: damaged or cut short{place}")));
                }
            }
            consumed += used.max(1);
            produced += made;
            let rest = &src[consumed.min(src.len())..];
            if rest.iter().all(|&byte| byte == 0) {
                return Ok(Inflated::Done(produced));
            }
            if wrap == Wrap::Zlib || rest.len() < wrap.smallest() {
                let name = wrap.name();
                return Err(Fault::codec(format!("{name}: {} bytes follow the end of the stream", rest.len())));
            }
        }
    }

    pub fn encode(&mut self, wrap: Wrap, src: &[u8], dst: &mut [u8], level: i32) -> Result<usize, Fault> {
        if self.compressor.as_ref().is_none_or(|(_, set)| *set != level) {
            self.compressor = None;
            // SAFETY: a plain allocation; null is handled.
            let made = unsafe { sys::libdeflate_alloc_compressor(level) };
            if made.is_null() {
                return Err(Fault::memory(1 << 20));
            }
            self.compressor = Some((Compressor(made), level));
        }
        let context = self.compressor.as_ref().expect("set above").0.0;
        // SAFETY: as in `decode`.
        let nbytes = unsafe {
            let (input, output) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
            match wrap {
                Wrap::Gzip => sys::libdeflate_gzip_compress(context, input, src.len(), output, dst.len()),
                Wrap::Zlib => sys::libdeflate_zlib_compress(context, input, src.len(), output, dst.len()),
            }
        };
        if nbytes == 0 {
            return Err(Fault::codec(format!("{}: {} bytes do not fit their bound", wrap.name(), src.len())));
        }
        Ok(nbytes)
    }
}
