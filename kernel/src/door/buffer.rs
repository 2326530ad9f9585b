//! Python buffers, held for the length of a call. Part of the door: only `lib.rs` uses it.

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::refused;
use crate::scatter::View;
use crate::scratch::{prefer_huge_pages, room_for};

/// A buffer that Python keeps in place until this is dropped, which happens with the interpreter lock held.
pub struct Buffer {
    // Boxed, because exporters may point into the structure that they filled.
    inner: Box<ffi::Py_buffer>,
}

// SAFETY: other threads only use the memory the buffer describes, which does not move while it is held; the value
// itself stays in the frame of the call.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: filled by PyObject_GetBuffer and released once; buffers are locals of functions called from Python,
        // and leave scope there after the interpreter lock was taken again.
        unsafe { ffi::PyBuffer_Release(&mut *self.inner) }
    }
}

impl Buffer {
    fn get(object: &Bound<'_, PyAny>, flags: i32) -> PyResult<Buffer> {
        let mut inner = Box::new(ffi::Py_buffer::new());
        // SAFETY: both pointers are live; the answer is looked at before the buffer counts as filled.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut *inner, flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Buffer { inner })
    }

    /// Contiguous bytes, whatever their elements are.
    pub fn bytes(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        // Not PyBUF_SIMPLE: numpy refuses that for arrays whose elements are not bytes in some orders.
        Buffer::get(object, ffi::PyBUF_C_CONTIGUOUS)
    }

    /// An array with strides.
    pub fn strided(object: &Bound<'_, PyAny>, writable: bool) -> PyResult<Buffer> {
        Buffer::get(object, if writable { ffi::PyBUF_STRIDED } else { ffi::PyBUF_STRIDED_RO })
    }

    pub fn as_slice(&self) -> &[u8] {
        match usize::try_from(self.inner.len) {
            Ok(nbytes) if nbytes > 0 && !self.inner.buf.is_null() => {
                // SAFETY: asked for as contiguous, so that many bytes lie there while the buffer is held. A thread
                // of Python that writes them meanwhile changes what is decoded, not what memory is touched.
                unsafe { std::slice::from_raw_parts(self.inner.buf.cast(), nbytes) }
            }
            _ => &[],
        }
    }

    pub fn view(&self) -> View {
        let ndim = usize::try_from(self.inner.ndim).unwrap_or(0);
        let dimensions = |start: *mut isize| -> Vec<isize> {
            if ndim == 0 || start.is_null() {
                return Vec::new();
            }
            // SAFETY: a buffer asked for with strides has as many extents and strides as dimensions.
            unsafe { std::slice::from_raw_parts(start, ndim) }.to_vec()
        };
        let shape = dimensions(self.inner.shape).into_iter().map(|extent| extent.max(0) as usize).collect();
        let itemsize = usize::try_from(self.inner.itemsize).unwrap_or(0);
        View::new(self.inner.buf.cast(), itemsize, shape, dimensions(self.inner.strides))
    }

    /// The addresses from the array's first byte to past its last; empty for an array without elements.
    pub fn span(&self) -> std::ops::Range<isize> {
        let view = self.view();
        if view.shape.contains(&0) {
            return 0..0;
        }
        let (mut low, mut high) = (view.start as isize, view.start as isize + view.itemsize as isize);
        for (&extent, &stride) in view.shape.iter().zip(&view.strides) {
            let reach = (extent as isize - 1) * stride;
            low += reach.min(0);
            high += reach.max(0);
        }
        low..high
    }

    /// Whether any byte between the array's first and last is one of `bytes`.
    pub fn overlaps(&self, bytes: &[u8]) -> bool {
        let span = self.span();
        let start = bytes.as_ptr() as isize;
        !bytes.is_empty() && start < span.end && span.start < start + bytes.len() as isize
    }
}

/// A bytearray of pieces, one after the other; each piece is freed when it was copied.
pub fn joined(py: Python<'_>, pieces: Vec<Vec<u8>>) -> PyResult<Bound<'_, PyByteArray>> {
    let nbytes = pieces.iter().map(Vec::len).sum::<usize>();
    // SAFETY: the length is not negative; a null answer becomes the exception that Python has set. Nobody else knows
    // the new object, whose `nbytes` bytes are written below, each once, before it is handed on.
    unsafe {
        let made = ffi::PyByteArray_FromStringAndSize(std::ptr::null(), nbytes as ffi::Py_ssize_t);
        let made = Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked::<PyByteArray>();
        let mut place: *mut u8 = ffi::PyByteArray_AsString(made.as_ptr()).cast();
        prefer_huge_pages(place, nbytes);
        for piece in pieces {
            std::ptr::copy_nonoverlapping(piece.as_ptr(), place, piece.len());
            place = place.add(piece.len());
        }
        Ok(made)
    }
}

/// A table of int64, copied: N columns, in two dimensions, or flat.
pub fn tables<const N: usize>(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<[i64; N]>> {
    let buffer = Buffer::get(object, ffi::PyBUF_C_CONTIGUOUS | ffi::PyBUF_FORMAT)?;
    let view = buffer.view();
    let format = match buffer.inner.format.is_null() {
        true => "B",
        // SAFETY: not null, and a C string while the buffer is held.
        false => unsafe { std::ffi::CStr::from_ptr(buffer.inner.format) }.to_str().unwrap_or("?"),
    };
    let columns = match *view.shape {
        [_] => Some(1),
        [_, columns] => Some(columns),
        _ => None,
    };
    let flat = view.shape.len() == 1;
    let bytes = buffer.as_slice();
    let is_int64 = view.itemsize == 8 && matches!(format.trim_start_matches(['@', '=', '<']), "l" | "q" | "n");
    if !is_int64 || !(columns == Some(N) || flat) || !bytes.len().is_multiple_of(8 * N) {
        return Err(PyValueError::new_err(format!(
            "{name}: a table of int64 with {N} columns is wanted, not shape {:?} of {format:?}",
            view.shape
        )));
    }
    let word = |bytes: &[u8]| i64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    let mut rows = room_for(bytes.len() / (8 * N)).map_err(refused)?;
    rows.extend(bytes.chunks_exact(8 * N).map(|row| std::array::from_fn(|at| word(&row[8 * at..8 * at + 8]))));
    Ok(rows)
}
