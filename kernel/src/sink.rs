//! Where encoded bytes go: an open descriptor written at given offsets, or memory.
//!
//! It decides no offset: the order of chunks in a sink is `encode`'s. Short writes go on, interrupted ones are retried.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use crate::fault::Fault;
use crate::scratch::{Scratch, copied};
use crate::source::{Descriptor, Source, ended, read_exactly};

const COPY_NBYTES: usize = 1 << 20;

pub enum Sink {
    /// Ranges of other files are copied `in_system`, where its file system may share their blocks or has them far away.
    File { descriptor: Descriptor, in_system: bool },
    /// Pieces with their offsets in the sink, in any order until `take_pieces`.
    Memory(Mutex<Vec<(u64, Vec<u8>)>>),
}

impl Sink {
    pub fn new(fd: Option<i32>) -> Sink {
        match fd {
            Some(fd) => {
                let descriptor = Descriptor::new(fd);
                Sink::File { in_system: copies_in_system(&descriptor), descriptor }
            }
            None => Sink::Memory(Mutex::default()),
        }
    }

    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Fault> {
        match self {
            Sink::File { descriptor, .. } => write_all(descriptor, bytes, offset),
            Sink::Memory(pieces) => keep(pieces, offset, copied(bytes)?),
        }
    }

    /// Whether ranges of this source are better copied together, by `gather`.
    pub fn gathers(&self, source: &Source) -> bool {
        matches!((self, source), (Sink::File { in_system: false, .. }, Source::File(..)))
    }

    /// Copies ranges to one place, one after the other, through memory: many small ones by few large writes.
    pub fn gather<'s>(
        &self,
        ranges: impl Iterator<Item = (&'s Descriptor, u64, usize)>,
        mut to: u64,
        spare: &mut Scratch,
    ) -> Result<(), Fault> {
        let room = spare.take(COPY_NBYTES)?;
        let mut filled = 0;
        for (input, mut from, mut nbytes) in ranges {
            while nbytes > 0 {
                if filled == room.len() {
                    self.write(room, to)?;
                    (to, filled) = (to + filled as u64, 0);
                }
                let part = nbytes.min(room.len() - filled);
                read_exactly(input, &mut room[filled..filled + part], from)?;
                (from, nbytes, filled) = (from + part as u64, nbytes - part, filled + part);
            }
        }
        self.write(&room[..filled], to)
    }

    /// Copies a range of a source, inside the system where both are files.
    pub fn copy(&self, source: &Source, from: u64, nbytes: usize, to: u64, spare: &mut Scratch) -> Result<(), Fault> {
        match (source, self) {
            (Source::Buffer(buffer), _) => self.write(&buffer[from as usize..from as usize + nbytes], to),
            (Source::File(input, _), Sink::Memory(pieces)) => {
                let mut piece = crate::scratch::zeroed(nbytes)?;
                read_exactly(input, &mut piece, from)?;
                keep(pieces, to, piece)
            }
            (Source::File(input, _), Sink::File { descriptor: output, .. }) => {
                let mut done = copy_in_system(input, output, from, nbytes, to)?;
                while done < nbytes {
                    let part = spare.take((nbytes - done).min(COPY_NBYTES))?;
                    read_exactly(input, part, from + done as u64)?;
                    write_all(output, part, to + done as u64)?;
                    done += part.len();
                }
                Ok(())
            }
        }
    }

    /// The pieces in the order of their offsets; `None` for a file.
    pub fn take_pieces(&self) -> Option<Vec<Vec<u8>>> {
        let Sink::Memory(pieces) = self else { return None };
        let mut pieces = std::mem::take(&mut *pieces.lock().unwrap_or_else(PoisonError::into_inner));
        pieces.sort_unstable_by_key(|(offset, _)| *offset);
        Some(pieces.into_iter().map(|(_, piece)| piece).collect())
    }
}

fn keep(pieces: &Mutex<Vec<(u64, Vec<u8>)>>, offset: u64, piece: Vec<u8>) -> Result<(), Fault> {
    if !piece.is_empty() {
        let mut pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.try_reserve(1).map_err(|_| Fault::memory(piece.len()))?;
        pieces.push((offset, piece));
    }
    Ok(())
}

fn write_all(descriptor: &Descriptor, bytes: &[u8], offset: u64) -> Result<(), Fault> {
    let mut done = 0;
    while done < bytes.len() {
        match descriptor.file().write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(Fault::io("write", &io::Error::from(io::ErrorKind::WriteZero))),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Fault::io("write", &error)),
        }
    }
    Ok(())
}

/// Whether `copy_file_range` may do better than reading and writing. On the file systems named here it copies page by
/// page (Linux 6.18, ext4, 15 MB: 6.5 ms, by `pread` and `pwrite` 4.7 ms); elsewhere it may share blocks or leave the
/// work to a server.
#[cfg(target_os = "linux")]
fn copies_in_system(output: &Descriptor) -> bool {
    use std::os::fd::AsRawFd;
    const COPYING: [i64; 3] = [0xEF53, 0x0102_1994, 0x794C_7630]; // ext2 to ext4, tmpfs, overlayfs
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is the caller's, and the answer is read only where the call says that it is there.
    #[allow(clippy::unnecessary_cast)] // other types on other platforms
    unsafe {
        libc::fstatfs(output.file().as_raw_fd(), found.as_mut_ptr()) != 0
            || !COPYING.contains(&(found.assume_init().f_type as i64))
    }
}

#[cfg(not(target_os = "linux"))]
fn copies_in_system(_: &Descriptor) -> bool {
    true
}

/// How much the system itself copied: all of it, or nothing where it cannot between these two files.
#[cfg(target_os = "linux")]
fn copy_in_system(input: &Descriptor, output: &Descriptor, from: u64, nbytes: usize, to: u64) -> Result<usize, Fault> {
    use std::os::fd::AsRawFd;
    let (mut from_at, mut to_at) = (from as libc::off64_t, to as libc::off64_t);
    let mut done = 0;
    while done < nbytes {
        // SAFETY: both offsets are live local variables; the descriptors are those of the caller.
        let count = unsafe {
            libc::copy_file_range(
                input.file().as_raw_fd(),
                &mut from_at,
                output.file().as_raw_fd(),
                &mut to_at,
                nbytes - done,
                0,
            )
        };
        match usize::try_from(count) {
            // Some systems answer 0 for files they cannot copy: plain reading tells an end from that.
            Ok(0) if done == 0 => return Ok(0),
            Ok(0) => return Err(ended(nbytes, from, done)),
            Ok(count) => done += count,
            Err(_) => {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::EIO) => {
                        return Err(Fault::io("copy", &error));
                    }
                    _ => return Ok(done),
                }
            }
        }
    }
    Ok(done)
}

#[cfg(not(target_os = "linux"))]
fn copy_in_system(_: &Descriptor, _: &Descriptor, _: u64, _: usize, _: u64) -> Result<usize, Fault> {
    let _ = ended;
    Ok(0)
}
