//! The `crc32c` step: four bytes, little endian, after the bytes they cover.
//! <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/index.html>

use crate::fault::Fault;

pub const NBYTES: usize = 4;

pub fn of(bytes: &[u8]) -> [u8; NBYTES] {
    ::crc32c::crc32c(bytes).to_le_bytes()
}

/// How many bytes lie before a checksum that is right for them.
pub fn checked(bytes: &[u8]) -> Result<usize, Fault> {
    let Some((body, stored)) = bytes.split_last_chunk::<NBYTES>() else {
        return Err(Fault::codec(format!("crc32c: {} bytes do not hold a checksum of 4", bytes.len())));
    };
    let stored = u32::from_le_bytes(*stored);
    let found = ::crc32c::crc32c(body);
    if stored != found {
        return Err(Fault::checksum(format!("crc32c: the bytes have {found:#010x}, stored is {stored:#010x}")));
    }
    Ok(body.len())
}
