//! Memory that one thread reuses: always initialised, grown when asked, given back when it got large.
//!
//! Growing never aborts: memory that cannot be had is a fault of the chunk that asked for it.

use std::alloc::{Layout, alloc_zeroed};

use crate::fault::Fault;

/// What a thread keeps of one buffer between calls; more goes back to the system.
const KEEP_NBYTES: usize = 8 << 20;
const STEP_NBYTES: usize = 64 << 10;
/// numpy asks for huge pages from this size on, too.
#[cfg(target_os = "linux")]
const HUGE_NBYTES: usize = 4 << 20;
/// A multiple of every page size that Linux has.
#[cfg(target_os = "linux")]
const PAGE_NBYTES: usize = 64 << 10;

/// Zeroed bytes. Large ones come untouched from the system, so what is never written costs nothing.
pub fn zeroed(nbytes: usize) -> Result<Vec<u8>, Fault> {
    if nbytes == 0 {
        return Ok(Vec::new());
    }
    let layout = Layout::array::<u8>(nbytes).map_err(|_| Fault::memory(nbytes))?;
    // SAFETY: the layout is not of zero size; a null answer is handled; the pointer, of alignment 1, its
    // length and its capacity are exactly those of the allocation, made by the allocator that `Vec` uses.
    unsafe {
        let start = alloc_zeroed(layout);
        if start.is_null() {
            return Err(Fault::memory(nbytes));
        }
        prefer_huge_pages(start, nbytes);
        Ok(Vec::from_raw_parts(start, nbytes, nbytes))
    }
}

/// An empty vector with room for `count` items.
pub fn room_for<T>(count: usize) -> Result<Vec<T>, Fault> {
    let mut room = Vec::new();
    room.try_reserve_exact(count).map_err(|_| Fault::memory(count.saturating_mul(size_of::<T>())))?;
    Ok(room)
}

pub fn push<T>(items: &mut Vec<T>, item: T) -> Result<(), Fault> {
    items.try_reserve(1).map_err(|_| Fault::memory(items.len().saturating_mul(2 * size_of::<T>())))?;
    items.push(item);
    Ok(())
}

pub fn copied<T: Copy>(items: &[T]) -> Result<Vec<T>, Fault> {
    let mut copy = room_for(items.len())?;
    copy.extend_from_slice(items);
    Ok(copy)
}

/// Asks for huge pages under large memory that is not touched yet: a fault for each 4 KiB costs more than the bytes.
#[cfg(target_os = "linux")]
pub fn prefer_huge_pages(start: *mut u8, nbytes: usize) {
    let first = (start as usize).next_multiple_of(PAGE_NBYTES);
    if nbytes >= HUGE_NBYTES {
        let within = (start as usize + nbytes - first) / PAGE_NBYTES * PAGE_NBYTES;
        // SAFETY: advice that changes no content and is refused for what is no memory; a refusal changes nothing.
        unsafe { libc::madvise(first as *mut libc::c_void, within, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
pub fn prefer_huge_pages(_: *mut u8, _: usize) {}

/// A buffer whose content does not survive growing.
#[derive(Default)]
pub struct Scratch {
    bytes: Vec<u8>,
}

impl Scratch {
    /// The first `nbytes` bytes, with whatever an earlier use left in them.
    pub fn take(&mut self, nbytes: usize) -> Result<&mut [u8], Fault> {
        if self.bytes.len() < nbytes {
            self.bytes = Vec::new();
            self.bytes = zeroed(rounded(nbytes))?;
        }
        Ok(&mut self.bytes[..nbytes])
    }

    /// The first `nbytes` bytes, which an earlier `take` made.
    pub fn made(&self, nbytes: usize) -> &[u8] {
        &self.bytes[..nbytes]
    }

    pub fn made_mut(&mut self, nbytes: usize) -> &mut [u8] {
        &mut self.bytes[..nbytes]
    }

    pub fn trim(&mut self) {
        if self.bytes.len() > KEEP_NBYTES {
            self.bytes = Vec::new();
        }
    }
}

/// A buffer that is written from its start to its end and keeps its content when it grows.
#[derive(Default)]
pub struct Tail {
    bytes: Vec<u8>,
    len: usize,
}

impl Tail {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Room of `nbytes` after the end; `advance` says later how much of it was used.
    pub fn room(&mut self, nbytes: usize) -> Result<&mut [u8], Fault> {
        let need = self.len.checked_add(nbytes).ok_or_else(|| Fault::memory(nbytes))?;
        if self.bytes.len() < need {
            let mut grown = zeroed(rounded(need.max(self.len.saturating_mul(2).min(need.saturating_add(16 << 20)))))?;
            grown[..self.len].copy_from_slice(&self.bytes[..self.len]);
            self.bytes = grown;
        }
        Ok(&mut self.bytes[self.len..need])
    }

    pub fn advance(&mut self, nbytes: usize) {
        self.len += nbytes;
        debug_assert!(self.len <= self.bytes.len());
    }

    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    pub fn since(&self, start: usize) -> &[u8] {
        &self.bytes[start..self.len]
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.room(bytes.len())?.copy_from_slice(bytes);
        self.advance(bytes.len());
        Ok(())
    }

    pub fn trim(&mut self) {
        if self.bytes.len() > KEEP_NBYTES {
            *self = Tail::default();
        }
    }
}

fn rounded(nbytes: usize) -> usize {
    nbytes.checked_next_multiple_of(STEP_NBYTES).unwrap_or(nbytes)
}
