//! Answers that wait until what they answer is noted, for sockets of every kind.
//!
//! DESIGN N43.

use std::collections::VecDeque;

use crate::core::spool::NoteNumber;

/// Answers in the order of the notes that they wait for.
pub(super) struct WaitingAnswers<A>(VecDeque<(NoteNumber, A)>);

impl<A> Default for WaitingAnswers<A> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<A> WaitingAnswers<A> {
    pub(super) fn push(&mut self, note: NoteNumber, answer: A) {
        self.0.push_back((note, answer));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &A> {
        self.0.iter().map(|(_, answer)| answer)
    }

    /// Removes those that may leave once this note is written.
    pub(super) fn drain_noted(&mut self, noted: NoteNumber) -> impl Iterator<Item = A> {
        let waiting = self.0.partition_point(|(note, _)| *note <= noted);
        self.0.drain(..waiting).map(|(_, answer)| answer)
    }
}
