//! Elements of any length, in the form of `vlen-utf8` and `vlen-bytes`, to Python's strings and bytes and back.
//!
//! The one place that makes a Python object for each element, and so holds the interpreter lock. The form is checked
//! whole before the first object is made.

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMemoryView, PyString};

use super::buffer::Buffer;
use crate::fault::Fault;
use crate::scratch::{push, room_for};
use crate::{as_bytes, raised};

/// Of the count, and of each length: little-endian, unsigned.
const HEAD_NBYTES: usize = 4;

/// The `count` elements of an encoded chunk, as strings or as bytes.
#[pyfunction]
pub fn split_elements<'py>(
    py: Python<'py>,
    encoded: &Bound<'py, PyAny>,
    count: usize,
    text: bool,
) -> PyResult<Bound<'py, PyList>> {
    let buffer = Buffer::bytes(encoded)?;
    let bytes = buffer.as_slice();
    let places = places(bytes, count).map_err(|fault| raised(py, fault))?;
    let mut made: Vec<Bound<'py, PyAny>> = room_for(count).map_err(|fault| raised(py, fault))?;
    for place in places {
        let element = &bytes[place];
        made.push(match text {
            true => match std::str::from_utf8(element) {
                Ok(element) => PyString::new(py, element).into_any(),
                Err(error) => {
                    let shown = PyBytes::new(py, &element[..element.len().min(40)]).repr()?;
                    return Err(raised(py, Fault::codec(format!("found {shown}, which is not UTF-8: {error}"))));
                }
            },
            false => PyBytes::new(py, element).into_any(),
        });
    }
    PyList::new(py, made)
}

/// An encoded chunk of these elements: strings, or bytes.
#[pyfunction]
pub fn join_elements<'py>(py: Python<'py>, elements: &Bound<'py, PyList>, text: bool) -> PyResult<Bound<'py, PyBytes>> {
    let mut joined = room_for(HEAD_NBYTES * (elements.len() + 1)).map_err(|fault| raised(py, fault))?;
    joined.extend(head(elements.len()).map_err(|fault| raised(py, fault))?);
    let mut append = |element: &[u8]| {
        let head = head(element.len())?;
        joined.try_reserve(HEAD_NBYTES + element.len()).map_err(|_| Fault::memory(joined.len() + element.len()))?;
        joined.extend(head);
        joined.extend(element);
        Ok(())
    };
    for (number, element) in elements.iter().enumerate() {
        let appended = match text {
            true if element.is_instance_of::<PyString>() => append(element.cast::<PyString>()?.to_str()?.as_bytes()),
            false if element.is_instance_of::<PyBytes>() => append(element.cast::<PyBytes>()?.as_bytes()),
            false if element.is_instance_of::<PyByteArray>() || element.is_instance_of::<PyMemoryView>() => {
                append(Buffer::bytes(&element)?.as_slice())
            }
            _ => {
                let (kind, wanted) = (element.get_type().name()?, if text { "text" } else { "bytes" });
                Err(Fault::codec(format!("element {number} is a {kind}, must be {wanted}")))
            }
        };
        appended.map_err(|fault| raised(py, fault))?;
    }
    as_bytes(py, &joined)
}

fn head(count: usize) -> Result<[u8; HEAD_NBYTES], Fault> {
    match u32::try_from(count) {
        Ok(count) => Ok(count.to_le_bytes()),
        Err(_) => Err(Fault::codec(format!(
            "at most {0} elements of at most {0} bytes can be encoded, not {count}",
            u32::MAX
        ))),
    }
}

/// Where each element lies.
fn places(bytes: &[u8], count: usize) -> Result<Vec<std::ops::Range<usize>>, Fault> {
    let least = count.saturating_add(1).saturating_mul(HEAD_NBYTES);
    if bytes.len() < least {
        let text = format!("found {} bytes, the lengths of {count} elements alone take {least}", bytes.len());
        return Err(Fault::codec(text));
    }
    let number = |at: usize| -> Option<usize> {
        let head = bytes.get(at..at.checked_add(HEAD_NBYTES)?)?;
        Some(u32::from_le_bytes(head.try_into().ok()?) as usize)
    };
    let found = number(0).unwrap_or(0);
    if found != count {
        return Err(Fault::codec(format!("found {found} elements, the chunk has {count}")));
    }
    let mut places = room_for(count)?;
    let mut place = HEAD_NBYTES;
    for element in 0..count {
        let Some(length) = number(place) else {
            let text = format!("cut short: element {element} of {count} should start at {place}, there are");
            return Err(Fault::codec(format!("{text} {} bytes", bytes.len())));
        };
        let start = place + HEAD_NBYTES;
        let left = bytes.len() - start;
        if length > left {
            return Err(Fault::codec(format!("element {element} claims {length} bytes, {left} are left")));
        }
        place = start + length;
        push(&mut places, start..place)?;
    }
    match bytes.len() - place {
        0 => Ok(places),
        more => Err(Fault::codec(format!("{more} bytes follow the last element"))),
    }
}
