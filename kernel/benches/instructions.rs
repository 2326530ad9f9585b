//! The kernel's work on fixed input, without Python: `instructions CASE TURNS` does one piece of work that often.
//!
//! It measures nothing itself: `bench/instructions.py` runs it under callgrind with few and with more turns, so that
//! what is made before the first turn cancels out. One thread, buffers for sources and sinks: no clock and no system.

#![allow(dead_code, unused_imports, reason = "the rooms are built as they are; not every door of theirs is used")]

#[path = "../src/copy.rs"]
mod copy;
#[path = "../src/decoding.rs"]
mod decoding;
#[path = "../src/encoding.rs"]
mod encoding;
#[path = "../src/fault.rs"]
mod fault;
#[path = "../src/pool.rs"]
mod pool;
#[path = "../src/program.rs"]
mod program;
#[path = "../src/scatter.rs"]
mod scatter;
#[path = "../src/scratch.rs"]
mod scratch;
#[path = "../src/sink.rs"]
mod sink;
#[path = "../src/source.rs"]
mod source;
#[path = "../src/steps/mod.rs"]
mod steps;
#[path = "../src/workspace.rs"]
mod workspace;

use decoding::Decode;
use encoding::{Action, Encode, Written};
use program::{Parts, Program};
use scatter::{Axis, Placement, View};
use sink::Sink;
use source::Source;
use steps::{Step, blosc::Blosc, gzip::Wrap};

const ITEM: usize = 2;

/// An array of uint16, cut into cubes.
struct Volume {
    shape: [usize; 3],
    chunk: usize,
    bytes: Vec<u8>,
    program: Program,
}

struct Encoded {
    bytes: Vec<u8>,
    entries: Vec<[u64; 2]>,
}

fn main() {
    let words: Vec<String> = std::env::args().filter(|word| !word.starts_with("--")).collect();
    let [_, case, turns] = &words[..] else {
        println!("usage: instructions CASE TURNS; cases: {}", CASES.join(" "));
        return;
    };
    let turns = turns.parse().expect("TURNS is a number");
    let (work, codec) = case.split_once('-').expect("a case is WORK-CODEC");
    let chunk = if work == "tiny" { 8 } else { 32 };
    let volume = Volume::new([64, 64, 128], chunk, codec);
    if work == "encode" {
        for _ in 0..turns {
            assert!(!volume.encode().bytes.is_empty());
        }
        return;
    }
    let encoded = volume.encode();
    for turn in 0..turns {
        match work {
            "decode" | "tiny" => volume.decode(&encoded, None),
            "plane" => volume.decode(&encoded, Some(turn)),
            _ => panic!("{case} is none of {}", CASES.join(" ")),
        }
    }
}

const CASES: [&str; 10] = [
    "decode-raw",
    "decode-zstd",
    "decode-lz4",
    "decode-gzip",
    "tiny-raw",
    "tiny-zstd",
    "plane-raw",
    "plane-zstd",
    "encode-raw",
    "encode-zstd",
];

impl Volume {
    /// Slow waves with a little noise: some bits of every element are hard to press.
    fn new(shape: [usize; 3], chunk: usize, codec: &str) -> Volume {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut bytes = Vec::with_capacity(shape.iter().product::<usize>() * ITEM);
        for z in 0..shape[0] {
            for y in 0..shape[1] {
                for x in 0..shape[2] {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let wave = 40 * z + 25 * y + (x * x) / 16;
                    let value = (wave as u16).wrapping_add((state >> 61) as u16) & !1;
                    bytes.extend_from_slice(&value.to_ne_bytes());
                }
            }
        }
        let steps = match codec {
            "raw" => vec![],
            "zstd" => vec![Step::Zstd { level: 3, checksum: false }],
            "gzip" => vec![Step::Deflate { wrap: Wrap::Gzip, level: 5 }],
            "lz4" => vec![Step::Blosc(Blosc::new("lz4", 5, 1, ITEM as i64, 0).expect("settings of blosc"))],
            _ => panic!("{codec} is no codec here"),
        };
        let parts = Parts { orders: vec![], units: vec![], is_bool: false, steps };
        let program = Program::new(parts, vec![chunk; 3], ITEM, &[0; ITEM]).expect("a program");
        Volume { shape, chunk, bytes, program }
    }

    fn view(&self, start: *mut u8, shape: [usize; 3]) -> View {
        let strides = [shape[1] * shape[2] * ITEM, shape[2] * ITEM, ITEM].map(|stride| stride as isize);
        View::new(start, ITEM, shape.to_vec(), strides.to_vec())
    }

    /// Every chunk, whole; with a plane, one position of the last dimension only.
    fn placement(&self, shape: [usize; 3], plane: Option<usize>) -> Placement {
        let chunk = self.chunk as i64;
        let axes = (0..3).map(|dimension| match plane {
            Some(k) if dimension == 2 => Axis::Span { rows: vec![[k as i64 % chunk, 1, 0]], step: 1 },
            _ => {
                let count = (shape[dimension] / self.chunk) as i64;
                Axis::Span { rows: (0..count).map(|at| [0, chunk, at * chunk]).collect(), step: 1 }
            }
        });
        Placement::grid(axes.collect(), &shape).expect("a placement")
    }

    fn encode(&self) -> Encoded {
        let view = self.view(self.bytes.as_ptr().cast_mut(), self.shape);
        let placement = self.placement(self.shape, None);
        let row = |cell| encoding::Row {
            action: Action::OverFill,
            program: 0,
            cell,
            sink: 0,
            source: None,
            offset: 0,
            nbytes: 0,
        };
        let rows: Vec<_> = (0..placement.ncells()).map(row).collect();
        let sinks = [Sink::new(None)];
        let programs = [&self.program];
        let call = Encode {
            programs: &programs,
            sources: &[],
            placement: &placement,
            value: &view,
            sinks: &sinks,
            drop_fill: true,
        };
        let Written { entries, failures, .. } = encoding::run(&call, &rows, vec![0], 1);
        assert!(failures.is_empty());
        let [sink] = sinks;
        Encoded { bytes: sink.take_pieces().expect("a sink in memory").concat(), entries }
    }

    fn decode(&self, encoded: &Encoded, plane: Option<usize>) {
        let [depth, height, width] = self.shape;
        let shape = if plane.is_some() { [depth, height, 1] } else { self.shape };
        let placement = self.placement(shape, plane);
        let columns = width / self.chunk;
        let mut out = vec![0u8; shape.iter().product::<usize>() * ITEM];
        let view = self.view(out.as_mut_ptr(), shape);
        let chosen = (0..placement.ncells()).map(|cell| match plane {
            // the cell of a plane to the chunk it lies in
            Some(k) => (cell, cell * columns + k % width / self.chunk),
            None => (cell, cell),
        });
        let rows: Vec<_> = chosen
            .map(|(cell, number)| {
                let [offset, nbytes] = encoded.entries[number].map(|part| part as i64);
                decoding::Row { number: cell, source: Some(0), offset, nbytes, program: 0, cell }
            })
            .collect();
        let sources = [Source::Buffer(&encoded.bytes)];
        let programs = [&self.program];
        let call =
            Decode { programs: &programs, sources: &sources, placement: &placement, out: &view, is_disjoint: true };
        let failures = decoding::run(&call, rows, 1);
        assert!(failures.is_empty());
        if plane.is_none() {
            assert!(out == self.bytes, "what was decoded is not what was encoded");
        }
    }
}
