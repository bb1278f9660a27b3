//! The outermost fields of a file, one by one, without a copy of any: a decoder of whole messages
//! would allocate 72 bytes for each empty sample of two.

use thiserror::Error;

use crate::limits::{DECODED_BYTES_MAX, ENCODED_BYTES_MAX, MESSAGE_BYTES_MAX};

/// Why bytes are no profile.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// More bytes than a file may have.
    #[error("{bytes} bytes, more than {max} of a pprof file", max = ENCODED_BYTES_MAX)]
    TooLarge {
        /// The bytes.
        bytes: usize,
    },
    /// Larger than any profile once it is inflated.
    #[error("more than {max} bytes once inflated", max = DECODED_BYTES_MAX)]
    Inflated,
    /// Not gzip, or damaged.
    #[error("gzip: {0}")]
    Gzip(String),
    /// Not Protocol Buffers, or not of this shape.
    #[error("{0} is malformed")]
    Malformed(&'static str),
    /// One sample, location or function has too many bytes.
    #[error("a {what} of {bytes} bytes, more than {max}", max = MESSAGE_BYTES_MAX)]
    LargeMessage {
        /// Which kind.
        what: &'static str,
        /// Its bytes.
        bytes: usize,
    },
    /// A table has too many entries.
    #[error("more than {max} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// An index that the string table does not have.
    #[error("text {index} is not in the string table of {len}")]
    Text {
        /// The index.
        index: i64,
        /// Entries of the table.
        len: usize,
    },
    /// The string table is empty, or its first text is not.
    #[error("the string table does not start with an empty text")]
    FirstText,
    /// An id that no entry has, or one that is 0.
    #[error("no {what} has the id {id}")]
    Missing {
        /// Of what.
        what: &'static str,
        /// The id.
        id: u64,
    },
    /// Two entries with one id.
    #[error("two {what}s have the id {id}")]
    Duplicate {
        /// Of what.
        what: &'static str,
        /// The id.
        id: u64,
    },
    /// No kind of value.
    #[error("the file names no sample type")]
    NoSampleType,
    /// A sample whose values are not those of the sample types.
    #[error("a sample with {values} values in a file of {types} sample types")]
    Values {
        /// Its values.
        values: usize,
        /// The sample types.
        types: usize,
    },
    /// A value below zero, as in a file that is a difference itself.
    #[error("a sample has the value {0}: open a profile, not a difference of two")]
    Negative(i64),
    /// The sum of all values is more than a profile can state.
    #[error("the values of all samples exceed 2^63")]
    Overflow,
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a fixed width, which pprof does not use.
    Other,
}

/// The fields of a message, with their numbers.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn field(&mut self) -> Option<(u64, Field<'a>)> {
        let key = self.number()?;
        let field = match key & 7 {
            0 => Field::Number(self.number()?),
            1 => self.bytes(8).map(|_| Field::Other)?,
            2 => {
                let len = self.number()?;
                Field::Bytes(self.bytes(usize::try_from(len).ok()?)?)
            }
            5 => self.bytes(4).map(|_| Field::Other)?,
            _ => return None,
        };
        Some((key >> 3, field))
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    /// A number in seven bits a byte, the lowest first.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(DecodeError::Malformed("file")))
    }
}
