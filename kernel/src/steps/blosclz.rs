//! Decoding of BloscLZ, one of the compressors inside `blosc` frames: literals, and copies of what went before.
//!
//! It does not encode. Every index is checked by the language, so hostile bytes end in `None`.

/// Farther than this a copy's distance is spelled in two more bytes.
const FAR: usize = 8191;

/// Decodes into `dst` and answers how many bytes that were; `None` for damaged bytes or more than fit.
pub fn decode(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let mut input = src.iter();
    let mut filled = 0usize;
    // The first token is always a run of literals, whatever its upper bits say.
    let mut token = usize::from(*input.next()?) & 31;
    loop {
        if token < 32 {
            let count = token + 1;
            let rest = input.as_slice();
            dst.get_mut(filled..filled + count)?.copy_from_slice(rest.get(..count)?);
            input = rest[count..].iter();
            filled += count;
        } else {
            let mut count = (token >> 5) + 2;
            let upper = (token & 31) << 8;
            if token >> 5 == 7 {
                loop {
                    let more = usize::from(*input.next()?);
                    count = count.checked_add(more)?;
                    if more != 255 {
                        break;
                    }
                }
            }
            let lower = usize::from(*input.next()?);
            let mut distance = upper + lower + 1;
            if lower == 255 && upper == 31 << 8 {
                let high = usize::from(*input.next()?);
                let low = usize::from(*input.next()?);
                distance = (high << 8) + low + FAR + 1;
            }
            repeat(dst, filled, distance, count)?;
            filled += count;
        }
        token = match input.next() {
            Some(&next) => usize::from(next),
            None => return Some(filled),
        };
    }
}

/// Writes `count` bytes at `filled`, each the byte `distance` before it.
fn repeat(dst: &mut [u8], filled: usize, distance: usize, count: usize) -> Option<()> {
    let start = filled.checked_sub(distance)?;
    let end = filled.checked_add(count)?;
    if end > dst.len() {
        return None;
    }
    if distance == 1 {
        let byte = dst[start];
        dst[filled..end].fill(byte);
        return Some(());
    }
    // What is copied doubles at each turn, because it may reach into what is being written.
    let mut done = 0;
    while done < count {
        let step = (distance + done).min(count - done);
        dst.copy_within(start..start + step, filled + done);
        done += step;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn literals_and_overlapping_copies() {
        let mut dst = [0u8; 16];
        // "ab" literal, then 6 bytes from 2 before, then 4 bytes from 1 before.
        let src = [1, b'a', b'b', 4 << 5, 1, 2 << 5, 0];
        assert_eq!(decode(&src, &mut dst), Some(12));
        assert_eq!(&dst[..12], b"abababab\x62\x62\x62\x62");
    }

    #[test]
    fn damage_is_refused() {
        let mut dst = [0u8; 4];
        assert_eq!(decode(&[], &mut dst), None);
        assert_eq!(decode(&[3, 1, 2], &mut dst), None);
        assert_eq!(decode(&[0, 1, 32, 9], &mut dst), None);
        assert_eq!(decode(&[0, 1, 7 << 5, 255, 255], &mut dst), None);
        assert_eq!(decode(&[0, 1, 4 << 5, 0], &mut dst), None);
    }
}
