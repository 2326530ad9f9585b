//! The `bytes` step: elements as they lie in memory, or with the bytes of each unit reversed.
//! <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/bytes/index.html>

use crate::fault::Fault;

/// Which bytes of an element are reversed: the same length throughout, or a pattern of lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    None,
    Each(usize),
    Pattern(Vec<usize>),
}

impl Swap {
    pub fn new(units: &[usize], itemsize: usize) -> Result<Swap, String> {
        let total = units.iter().try_fold(0usize, |sum, &unit| sum.checked_add(unit));
        match total {
            Some(0) if units.is_empty() => return Ok(Swap::None),
            Some(total) if total > 0 && !units.contains(&0) && itemsize.is_multiple_of(total) => {}
            _ => {
                return Err(format!(
                    "bytes: units {units:?} must be positive and their sum must divide the element's {itemsize} bytes"
                ));
            }
        }
        Ok(match units.iter().all(|&unit| unit == units[0]) {
            true if units[0] == 1 => Swap::None,
            true => Swap::Each(units[0]),
            false => Swap::Pattern(units.to_vec()),
        })
    }

    /// Reverses every unit where it lies. `bytes` are whole elements.
    pub fn in_place(&self, bytes: &mut [u8]) {
        match self {
            Swap::None => {}
            Swap::Each(2) => reverse::<2>(bytes),
            Swap::Each(4) => reverse::<4>(bytes),
            Swap::Each(8) => reverse::<8>(bytes),
            Swap::Each(16) => reverse::<16>(bytes),
            Swap::Each(unit) => bytes.chunks_exact_mut(*unit).for_each(|unit| unit.reverse()),
            Swap::Pattern(units) => {
                let mut rest = bytes;
                let mut units = units.iter().cycle();
                while !rest.is_empty() {
                    let unit = *units.next().expect("a pattern is not empty");
                    let (head, tail) = rest.split_at_mut(unit);
                    head.reverse();
                    rest = tail;
                }
            }
        }
    }
}

fn reverse<const N: usize>(bytes: &mut [u8]) {
    let (units, _) = bytes.as_chunks_mut::<N>();
    units.iter_mut().for_each(|unit| unit.reverse());
}

/// Refuses bytes that are neither 0 nor 1.
pub fn check_bool(bytes: &[u8]) -> Result<(), Fault> {
    // One pass without a branch in it; the place is looked for only when there is one.
    if bytes.iter().fold(0u8, |all, &byte| all | byte) <= 1 {
        return Ok(());
    }
    let place = bytes.iter().position(|&byte| byte > 1).unwrap_or(0);
    Err(Fault::codec(format!("bytes: a bool is 0 or 1, byte {place} is {}", bytes[place])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_reverse_and_repeat() {
        let mut bytes: Vec<u8> = (0..14).collect();
        Swap::new(&[4, 2, 1], 14).unwrap().in_place(&mut bytes);
        assert_eq!(bytes, [3, 2, 1, 0, 5, 4, 6, 10, 9, 8, 7, 12, 11, 13]);
        assert_eq!(Swap::new(&[1, 1], 4), Ok(Swap::None));
        assert_eq!(Swap::new(&[], 3), Ok(Swap::None));
        assert!(Swap::new(&[3], 4).is_err());
        assert!(Swap::new(&[0], 4).is_err());
    }

    #[test]
    fn only_two_bytes_are_bools() {
        assert!(check_bool(&[0, 1, 1]).is_ok());
        assert!(check_bool(&[0, 2, 1]).unwrap_err().text.contains("byte 1 is 2"));
    }
}
