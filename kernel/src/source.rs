//! Where encoded bytes come from: a buffer, or an open descriptor read at given offsets.
//!
//! It opens nothing, seeks nothing and maps nothing: a file that shrinks while it is read gives a fault.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;

use crate::fault::Fault;

/// An open file that its owner, the caller, closes.
pub struct Descriptor {
    file: ManuallyDrop<File>,
}

impl Descriptor {
    /// `fd` is not negative and stays open while the value lives; a descriptor that is closed all the same gives
    /// errors of the system, or another file's bytes, but no memory is touched.
    pub fn new(fd: i32) -> Descriptor {
        assert!(fd >= 0, "a descriptor is not negative");
        // SAFETY: not negative, checked above; `ManuallyDrop` leaves closing to the owner.
        Descriptor { file: ManuallyDrop::new(unsafe { File::from_raw_fd(fd) }) }
    }

    pub fn file(&self) -> &File {
        &self.file
    }
}

pub enum Source<'a> {
    Buffer(&'a [u8]),
    /// The size is that at the start of the call, or why the descriptor cannot be read from.
    File(Descriptor, Result<u64, Fault>),
}

impl Source<'_> {
    pub fn open(fd: i32) -> Source<'static> {
        let descriptor = Descriptor::new(fd);
        let size = match descriptor.file().metadata() {
            Ok(metadata) if metadata.is_file() => Ok(metadata.len()),
            Ok(_) => Err(Fault::io("read", &io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))),
            Err(error) => Err(Fault::io("read", &error)),
        };
        Source::File(descriptor, size)
    }

    /// Refuses a range that the source does not hold; answers it as a start and a length.
    pub fn check(&self, offset: i64, nbytes: i64) -> Result<(u64, usize), Fault> {
        let size = match self {
            Source::Buffer(buffer) => buffer.len() as u64,
            Source::File(_, Ok(size)) => *size,
            Source::File(_, Err(fault)) => return Err(fault.clone()),
        };
        // A negative number is an unsigned one of the index, past every file.
        let (start, length) = (offset as u64, nbytes as u64);
        match start.checked_add(length) {
            Some(end) if offset >= 0 && nbytes >= 0 && end <= size => Ok((start, length as usize)),
            _ => Err(Fault::range(format!(
                "{length} bytes from byte {start} on are not there: the source has {size} bytes"
            ))),
        }
    }
}

/// Reads until `into` is full or the file ends; answers how much that was.
pub fn read_at(descriptor: &Descriptor, into: &mut [u8], offset: u64) -> Result<usize, Fault> {
    let mut done = 0;
    while done < into.len() {
        match descriptor.file().read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Fault::io("read", &error)),
        }
    }
    Ok(done)
}

/// Reads exactly `into`, or says where the file ended.
pub fn read_exactly(descriptor: &Descriptor, into: &mut [u8], offset: u64) -> Result<(), Fault> {
    let done = read_at(descriptor, into, offset)?;
    if done < into.len() {
        return Err(ended(into.len(), offset, done));
    }
    Ok(())
}

/// The fault of a file that ends within a range that it held when the call started.
pub fn ended(nbytes: usize, offset: u64, found: usize) -> Fault {
    Fault::range(format!("the file ended: of {nbytes} bytes from byte {offset} on, {found} are there"))
}
