//! Steps and placements as Python spells them, parsed and checked.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::buffer::tables;
use crate::program::{self, Parts};
use crate::scatter::{Axis, Placement, View};
use crate::scratch::room_for;
use crate::steps::gzip::Wrap;
use crate::steps::{self, Step};
use crate::{refused, value_error};

/// The steps of a chain: transpositions, then `bytes` once, then steps from bytes to bytes.
pub fn parse_steps(steps: &[Bound<'_, PyTuple>]) -> PyResult<Parts> {
    let mut parts = Parts { orders: Vec::new(), units: Vec::new(), is_bool: false, steps: Vec::new() };
    let mut has_bytes = false;
    for step in steps {
        let name = step_name(step)?;
        match name.as_str() {
            "transpose" if has_bytes => return Err(value_error("transpose comes before bytes")),
            "transpose" => parts.orders.push(arguments::<(Vec<usize>,)>(step, &name)?.0),
            "bytes" if has_bytes => return Err(value_error("bytes comes once")),
            "bytes" => {
                let (units, check) = arguments::<(Vec<usize>, String)>(step, &name)?;
                parts.is_bool = match check.as_str() {
                    "" => false,
                    "bool" => true,
                    _ => return Err(value_error(format!("bytes: the check {check:?} is not \"\" or \"bool\""))),
                };
                parts.units = units;
                has_bytes = true;
            }
            _ if !has_bytes => return Err(value_error(format!("{name} comes after bytes"))),
            _ => match byte_step(step)? {
                Some(step) => parts.steps.push(step),
                None => return Err(value_error(format!("no step has the name {name:?}"))),
            },
        }
    }
    match has_bytes {
        true => Ok(parts),
        false => Err(value_error("a chain has a bytes step")),
    }
}

pub fn step_name(step: &Bound<'_, PyTuple>) -> PyResult<String> {
    match step.iter().next() {
        Some(name) => name.extract(),
        None => Err(value_error("a step is a name and its values, not an empty tuple")),
    }
}

/// A step's values after its name.
pub fn arguments<'py, T>(step: &Bound<'py, PyTuple>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let rest = step.get_slice(1, step.len());
    rest.extract::<T>().map_err(|_| value_error(format!("{name}: the values {rest:?} are not those of this step")))
}

/// A step from bytes to bytes; `None` where the name is none of theirs.
pub fn byte_step(step: &Bound<'_, PyTuple>) -> PyResult<Option<Step>> {
    let name = step_name(step)?;
    Ok(Some(match name.as_str() {
        "gzip" | "zlib" => {
            let (level,) = arguments::<(i64,)>(step, &name)?;
            if !(0..=9).contains(&level) {
                return Err(value_error(format!("{name}: level {level} is not between 0 and 9")));
            }
            let wrap = if name == "gzip" { Wrap::Gzip } else { Wrap::Zlib };
            Step::Deflate { wrap, level: level as i32 }
        }
        "zstd" => {
            let (level, checksum) = arguments::<(i64, bool)>(step, &name)?;
            let levels = steps::zstd::levels();
            if !levels.contains(&level) {
                let (low, high) = (levels.start(), levels.end());
                return Err(value_error(format!("zstd: level {level} is not between {low} and {high}")));
            }
            Step::Zstd { level: level as i32, checksum }
        }
        "blosc" => {
            let (cname, clevel, shuffle, typesize, blocksize) = arguments::<(String, i64, i64, i64, i64)>(step, &name)?;
            let blosc = steps::blosc::Blosc::new(&cname, clevel, shuffle, typesize, blocksize);
            Step::Blosc(blosc.map_err(value_error)?)
        }
        "crc32c" if step.len() == 1 => Step::Crc32c,
        "crc32c" => return Err(value_error("crc32c takes no values")),
        _ => return Ok(None),
    }))
}

pub fn parse_placement(placement: &Bound<'_, PyTuple>, view: &View) -> PyResult<Placement> {
    let name = step_name(placement)?;
    match name.as_str() {
        "grid" => {
            let (axes,) = arguments::<(Vec<Bound<'_, PyTuple>>,)>(placement, "placement")?;
            let axes = axes.iter().map(parse_axis).collect::<PyResult<Vec<_>>>()?;
            Placement::grid(axes, &view.shape).map_err(refused)
        }
        "spans" => {
            let (table,) = arguments::<(Bound<'_, PyAny>,)>(placement, "placement")?;
            Placement::grid(spans(&tables::<1>(&table, "spans")?)?, &view.shape).map_err(refused)
        }
        "points" => {
            let (bounds, inside, outside) = lists(placement)?;
            Placement::points(bounds, inside, outside, &view.shape).map_err(refused)
        }
        _ => Err(value_error(format!("placement: {name:?} is not \"grid\", \"spans\" or \"points\""))),
    }
}

/// A grid of spans in one table: for each dimension its step, how many rows there are, and these.
fn spans(table: &[[i64; 1]]) -> PyResult<Vec<Axis>> {
    let mut numbers = table.iter().map(|&[number]| number);
    let mut axes = Vec::new();
    while let Some(step) = numbers.next() {
        let count = numbers.next().and_then(|count| usize::try_from(count).ok());
        let Some(count) = count.filter(|count| count.checked_mul(3).is_some_and(|count| count <= numbers.len())) else {
            return Err(value_error("spans: the table ends before the rows that it announces"));
        };
        let mut rows = room_for(count).map_err(refused)?;
        while rows.len() < count
            && let (Some(start), Some(elements), Some(to)) = (numbers.next(), numbers.next(), numbers.next())
        {
            rows.push([start, elements, to]);
        }
        axes.push(Axis::Span { rows, step });
    }
    Ok(axes)
}

pub fn parse_axis(axis: &Bound<'_, PyTuple>) -> PyResult<Axis> {
    match step_name(axis)?.as_str() {
        "span" => {
            let (table, step) = arguments::<(Bound<'_, PyAny>, i64)>(axis, "span")?;
            Ok(Axis::Span { rows: tables::<3>(&table, "span")?, step })
        }
        "pick" => lists(axis).map(|(bounds, inside, outside)| Axis::Pick { bounds, inside, outside }),
        name => Err(value_error(format!("placement: an axis is \"span\" or \"pick\", not {name:?}"))),
    }
}

pub type Lists = (Vec<[i64; 2]>, Vec<i64>, Vec<i64>);

pub fn lists(tuple: &Bound<'_, PyTuple>) -> PyResult<Lists> {
    type Three<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);
    let (bounds, inside, outside) = arguments::<Three<'_>>(tuple, "placement")?;
    let flat = |table: &Bound<'_, PyAny>, name| -> PyResult<Vec<i64>> {
        Ok(tables::<1>(table, name)?.into_iter().map(|[position]| position).collect())
    };
    Ok((tables::<2>(&bounds, "bounds")?, flat(&inside, "inside")?, flat(&outside, "outside")?))
}

/// Programs that were checked against a placement: whole tables first, cell by cell where that is not enough.
pub struct Checked<'a> {
    programs: &'a [&'a program::Program],
    placement: &'a Placement,
    fits: Vec<bool>,
}

impl<'a> Checked<'a> {
    pub fn new(programs: &'a [&'a program::Program], placement: &'a Placement, view: &View) -> PyResult<Checked<'a>> {
        let mut fits = Vec::with_capacity(programs.len());
        for program in programs {
            if program.itemsize != view.itemsize {
                return Err(value_error(format!(
                    "the array's elements have {} bytes, the program's {}",
                    view.itemsize, program.itemsize
                )));
            }
            fits.push(placement.check_program(program).map_err(value_error)?);
        }
        Ok(Checked { programs, placement, fits })
    }

    pub fn row(&self, number: usize, program: i64, cell: i64) -> PyResult<(usize, usize)> {
        let count = self.programs.len();
        let Some(program) = usize::try_from(program).ok().filter(|&program| program < count) else {
            return Err(value_error(format!("row {number}: no program {program}, there are {count}")));
        };
        let ncells = self.placement.ncells();
        let Some(cell) = usize::try_from(cell).ok().filter(|&cell| cell < ncells) else {
            return Err(value_error(format!("row {number}: no cell {cell}, there are {ncells}")));
        };
        if !self.fits[program] && !self.placement.check_cell(cell, self.programs[program]) {
            let shape = &self.programs[program].shape;
            return Err(value_error(format!("row {number}: the cell {cell} leaves the chunk's shape {shape:?}")));
        }
        Ok((program, cell))
    }
}
