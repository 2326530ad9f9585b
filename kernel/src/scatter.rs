//! Placement: which elements of a chunk lie where in an array, and the copies that follow from it.
//!
//! Scattering goes from chunk to array (reading), gathering from array to chunk (writing). Tables are checked whole,
//! once; after that no copy can leave the chunk or the array. The copies themselves are `copy`'s.

use std::borrow::Cow;

use crate::copy::{Loop, Toward, fill, walk};
use crate::fault::Fault;
use crate::program::Program;
use crate::scratch::room_for;

/// A strided array in memory: the output of a read, the value of a write.
pub struct View {
    pub start: *mut u8,
    pub itemsize: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<isize>,
    /// No two elements share memory, so that distinct cells may be written as slices at the same time.
    pub is_disjoint: bool,
}

// SAFETY: the pointer is valid for the whole call, which holds the buffer; threads write disjoint elements.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    pub fn new(start: *mut u8, itemsize: usize, shape: Vec<usize>, strides: Vec<isize>) -> View {
        let mut axes: Vec<(usize, usize)> =
            shape.iter().copied().zip(strides.iter().map(|s| s.unsigned_abs())).collect();
        axes.retain(|&(extent, _)| extent > 1);
        axes.sort_by_key(|&(_, stride)| stride);
        let mut reach = itemsize;
        let mut is_disjoint = true;
        for (extent, stride) in axes {
            is_disjoint &= stride >= reach;
            reach = reach.saturating_add(stride.saturating_mul(extent - 1));
        }
        View { start, itemsize, shape, strides, is_disjoint }
    }
}

/// One dimension's table.
pub enum Axis {
    Span { rows: Vec<[i64; 3]>, step: i64 },
    Pick { bounds: Vec<[i64; 2]>, inside: Vec<i64>, outside: Vec<i64> },
}

pub enum Placement {
    Grid { axes: Vec<Axis>, needs: Vec<Vec<i64>>, ncells: usize },
    Points { bounds: Vec<[i64; 2]>, inside: Vec<i64>, outside: Vec<i64>, needs: Vec<i64> },
}

/// The copies of one chunk: `run` bytes at each turn of the loops, outermost first.
pub struct Region<'p> {
    pub chunk: isize,
    pub array: isize,
    pub run: usize,
    loops: Vec<Loop<'p>>,
}

impl Placement {
    pub fn grid(axes: Vec<Axis>, extents: &[usize]) -> Result<Placement, Fault> {
        if axes.len() != extents.len() {
            let text = format!("placement: {} axes for an array of {} dimensions", axes.len(), extents.len());
            return Err(Fault::range(text));
        }
        let mut ncells = 1usize;
        let mut needs = Vec::with_capacity(axes.len());
        for (number, (axis, &extent)) in axes.iter().zip(extents).enumerate() {
            let need = axis.check(extent as i64).map_err(|fault| fault.at(format!("placement, dimension {number}")))?;
            let product = ncells.checked_mul(need.len());
            ncells = product.ok_or_else(|| Fault::range("placement: more cells than can be counted"))?;
            needs.push(need);
        }
        Ok(Placement::Grid { axes, needs, ncells })
    }

    pub fn points(
        bounds: Vec<[i64; 2]>,
        inside: Vec<i64>,
        outside: Vec<i64>,
        extents: &[usize],
    ) -> Result<Placement, Fault> {
        let &[extent] = extents else {
            let text = format!("placement: points need an array of 1 dimension, not {}", extents.len());
            return Err(Fault::range(text));
        };
        let needs = check_lists(&bounds, &inside, &outside, extent as i64).map_err(|fault| fault.at("points"))?;
        Ok(Placement::Points { bounds, inside, outside, needs })
    }

    /// Refuses a program whose chunks any entry of the tables leaves; cell by cell only where shapes differ.
    pub fn check_program(&self, program: &Program) -> Result<bool, String> {
        match self {
            Placement::Grid { needs, .. } => {
                if needs.len() != program.shape.len() {
                    return Err(format!(
                        "placement: {} dimensions for chunks of {} dimensions",
                        needs.len(),
                        program.shape.len()
                    ));
                }
                let fits = |(need, &extent): (&Vec<i64>, &usize)| need.iter().all(|&need| need <= extent as i64);
                Ok(needs.iter().zip(&program.shape).all(fits))
            }
            Placement::Points { needs, .. } => {
                let elements = (program.nbytes / program.itemsize) as i64;
                Ok(needs.iter().all(|&need| need <= elements))
            }
        }
    }

    pub fn ncells(&self) -> usize {
        match self {
            Placement::Grid { ncells, .. } => *ncells,
            Placement::Points { bounds, .. } => bounds.len(),
        }
    }

    /// Whether one cell stays inside the chunks of a program. `cell` was checked against `ncells`.
    pub fn check_cell(&self, cell: usize, program: &Program) -> bool {
        match self {
            Placement::Grid { needs, .. } => {
                let mut rest = cell;
                needs.iter().zip(&program.shape).rev().all(|(need, &extent)| {
                    let row = rest % need.len();
                    rest /= need.len();
                    need[row] <= extent as i64
                })
            }
            Placement::Points { needs, .. } => needs[cell] <= (program.nbytes / program.itemsize) as i64,
        }
    }

    /// Whether two different cells never share an element of the array.
    pub fn is_disjoint(&self) -> bool {
        let Placement::Grid { axes, .. } = self else { return false };
        axes.iter().all(|axis| {
            let Axis::Span { rows, .. } = axis else { return false };
            let mut spans: Vec<(i64, i64)> =
                rows.iter().filter(|row| row[1] > 0).map(|row| (row[2], row[2] + row[1])).collect();
            spans.sort_unstable();
            spans.windows(2).all(|pair| pair[0].1 <= pair[1].0)
        })
    }

    /// The copies of a cell, for which `check_program` or `check_cell` answered yes; `None` where it selects nothing.
    pub fn region(
        &self,
        cell: usize,
        program: &Program,
        view: &View,
        toward: Toward,
    ) -> Result<Option<Region<'_>>, Fault> {
        let mut region = Region { chunk: 0, array: 0, run: 0, loops: Vec::with_capacity(program.shape.len()) };
        match self {
            Placement::Grid { axes, needs, .. } => {
                let mut rest = cell;
                for dimension in (0..axes.len()).rev() {
                    let row = rest % needs[dimension].len();
                    rest /= needs[dimension].len();
                    let (chunk, array) = (program.strides[dimension], view.strides[dimension]);
                    match &axes[dimension] {
                        Axis::Span { rows, step } => {
                            let [start, count, to] = rows[row];
                            region.chunk += start as isize * chunk;
                            region.array += to as isize * array;
                            match count {
                                0 => return Ok(None),
                                1 => {}
                                _ => region.loops.push(Loop {
                                    count: count as usize,
                                    chunk: chunk * *step as isize,
                                    array,
                                    listed: None,
                                }),
                            }
                        }
                        Axis::Pick { bounds, inside, outside } => {
                            let [low, high] = bounds[row].map(|bound| bound as usize);
                            if low == high {
                                return Ok(None);
                            }
                            region.loops.push(Loop {
                                count: high - low,
                                chunk,
                                array,
                                listed: Some((Cow::Borrowed(&inside[low..high]), &outside[low..high])),
                            });
                        }
                    }
                }
            }
            Placement::Points { bounds, inside, outside, .. } => {
                let [low, high] = bounds[cell].map(|bound| bound as usize);
                if low == high {
                    return Ok(None);
                }
                let inside = match program.is_c_order {
                    true => Cow::Borrowed(&inside[low..high]),
                    false => {
                        let mut stored = room_for(high - low)?;
                        stored.extend(inside[low..high].iter().map(|&at| stored_position(program, at)));
                        Cow::Owned(stored)
                    }
                };
                region.loops.push(Loop {
                    count: high - low,
                    chunk: program.itemsize as isize,
                    array: view.strides[0],
                    listed: Some((inside, &outside[low..high])),
                });
            }
        }
        region.settle(program.itemsize, toward);
        Ok(Some(region))
    }

    /// Whether a cell takes every element of a chunk, once.
    pub fn is_whole(&self, cell: usize, program: &Program) -> bool {
        let Placement::Grid { axes, .. } = self else { return false };
        let mut rest = cell;
        axes.iter().zip(&program.shape).rev().all(|(axis, &extent)| match axis {
            Axis::Span { rows, .. } => {
                let row = rest % rows.len();
                rest /= rows.len();
                rows[row][1] == extent as i64
            }
            Axis::Pick { .. } => false,
        })
    }
}

/// The position of a C-order index among the elements as a transposed chunk stores them.
fn stored_position(program: &Program, index: i64) -> i64 {
    let (mut rest, mut offset) = (index, 0);
    for (&extent, &stride) in program.shape.iter().zip(&program.strides).rev() {
        offset += (rest % extent as i64) * stride as i64;
        rest /= extent as i64;
    }
    offset / program.itemsize as i64
}

impl Axis {
    /// Checks a table against the array's extent; answers for each entry the extent that it needs of the chunk.
    fn check(&self, extent: i64) -> Result<Vec<i64>, Fault> {
        match self {
            Axis::Span { step, .. } if *step < 1 => Err(Fault::range(format!("a step is at least 1, not {step}"))),
            Axis::Span { rows, step } => {
                let mut needs = room_for(rows.len())?;
                for &[start, count, to] in rows {
                    let last =
                        (count - i64::from(count > 0)).checked_mul(*step).and_then(|last| last.checked_add(start));
                    let need = last.and_then(|last| last.checked_add(i64::from(count > 0)));
                    match (need, to.checked_add(count)) {
                        (Some(need), Some(end)) if start >= 0 && count >= 0 && to >= 0 && end <= extent => {
                            needs.push(need);
                        }
                        _ => {
                            return Err(Fault::range(format!(
                                "the span (start {start}, count {count}, to {to}) leaves the array's extent of {extent}"
                            )));
                        }
                    }
                }
                Ok(needs)
            }
            Axis::Pick { bounds, inside, outside } => check_lists(bounds, inside, outside, extent),
        }
    }
}

fn check_lists(bounds: &[[i64; 2]], inside: &[i64], outside: &[i64], extent: i64) -> Result<Vec<i64>, Fault> {
    if inside.len() != outside.len() {
        return Err(Fault::range(format!("{} positions inside, {} outside", inside.len(), outside.len())));
    }
    if let Some(&to) = outside.iter().find(|&&to| to < 0 || to >= extent) {
        return Err(Fault::range(format!("position {to} lies outside the array's extent of {extent}")));
    }
    if let Some(&from) = inside.iter().find(|&&from| !(0..i64::MAX).contains(&from)) {
        return Err(Fault::range(format!("position {from} lies outside every chunk")));
    }
    let mut needs = room_for(bounds.len())?;
    for &[low, high] in bounds {
        match (usize::try_from(low), usize::try_from(high)) {
            (Ok(low), Ok(high)) if low <= high && high <= inside.len() => {
                needs.push(inside[low..high].iter().max().map_or(0, |most| most + 1));
            }
            _ => return Err(Fault::range(format!("the bounds {low} to {high} leave a list of {}", inside.len()))),
        }
    }
    Ok(needs)
}

impl<'p> Region<'p> {
    /// A whole chunk against an array of its own shape with the given strides.
    pub fn whole(program: &Program, array: &[isize], toward: Toward) -> Region<'static> {
        let loops = (0..program.shape.len())
            .rev()
            .filter(|&dimension| program.shape[dimension] > 1)
            .map(|dimension| Loop {
                count: program.shape[dimension],
                chunk: program.strides[dimension],
                array: array[dimension],
                listed: None,
            })
            .collect();
        let mut region = Region { chunk: 0, array: 0, run: 0, loops };
        region.settle(program.itemsize, toward);
        region
    }

    /// Puts the loops in the destination's order and joins those that walk on where the one inside them ends.
    fn settle(&mut self, itemsize: usize, toward: Toward) {
        let key = |turn: &Loop| match toward {
            Toward::Array => turn.array.unsigned_abs(),
            Toward::Chunk => turn.chunk.unsigned_abs(),
        };
        // They come innermost first.
        self.loops.sort_by_key(key);
        let mut run = itemsize;
        let mut joined: Vec<Loop> = Vec::with_capacity(self.loops.len());
        for turn in self.loops.drain(..) {
            let plain = turn.listed.is_none();
            if plain && joined.is_empty() && turn.chunk == run as isize && turn.array == run as isize {
                run *= turn.count;
                continue;
            }
            if let Some(inner) = joined.last_mut()
                && plain
                && inner.listed.is_none()
                && turn.chunk == inner.chunk * inner.count as isize
                && turn.array == inner.array * inner.count as isize
            {
                inner.count *= turn.count;
                continue;
            }
            joined.push(turn);
        }
        // Single elements that lie apart in the source: the loop that walks the source closest comes next to the
        // innermost, so that the two can be walked in tiles.
        if run == itemsize && joined.iter().all(|turn| turn.listed.is_none()) {
            let closest = (0..joined.len()).min_by_key(|&number| joined[number].source(toward).unsigned_abs());
            if let Some(number @ 2..) = closest {
                joined[1..=number].rotate_right(1);
            }
        }
        joined.reverse();
        self.loops = joined;
        self.run = run;
    }

    /// Whether it is one copy without a gap on either side.
    pub fn is_run(&self) -> bool {
        self.loops.is_empty()
    }

    /// The bytes of the chunk that the copies touch, from the first to past the last.
    pub fn chunk_span(&self) -> (usize, usize) {
        let (mut low, mut high) = (self.chunk, self.chunk + self.run as isize);
        for turn in &self.loops {
            let (first, last) = match &turn.listed {
                None => (0, turn.count as i64 - 1),
                Some((inside, _)) => {
                    let first = inside.iter().min().copied().unwrap_or(0);
                    (first, inside.iter().max().copied().unwrap_or(0))
                }
            };
            low += first as isize * turn.chunk;
            high += last as isize * turn.chunk;
        }
        (low as usize, high as usize)
    }

    /// The bytes that are copied.
    pub fn nbytes(&self) -> usize {
        self.loops.iter().fold(self.run, |nbytes, turn| nbytes.saturating_mul(turn.count))
    }

    /// The loop over the chunk that strides farthest, taken apart into regions without it, if each of them spans
    /// less than the stride by at least `gap`.
    pub fn split(&self, gap: usize) -> Option<impl Iterator<Item = Region<'_>>> {
        let farthest = (0..self.loops.len()).max_by_key(|&number| self.loops[number].chunk)?;
        let turn = &self.loops[farthest];
        if turn.listed.is_some() {
            return None;
        }
        let others = move |chunk, array| Region {
            chunk,
            array,
            run: self.run,
            loops: (0..self.loops.len())
                .filter(|&number| number != farthest)
                .map(|number| {
                    let Loop { count, chunk, array, listed } = &self.loops[number];
                    let listed = listed.as_ref().map(|(inside, outside)| (Cow::Borrowed(&**inside), *outside));
                    Loop { count: *count, chunk: *chunk, array: *array, listed }
                })
                .collect(),
        };
        let (low, high) = others(self.chunk, self.array).chunk_span();
        if (turn.chunk as usize) < high - low + gap {
            return None;
        }
        let part = move |at| others(self.chunk + at * turn.chunk, self.array + at * turn.array);
        Some((0..turn.count as isize).map(part))
    }

    /// Copies from the chunk's bytes, the first of which is the chunk's byte number `first`, to the array.
    ///
    /// # Safety
    /// The region came from tables checked for `view` and for the chunk's program; `bytes` covers `chunk_span`;
    /// nobody reads or writes the region's elements of the view through references meanwhile.
    pub unsafe fn scatter(&self, bytes: &[u8], first: usize, view: &View) {
        debug_assert!(self.chunk_span().0 >= first && self.chunk_span().1 <= first + bytes.len());
        // SAFETY: by the contract, all offsets that `walk` forms lie within `bytes` and within the view.
        unsafe {
            let from = bytes.as_ptr().offset(self.chunk - first as isize);
            walk(&self.loops, self.run, from, view.start.offset(self.array), Toward::Array);
        }
    }

    /// Copies from the array to the chunk's bytes, which are the whole chunk.
    ///
    /// # Safety
    /// As for `scatter`; the view is only read.
    pub unsafe fn gather(&self, view: &View, bytes: &mut [u8]) {
        debug_assert!(self.chunk_span().1 <= bytes.len());
        // SAFETY: by the contract, all offsets that `walk` forms lie within `bytes` and within the view.
        unsafe {
            let to = bytes.as_mut_ptr().offset(self.chunk);
            walk(&self.loops, self.run, view.start.offset(self.array), to, Toward::Chunk);
        }
    }

    /// Writes the program's fill value to every element of the region in the array.
    ///
    /// # Safety
    /// As for `scatter`.
    pub unsafe fn fill(&self, program: &Program, view: &View) {
        // SAFETY: by the contract, all offsets formed lie within the view.
        unsafe { fill(&self.loops, self.run, view.start.offset(self.array), program) }
    }

    /// The array's memory of a region that is one run, to read.
    ///
    /// # Safety
    /// As for `scatter`; nothing writes this memory while the slice lives.
    pub unsafe fn array_bytes<'v>(&self, view: &'v View) -> &'v [u8] {
        assert!(self.is_run(), "only one run is one slice");
        // SAFETY: by the contract, the run lies within the view.
        unsafe { std::slice::from_raw_parts(view.start.offset(self.array), self.run) }
    }

    /// The array's memory of a region that is one run, to write.
    ///
    /// # Safety
    /// As for `scatter`; no other slice of this memory lives at the same time.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn array_run<'v>(&self, view: &'v View) -> &'v mut [u8] {
        assert!(self.is_run(), "only one run is one slice");
        // SAFETY: by the contract, the run lies within the view and belongs to this caller alone.
        unsafe { std::slice::from_raw_parts_mut(view.start.offset(self.array), self.run) }
    }
}
