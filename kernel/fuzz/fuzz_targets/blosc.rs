//! Blosc frames: hostile bytes end in a fault or in exactly the bytes that the header names.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rooms::steps::{Codecs, Inflated, blosc};

thread_local! {
    static CODECS: std::cell::RefCell<Codecs> = std::cell::RefCell::default();
}

fuzz_target!(|bytes: &[u8]| {
    let mut frame: Box<[u8]> = bytes.into();
    // Most of what is new dies at the frame's own length: set it right.
    let nbytes = frame.len() as u32;
    if let Some(word) = frame.get_mut(12..16)
        && nbytes % 8 != 0
    {
        word.copy_from_slice(&nbytes.to_le_bytes());
    }
    let claimed = match blosc::claimed(&frame) {
        Ok(claimed) if claimed <= 1 << 16 => claimed as usize,
        _ => return,
    };
    CODECS.with_borrow_mut(|codecs| {
        let mut once = |fill: u8, room: usize| {
            let mut chunk = vec![fill; room].into_boxed_slice();
            blosc::decode(codecs, &frame, &mut chunk).map(|answer| (answer, chunk))
        };
        let (first, second) = (once(0xAA, claimed), once(0x55, claimed));
        assert_eq!(first, second, "a block depends on what lay in memory before");
        if let Ok((answer, _)) = first {
            assert_eq!(answer, Inflated::Done(claimed));
        }
        if claimed > 0
            && let Ok((answer, _)) = once(0, claimed - 1)
        {
            assert_eq!(answer, Inflated::TooSmall);
        }
    });
});
