//! Messages of one connection that wait to be sent, oldest first. A message that does not fit is
//! rejected, and its sender counts it; none is dropped from within.

use std::collections::VecDeque;

use crate::fleet::limits::{QUEUE_BYTES_MAX, QUEUE_MESSAGES_MAX};
use bytes::Bytes;
use plimsoll_schemas::ids::Incarnation;
use plimsoll_schemas::subject::SnapshotKind;

/// One message, ready to be sent any number of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its node's place on the connection.
    pub node: usize,
    /// What it holds, which decides its subject.
    pub kind: SnapshotKind,
    /// The incarnation of its node that made it.
    pub incarnation: Incarnation,
    pub seq: u64,
    pub samples: u64,
    /// When its interval ended, from the beginning of the fleet.
    pub due_ns: u64,
    pub payload: Bytes,
}

/// The messages that wait.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<Message>,
    bytes: usize,
}

impl Queue {
    /// Whether one more message fits.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < QUEUE_MESSAGES_MAX && self.bytes < QUEUE_BYTES_MAX
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True when none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a new message.
    pub fn push(&mut self, message: Message) {
        self.bytes += message.payload.len();
        self.waiting.push_back(message);
    }

    /// Takes back one that was sent and not acknowledged; it goes first.
    pub fn put_back(&mut self, message: Message) {
        self.bytes += message.payload.len();
        self.waiting.push_front(message);
    }

    /// The one whose turn is next.
    pub fn first(&self) -> Option<&Message> {
        self.waiting.front()
    }

    /// Takes out the one whose turn it is.
    pub fn pop(&mut self) -> Option<Message> {
        let message = self.waiting.pop_front()?;
        self.bytes -= message.payload.len();
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(seq: u64, bytes: usize) -> Message {
        let payload = Bytes::from(vec![0; bytes]);
        let (kind, incarnation) = (SnapshotKind::Bus, Incarnation(1));
        Message { node: 0, kind, incarnation, seq, samples: 0, due_ns: 0, payload }
    }

    #[test]
    fn what_comes_back_goes_first() {
        let mut queue = Queue::default();
        (1..=3).for_each(|seq| queue.push(message(seq, 1)));
        let first = queue.pop().unwrap();
        queue.put_back(first);
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|one| one.seq).collect();
        assert_eq!((order, queue.bytes), (vec![1, 2, 3], 0));
    }

    #[test]
    fn messages_and_bytes_are_bounded() {
        let mut queue = Queue::default();
        (0..QUEUE_MESSAGES_MAX as u64).for_each(|seq| queue.push(message(seq, 0)));
        assert!(!queue.has_room());
        let mut queue = Queue::default();
        queue.push(message(1, QUEUE_BYTES_MAX - 1));
        assert!(queue.has_room());
        queue.push(message(2, 1));
        assert!(!queue.has_room());
    }
}
