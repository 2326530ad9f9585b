//! The `zstd` step: RFC 8878 frames, one after the other, skippable frames among them.
//!
//! No dictionaries, and none of the formats before 1.0.

use zstd_safe::{CCtx, CParameter, DCtx};

use super::Inflated;
use crate::fault::Fault;

const MAGIC: u32 = 0xFD2F_B528;
const SKIPPABLE: u32 = 0x184D_2A50;
const SKIPPABLE_MASK: u32 = 0xFFFF_FFF0;
const DST_TOO_SMALL: &str = "Destination buffer is too small";
const NO_MEMORY: &str = "Allocation error : not enough memory";

#[derive(Default)]
pub struct Zstd {
    compressor: Option<(CCtx<'static>, (i32, bool))>,
    decompressor: Option<DCtx<'static>>,
}

pub fn levels() -> std::ops::RangeInclusive<i64> {
    i64::from(zstd_safe::min_c_level())..=i64::from(zstd_safe::max_c_level())
}

pub fn bound(nbytes: usize) -> usize {
    zstd_safe::compress_bound(nbytes)
}

/// The decoded size that the frames claim, where all of them do; every frame's extent is checked on the way.
pub fn claimed(src: &[u8]) -> Result<Option<u64>, Fault> {
    let mut rest = src;
    let mut total = Some(0u64);
    if src.is_empty() {
        return Err(Fault::codec("zstd: no bytes, where a frame is expected"));
    }
    while !rest.is_empty() {
        let magic = match rest.first_chunk::<4>() {
            Some(first) => u32::from_le_bytes(*first),
            None => return Err(Fault::codec(format!("zstd: {} bytes follow the last frame", rest.len()))),
        };
        let skippable = magic & SKIPPABLE_MASK == SKIPPABLE;
        if magic != MAGIC && !skippable {
            return Err(Fault::codec(format!("zstd: {magic:#010x} where a frame has {MAGIC:#010x}")));
        }
        let extent = zstd_safe::find_frame_compressed_size(rest)
            .map_err(|code| Fault::codec(format!("zstd: {}", zstd_safe::get_error_name(code))))?;
        if !skippable {
            let size = zstd_safe::get_frame_content_size(rest)
                .map_err(|_| Fault::codec("zstd: the frame header is damaged"))?;
            total = match (total, size) {
                (Some(sum), Some(size)) => {
                    Some(sum.checked_add(size).ok_or_else(|| Fault::codec("zstd: the frames claim over 2^64 bytes"))?)
                }
                _ => None,
            };
        }
        rest = rest.get(extent..).ok_or_else(|| Fault::codec("zstd: the frame is cut short"))?;
    }
    Ok(total)
}

/// Refuses what does not start as a frame, before the library can take it for one of its old formats.
pub fn check_single(src: &[u8]) -> Result<(), Fault> {
    match src.first_chunk::<4>() {
        Some(first) if u32::from_le_bytes(*first) == MAGIC => Ok(()),
        _ => Err(Fault::codec("zstd: the bytes do not start as a frame")),
    }
}

impl Zstd {
    pub fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Inflated, Fault> {
        if self.decompressor.is_none() {
            self.decompressor = Some(DCtx::try_create().ok_or_else(|| Fault::memory(1 << 17))?);
        }
        let decompressor = self.decompressor.as_mut().expect("made above");
        match decompressor.decompress(dst, src) {
            Ok(nbytes) => Ok(Inflated::Done(nbytes)),
            Err(code) => match zstd_safe::get_error_name(code) {
                DST_TOO_SMALL => Ok(Inflated::TooSmall),
                NO_MEMORY => Err(Fault::memory(decompressor.sizeof())),
                name => Err(Fault::codec(format!("zstd: {name}"))),
            },
        }
    }

    pub fn encode(&mut self, src: &[u8], dst: &mut [u8], level: i32, checksum: bool) -> Result<usize, Fault> {
        let refused = |code| match zstd_safe::get_error_name(code) {
            NO_MEMORY => Fault::memory(bound(src.len())),
            name => Fault::codec(format!("zstd: {name}")),
        };
        if self.compressor.as_ref().is_none_or(|(_, set)| *set != (level, checksum)) {
            let mut context = match self.compressor.take() {
                Some((context, _)) => context,
                None => CCtx::try_create().ok_or_else(|| Fault::memory(1 << 20))?,
            };
            context.set_parameter(CParameter::CompressionLevel(level)).map_err(refused)?;
            context.set_parameter(CParameter::ChecksumFlag(checksum)).map_err(refused)?;
            self.compressor = Some((context, (level, checksum)));
        }
        let (context, _) = self.compressor.as_mut().expect("set above");
        context.compress2(dst, src).map_err(refused)
    }

    /// Contexts of the high levels hold many megabytes: they do not stay with an idle thread.
    pub fn trim(&mut self) {
        if self.compressor.as_ref().is_some_and(|(context, _)| context.sizeof() > 16 << 20) {
            self.compressor = None;
        }
    }
}
