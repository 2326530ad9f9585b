//! Pipes of gzip, zlib, zstd and the others: never more bytes than the limit, and equal answers for equal bytes.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Unstructured};
use libfuzzer_sys::fuzz_target;
use rooms::program::{Pipe, Place};
use rooms::steps::Expect;
use rooms::{byte_steps, workspace};

fuzz_target!(|bytes: &[u8]| {
    let _ = turn(&mut Unstructured::new(bytes));
});

fn turn(input: &mut Unstructured) -> arbitrary::Result<()> {
    let steps = byte_steps(input)?;
    let limit = usize::from(input.arbitrary::<u16>()?);
    let damage: Option<(u16, u8)> = input.arbitrary()?;
    let is_hostile: bool = input.arbitrary()?;
    let pipe = Pipe::new(steps);
    let rest = input.bytes(input.len())?;
    if is_hostile {
        if let Some(found) = decoded(&pipe, rest, limit) {
            assert!(found.len() <= limit);
        }
        return Ok(());
    }
    let mut encoded = workspace::with(|workspace| {
        let workspace::Workspace { codecs, pair, tail, .. } = workspace;
        tail.clear();
        pipe.encode(codecs, pair, Some(rest), tail, 0).expect("bytes encode");
        tail.as_slice().to_vec()
    });
    assert_eq!(decoded(&pipe, &encoded, rest.len()).as_deref(), Some(rest), "what was encoded did not come back");
    if !rest.is_empty() {
        assert_eq!(decoded(&pipe, &encoded, rest.len() - 1), None, "a limit was passed");
    }
    if let Some((at, byte)) = damage
        && !encoded.is_empty()
    {
        let at = usize::from(at) % encoded.len();
        encoded[at] ^= byte;
        if let Some(found) = decoded(&pipe, &encoded, limit) {
            assert!(found.len() <= limit);
        }
    }
    Ok(())
}

fn decoded(pipe: &Pipe, encoded: &[u8], limit: usize) -> Option<Vec<u8>> {
    let encoded: Box<[u8]> = encoded.into();
    workspace::with(|workspace| {
        let workspace::Workspace { codecs, pair, .. } = workspace;
        match pipe.decode(codecs, pair, &encoded, Expect::AtMost(limit), None).ok()? {
            Place::Encoded(range) => Some(encoded[range].to_vec()),
            Place::Paired(index, nbytes) => Some(pair[index].made(nbytes).to_vec()),
            Place::Target => unreachable!("no target was given"),
        }
    })
}
