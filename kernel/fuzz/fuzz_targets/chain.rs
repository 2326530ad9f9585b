//! A chunk's bytes, hostile or damaged, through whole chains: the chunk or a fault, the same twice, nothing touched
//! outside; and what was encoded decodes to what it was.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Unstructured};
use libfuzzer_sys::fuzz_target;
use rooms::program::Program;
use rooms::{any_program, workspace};

fuzz_target!(|bytes: &[u8]| {
    let _ = turn(&mut Unstructured::new(bytes));
});

fn turn(input: &mut Unstructured) -> arbitrary::Result<()> {
    let program = any_program(input)?;
    if input.arbitrary()? {
        let rest = input.bytes(input.len())?;
        decoded(&program, rest);
        return Ok(());
    }
    // Encode the bytes, repeated to a chunk; then damage what came out.
    let damages: Vec<(u16, u8)> =
        (0..input.int_in_range(0..=4)?).map(|_| input.arbitrary()).collect::<arbitrary::Result<_>>()?;
    let cut: u16 = input.arbitrary()?;
    let seed = input.bytes(input.len())?;
    let mut chunk: Vec<u8> = seed.iter().copied().cycle().take(program.nbytes).collect();
    chunk.resize(program.nbytes, 7);
    if program.is_bool {
        chunk.iter_mut().for_each(|byte| *byte &= 1);
    }
    let mut encoded = encoded(&program, &chunk);
    assert_eq!(decoded(&program, &encoded).as_ref(), Some(&chunk), "what was encoded did not come back");
    for (at, byte) in damages {
        if !encoded.is_empty() {
            let at = usize::from(at) % encoded.len();
            encoded[at] ^= byte;
        }
    }
    if cut % 4 == 0 {
        encoded.truncate(usize::from(cut / 4) % (encoded.len() + 1));
    }
    decoded(&program, &encoded);
    Ok(())
}

fn encoded(program: &Program, chunk: &[u8]) -> Vec<u8> {
    workspace::with(|workspace| {
        let workspace::Workspace { codecs, pair, tail, .. } = workspace;
        let mut stored = chunk.to_vec();
        program.swap.in_place(&mut stored);
        tail.clear();
        program.pipe.encode(codecs, pair, Some(&stored), tail, 0).expect("values encode");
        tail.as_slice().to_vec()
    })
}

fn decoded(program: &Program, encoded: &[u8]) -> Option<Vec<u8>> {
    // Exact allocations, so that a byte outside is seen.
    let encoded: Box<[u8]> = encoded.into();
    let once = |fill: u8| {
        workspace::with(|workspace| {
            let workspace::Workspace { codecs, pair, .. } = workspace;
            let mut chunk = vec![fill; program.nbytes].into_boxed_slice();
            program.decode_to(codecs, pair, &encoded, &mut chunk).map(|()| chunk.into_vec())
        })
    };
    let (first, second) = (once(0xAA), once(0x55));
    assert_eq!(first, second, "a chunk depends on what lay in memory before");
    first.ok()
}
