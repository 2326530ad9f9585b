//! What can go wrong with one chunk: a kind that the caller maps to an error class, and a sentence.
//!
//! It does not know rows, arrays or keys: the rooms above add them.

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

    /// The same fault, with its place in front.
    pub fn at(self, place: impl std::fmt::Display) -> Fault {
        Fault { kind: self.kind, text: format!("{place}: {}", self.text) }
    }

    pub fn memory(nbytes: usize) -> Fault {
        Fault { kind: Kind::Memory, text: format!("{nbytes} bytes of memory could not be had") }
    }
}
