//! Messages that the broker never accepts, waiting to be published to the dead-letter subject.
//!
//! DESIGN N7.

use std::collections::VecDeque;

use crate::limits::DEAD_LETTERS_MAX;

use super::sealed::SealedMessage;

/// Why the broker never accepts a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterReason {
    /// Larger than the broker accepts.
    TooLarge,
    /// Its subject or id holds what the protocol cannot carry.
    Malformed,
}

impl DeadLetterReason {
    /// The reason as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
        }
    }
}

/// One rejected message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The message.
    pub message: SealedMessage,
    /// Why it was rejected.
    pub reason: DeadLetterReason,
}

/// Dead letters to publish: a few, because the counters cover all of them.
#[derive(Debug, Default)]
pub(crate) struct DeadLetters(VecDeque<DeadLetter>);

impl DeadLetters {
    /// Adds one; the oldest is dropped when there is no room.
    pub(crate) fn push(&mut self, letter: DeadLetter) {
        if self.0.len() >= DEAD_LETTERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(letter);
    }

    /// Removes the next to publish.
    pub(crate) fn pop(&mut self) -> Option<DeadLetter> {
        self.0.pop_front()
    }
}
