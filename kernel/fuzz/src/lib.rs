//! The kernel's rooms without its door to Python, for the fuzz targets, and what the targets share.
//!
//! It holds no code of the kernel: the rooms are the same files, compiled once more.

#![allow(dead_code, reason = "the rooms are built as they are; not every door of theirs is used")]

#[path = "../../src/copy.rs"]
pub mod copy;
#[path = "../../src/decoding.rs"]
pub mod decoding;
#[path = "../../src/encoding.rs"]
pub mod encoding;
#[path = "../../src/fault.rs"]
pub mod fault;
#[path = "../../src/pool.rs"]
pub mod pool;
#[path = "../../src/program.rs"]
pub mod program;
#[path = "../../src/scatter.rs"]
pub mod scatter;
#[path = "../../src/scratch.rs"]
pub mod scratch;
#[path = "../../src/sink.rs"]
pub mod sink;
#[path = "../../src/source.rs"]
pub mod source;
#[path = "../../src/steps/mod.rs"]
pub mod steps;
#[path = "../../src/workspace.rs"]
pub mod workspace;

use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use program::{Parts, Program};
use steps::blosc::{Blosc, NAMES};
use steps::{Step, gzip::Wrap};

/// A step from bytes to bytes, with values that the door lets through.
#[derive(Arbitrary, Debug)]
pub enum ByteStep {
    Gzip(u8),
    Zlib(u8),
    Zstd(i8, bool),
    Blosc(u8, u8, u8, u8, u8),
    Crc32c,
}

impl ByteStep {
    pub fn step(&self) -> Step {
        match *self {
            // The slowest levels only cost executions: encoders are not what is attacked.
            ByteStep::Gzip(level) => Step::Deflate { wrap: Wrap::Gzip, level: i32::from(level % 7) },
            ByteStep::Zlib(level) => Step::Deflate { wrap: Wrap::Zlib, level: i32::from(level % 7) },
            ByteStep::Zstd(level, checksum) => Step::Zstd { level: i32::from(level % 6), checksum },
            ByteStep::Blosc(name, level, shuffle, typesize, block) => {
                let name = NAMES[usize::from(name) % NAMES.len()];
                let sizes = [1, 2, 3, 4, 8, 15, 16, 17, 255];
                let typesize = sizes[usize::from(typesize) % sizes.len()];
                let blocks = [0, 1, 64, 128, 130, 512, 4096];
                let block = blocks[usize::from(block) % blocks.len()];
                let made = Blosc::new(name, i64::from(level % 4), i64::from(shuffle % 3), typesize, block);
                Step::Blosc(made.expect("all values are allowed ones"))
            }
            ByteStep::Crc32c => Step::Crc32c,
        }
    }
}

/// Up to three steps.
pub fn byte_steps(input: &mut Unstructured) -> arbitrary::Result<Vec<Step>> {
    let count = input.int_in_range(0..=3)?;
    (0..count).map(|_| Ok(ByteStep::arbitrary(input)?.step())).collect()
}

/// A chain for chunks of up to 3 dimensions and a few KiB.
pub fn any_program(input: &mut Unstructured) -> arbitrary::Result<Program> {
    let ndim = input.int_in_range(0..=3usize)?;
    let shape = (0..ndim).map(|_| input.int_in_range(1..=12usize)).collect::<arbitrary::Result<Vec<_>>>()?;
    program_of(input, shape)
}

/// A chain for chunks of this shape.
pub fn program_of(input: &mut Unstructured, shape: Vec<usize>) -> arbitrary::Result<Program> {
    let (itemsize, patterns): (usize, &[&[usize]]) = match input.int_in_range(0..=5u8)? {
        0 => (1, &[&[]]),
        1 => (2, &[&[], &[2]]),
        2 => (4, &[&[], &[4], &[2]]),
        3 => (8, &[&[], &[8], &[4]]),
        4 => (7, &[&[], &[4, 2, 1]]),
        _ => (16, &[&[], &[16], &[8]]),
    };
    let units = input.choose(patterns)?.to_vec();
    let mut orders = Vec::new();
    for _ in 0..input.int_in_range(0..=2)? {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, input.int_in_range(0..=at)?);
        }
        orders.push(order);
    }
    let is_bool = itemsize == 1 && input.ratio(1, 4)?;
    let fill: Vec<u8> = match input.arbitrary::<u8>()? {
        0 => (1..=itemsize as u8).collect(),
        byte => vec![byte & u8::from(!is_bool) * 255; itemsize],
    };
    let parts = Parts { orders, units, is_bool, steps: byte_steps(input)? };
    Ok(Program::new(parts, shape, itemsize, &fill).expect("all parts are allowed ones"))
}
