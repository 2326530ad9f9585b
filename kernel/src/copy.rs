//! Strided copies: loops over two sides, and runs of bytes in their middle. This is where memory is touched by address.
//!
//! It checks nothing: `scatter`, its only caller, makes loops from checked tables alone.

use std::borrow::Cow;

use crate::program::Program;

/// Elements along each side of a tile: so many lines stay near even where strides are powers of two.
const TILE: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Toward {
    Array,
    Chunk,
}

pub struct Loop<'p> {
    pub count: usize,
    pub chunk: isize,
    pub array: isize,
    /// Positions along the dimension, where they are not 0, 1, 2 and so on.
    pub listed: Option<(Cow<'p, [i64]>, &'p [i64])>,
}

impl Loop<'_> {
    pub fn source(&self, toward: Toward) -> isize {
        match toward {
            Toward::Array => self.chunk,
            Toward::Chunk => self.array,
        }
    }

    pub fn target(&self, toward: Toward) -> isize {
        match toward {
            Toward::Array => self.array,
            Toward::Chunk => self.chunk,
        }
    }
}

/// Copies `run` bytes at each turn of the loops.
///
/// # Safety
/// All offsets that the loops form lie in live memory on both sides, which does not overlap.
pub unsafe fn walk(loops: &[Loop], run: usize, from: *const u8, to: *mut u8, toward: Toward) {
    // SAFETY: every offset is one that the caller's region vouches for.
    unsafe {
        match loops {
            [] => std::ptr::copy_nonoverlapping(from, to, run),
            [turn] => match run {
                1 => turns::<1>(turn, run, from, to, toward),
                2 => turns::<2>(turn, run, from, to, toward),
                4 => turns::<4>(turn, run, from, to, toward),
                8 => turns::<8>(turn, run, from, to, toward),
                16 => turns::<16>(turn, run, from, to, toward),
                32 => turns::<32>(turn, run, from, to, toward),
                64 => turns::<64>(turn, run, from, to, toward),
                128 => turns::<128>(turn, run, from, to, toward),
                _ => turns::<0>(turn, run, from, to, toward),
            },
            [outer, inner] if is_tiled(outer, inner, toward) => {
                for first in (0..outer.count).step_by(TILE) {
                    for second in (0..inner.count).step_by(TILE) {
                        let rows = part(outer, first);
                        let columns = part(inner, second);
                        let source = first as isize * outer.source(toward) + second as isize * inner.source(toward);
                        let target = first as isize * outer.target(toward) + second as isize * inner.target(toward);
                        each(&rows, toward, |from_row, to_row| {
                            let (from, to) = (from.offset(source + from_row), to.offset(target + to_row));
                            walk(std::slice::from_ref(&columns), run, from, to, toward);
                        });
                    }
                }
            }
            [turn, rest @ ..] => each(turn, toward, |source, target| {
                walk(rest, run, from.offset(source), to.offset(target), toward);
            }),
        }
    }
}

/// Whether the outer of two loops walks the source closer than the inner one: lines of the source are then used up
/// while they are near, tile by tile.
fn is_tiled(outer: &Loop, inner: &Loop, toward: Toward) -> bool {
    outer.listed.is_none()
        && inner.listed.is_none()
        && outer.source(toward).unsigned_abs() < inner.source(toward).unsigned_abs()
}

/// One tile's share of a loop.
fn part<'l>(turn: &Loop<'l>, first: usize) -> Loop<'l> {
    Loop { count: TILE.min(turn.count - first), chunk: turn.chunk, array: turn.array, listed: None }
}

/// The innermost loop, with the run's length known when compiled; 0 stands for any other.
unsafe fn turns<const N: usize>(turn: &Loop, run: usize, from: *const u8, to: *mut u8, toward: Toward) {
    each(turn, toward, |source, target| {
        // SAFETY: as in `walk`. Arrays of bytes need no alignment.
        unsafe {
            if N == 0 {
                std::ptr::copy_nonoverlapping(from.offset(source), to.offset(target), run);
            } else {
                std::ptr::copy_nonoverlapping(from.offset(source).cast::<[u8; N]>(), to.offset(target).cast(), 1);
            }
        }
    });
}

#[inline(always)]
fn each(turn: &Loop, toward: Toward, mut visit: impl FnMut(isize, isize)) {
    let (source, target) = (turn.source(toward), turn.target(toward));
    match &turn.listed {
        None => (0..turn.count as isize).for_each(|at| visit(at * source, at * target)),
        Some((inside, outside)) => {
            let pairs = inside.iter().zip(*outside);
            match toward {
                Toward::Array => pairs.for_each(|(&i, &o)| visit(i as isize * source, o as isize * target)),
                Toward::Chunk => pairs.for_each(|(&i, &o)| visit(o as isize * source, i as isize * target)),
            }
        }
    }
}

/// Writes the program's fill value, `run` bytes at each turn of the loops over the array.
///
/// # Safety
/// All offsets that the loops form lie in live memory.
pub unsafe fn fill(loops: &[Loop], run: usize, to: *mut u8, program: &Program) {
    // SAFETY: as in `walk`.
    unsafe {
        match (loops, program.fill_byte) {
            ([], Some(byte)) => std::ptr::write_bytes(to, byte, run),
            ([], None) => {
                let mut done = 0;
                while done < run {
                    let part = program.fill.len().min(run - done);
                    std::ptr::copy_nonoverlapping(program.fill.as_ptr(), to.add(done), part);
                    done += part;
                }
            }
            ([turn, rest @ ..], _) => each(turn, Toward::Array, |_, target| {
                fill(rest, run, to.offset(target), program);
            }),
        }
    }
}
