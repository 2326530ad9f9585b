//! A compiled chain: the shape of a chunk, where its elements lie in its bytes, and the steps that encode those bytes.
//!
//! It does not place chunks in arrays and does not read or write anything.

use crate::fault::Fault;
use crate::scratch::{Scratch, Tail};
use crate::steps::bytes::{Swap, check_bool};
use crate::steps::{Codecs, Expect, Step, crc32c, transpose};

/// A chain of bytes-to-bytes steps, in encoding order.
#[derive(Clone, Debug)]
pub struct Pipe {
    steps: Vec<Step>,
}

/// Two buffers that the stages of a chain fill in turn.
pub type Pair = [Scratch; 2];

/// Where decoded bytes lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the encoded bytes themselves: nothing had to be decompressed.
    Encoded(std::ops::Range<usize>),
    /// In one of the pair, with this length.
    Paired(usize, usize),
    /// Where the caller wanted them.
    Target,
}

impl Pipe {
    pub fn new(steps: Vec<Step>) -> Pipe {
        Pipe { steps }
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn compresses(&self) -> bool {
        self.steps.iter().any(|step| !step.is_crc32c())
    }

    /// What encoding adds to any bytes, where that does not depend on them.
    pub fn fixed_overhead(&self) -> Option<usize> {
        (!self.compresses()).then(|| self.steps.len() * crc32c::NBYTES)
    }

    /// The most encoded bytes that are looked at for `nbytes` decoded ones.
    pub fn accepted(&self, nbytes: usize) -> usize {
        self.steps.iter().fold(nbytes, |nbytes, step| step.accepted(nbytes))
    }

    /// Decodes, straight into `target` (of the expected length) where the last stage can.
    pub fn decode(
        &self,
        codecs: &mut Codecs,
        pair: &mut Pair,
        encoded: &[u8],
        expect: Expect,
        mut target: Option<&mut [u8]>,
    ) -> Result<Place, Fault> {
        let mut place = Place::Encoded(0..encoded.len());
        for (number, step) in self.steps.iter().enumerate().rev() {
            if step.is_crc32c() {
                match &mut place {
                    Place::Encoded(range) => range.end = range.start + crc32c::checked(&encoded[range.clone()])?,
                    Place::Paired(index, nbytes) => *nbytes = crc32c::checked(pair[*index].made(*nbytes))?,
                    Place::Target => unreachable!("only the first step decodes into the target"),
                }
                continue;
            }
            let [first, second] = &mut *pair;
            let (src, dst, index) = match &place {
                Place::Encoded(range) => (&encoded[range.clone()], first, 0),
                Place::Paired(0, nbytes) => (first.made(*nbytes), second, 1),
                Place::Paired(_, nbytes) => (second.made(*nbytes), first, 0),
                Place::Target => unreachable!("only the first step decodes into the target"),
            };
            place = match (before(&self.steps[..number], expect), &mut target) {
                (Expect::Exactly(_), Some(target)) if number == 0 => {
                    step.decode_exact(codecs, src, target)?;
                    Place::Target
                }
                (Expect::Exactly(nbytes), _) => {
                    step.decode_exact(codecs, src, dst.take(nbytes)?)?;
                    Place::Paired(index, nbytes)
                }
                (Expect::AtMost(limit), _) => Place::Paired(index, step.decode_up_to(codecs, src, limit, dst)?),
            };
        }
        let found = match &place {
            Place::Encoded(range) => range.len(),
            Place::Paired(_, nbytes) => *nbytes,
            Place::Target => return Ok(place),
        };
        match expect {
            Expect::Exactly(nbytes) if found != nbytes => {
                Err(Fault::codec(format!("the bytes decode to {found} bytes, not to {nbytes}")))
            }
            Expect::AtMost(limit) if found > limit => {
                Err(Fault::codec(format!("the bytes decode to {found} bytes, more than {limit}")))
            }
            _ => Ok(place),
        }
    }

    /// Appends to `tail` what the steps make of `src`; `None` for bytes that already end the tail, from `start` on.
    pub fn encode(
        &self,
        codecs: &mut Codecs,
        pair: &mut Pair,
        src: Option<&[u8]>,
        tail: &mut Tail,
        start: usize,
    ) -> Result<(), Fault> {
        let last = self.steps.iter().rposition(|step| !step.is_crc32c());
        debug_assert!(src.is_some() || last.is_none());
        let mut place = src.map(|src| Place::Encoded(0..src.len()));
        let src = src.unwrap_or_default();
        for (number, step) in self.steps.iter().enumerate() {
            let into_tail = last.is_none_or(|last| number >= last);
            if step.is_crc32c() {
                match &place {
                    None => {}
                    Some(Place::Encoded(_)) if into_tail => {
                        tail.push(src)?;
                        place = None;
                    }
                    Some(Place::Encoded(_)) => {
                        pair[0].take(src.len() + crc32c::NBYTES)?[..src.len()].copy_from_slice(src);
                        place = Some(Place::Paired(0, src.len()));
                    }
                    Some(_) => {}
                }
                match &mut place {
                    None => {
                        let sum = crc32c::of(tail.since(start));
                        tail.push(&sum)?;
                    }
                    Some(Place::Paired(index, nbytes)) => {
                        let sum = crc32c::of(pair[*index].made(*nbytes));
                        pair[*index].made_mut(*nbytes + sum.len())[*nbytes..].copy_from_slice(&sum);
                        *nbytes += sum.len();
                    }
                    Some(_) => unreachable!("copied above"),
                }
                continue;
            }
            let [first, second] = &mut *pair;
            let (input, output, index) = match &place {
                Some(Place::Paired(0, nbytes)) => (first.made(*nbytes), second, 1),
                Some(Place::Paired(_, nbytes)) => (second.made(*nbytes), first, 0),
                _ => (src, first, 0),
            };
            let bound = step.bound(input.len());
            if into_tail {
                let nbytes = step.encode(codecs, input, tail.room(bound)?)?;
                tail.advance(nbytes);
                place = None;
            } else {
                // Room for the checksums that may follow before the next compressor.
                let spare = self.steps.len() * crc32c::NBYTES;
                let nbytes = step.encode(codecs, input, &mut output.take(bound + spare)?[..bound])?;
                place = Some(Place::Paired(index, nbytes));
            }
        }
        match place {
            Some(Place::Encoded(_)) => tail.push(src),
            _ => Ok(()),
        }
    }
}

/// What a step is to produce, when those before it in encoding order made its input from `expect` bytes.
fn before(steps: &[Step], expect: Expect) -> Expect {
    steps.iter().fold(expect, |expect, step| match expect {
        Expect::Exactly(nbytes) if step.is_crc32c() => Expect::Exactly(nbytes.saturating_add(crc32c::NBYTES)),
        Expect::Exactly(nbytes) | Expect::AtMost(nbytes) => Expect::AtMost(step.accepted(nbytes)),
    })
}

/// A whole chain for chunks of one shape and element size.
#[derive(Clone, Debug)]
pub struct Program {
    pub shape: Vec<usize>,
    pub itemsize: usize,
    pub nbytes: usize,
    /// Byte strides of the array's dimensions in the chunk's bytes.
    pub strides: Vec<isize>,
    /// Whether those are the strides of C order.
    pub is_c_order: bool,
    /// The fill value, repeated to a length that is good to copy from.
    pub fill: Vec<u8>,
    /// The one byte that the fill value consists of, if it does.
    pub fill_byte: Option<u8>,
    pub swap: Swap,
    pub is_bool: bool,
    pub pipe: Pipe,
    /// The encoded length, where it is the same for every chunk.
    pub encoded_nbytes: Option<usize>,
}

/// The steps of a program before they are checked together.
pub struct Parts {
    pub orders: Vec<Vec<usize>>,
    pub units: Vec<usize>,
    pub is_bool: bool,
    pub steps: Vec<Step>,
}

const FILL_NBYTES: usize = 4096;

impl Program {
    pub fn new(parts: Parts, shape: Vec<usize>, itemsize: usize, fill: &[u8]) -> Result<Program, String> {
        if itemsize == 0 {
            return Err("elements have at least 1 byte, not 0".into());
        }
        if shape.contains(&0) {
            return Err(format!("a chunk has at least one element along each dimension, not the shape {shape:?}"));
        }
        let nbytes = shape.iter().try_fold(itemsize, |product, &extent| product.checked_mul(extent));
        let Some(nbytes) = nbytes.filter(|&nbytes| nbytes <= isize::MAX as usize / 4) else {
            return Err(format!("chunks of shape {shape:?} with {itemsize} bytes an element are too large to address"));
        };
        if fill.len() != itemsize {
            return Err(format!("the fill value has {} bytes, an element {itemsize}", fill.len()));
        }
        let mut stored: Vec<usize> = (0..shape.len()).collect();
        for order in &parts.orders {
            if !transpose::is_order(order, shape.len()) {
                return Err(format!("transpose: {order:?} is no order of {} dimensions", shape.len()));
            }
            stored = transpose::then(&stored, order);
        }
        if parts.is_bool && itemsize != 1 {
            return Err(format!("bytes: a bool has 1 byte, not {itemsize}"));
        }
        let swap = Swap::new(&parts.units, itemsize)?;
        let strides = transpose::strides(&shape, &stored, itemsize);
        let is_c_order = strides == transpose::c_strides(&shape, itemsize);
        let pipe = Pipe::new(parts.steps);
        let encoded_nbytes = pipe.fixed_overhead().map(|overhead| nbytes + overhead);
        Ok(Program {
            is_c_order,
            strides,
            fill_byte: fill.iter().all(|&byte| byte == fill[0]).then_some(fill[0]),
            fill: fill.repeat((FILL_NBYTES / itemsize).max(1)),
            shape,
            itemsize,
            nbytes,
            swap,
            is_bool: parts.is_bool,
            pipe,
            encoded_nbytes,
        })
    }

    /// Whether encoded bytes are the elements themselves, so that a part of a chunk can be read alone.
    pub fn is_raw(&self) -> bool {
        self.pipe.is_empty()
    }

    /// Refuses an encoded length that no chunk of this program has, before anything is read or allocated.
    pub fn check_encoded(&self, nbytes: usize) -> Result<(), Fault> {
        match self.encoded_nbytes {
            Some(exact) if nbytes != exact => {
                Err(Fault::codec(format!("a chunk is stored as {exact} bytes, here are {nbytes}")))
            }
            None if nbytes > self.pipe.accepted(self.nbytes) => Err(Fault::codec(format!(
                "{nbytes} bytes are more than the {} that a chunk of {} bytes may take",
                self.pipe.accepted(self.nbytes),
                self.nbytes
            ))),
            _ => Ok(()),
        }
    }

    /// Whether nothing is left to do to decoded bytes before they are elements.
    pub fn is_plain(&self) -> bool {
        self.swap == Swap::None && !self.is_bool
    }

    /// Turns decoded bytes into elements, where they lie.
    pub fn finish(&self, bytes: &mut [u8]) -> Result<(), Fault> {
        if self.is_bool {
            check_bool(bytes)?;
        }
        self.swap.in_place(bytes);
        Ok(())
    }

    /// Decodes a chunk to its elements in stored order: into `target`, of `nbytes`.
    pub fn decode_to(
        &self,
        codecs: &mut Codecs,
        pair: &mut Pair,
        encoded: &[u8],
        target: &mut [u8],
    ) -> Result<(), Fault> {
        self.check_encoded(encoded.len())?;
        match self.pipe.decode(codecs, pair, encoded, Expect::Exactly(self.nbytes), Some(target))? {
            Place::Target => {}
            Place::Encoded(range) => target.copy_from_slice(&encoded[range]),
            Place::Paired(index, nbytes) => target.copy_from_slice(pair[index].made(nbytes)),
        }
        self.finish(target)
    }

    /// Whether every element is the fill value, bit for bit.
    pub fn is_fill(&self, elements: &[u8]) -> bool {
        let item = self.itemsize;
        elements[..item] == self.fill[..item] && elements[item..] == elements[..elements.len() - item]
    }

    pub fn fill_elements(&self, elements: &mut [u8]) {
        match self.fill_byte {
            Some(byte) => elements.fill(byte),
            None => {
                for part in elements.chunks_mut(self.fill.len()) {
                    part.copy_from_slice(&self.fill[..part.len()]);
                }
            }
        }
    }
}
