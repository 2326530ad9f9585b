//! What can go wrong with one chunk: a kind that the caller maps to an error class, and a sentence.
//!
//! It does not know rows, arrays or keys: the rooms above add them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The kinds of fault, as the door spells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A byte range that its source does not hold.
    Range,
    /// Bytes that are not those that were written.
    Checksum,
    /// Encoded bytes that do not decode to the chunk, or values that do not encode.
    Codec,
    /// The system refused a read or a write.
    Io,
    /// Memory that could not be had.
    Memory,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Range => "range",
            Kind::Checksum => "checksum",
            Kind::Codec => "codec",
            Kind::Io => "io",
            Kind::Memory => "memory",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    pub text: String,
}

impl Fault {
    pub fn range(text: impl Into<String>) -> Fault {
        Fault { kind: Kind::Range, text: text.into() }
    }

    pub fn checksum(text: impl Into<String>) -> Fault {
        Fault { kind: Kind::Checksum, text: text.into() }
    }

    pub fn codec(text: impl Into<String>) -> Fault {
        Fault { kind: Kind::Codec, text: text.into() }
    }

    pub fn io(doing: &str, error: &std::io::Error) -> Fault {
        Fault { kind: Kind::Io, text: format!("{doing}: {error}") }
    }

    /// A panic is a fault of ours, which bytes that nobody thought of can bring about.
    pub fn panic(panic: &(dyn Any + Send)) -> Fault {
        let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(text), _) => text,
            (_, Some(text)) => text.as_str(),
            _ => "for a reason it does not tell",
        };
        Fault::codec(format!("the kernel failed, which is a fault of terrazzo: {text}"))
    }

    /// The same fault, with its place in front.
    pub fn at(self, place: impl std::fmt::Display) -> Fault {
        Fault { kind: self.kind, text: format!("{place}: {}", self.text) }
    }

    pub fn memory(nbytes: usize) -> Fault {
        Fault { kind: Kind::Memory, text: format!("{nbytes} bytes of memory could not be had") }
    }
}

/// Does one chunk's work; a panic in it is that chunk's fault. Scratch memory that it leaves is written before it is read.
pub fn caught<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Fault::panic(&*panic)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_fault_of_its_chunk() {
        let nothing: [u8; 0] = [];
        let fault = caught(|| Ok(nothing[nothing.len()])).unwrap_err();
        assert_eq!(fault.kind, Kind::Codec);
        assert!(
            fault.text.contains("fault of terrazzo") && fault.text.contains("index out of bounds"),
            "{}",
            fault.text
        );
        assert_eq!(caught(|| Err::<(), _>(Fault::memory(7))), Err(Fault::memory(7)));
        assert_eq!(caught(|| Ok(7)), Ok(7));
    }
}
