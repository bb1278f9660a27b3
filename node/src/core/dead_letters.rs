//! Messages that can never be accepted, on their way to where someone may look at them.

use std::collections::VecDeque;

use crate::limits::DEAD_LETTERS_MAX;

use super::sealed::Sealed;

/// Why a message can never be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unacceptable {
    /// Larger than the broker accepts.
    TooLarge,
    /// Its subject or id holds what the protocol cannot carry.
    Malformed,
}

impl Unacceptable {
    /// The reason as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
        }
    }
}

/// One such message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The message.
    pub sealed: Sealed,
    /// What is wrong with it.
    pub reason: Unacceptable,
}

/// Those that are still to be sent: a few, since each is known by its counters anyway.
#[derive(Debug, Default)]
pub struct DeadLetters(VecDeque<DeadLetter>);

impl DeadLetters {
    /// Takes one; the oldest makes room.
    pub fn push(&mut self, letter: DeadLetter) {
        if self.0.len() >= DEAD_LETTERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(letter);
    }

    /// The next to send.
    pub fn pop(&mut self) -> Option<DeadLetter> {
        self.0.pop_front()
    }
}
