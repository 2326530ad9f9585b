//! Whole calls: an array into a sink and back, then rows and bytes that lie.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Unstructured};
use libfuzzer_sys::fuzz_target;
use rooms::decoding::{self, Decode};
use rooms::encoding::{self, Action, Encode, MISSING};
use rooms::program_of;
use rooms::scatter::{Axis, Placement, View};
use rooms::sink::Sink;
use rooms::source::Source;

fuzz_target!(|bytes: &[u8]| {
    let _ = turn(&mut Unstructured::new(bytes));
});

fn turn(input: &mut Unstructured) -> arbitrary::Result<()> {
    let ndim = input.int_in_range(0..=2usize)?;
    let chunk = (0..ndim).map(|_| input.int_in_range(1..=6usize)).collect::<arbitrary::Result<Vec<_>>>()?;
    let extents = (0..ndim).map(|_| input.int_in_range(1..=14usize)).collect::<arbitrary::Result<Vec<_>>>()?;
    let program = program_of(input, chunk.clone())?;
    let axes = || {
        let table = |(&extent, &chunk): (&usize, &usize)| {
            let span = |start: usize| [0, chunk.min(extent - start) as i64, start as i64];
            Axis::Span { rows: (0..extent).step_by(chunk).map(span).collect(), step: 1 }
        };
        extents.iter().zip(&chunk).map(table).collect()
    };
    let placement = Placement::grid(axes(), &extents).expect("the tables are right");
    let nbytes = extents.iter().product::<usize>() * program.itemsize;
    let mut strides = vec![0isize; ndim];
    let mut stride = program.itemsize as isize;
    for dimension in (0..ndim).rev() {
        strides[dimension] = stride;
        stride *= extents[dimension] as isize;
    }
    let (threads, drop_fill) = (1 + usize::from(input.ratio(1, 64)?), input.arbitrary()?);
    let start: u8 = input.arbitrary()?;
    let lies: Vec<(u8, u8, i64)> =
        (0..input.int_in_range(0..=4)?).map(|_| input.arbitrary()).collect::<arbitrary::Result<_>>()?;
    let seed = input.bytes(input.len())?;
    let mut value: Box<[u8]> = seed.iter().copied().cycle().take(nbytes).collect::<Vec<_>>().into();
    if value.len() < nbytes {
        value = program.fill.iter().copied().cycle().take(nbytes).collect::<Vec<_>>().into();
    }
    if program.is_bool {
        value.iter_mut().for_each(|byte| *byte &= 1);
    }
    let view = View::new(value.as_mut_ptr(), program.itemsize, extents.clone(), strides.clone());
    let rows: Vec<encoding::Row> = (0..placement.ncells())
        .map(|cell| encoding::Row {
            action: Action::OverFill,
            program: 0,
            cell,
            sink: 0,
            source: None,
            offset: 0,
            nbytes: 0,
        })
        .collect();
    let sinks = [Sink::new(None)];
    let programs = [&program];
    let encode =
        Encode { programs: &programs, sources: &[], placement: &placement, value: &view, sinks: &sinks, drop_fill };
    let written = encoding::run(&encode, &rows, vec![u64::from(start)], threads);
    assert_eq!(written.failures, []);
    let mut body = sinks[0].take_pieces().expect("a sink in memory").concat();
    assert_eq!(written.ends, [u64::from(start) + body.len() as u64]);
    let mut table: Vec<decoding::Row> = written
        .entries
        .iter()
        .enumerate()
        .map(|(cell, &entry)| decoding::Row {
            number: cell,
            source: (entry != MISSING).then_some(0),
            offset: entry[0].wrapping_sub(u64::from(start)) as i64,
            nbytes: entry[1] as i64,
            program: 0,
            cell,
        })
        .collect();
    let decode = |body: &[u8], table: &[decoding::Row]| {
        let exact: Box<[u8]> = body.into();
        let sources = [Source::Buffer(&exact)];
        let mut out = vec![0xEEu8; nbytes].into_boxed_slice();
        let view = View::new(out.as_mut_ptr(), program.itemsize, extents.clone(), strides.clone());
        let is_disjoint = view.is_disjoint && placement.is_disjoint();
        let call = Decode { programs: &programs, sources: &sources, placement: &placement, out: &view, is_disjoint };
        let failures = decoding::run(&call, table.to_vec(), threads);
        (failures, out)
    };
    let (failures, out) = decode(&body, &table);
    assert_eq!(failures, []);
    assert!(out == value, "what was encoded did not come back");
    for (what, row, number) in lies {
        let at = usize::from(row) % table.len();
        match what % 6 {
            0 => table[at].offset = number,
            1 => table[at].nbytes = number,
            2 => table[at].offset = table[at].offset.wrapping_add(number % 9),
            3 => table[at].nbytes = table[at].nbytes.wrapping_add(number % 9),
            4 => table[at].source = None,
            _ if body.is_empty() => {}
            _ => {
                let place = number.unsigned_abs() as usize % body.len();
                body[place] ^= row | 1;
            }
        }
    }
    let (failures, _) = decode(&body, &table);
    assert!(failures.is_sorted_by_key(|(row, _)| *row));
    assert!(failures.len() <= table.len());
    Ok(())
}
