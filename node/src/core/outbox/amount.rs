//! What some messages amount to.

use std::ops::{Add, Sub};

use super::draft::Draft;
use super::sealed::SealedMessage;

/// A number of messages, and what they hold together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) messages: usize,
    pub(super) bytes: usize,
    pub(super) samples: u64,
    /// Messages that they stand for, as they were produced.
    pub(super) produced: u64,
}

impl Amount {
    pub(super) fn of_draft(draft: &Draft) -> Self {
        let (bytes, samples) = (draft.bytes(), draft.samples());
        Self { messages: 1, bytes, samples, produced: draft.produced }
    }

    pub(super) fn of_sealed(message: &SealedMessage) -> Self {
        let SealedMessage { payload, samples, produced, .. } = message;
        Self { messages: 1, bytes: payload.len(), samples: *samples, produced: *produced }
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            bytes: self.bytes + other.bytes,
            // A recovered message may claim any number.
            samples: self.samples.saturating_add(other.samples),
            produced: self.produced + other.produced,
        }
    }
}

impl Sub for Amount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            messages: self.messages - other.messages,
            bytes: self.bytes - other.bytes,
            samples: self.samples.saturating_sub(other.samples),
            produced: self.produced - other.produced,
        }
    }
}
