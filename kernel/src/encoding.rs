//! A batch of chunks from an array into sinks: gathered, encoded, put one after the other in the order of the rows.
//!
//! Threads encode batches of rows in any order; offsets are given out strictly in row order, and writing happens at the
//! same time everywhere. A sink's bytes are therefore the same whatever the number of threads. The first fault ends
//! the call: what was written until then is for the caller to throw away.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::copy::Toward;
use crate::fault::{Fault, caught};
use crate::pool::{self, Flag};
use crate::program::Program;
use crate::scatter::{Placement, View};
use crate::scratch::{Tail, push, room_for};
use crate::sink::Sink;
use crate::source::{Source, read_exactly};
use crate::steps::bytes::Swap;
use crate::workspace::{self, Workspace};

const BATCH_ROWS: usize = 16;
const BATCH_NBYTES: usize = 1 << 20;
const BATCH_COPY_NBYTES: usize = 4 << 20;
/// So that what a batch keeps of its rows is small.
const BATCH_COPY_ROWS: usize = 1 << 10;
const INLINE_NBYTES: usize = 32 << 10;
/// The entry of a chunk that is not stored.
pub const MISSING: [u64; 2] = [u64::MAX; 2];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Lay the value over the fill value.
    OverFill,
    /// Lay the value over the stored chunk.
    OverStored,
    /// Copy the stored bytes as they are.
    Copy,
}

#[derive(Clone, Copy)]
pub struct Row {
    pub action: Action,
    pub program: usize,
    pub cell: usize,
    pub sink: usize,
    pub source: Option<usize>,
    pub offset: i64,
    pub nbytes: i64,
}

pub struct Encode<'a> {
    pub programs: &'a [&'a Program],
    pub sources: &'a [Source<'a>],
    pub placement: &'a Placement,
    pub value: &'a View,
    pub sinks: &'a [Sink],
    pub drop_fill: bool,
}

pub struct Written {
    pub entries: Vec<[u64; 2]>,
    pub ends: Vec<u64>,
    pub failures: Vec<(usize, Fault)>,
}

/// What a row became.
enum Piece {
    Missing,
    /// So many bytes of the batch's tail.
    Encoded(usize),
    /// A range of a source.
    Stored(usize, u64, usize),
}

struct Batch {
    rows: std::ops::Range<usize>,
    pieces: Vec<Piece>,
    tail: Tail,
}

/// The only thing threads share: who is next, and where each sink ends.
struct Order {
    next: usize,
    waiting: BTreeMap<usize, Batch>,
    entries: Vec<[u64; 2]>,
    ends: Vec<u64>,
    spare: Vec<Tail>,
    failures: Vec<(usize, Fault)>,
}

/// A write whose place is known.
struct Write {
    row: usize,
    sink: usize,
    to: u64,
    /// A range of the tail, or of a source.
    from: Result<usize, (usize, u64)>,
    nbytes: usize,
}

struct Call<'a> {
    encode: &'a Encode<'a>,
    rows: &'a [Row],
    order: Mutex<Order>,
    moved: Condvar,
    stop: Flag,
    /// How many finished batches may wait for a slow one before their threads wait too.
    patience: usize,
}

pub fn run(encode: &Encode, rows: &[Row], positions: Vec<u64>, threads: usize) -> Written {
    let chunks = rows.iter().filter(|row| row.action != Action::Copy);
    let total = chunks.fold(0usize, |sum, row| sum.saturating_add(encode.programs[row.program].nbytes));
    let threads = if total <= INLINE_NBYTES { 1 } else { threads.min(rows.len()) };
    let prepared = batches(encode, rows, threads).and_then(|batches| {
        let mut entries = room_for(rows.len())?;
        entries.resize(rows.len(), MISSING);
        Ok((batches, entries))
    });
    let (batches, entries) = match prepared {
        Ok(prepared) => prepared,
        Err(fault) => return Written { entries: Vec::new(), ends: positions, failures: vec![(0, fault)] },
    };
    let call = Call {
        encode,
        rows,
        order: Mutex::new(Order {
            next: 0,
            waiting: BTreeMap::new(),
            entries,
            ends: positions,
            spare: Vec::new(),
            failures: Vec::new(),
        }),
        moved: Condvar::new(),
        stop: Flag::default(),
        patience: 2 * threads,
    };
    let next = AtomicUsize::new(0);
    pool::run(threads.min(batches.len()), &|| {
        let guard = StopOnPanic(&call);
        workspace::with(|workspace| {
            while !call.stop.is_raised() {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(range) = batches.get(number) else { break };
                let batch = call.encode(range.clone(), workspace);
                call.publish(number, batch, workspace);
            }
        });
        std::mem::forget(guard);
    });
    let order = call.order.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut failures = order.failures;
    failures.sort_unstable_by_key(|(row, _)| *row);
    Written { entries: order.entries, ends: order.ends, failures }
}

/// Frees the threads that wait for a batch which will never come.
struct StopOnPanic<'c, 'a>(&'c Call<'a>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        let order = self.0.lock();
        self.0.stop.raise();
        drop(order);
        self.0.moved.notify_all();
    }
}

/// Cuts rows into batches, bounded in chunks to encode and in bytes, enough of them for all threads.
fn batches(encode: &Encode, rows: &[Row], threads: usize) -> Result<Vec<std::ops::Range<usize>>, Fault> {
    let chunks = rows.iter().filter(|row| row.action != Action::Copy).count();
    let most = if threads == 1 { BATCH_ROWS } else { (chunks / (threads * 4)).clamp(1, BATCH_ROWS) };
    let mut batches = Vec::new();
    let (mut start, mut count, mut nbytes, mut copied) = (0, 0, 0usize, 0usize);
    for (at, row) in rows.iter().enumerate() {
        let copy = row.action == Action::Copy;
        let size = match copy {
            true => usize::try_from(row.nbytes).unwrap_or(0),
            false => encode.programs[row.program].nbytes,
        };
        let full = match copy {
            true => at - start >= BATCH_COPY_ROWS || copied.saturating_add(size) > BATCH_COPY_NBYTES,
            false => count >= most || nbytes.saturating_add(size) > BATCH_NBYTES,
        };
        if at > start && full {
            push(&mut batches, start..at)?;
            (start, count, nbytes, copied) = (at, 0, 0, 0);
        }
        match copy {
            true => copied = copied.saturating_add(size),
            false => (count, nbytes) = (count + 1, nbytes.saturating_add(size)),
        }
    }
    if start < rows.len() {
        push(&mut batches, start..rows.len())?;
    }
    Ok(batches)
}

impl Call<'_> {
    fn lock(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, row: usize, fault: Fault) {
        let mut order = self.lock();
        order.failures.push((row, fault));
        self.stop.raise();
        drop(order);
        self.moved.notify_all();
    }

    fn encode(&self, rows: std::ops::Range<usize>, workspace: &mut Workspace) -> Batch {
        let tail = self.lock().spare.pop().unwrap_or_else(|| std::mem::take(&mut workspace.tail));
        let mut batch = Batch { pieces: Vec::with_capacity(rows.len()), rows: rows.clone(), tail };
        batch.tail.clear();
        for number in rows {
            let start = batch.tail.len();
            match caught(|| self.encode.row(&self.rows[number], workspace, &mut batch.tail)) {
                Ok(piece) => batch.pieces.push(piece),
                Err(fault) => {
                    batch.tail.truncate(start);
                    batch.pieces.push(Piece::Missing);
                    self.fail(number, fault);
                }
            }
        }
        batch
    }

    /// Hands a finished batch in. Whoever hands in the next one in order gives out offsets to it and to all that
    /// waited for it, and writes them; the others go on encoding.
    fn publish(&self, number: usize, mut batch: Batch, workspace: &mut Workspace) {
        let mut order = self.lock();
        while number != order.next {
            if self.stop.is_raised() {
                return;
            }
            if order.waiting.len() < self.patience {
                order.waiting.insert(number, batch);
                return;
            }
            order = self.moved.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
        let mut ready = Vec::new();
        loop {
            let writes = self.place(&mut order, &batch);
            ready.push((batch, writes));
            order.next += 1;
            let next = order.next;
            match order.waiting.remove(&next) {
                Some(waited) => batch = waited,
                None => break,
            }
        }
        drop(order);
        self.moved.notify_all();
        for (batch, writes) in ready {
            let mut left = writes.as_slice();
            while let Some(write) = left.first() {
                if self.stop.is_raised() {
                    return;
                }
                let (group, rest) = left.split_at(self.gathered(left).max(1));
                left = rest;
                let written = match self.gathered(group) {
                    0 => self.write(write, &batch.tail, workspace),
                    _ => self.gather(group, workspace),
                };
                if let Err(fault) = written {
                    self.fail(write.row, fault);
                }
            }
            self.lock().spare.push(batch.tail);
        }
    }

    /// Gives a batch's chunks their offsets, and joins chunks that are neighbours on both sides into one write.
    fn place(&self, order: &mut Order, batch: &Batch) -> Vec<Write> {
        let mut writes: Vec<Write> = Vec::new();
        let mut used = 0;
        for (row, piece) in batch.rows.clone().zip(&batch.pieces) {
            let sink = self.rows[row].sink;
            let (from, nbytes) = match *piece {
                Piece::Missing => continue,
                Piece::Encoded(nbytes) => {
                    used += nbytes;
                    (Ok(used - nbytes), nbytes)
                }
                Piece::Stored(source, from, nbytes) => (Err((source, from)), nbytes),
            };
            let to = order.ends[sink];
            order.entries[row] = [to, nbytes as u64];
            order.ends[sink] = to + nbytes as u64;
            if let Some(last) = writes.last_mut()
                && last.sink == sink
                && last.to + last.nbytes as u64 == to
                && match (last.from, from) {
                    (Ok(start), Ok(next)) => start + last.nbytes == next,
                    (Err((one, start)), Err((other, next))) => one == other && start + last.nbytes as u64 == next,
                    _ => false,
                }
            {
                last.nbytes += nbytes;
                continue;
            }
            writes.push(Write { row, sink, to, from, nbytes });
        }
        writes
    }

    /// How many of the first writes copy ranges that lie one after the other in their sink, and are best read together.
    fn gathered(&self, writes: &[Write]) -> usize {
        let mut end = None;
        let follows = |write: &&Write| {
            let Err((source, _)) = write.from else { return false };
            let place = (write.sink, write.to);
            let near = end.is_none_or(|end| end == place);
            end = Some((write.sink, write.to + write.nbytes as u64));
            near && self.encode.sinks[write.sink].gathers(&self.encode.sources[source])
        };
        writes.iter().take_while(follows).count()
    }

    fn gather(&self, writes: &[Write], workspace: &mut Workspace) -> Result<(), Fault> {
        let ranges = writes.iter().filter_map(|write| match write.from {
            Err((source, from)) => match &self.encode.sources[source] {
                Source::File(input, _) => Some((input, from, write.nbytes)),
                Source::Buffer(_) => None,
            },
            Ok(_) => None,
        });
        self.encode.sinks[writes[0].sink].gather(ranges, writes[0].to, &mut workspace.read)
    }

    fn write(&self, write: &Write, tail: &Tail, workspace: &mut Workspace) -> Result<(), Fault> {
        let sink = &self.encode.sinks[write.sink];
        match write.from {
            Ok(start) => sink.write(&tail.as_slice()[start..start + write.nbytes], write.to),
            Err((source, from)) => {
                sink.copy(&self.encode.sources[source], from, write.nbytes, write.to, &mut workspace.read)
            }
        }
    }
}

impl Encode<'_> {
    /// Encodes one row at the end of the tail, or says from where its bytes are copied.
    fn row(&self, row: &Row, workspace: &mut Workspace, tail: &mut Tail) -> Result<Piece, Fault> {
        let stored = match (row.action, row.source) {
            (Action::OverFill, _) | (_, None) => None,
            (_, Some(source)) => {
                let (offset, nbytes) = self.sources[source].check(row.offset, row.nbytes)?;
                Some((source, offset, nbytes))
            }
        };
        if row.action == Action::Copy {
            return Ok(stored.map_or(Piece::Missing, |(source, offset, nbytes)| Piece::Stored(source, offset, nbytes)));
        }
        let program = self.programs[row.program];
        let region = self.placement.region(row.cell, program, self.value, Toward::Chunk)?;
        let whole = self.placement.is_whole(row.cell, program);
        let start = tail.len();
        let Workspace { codecs, pair, elements, read, .. } = workspace;
        if let Some(region) = &region
            && whole
            && region.is_run()
            && program.swap == Swap::None
            && program.encoded_nbytes.is_none()
        {
            // The value has the chunk as it is: nothing to gather.
            // SAFETY: the cell was checked for this program and view, and nothing writes the value meanwhile.
            let chunk = unsafe { region.array_bytes(self.value) };
            if self.drop_fill && program.is_fill(chunk) {
                return Ok(Piece::Missing);
            }
            program.pipe.encode(codecs, pair, Some(chunk), tail, start)?;
            return Ok(Piece::Encoded(tail.len() - start));
        }
        // Without a compressor the elements are gathered where they are to end.
        let in_tail = program.encoded_nbytes.is_some();
        let chunk = match in_tail {
            true => tail.room(program.nbytes)?,
            false => elements.take(program.nbytes)?,
        };
        match stored {
            _ if whole => {}
            None => program.fill_elements(chunk),
            Some((source, offset, nbytes)) => {
                program.check_encoded(nbytes)?;
                let encoded = match &self.sources[source] {
                    Source::Buffer(buffer) => &buffer[offset as usize..offset as usize + nbytes],
                    Source::File(descriptor, _) => {
                        let bytes = read.take(nbytes)?;
                        read_exactly(descriptor, bytes, offset)?;
                        bytes
                    }
                };
                program.decode_to(codecs, pair, encoded, chunk)?;
            }
        }
        if let Some(region) = &region {
            // SAFETY: the cell was checked for this program and view; `chunk` is the whole chunk.
            unsafe { region.gather(self.value, chunk) };
        }
        if self.drop_fill && program.is_fill(chunk) {
            return Ok(Piece::Missing);
        }
        program.swap.in_place(chunk);
        let source = match in_tail {
            true => None,
            false => Some(elements.made(program.nbytes)),
        };
        if in_tail {
            tail.advance(program.nbytes);
        }
        program.pipe.encode(codecs, pair, source, tail, start)?;
        Ok(Piece::Encoded(tail.len() - start))
    }
}
