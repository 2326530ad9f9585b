//! Placement tables: whatever passes the checks moves exactly the elements that the tables name, and none outside.

#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::arbitrary::{self, Unstructured};
use libfuzzer_sys::fuzz_target;
use rooms::any_program;
use rooms::copy::Toward;
use rooms::program::Program;
use rooms::scatter::{Axis, Placement, View};

fuzz_target!(|bytes: &[u8]| {
    let _ = turn(&mut Unstructured::new(bytes));
});

/// The tables again, for the model below, which reads them the slow way.
enum Model {
    Grid(Vec<Table>),
    Points(Vec<[i64; 2]>, Vec<i64>, Vec<i64>),
}

enum Table {
    Span(Vec<[i64; 3]>, i64),
    Pick(Vec<[i64; 2]>, Vec<i64>, Vec<i64>),
}

fn number(input: &mut Unstructured) -> arbitrary::Result<i64> {
    Ok(match input.int_in_range(0..=19u8)? {
        0 => input.arbitrary()?,
        1 => i64::MAX - input.int_in_range(0..=3)?,
        2 => -1,
        _ => input.int_in_range(0..=9)?,
    })
}

fn numbers<const N: usize>(input: &mut Unstructured) -> arbitrary::Result<Vec<[i64; N]>> {
    let count = input.int_in_range(0..=4)?;
    (0..count)
        .map(|_| {
            let mut row = [0; N];
            for place in &mut row {
                *place = number(input)?;
            }
            Ok(row)
        })
        .collect()
}

fn lists(input: &mut Unstructured) -> arbitrary::Result<(Vec<[i64; 2]>, Vec<i64>, Vec<i64>)> {
    let flat = |rows: Vec<[i64; 1]>| rows.into_iter().map(|[one]| one).collect();
    let (bounds, inside) = (numbers::<2>(input)?, flat(numbers::<1>(input)?));
    let mut outside: Vec<i64> = flat(numbers::<1>(input)?);
    if input.ratio(15, 16)? {
        outside.resize(inside.len(), 0);
    }
    Ok((bounds, inside, outside))
}

fn turn(input: &mut Unstructured) -> arbitrary::Result<()> {
    let program = any_program(input)?;
    let is_points = input.ratio(1, 4)?;
    let ndim = if is_points { 1 } else { program.shape.len() };
    let extents = (0..ndim).map(|_| input.int_in_range(0..=10usize)).collect::<arbitrary::Result<Vec<_>>>()?;
    // Strides of C order in a shuffled order of dimensions, with gaps, some reversed, some zero.
    let mut strides = vec![0isize; ndim];
    let mut stride = program.itemsize as isize;
    let mut left: Vec<usize> = (0..ndim).collect();
    while !left.is_empty() {
        let dimension = left.swap_remove(input.int_in_range(0..=left.len() - 1)?);
        let gap = isize::from(input.ratio(1, 4)?);
        strides[dimension] = match input.int_in_range(0..=9u8)? {
            0 => 0,
            1..=3 => -stride,
            _ => stride,
        };
        stride *= (extents[dimension].max(1) as isize) + gap;
    }
    let (mut low, mut high) = (0isize, program.itemsize as isize);
    for (&extent, &stride) in extents.iter().zip(&strides) {
        let reach = (extent.max(1) as isize - 1) * stride;
        low += reach.min(0);
        high += reach.max(0);
    }
    let (model, placement) = match is_points {
        true => {
            let (bounds, inside, outside) = lists(input)?;
            let placement = Placement::points(bounds.clone(), inside.clone(), outside.clone(), &extents);
            (Model::Points(bounds, inside, outside), placement)
        }
        false => {
            let mut tables = Vec::new();
            for _ in 0..ndim + usize::from(input.ratio(1, 32)?) {
                tables.push(match input.arbitrary()? {
                    true => Table::Span(numbers(input)?, number(input)?),
                    false => {
                        let (bounds, inside, outside) = lists(input)?;
                        Table::Pick(bounds, inside, outside)
                    }
                });
            }
            let axes = tables.iter().map(|table| match table {
                Table::Span(rows, step) => Axis::Span { rows: rows.clone(), step: *step },
                Table::Pick(bounds, inside, outside) => {
                    Axis::Pick { bounds: bounds.clone(), inside: inside.clone(), outside: outside.clone() }
                }
            });
            let placement = Placement::grid(axes.collect(), &extents);
            (Model::Grid(tables), placement)
        }
    };
    let Ok(placement) = placement else { return Ok(()) };
    let Ok(fits) = placement.check_program(&program) else { return Ok(()) };
    for cell in 0..placement.ncells().min(16) {
        let is_inside = placement.check_cell(cell, &program);
        assert!(is_inside || !fits, "the whole tables fit, one cell does not");
        if is_inside {
            cell_moves(&placement, &model, &program, cell, &extents, &strides, low, (high - low) as usize);
        }
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn cell_moves(
    placement: &Placement,
    model: &Model,
    program: &Program,
    cell: usize,
    extents: &[usize],
    strides: &[isize],
    low: isize,
    nbytes: usize,
) {
    let pairs = pairs(model, program, cell, strides, low);
    let mut array = vec![0xEEu8; nbytes].into_boxed_slice();
    // SAFETY: the offset is that of element 0 inside the allocation, by how `low` was summed up.
    let start = unsafe { array.as_mut_ptr().offset(-low) };
    let view = View::new(start, program.itemsize, extents.to_vec(), strides.to_vec());
    let mut chunk: Box<[u8]> = (0..program.nbytes).map(|at| (at % 251) as u8).collect();
    for toward in [Toward::Array, Toward::Chunk] {
        let Some(region) = placement.region(cell, program, &view, toward).expect("small tables") else {
            assert!(pairs.is_empty(), "elements are selected and nothing is copied");
            continue;
        };
        assert!(!pairs.is_empty(), "nothing is selected and something is copied");
        let (first, end) = region.chunk_span();
        assert!(end <= program.nbytes && first < end);
        let item = program.itemsize;
        if toward == Toward::Array {
            let part: Box<[u8]> = chunk[first..end].into();
            // SAFETY: the cell was checked; the view is the allocation above.
            unsafe { region.scatter(&part, first, &view) };
            check(&pairs, item, &chunk, &array, |(inside, outside)| (inside, outside));
            array.fill(0xEE);
            // SAFETY: as above.
            unsafe { region.fill(program, &view) };
            let mut filled: Vec<u8> = vec![0xEE; nbytes];
            for &(_, outside) in &pairs {
                filled[outside..outside + item].copy_from_slice(&program.fill[..item]);
            }
            if view.is_disjoint {
                assert_eq!(&filled[..], &array[..], "filled something else");
            }
        } else {
            array.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 249) as u8);
            chunk.fill(0xEE);
            // SAFETY: as above.
            unsafe { region.gather(&view, &mut chunk) };
            check(&pairs, item, &array, &chunk, |(inside, outside)| (outside, inside));
        }
    }
}

/// Each element of the target is one of those that were to be copied there, or was left alone.
fn check(
    pairs: &[(usize, usize)],
    item: usize,
    source: &[u8],
    target: &[u8],
    turned: impl Fn((usize, usize)) -> (usize, usize),
) {
    let mut wanted: HashMap<usize, Vec<usize>> = HashMap::new();
    for &pair in pairs {
        let (from, to) = turned(pair);
        wanted.entry(to).or_default().push(from);
    }
    let mut touched = vec![false; target.len()];
    let overlapping = wanted
        .keys()
        .any(|to| touched[*to..*to + item].iter_mut().fold(false, |any, byte| any | std::mem::replace(byte, true)));
    if overlapping {
        return;
    }
    for (to, froms) in &wanted {
        let found = &target[*to..*to + item];
        assert!(froms.iter().any(|from| &source[*from..*from + item] == found), "an element is wrong at {to}");
    }
    let others = target.iter().zip(&touched).filter(|(_, touched)| !**touched);
    assert!(others.into_iter().all(|(byte, _)| *byte == 0xEE), "an element was touched that no table names");
}

/// (byte in the chunk as stored, byte in the array's allocation) of every element that a cell names.
fn pairs(model: &Model, program: &Program, cell: usize, strides: &[isize], low: isize) -> Vec<(usize, usize)> {
    let mut found = vec![(0isize, -low)];
    match model {
        Model::Grid(tables) => {
            let mut rest = cell;
            for (dimension, table) in tables.iter().enumerate().rev() {
                let (chunk, array) = (program.strides[dimension], strides[dimension]);
                let len = match table {
                    Table::Span(rows, _) => rows.len(),
                    Table::Pick(bounds, ..) => bounds.len(),
                };
                let row = rest % len;
                rest /= len;
                let positions: Vec<(isize, isize)> = match table {
                    Table::Span(rows, step) => {
                        let [start, count, to] = rows[row];
                        (0..count).map(|at| ((start + at * step) as isize, (to + at) as isize)).collect()
                    }
                    Table::Pick(bounds, inside, outside) => {
                        let [from, to] = bounds[row].map(|bound| bound as usize);
                        (from..to).map(|at| (inside[at] as isize, outside[at] as isize)).collect()
                    }
                };
                found = found
                    .iter()
                    .flat_map(|&(c, a)| positions.iter().map(move |&(i, o)| (c + i * chunk, a + o * array)))
                    .collect();
            }
        }
        Model::Points(bounds, inside, outside) => {
            let [from, to] = bounds[cell].map(|bound| bound as usize);
            found = (from..to)
                .map(|at| {
                    let (mut rest, mut offset) = (inside[at] as usize, 0isize);
                    for (&extent, &stride) in program.shape.iter().zip(&program.strides).rev() {
                        offset += (rest % extent) as isize * stride;
                        rest /= extent;
                    }
                    (offset, outside[at] as isize * strides[0] - low)
                })
                .collect();
        }
    }
    found.into_iter().map(|(inside, outside)| (inside as usize, outside as usize)).collect()
}
