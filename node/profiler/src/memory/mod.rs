//! Bytes of another process: the seam between what reads structures and where bytes come from.
//!
//! All that lies behind it is hostile: it may be torn, freed or made up. So reads have a length
//! that the reader chooses, addresses saturate, and fields past the end of a buffer are 0.

pub mod process;

use thiserror::Error;

/// A place in the target's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

/// A range of the target's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: Address,
    pub bytes: usize,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ReadError {
    #[error("the range is not mapped")]
    Unmapped,
    #[error("the process has ended")]
    Ended,
    #[error("permission denied")]
    Denied,
    #[error("process_vm_readv is not available: the kernel lacks it, or a seccomp filter stops it")]
    NoCall,
}

/// How ranges were read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// In so short a time that a program can hardly change in between.
    Quick,
    Interrupted,
}

/// What the reader needs of a process; tests have one of made-up bytes.
pub trait Memory {
    /// Fills `into` with the ranges, one behind the other, in their order and in one pass.
    ///
    /// # Errors
    /// When not all of it can be read; then `into` holds anything.
    fn read(&self, spans: &[Span], into: &mut [u8]) -> Result<(), ReadError>;

    /// The same, and whether it was done at once.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn read_at_once(&self, spans: &[Span], into: &mut [u8]) -> Result<Pass, ReadError> {
        self.read(spans, into)?;
        Ok(Pass::Quick)
    }

    /// The bytes of one range.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn read_span(&self, span: Span) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; span.bytes];
        self.read(&[span], &mut bytes)?;
        Ok(bytes)
    }

    /// The address that is stored at `at`.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn read_address(&self, at: Address) -> Result<Address, ReadError> {
        let mut bytes = [0; 8];
        self.read(&[Span { start: at, bytes: 8 }], &mut bytes)?;
        Ok(address(&bytes, 0))
    }
}

impl Address {
    pub fn is_null(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub fn plus(self, offset: usize) -> Self {
        Self(self.0.saturating_add(offset as u64))
    }

    /// Bytes from `other` to here; `None` when this lies before it.
    pub fn since(self, other: Self) -> Option<usize> {
        usize::try_from(self.0.checked_sub(other.0)?).ok()
    }
}

impl Span {
    /// Where in this range `bytes` from `at` on lie, if all of them do.
    pub fn offset_of(&self, at: Address, bytes: usize) -> Option<usize> {
        let offset = at.since(self.start)?;
        (offset.checked_add(bytes)? <= self.bytes).then_some(offset)
    }
}

/// What was read, `None` where nothing is mapped any more.
///
/// # Errors
/// As the read, for any other reason.
pub fn mapped<T>(read: Result<T, ReadError>) -> Result<Option<T>, ReadError> {
    match read {
        Err(ReadError::Unmapped) => Ok(None),
        read => read.map(Some),
    }
}

/// The 8 bytes at `offset`, 0 past the end.
pub fn word(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).map_or(0, |found| u64::from_ne_bytes(*found))
}

/// The same as an address.
pub fn address(bytes: &[u8], offset: usize) -> Address {
    Address(word(bytes, offset))
}

/// The 4 bytes at `offset`, 0 past the end.
pub fn half(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).map_or(0, |found| u32::from_ne_bytes(*found))
}

/// The byte at `offset`, 0 past the end.
pub fn byte(bytes: &[u8], offset: usize) -> u8 {
    bytes.get(offset).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_past_the_end_are_zero() {
        let bytes = [1, 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(word(&bytes, 0), 0x2_0000_0001);
        assert_eq!((half(&bytes, 4), byte(&bytes, 4)), (2, 2));
        assert_eq!((word(&bytes, 1), half(&bytes, 5), byte(&bytes, 8)), (0, 0, 0));
        assert_eq!(word(&bytes, usize::MAX), 0);
    }

    #[test]
    fn only_a_part_that_lies_within_has_an_offset() {
        let span = Span { start: Address(100), bytes: 10 };
        let table = [(100, 10, Some(0)), (108, 2, Some(8)), (108, 3, None), (99, 1, None)];
        for (at, bytes, expected) in table {
            assert_eq!(span.offset_of(Address(at), bytes), expected, "{at} {bytes}");
        }
        assert_eq!(span.offset_of(Address(u64::MAX), usize::MAX), None);
    }
}
