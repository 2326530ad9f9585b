//! What the door needs to know of Python's values: buffers, arguments, sources.

pub mod arguments;
pub mod buffer;
pub mod elements;

use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::fault::Fault;
use crate::scratch::room_for;
use crate::source::Source;
use crate::{MISSING, value_error};
use buffer::Buffer;

pub enum HeldSource {
    Descriptor(i32),
    Buffer(Buffer),
}

pub fn hold_sources(sources: &[Bound<'_, PyAny>]) -> PyResult<Vec<HeldSource>> {
    let hold = |source: &Bound<'_, PyAny>| match source.is_instance_of::<PyInt>() {
        false => Buffer::bytes(source).map(HeldSource::Buffer),
        true => match source.extract::<i32>() {
            Ok(fd) if fd >= 0 => Ok(HeldSource::Descriptor(fd)),
            _ => Err(value_error(format!("{source} is no open descriptor"))),
        },
    };
    sources.iter().map(hold).collect()
}

pub fn open_sources(held: &[HeldSource]) -> Vec<Source<'_>> {
    let open = |source| match source {
        &HeldSource::Descriptor(fd) => Source::open(fd),
        HeldSource::Buffer(buffer) => Source::Buffer(buffer.as_slice()),
    };
    held.iter().map(open).collect()
}

pub fn source_index(number: usize, source: i64, count: usize) -> PyResult<Option<usize>> {
    match usize::try_from(source) {
        _ if source == MISSING => Ok(None),
        Ok(source) if source < count => Ok(Some(source)),
        _ => Err(value_error(format!("row {number}: no source {source}, there are {count}"))),
    }
}

/// Which cells were seen: one bit each where they are few, a set where only some of very many are named.
pub enum Cells {
    Bits(Vec<u64>),
    Set(std::collections::HashSet<usize>),
}

impl Cells {
    pub fn new(ncells: usize) -> Result<Cells, Fault> {
        Ok(match ncells <= 1 << 24 {
            true => {
                let mut bits = room_for(ncells.div_ceil(64))?;
                bits.resize(ncells.div_ceil(64), 0);
                Cells::Bits(bits)
            }
            false => Cells::Set(std::collections::HashSet::new()),
        })
    }

    pub fn is_new(&mut self, cell: usize) -> Result<bool, Fault> {
        Ok(match self {
            Cells::Bits(bits) => {
                let (word, bit) = (&mut bits[cell / 64], 1 << (cell % 64));
                let new = *word & bit == 0;
                *word |= bit;
                new
            }
            Cells::Set(set) => {
                set.try_reserve(1).map_err(|_| Fault::memory(set.len() * size_of::<usize>()))?;
                set.insert(cell)
            }
        })
    }
}
