//! The native door of terrazzo: Python values in, plain Rust values to the rooms below, plain values back.
//!
//! The only file that knows Python. It holds the buffers for the length of a call, checks every table, releases the
//! interpreter lock, and turns panics into exceptions. Described for Python in `src/terrazzo/_kernel.pyi`.

mod copy;
mod decoding;
mod door;
mod encoding;
mod fault;
mod pool;
mod program;
mod scatter;
mod scratch;
mod sink;
mod source;
mod steps;
mod workspace;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyTuple};

use copy::Toward;
use door::arguments::{Checked, byte_step, parse_placement, parse_steps};
use door::buffer::{Buffer, joined, tables};
use door::{Cells, hold_sources, open_sources, source_index};
use fault::{Fault, Kind, caught};
use program::Place;
use scatter::{Placement, Region, View};
use scratch::{copied, room_for};
use sink::Sink;
use source::Source;
use steps::Expect;

pyo3::create_exception!(
    terrazzo._kernel,
    KernelFault,
    PyValueError,
    "Bytes that do not decode, or values that do not encode."
);

const MISSING: i64 = -1;

fn value_error(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}

/// The exception for a fault outside a batch: its `kind` is that of a batch's failures.
fn raised(py: Python<'_>, fault: Fault) -> PyErr {
    let error = KernelFault::new_err(fault.text);
    match error.value(py).setattr("kind", fault.kind.name()) {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// Wrong arguments, or memory that a copy of them could not have.
fn refused(fault: Fault) -> PyErr {
    match fault.kind {
        Kind::Memory => PyMemoryError::new_err(fault.text),
        _ => value_error(fault.text),
    }
}

fn as_bytes<'py>(py: Python<'py>, encoded: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, encoded.len(), |bytes| {
        bytes.copy_from_slice(encoded);
        Ok(())
    })
}

/// Runs work without the interpreter; a panic becomes an exception.
fn apart<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work))).map_err(panicked)
}

fn panicked(panic: Box<dyn Any + Send>) -> PyErr {
    PyRuntimeError::new_err(Fault::panic(&*panic).text)
}

/// The same for the work on one chunk: a panic is its fault.
fn chunk_apart<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Fault> + Send) -> PyResult<T> {
    py.detach(|| caught(work)).map_err(|fault| raised(py, fault))
}

/// A whole chain: arrays of one shape and element size to bytes and back.
#[pyclass(frozen, module = "terrazzo._kernel")]
struct Program {
    inner: program::Program,
}

#[pymethods]
impl Program {
    #[new]
    fn new(steps: Vec<Bound<'_, PyTuple>>, shape: Vec<usize>, itemsize: usize, fill: &[u8]) -> PyResult<Program> {
        let parts = parse_steps(&steps)?;
        let inner = program::Program::new(parts, shape, itemsize, fill).map_err(value_error)?;
        Ok(Program { inner })
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.inner.nbytes
    }

    #[getter]
    fn encoded_nbytes(&self) -> Option<usize> {
        self.inner.encoded_nbytes
    }

    fn encode_chunk<'py>(&self, py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let buffer = Buffer::bytes(value)?;
        let chunk = buffer.as_slice();
        let program = &self.inner;
        if chunk.len() != program.nbytes {
            return Err(value_error(format!("a chunk has {} bytes, the value {}", program.nbytes, chunk.len())));
        }
        let encoded = chunk_apart(py, || {
            workspace::with(|workspace| {
                let workspace::Workspace { codecs, pair, elements, tail, .. } = workspace;
                tail.clear();
                if program.is_c_order && program.is_plain() {
                    program.pipe.encode(codecs, pair, Some(chunk), tail, 0)?;
                    return copied(tail.as_slice());
                }
                let stored = elements.take(program.nbytes)?;
                let order = steps::transpose::c_strides(&program.shape, program.itemsize);
                let view = View::new(chunk.as_ptr().cast_mut(), program.itemsize, program.shape.clone(), order);
                let region = Region::whole(program, &view.strides, Toward::Chunk);
                // SAFETY: the value was checked to be a whole chunk in C order, and is only read.
                unsafe { region.gather(&view, stored) };
                program.swap.in_place(stored);
                program.pipe.encode(codecs, pair, Some(stored), tail, 0)?;
                copied(tail.as_slice())
            })
        })?;
        as_bytes(py, &encoded)
    }

    fn decode_chunk<'py>(&self, py: Python<'py>, encoded: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyByteArray>> {
        let buffer = Buffer::bytes(encoded)?;
        let encoded = buffer.as_slice();
        let program = &self.inner;
        program.check_encoded(encoded.len()).map_err(|fault| raised(py, fault))?;
        let decode = |chunk: &mut [u8]| {
            workspace::with(|workspace| {
                let workspace::Workspace { codecs, pair, elements, .. } = workspace;
                if program.is_c_order {
                    return program.decode_to(codecs, pair, encoded, chunk);
                }
                let stored = elements.take(program.nbytes)?;
                program.decode_to(codecs, pair, encoded, stored)?;
                let order = steps::transpose::c_strides(&program.shape, program.itemsize);
                let view = View::new(chunk.as_mut_ptr(), program.itemsize, program.shape.clone(), order);
                let region = Region::whole(program, &view.strides, Toward::Array);
                // SAFETY: the view is the whole new chunk in C order, which nobody else knows yet.
                unsafe { region.scatter(stored, 0, &view) };
                Ok(())
            })
        };
        let decoded = PyByteArray::new_with(py, program.nbytes, |chunk| chunk_apart(py, || decode(chunk)));
        decoded.map_err(|error| match error.is_instance_of::<PyMemoryError>(py) {
            true => raised(py, Fault::memory(program.nbytes)),
            false => error,
        })
    }
}

/// A run of bytes -> bytes steps.
#[pyclass(frozen, module = "terrazzo._kernel")]
struct Pipe {
    inner: program::Pipe,
}

#[pymethods]
impl Pipe {
    #[new]
    fn new(steps: Vec<Bound<'_, PyTuple>>) -> PyResult<Pipe> {
        let steps = steps
            .iter()
            .map(|step| byte_step(step)?.ok_or_else(|| value_error("a pipe has steps from bytes to bytes only")));
        Ok(Pipe { inner: program::Pipe::new(steps.collect::<PyResult<_>>()?) })
    }

    fn encode<'py>(&self, py: Python<'py>, buffer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let held = Buffer::bytes(buffer)?;
        let bytes = held.as_slice();
        let encoded = chunk_apart(py, || {
            workspace::with(|workspace| {
                let workspace::Workspace { codecs, pair, tail, .. } = workspace;
                tail.clear();
                self.inner.encode(codecs, pair, Some(bytes), tail, 0)?;
                copied(tail.as_slice())
            })
        })?;
        as_bytes(py, &encoded)
    }

    fn decode<'py>(
        &self,
        py: Python<'py>,
        buffer: &Bound<'py, PyAny>,
        limit: usize,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let held = Buffer::bytes(buffer)?;
        let encoded = held.as_slice();
        let decoded = chunk_apart(py, || {
            workspace::with(|workspace| {
                let workspace::Workspace { codecs, pair, .. } = workspace;
                match self.inner.decode(codecs, pair, encoded, Expect::AtMost(limit), None)? {
                    Place::Encoded(range) => copied(&encoded[range]),
                    Place::Paired(index, nbytes) => copied(pair[index].made(nbytes)),
                    Place::Target => unreachable!("no target was given"),
                }
            })
        })?;
        PyByteArray::new_with(py, decoded.len(), |bytes| {
            bytes.copy_from_slice(&decoded);
            Ok(())
        })
    }
}

/// One output of a batch: where its rows' elements go.
struct Output {
    buffer: Buffer,
    view: View,
    placement: Placement,
}

impl Output {
    fn new(placement: &Bound<'_, PyTuple>, out: &Bound<'_, PyAny>) -> PyResult<Output> {
        let buffer = Buffer::strided(out, true)?;
        let view = buffer.view();
        let placement = parse_placement(placement, &view)?;
        Ok(Output { buffer, view, placement })
    }

    fn is_disjoint(&self) -> bool {
        self.view.is_disjoint && self.placement.is_disjoint()
    }

    /// The rows of this output, every number in them checked.
    fn rows(
        &self,
        rows: &Bound<'_, PyAny>,
        programs: &[&program::Program],
        sources: &[Source],
    ) -> PyResult<Vec<decoding::Row>> {
        for source in sources {
            if let Source::Buffer(bytes) = source
                && self.buffer.overlaps(bytes)
            {
                return Err(value_error("a source shares memory with the output"));
            }
        }
        let checked = Checked::new(programs, &self.placement, &self.view)?;
        let mut cells = Cells::new(self.placement.ncells()).map_err(refused)?;
        let rows = tables::<5>(rows, "rows")?;
        let mut parsed = room_for(rows.len()).map_err(refused)?;
        for (number, &[source, offset, nbytes, program, cell]) in rows.iter().enumerate() {
            let (program, cell) = checked.row(number, program, cell)?;
            if !cells.is_new(cell).map_err(refused)? {
                return Err(value_error(format!("row {number}: the cell {cell} is named twice")));
            }
            let source = source_index(number, source, sources.len())?;
            parsed.push(decoding::Row { number, source, offset, nbytes, program, cell });
        }
        Ok(parsed)
    }
}

/// Decodes rows of chunks and lays them into `out`; answers what failed.
#[pyfunction]
fn decode(
    py: Python<'_>,
    programs: Vec<PyRef<'_, Program>>,
    sources: Vec<Bound<'_, PyAny>>,
    rows: &Bound<'_, PyAny>,
    placement: &Bound<'_, PyTuple>,
    out: &Bound<'_, PyAny>,
    threads: i64,
) -> PyResult<Vec<(usize, &'static str, String)>> {
    let programs: Vec<&program::Program> = programs.iter().map(|program| &program.inner).collect();
    let held = hold_sources(&sources)?;
    let sources = open_sources(&held);
    let output = Output::new(placement, out)?;
    let rows = output.rows(rows, &programs, &sources)?;
    let call = decoding::Decode {
        programs: &programs,
        sources: &sources,
        placement: &output.placement,
        out: &output.view,
        is_disjoint: output.is_disjoint(),
    };
    let failures = apart(py, || decoding::run(&call, rows, thread_count(threads)))?;
    Ok(named(failures))
}

type Job<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>, Bound<'py, PyAny>);

/// Decodes several outputs' rows at once, each output by one thread; answers what failed in which of them.
#[pyfunction]
fn decode_many<'py>(
    py: Python<'py>,
    programs: Vec<PyRef<'py, Program>>,
    sources: Vec<Bound<'py, PyAny>>,
    jobs: Vec<Job<'py>>,
    threads: i64,
) -> PyResult<Vec<(usize, usize, &'static str, String)>> {
    let programs: Vec<&program::Program> = programs.iter().map(|program| &program.inner).collect();
    let held = hold_sources(&sources)?;
    let sources = open_sources(&held);
    let mut outputs = Vec::with_capacity(jobs.len());
    for (rows, placement, out) in &jobs {
        let output = Output::new(placement, out)?;
        let rows = output.rows(rows, &programs, &sources)?;
        outputs.push((output, rows));
    }
    let mut spans: Vec<_> = outputs.iter().map(|(output, _)| output.buffer.span()).filter(|s| !s.is_empty()).collect();
    spans.sort_by_key(|span| span.start);
    if spans.windows(2).any(|pair| pair[1].start < pair[0].end) {
        return Err(value_error("two outputs share memory"));
    }
    let decodes: Vec<_> = outputs
        .iter()
        .map(|(output, rows)| {
            let call = decoding::Decode {
                programs: &programs,
                sources: &sources,
                placement: &output.placement,
                out: &output.view,
                is_disjoint: output.is_disjoint(),
            };
            (call, rows.as_slice())
        })
        .collect();
    let failures = apart(py, || decoding::run_many(&decodes, thread_count(threads)))?;
    Ok(failures.into_iter().map(|(job, row, fault)| (job, row, fault.kind.name(), fault.text)).collect())
}

type Encoded<'py> =
    (Bound<'py, PyByteArray>, Vec<Option<Bound<'py, PyByteArray>>>, Vec<u64>, Vec<(usize, &'static str, String)>);

/// Encodes rows of chunks of `value` into sinks, or copies them there.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn encode<'py>(
    py: Python<'py>,
    programs: Vec<PyRef<'py, Program>>,
    sources: Vec<Bound<'py, PyAny>>,
    rows: &Bound<'py, PyAny>,
    placement: &Bound<'py, PyTuple>,
    value: &Bound<'py, PyAny>,
    sinks: Vec<Option<i32>>,
    positions: Vec<u64>,
    drop_fill: bool,
    threads: i64,
) -> PyResult<Encoded<'py>> {
    let value = Buffer::strided(value, false)?;
    let view = value.view();
    let programs: Vec<&program::Program> = programs.iter().map(|program| &program.inner).collect();
    let placement = parse_placement(placement, &view)?;
    let held = hold_sources(&sources)?;
    let sources = open_sources(&held);
    if sinks.len() != positions.len() {
        return Err(value_error(format!("{} sinks, {} positions", sinks.len(), positions.len())));
    }
    if let Some(sink) = sinks.iter().flatten().find(|&&sink| sink < 0) {
        return Err(value_error(format!("{sink} is no open descriptor")));
    }
    if let Some(position) = positions.iter().find(|&&position| position > i64::MAX as u64 / 2) {
        return Err(value_error(format!("position {position} is past every file")));
    }
    let sinks: Vec<Sink> = sinks.iter().map(|&sink| Sink::new(sink)).collect();
    let checked = Checked::new(&programs, &placement, &view)?;
    let rows = tables::<7>(rows, "rows")?;
    let mut parsed = room_for(rows.len()).map_err(refused)?;
    for (number, &[action, program, cell, sink, source, offset, nbytes]) in rows.iter().enumerate() {
        let action = match action {
            0 => encoding::Action::OverFill,
            1 => encoding::Action::OverStored,
            2 => encoding::Action::Copy,
            _ => return Err(value_error(format!("row {number}: action {action} is not 0, 1 or 2"))),
        };
        let (program, cell) = match action {
            encoding::Action::Copy => (0, 0),
            _ => checked.row(number, program, cell)?,
        };
        let Some(sink) = usize::try_from(sink).ok().filter(|&sink| sink < sinks.len()) else {
            return Err(value_error(format!("row {number}: no sink {sink}, there are {}", sinks.len())));
        };
        let source = match action {
            encoding::Action::OverFill => None,
            _ => source_index(number, source, sources.len())?,
        };
        parsed.push(encoding::Row { action, program, cell, sink, source, offset, nbytes });
    }
    let call = encoding::Encode {
        programs: &programs,
        sources: &sources,
        placement: &placement,
        value: &view,
        sinks: &sinks,
        drop_fill,
    };
    let written = apart(py, || encoding::run(&call, &parsed, positions, thread_count(threads)))?;
    let entries = PyByteArray::new_with(py, written.entries.len() * 16, |bytes| {
        for (place, [offset, nbytes]) in bytes.chunks_exact_mut(16).zip(&written.entries) {
            place[..8].copy_from_slice(&offset.to_ne_bytes());
            place[8..].copy_from_slice(&nbytes.to_ne_bytes());
        }
        Ok(())
    })?;
    let mut bodies = Vec::with_capacity(sinks.len());
    for sink in sinks {
        bodies.push(sink.take_pieces().map(|pieces| joined(py, pieces)).transpose()?);
    }
    Ok((entries, bodies, written.ends, named(written.failures)))
}

/// The CRC-32C of a buffer, going on from `crc`.
#[pyfunction(name = "crc32c", signature = (buffer, crc = 0))]
fn checksum(py: Python<'_>, buffer: &Bound<'_, PyAny>, crc: u32) -> PyResult<u32> {
    let held = Buffer::bytes(buffer)?;
    let bytes = held.as_slice();
    if bytes.len() < 64 << 10 {
        return Ok(::crc32c::crc32c_append(crc, bytes));
    }
    apart(py, || ::crc32c::crc32c_append(crc, bytes))
}

/// How many helper threads are alive in this process.
#[pyfunction]
fn threads_alive() -> usize {
    pool::threads_alive()
}

// Not tested on interpreters without the lock: they take it again when this is imported.
#[pymodule(gil_used = true)]
fn _kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("MISSING", MISSING)?;
    module.add("KernelFault", module.py().get_type::<KernelFault>())?;
    module.add_class::<Program>()?;
    module.add_class::<Pipe>()?;
    module.add_function(wrap_pyfunction!(decode, module)?)?;
    module.add_function(wrap_pyfunction!(decode_many, module)?)?;
    module.add_function(wrap_pyfunction!(encode, module)?)?;
    module.add_function(wrap_pyfunction!(checksum, module)?)?;
    module.add_function(wrap_pyfunction!(door::elements::split_elements, module)?)?;
    module.add_function(wrap_pyfunction!(door::elements::join_elements, module)?)?;
    module.add_function(wrap_pyfunction!(threads_alive, module)?)
}

fn named(failures: Vec<(usize, Fault)>) -> Vec<(usize, &'static str, String)> {
    failures.into_iter().map(|(row, fault)| (row, fault.kind.name(), fault.text)).collect()
}

fn thread_count(threads: i64) -> usize {
    usize::try_from(threads).unwrap_or(1).max(1)
}
