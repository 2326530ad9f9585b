//! Steps from bytes to bytes, one file per codec, behind two calls: `encode` and `decode`.
//!
//! A decoder is told how many bytes it may produce and produces no more; contexts and buffers belong to the thread.

pub mod blosc;
mod blosclz;
pub mod bytes;
pub mod crc32c;
pub mod gzip;
pub mod transpose;
pub mod zstd;

use crate::fault::Fault;
use crate::scratch::Scratch;
use gzip::Wrap;

/// What a thread keeps: contexts of the libraries, reused from chunk to chunk.
#[derive(Default)]
pub struct Codecs {
    pub zstd: zstd::Zstd,
    pub deflate: gzip::Deflate,
    pub blocks: [Scratch; 2],
}

impl Codecs {
    pub fn trim(&mut self) {
        self.zstd.trim();
        self.blocks.iter_mut().for_each(Scratch::trim);
    }
}

/// A decoder's answer: how many bytes it made, or that there are more than it was given room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inflated {
    Done(usize),
    TooSmall,
}

/// How many bytes a decoder is to produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Exactly(usize),
    AtMost(usize),
}

#[derive(Clone, Debug)]
pub enum Step {
    Deflate { wrap: Wrap, level: i32 },
    Zstd { level: i32, checksum: bool },
    Blosc(blosc::Blosc),
    Crc32c,
}

impl Step {
    pub fn name(&self) -> &'static str {
        match self {
            Step::Deflate { wrap, .. } => wrap.name(),
            Step::Zstd { .. } => "zstd",
            Step::Blosc(_) => "blosc",
            Step::Crc32c => "crc32c",
        }
    }

    pub fn is_crc32c(&self) -> bool {
        matches!(self, Step::Crc32c)
    }

    /// The most bytes that encoding makes of `nbytes`.
    pub fn bound(&self, nbytes: usize) -> usize {
        match self {
            Step::Deflate { .. } => gzip::bound(nbytes),
            Step::Zstd { .. } => zstd::bound(nbytes),
            Step::Blosc(_) => blosc::bound(nbytes),
            Step::Crc32c => nbytes.saturating_add(crc32c::NBYTES),
        }
    }

    /// The most encoded bytes that are accepted for `nbytes`: room for wasteful encoders, none for bombs.
    pub fn accepted(&self, nbytes: usize) -> usize {
        match self {
            Step::Crc32c => nbytes.saturating_add(crc32c::NBYTES),
            _ => nbytes.saturating_add(nbytes / 4).saturating_add(64 << 10),
        }
    }

    /// Encodes by a compressor (not by `crc32c`, which its callers append where the bytes lie).
    pub fn encode(&self, codecs: &mut Codecs, src: &[u8], dst: &mut [u8]) -> Result<usize, Fault> {
        match self {
            Step::Deflate { wrap, level } => codecs.deflate.encode(*wrap, src, dst, *level),
            Step::Zstd { level, checksum } => codecs.zstd.encode(src, dst, *level, *checksum),
            Step::Blosc(blosc) => blosc.encode(src, dst),
            Step::Crc32c => Err(Fault::codec("crc32c compresses nothing")),
        }
    }

    /// Decodes exactly as many bytes as `dst` has.
    pub fn decode_exact(&self, codecs: &mut Codecs, src: &[u8], dst: &mut [u8]) -> Result<(), Fault> {
        let (name, wanted) = (self.name(), dst.len());
        if let Some(claimed) = self.claimed(src)?
            && claimed != wanted as u64
        {
            return Err(Fault::codec(format!("{name}: the bytes claim to decode to {claimed} bytes, not to {wanted}")));
        }
        match self.decode(codecs, src, dst)? {
            Inflated::Done(nbytes) if nbytes == wanted => Ok(()),
            Inflated::Done(nbytes) => {
                Err(Fault::codec(format!("{name}: the bytes decode to {nbytes} bytes, not to {wanted}")))
            }
            Inflated::TooSmall => Err(Fault::codec(format!("{name}: the bytes decode to more than {wanted} bytes"))),
        }
    }

    /// Decodes up to `limit` bytes into memory that grows with what is really there.
    pub fn decode_up_to(
        &self,
        codecs: &mut Codecs,
        src: &[u8],
        limit: usize,
        dst: &mut Scratch,
    ) -> Result<usize, Fault> {
        let name = self.name();
        let too_long = || Fault::codec(format!("{name}: the bytes decode to more than {limit} bytes"));
        let claimed = self.claimed(src)?;
        let most = match claimed {
            Some(claimed) if claimed > limit as u64 => return Err(too_long()),
            Some(claimed) => claimed as usize,
            None => limit,
        };
        // What a header claims is believed at once only where it is likely for that many encoded bytes.
        let mut room = most.min(src.len().saturating_mul(if claimed.is_some() { 64 } else { 4 }).max(64 << 10));
        loop {
            match self.decode(codecs, src, dst.take(room)?)? {
                Inflated::Done(nbytes) => return Ok(nbytes),
                Inflated::TooSmall if room >= most => return Err(too_long()),
                Inflated::TooSmall => room = room.saturating_mul(4).min(most),
            }
        }
    }

    fn claimed(&self, src: &[u8]) -> Result<Option<u64>, Fault> {
        match self {
            Step::Zstd { .. } => zstd::claimed(src),
            Step::Blosc(_) => blosc::claimed(src).map(Some),
            _ => Ok(None),
        }
    }

    fn decode(&self, codecs: &mut Codecs, src: &[u8], dst: &mut [u8]) -> Result<Inflated, Fault> {
        match self {
            Step::Deflate { wrap, .. } => codecs.deflate.decode(*wrap, src, dst),
            Step::Zstd { .. } => codecs.zstd.decode(src, dst),
            Step::Blosc(_) => blosc::decode(codecs, src, dst),
            Step::Crc32c => Err(Fault::codec("crc32c decompresses nothing")),
        }
    }
}
