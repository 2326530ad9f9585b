//! A batch of chunks from sources into an array: rows are sorted, cut into batches, read in runs, decoded, scattered.
//!
//! One row's fault does not stop the others.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::copy::Toward;
use crate::fault::{Fault, caught};
use crate::pool;
use crate::program::{Place, Program};
use crate::scatter::{Placement, Region, View};
use crate::scratch::{copied, push};
use crate::source::{Descriptor, Source, ended, read_at, read_exactly};
use crate::steps::{Expect, bytes::Swap};
use crate::workspace::{self, Workspace};

/// Two ranges with a gap up to this are read by one call, up to this many bytes together.
const GAP_NBYTES: u64 = 4 << 10;
const RUN_NBYTES: u64 = 1 << 20;
const BATCH_ROWS: usize = 16;
/// Less work than this is not worth waking a thread.
const INLINE_NBYTES: usize = 96 << 10;
/// A raw run of this length is read straight into the array; strides with such gaps are read one by one.
const DIRECT_NBYTES: usize = 16 << 10;

#[derive(Clone, Copy)]
pub struct Row {
    pub number: usize,
    pub source: Option<usize>,
    pub offset: i64,
    pub nbytes: i64,
    pub program: usize,
    pub cell: usize,
}

pub struct Decode<'a> {
    pub programs: &'a [&'a Program],
    pub sources: &'a [Source<'a>],
    pub placement: &'a Placement,
    pub out: &'a View,
    /// Different rows write to different memory.
    pub is_disjoint: bool,
}

/// A row with the bytes it needs: all of them, or of raw chunks those that the selection touches.
struct Want<'p> {
    row: Row,
    region: Region<'p>,
    offset: u64,
    nbytes: usize,
    /// The chunk's byte that the first of these is.
    first: usize,
}

pub fn run(decode: &Decode, mut rows: Vec<Row>, threads: usize) -> Vec<(usize, Fault)> {
    let key = |row: &Row| (row.source, row.offset, row.number);
    if !rows.is_sorted_by_key(key) {
        rows.sort_unstable_by_key(key); // the stable sort takes memory
    }
    let total = rows.iter().fold(0usize, |sum, row| sum.saturating_add(decode.programs[row.program].nbytes));
    let threads = if total <= INLINE_NBYTES { 1 } else { threads.min(rows.len()) };
    let batches = match batches(&rows, threads) {
        Ok(batches) => batches,
        Err(fault) => return rows.first().map(|row| (row.number, fault)).into_iter().collect(),
    };
    let failures = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    pool::run(threads.min(batches.len()), &|| {
        workspace::with(|workspace| {
            while let Some(range) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                decode.batch(&rows[range.clone()], workspace, &failures);
            }
        });
    });
    let mut failures = failures.into_inner().unwrap_or_default();
    failures.sort_unstable_by_key(|(number, _)| *number);
    failures
}

/// Several calls at once, each by one thread: for many small ones. Their outputs share no memory.
pub fn run_many(decodes: &[(Decode, &[Row])], threads: usize) -> Vec<(usize, usize, Fault)> {
    let failures = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    pool::run(threads.min(decodes.len()), &|| {
        while let Some((job, (decode, rows))) = {
            let job = next.fetch_add(1, Ordering::Relaxed);
            decodes.get(job).map(|decode| (job, decode))
        } {
            let faults = match copied(rows) {
                Ok(rows) => run(decode, rows, 1),
                Err(fault) => vec![(0, fault)],
            };
            for (row, fault) in faults {
                failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((job, row, fault));
            }
        }
    });
    let mut failures = failures.into_inner().unwrap_or_default();
    failures.sort_unstable_by_key(|(job, row, _)| (*job, *row));
    failures
}

/// Cuts sorted rows into batches of one source, bounded in rows and bytes, enough of them for all threads.
fn batches(rows: &[Row], threads: usize) -> Result<Vec<std::ops::Range<usize>>, Fault> {
    let most = if threads == 1 { BATCH_ROWS } else { (rows.len() / (threads * 4)).clamp(1, BATCH_ROWS) };
    let mut batches = Vec::new();
    let mut start = 0;
    let mut nbytes = 0u64;
    for (at, row) in rows.iter().enumerate() {
        let size = row.nbytes.max(0) as u64;
        if at > start && (at - start >= most || nbytes + size > RUN_NBYTES || row.source != rows[start].source) {
            push(&mut batches, start..at)?;
            (start, nbytes) = (at, 0);
        }
        nbytes = nbytes.saturating_add(size);
    }
    if start < rows.len() {
        push(&mut batches, start..rows.len())?;
    }
    Ok(batches)
}

type Failures = Mutex<Vec<(usize, Fault)>>;

fn fail(failures: &Failures, row: &Row, fault: Fault) {
    failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((row.number, fault));
}

impl<'a> Decode<'a> {
    fn batch(&self, rows: &[Row], workspace: &mut Workspace, failures: &Failures) {
        let Some(source) = rows.first().and_then(|row| row.source) else {
            for row in rows {
                if let Err(fault) = caught(|| self.missing(row)) {
                    fail(failures, row, fault);
                }
            }
            return;
        };
        let mut wants = Vec::with_capacity(rows.len());
        for row in rows {
            match caught(|| self.want(row, &self.sources[source])) {
                Ok(Some(want)) => wants.push(want),
                Ok(None) => {}
                Err(fault) => fail(failures, row, fault),
            }
        }
        match &self.sources[source] {
            Source::Buffer(buffer) => {
                for want in &wants {
                    let start = want.offset as usize;
                    let encoded = &buffer[start..start + want.nbytes];
                    if let Err(fault) = caught(|| self.deliver(want, encoded, workspace)) {
                        fail(failures, &want.row, fault);
                    }
                }
            }
            Source::File(descriptor, _) => self.read(&mut wants, descriptor, workspace, failures),
        }
    }

    fn missing(&self, row: &Row) -> Result<(), Fault> {
        let program = self.programs[row.program];
        if let Some(region) = self.placement.region(row.cell, program, self.out, Toward::Array)? {
            // SAFETY: the cell was checked for this program and view; rows write different elements.
            unsafe { region.fill(program, self.out) }
        }
        Ok(())
    }

    fn want(&self, row: &Row, source: &Source) -> Result<Option<Want<'a>>, Fault> {
        let program = self.programs[row.program];
        let (offset, nbytes) = source.check(row.offset, row.nbytes)?;
        program.check_encoded(nbytes)?;
        let Some(region) = self.placement.region(row.cell, program, self.out, Toward::Array)? else {
            return Ok(None);
        };
        if !program.is_raw() {
            return Ok(Some(Want { row: *row, region, offset, nbytes, first: 0 }));
        }
        let (low, high) = region.chunk_span();
        Ok(Some(Want { row: *row, region, offset: offset + low as u64, nbytes: high - low, first: low }))
    }

    /// Reads what the rows want in runs of near neighbours, and delivers each from there.
    fn read(&self, wants: &mut [Want], descriptor: &Descriptor, workspace: &mut Workspace, failures: &Failures) {
        wants.sort_by_key(|want| want.offset);
        let mut start = 0;
        while start < wants.len() {
            if self.is_apart(&wants[start]) {
                let want = &wants[start];
                if let Err(fault) = caught(|| self.read_apart(want, &want.region, descriptor, workspace)) {
                    fail(failures, &want.row, fault);
                }
                start += 1;
                continue;
            }
            let offset = wants[start].offset;
            let mut end = offset + wants[start].nbytes as u64;
            let mut stop = start + 1;
            while let Some(next) = wants.get(stop) {
                let reach = end.max(next.offset + next.nbytes as u64);
                if next.offset > end + GAP_NBYTES || reach - offset > RUN_NBYTES || self.is_apart(next) {
                    break;
                }
                end = reach;
                stop += 1;
            }
            let group = &wants[start..stop];
            start = stop;
            let mut read = std::mem::take(&mut workspace.read);
            let found = read.take((end - offset) as usize).and_then(|bytes| read_at(descriptor, bytes, offset));
            for want in group {
                let from = (want.offset - offset) as usize;
                let result = match &found {
                    Err(fault) => Err(fault.clone()),
                    Ok(found) if from + want.nbytes > *found => {
                        Err(ended(want.nbytes, want.offset, found.saturating_sub(from)))
                    }
                    Ok(found) => {
                        let encoded = &read.made(*found)[from..from + want.nbytes];
                        caught(|| self.deliver(want, encoded, workspace))
                    }
                };
                if let Err(fault) = result {
                    fail(failures, &want.row, fault);
                }
            }
            workspace.read = read;
        }
    }

    /// Whether a row is raw and better read piece by piece: straight into the array, or with large gaps left out.
    fn is_apart(&self, want: &Want) -> bool {
        if !self.programs[want.row.program].is_raw() {
            return false;
        }
        let direct = want.region.run >= DIRECT_NBYTES && self.is_disjoint;
        direct || want.nbytes / 4 >= want.region.nbytes().max(DIRECT_NBYTES)
    }

    fn read_apart(
        &self,
        want: &Want,
        region: &Region,
        descriptor: &Descriptor,
        workspace: &mut Workspace,
    ) -> Result<(), Fault> {
        let program = self.programs[want.row.program];
        let (low, high) = region.chunk_span();
        let offset = want.offset + (low - want.first) as u64;
        if region.is_run() && region.run >= DIRECT_NBYTES && self.is_disjoint {
            // SAFETY: the cell was checked for this program and view, and no two rows share elements.
            let target = unsafe { region.array_run(self.out) };
            read_exactly(descriptor, target, offset)?;
            return program.finish(target);
        }
        let gap = if region.run >= DIRECT_NBYTES { 0 } else { DIRECT_NBYTES };
        if let Some(mut parts) = region.split(gap) {
            return parts.try_for_each(|part| self.read_apart(want, &part, descriptor, workspace));
        }
        let bytes = workspace.elements.take(high - low)?;
        read_exactly(descriptor, bytes, offset)?;
        program.finish(bytes)?;
        // SAFETY: as above; `bytes` are the region's span of the chunk.
        unsafe { region.scatter(bytes, low, self.out) };
        Ok(())
    }

    /// Decodes one row's bytes and lays its elements into the array.
    fn deliver(&self, want: &Want, encoded: &[u8], workspace: &mut Workspace) -> Result<(), Fault> {
        let program = self.programs[want.row.program];
        let Workspace { codecs, elements, pair, .. } = workspace;
        let region = &want.region;
        // SAFETY: the cell was checked for this program and view; no two rows share elements, so the slice is alone.
        let mut target = (region.is_run() && region.run == program.nbytes && self.is_disjoint && !program.is_raw())
            .then(|| unsafe { region.array_run(self.out) });
        let place = match program.is_raw() {
            true => Place::Encoded(0..encoded.len()),
            false => {
                let expect = Expect::Exactly(program.nbytes);
                program.pipe.decode(codecs, pair, encoded, expect, target.as_deref_mut())?
            }
        };
        let decoded: &[u8] = match place {
            Place::Target => {
                return match target {
                    Some(target) => program.finish(target),
                    None => unreachable!("a target was given"),
                };
            }
            Place::Encoded(range) if program.swap == Swap::None => {
                if program.is_bool {
                    crate::steps::bytes::check_bool(&encoded[range.clone()])?;
                }
                &encoded[range]
            }
            Place::Encoded(range) => {
                // The encoded bytes are not ours to change.
                let elements = elements.take(range.len())?;
                elements.copy_from_slice(&encoded[range]);
                program.finish(elements)?;
                elements
            }
            Place::Paired(index, nbytes) => {
                let elements = pair[index].made_mut(nbytes);
                program.finish(elements)?;
                elements
            }
        };
        // SAFETY: the cell was checked for this program and view; `decoded` is the chunk, or the region's span of it;
        // rows write different elements, and the target slice is not used any more.
        unsafe { region.scatter(decoded, want.first, self.out) };
        Ok(())
    }
}
