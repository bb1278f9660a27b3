//! The outermost fields of a file, one by one, without a copy of any: a decoder of whole messages
//! would allocate 72 bytes for each empty sample of two.

use thiserror::Error;

/// Why bytes are no profile.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// More than a file of a profile may have.
    #[error("more than {max} {what}")]
    TooLarge {
        /// Of what: bytes, strings, samples.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// Damaged gzip.
    #[error("gzip: {0}")]
    Gzip(String),
    /// Not Protocol Buffers, or entries that do not belong together.
    #[error("{0}")]
    Malformed(String),
    /// A value below zero.
    #[error("a sample has the value {0}: open a profile, not a difference of two")]
    Negative(i64),
}

impl DecodeError {
    pub(super) fn malformed(what: &str) -> Self {
        Self::Malformed(format!("{what} is malformed"))
    }
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
        Some(field.ok_or_else(|| DecodeError::malformed("the file")))
    }
}
