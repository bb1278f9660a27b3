//! Samples by name: which were sent, which of them were answered, and how often each was published.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_schemas::histogram::layout::lowest;
use plimsoll_schemas::ids::{Incarnation, Seq};

/// Begins the names of all operations of these samples.
pub(super) const PREFIX: &str = "kill.";
/// Samples of one operation: each has a bucket of its own.
const PER_OPERATION: u64 = 20_000;
/// The bucket of the first one, 0.5 ms.
const FIRST_BUCKET: usize = 1_000;

/// A client of the drill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Client {
    Frames,
    Otlp,
}

impl Client {
    pub(super) const ALL: [Self; 2] = [Self::Frames, Self::Otlp];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::Otlp => "otlp",
        }
    }

    /// The operation and the latency that stand for this client's `n`-th sample.
    pub(super) fn sample(self, n: u64) -> (String, u64) {
        let operation = format!("{PREFIX}{}.{}", self.as_str(), n / PER_OPERATION);
        let place = usize::try_from(n % PER_OPERATION).unwrap_or(0);
        (operation, lowest(FIRST_BUCKET + place))
    }

    /// The client and number of the sample in a bucket of an operation.
    fn of(operation: &str, bucket: usize) -> Option<(Self, u64)> {
        let (name, part) = operation.strip_prefix(PREFIX)?.split_once('.')?;
        let client = Self::ALL.into_iter().find(|client| client.as_str() == name)?;
        let place = bucket.checked_sub(FIRST_BUCKET)? as u64;
        Some((client, part.parse::<u64>().ok()? * PER_OPERATION + place))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    answered: bool,
    published: u64,
}

/// What became of each sample.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// By number; the length is how many were sent.
    clients: BTreeMap<Client, Vec<State>>,
    /// Messages that were read.
    messages: BTreeSet<(Incarnation, Seq)>,
    /// Published and never sent.
    unknown: u64,
    /// Answered and never sent: a planted miss.
    planted: u64,
}

/// The sizes of the sets in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sets {
    /// Sent, answered or not.
    pub(super) sent: u64,
    pub(super) answered: u64,
    /// Published, each as often as it was.
    pub(super) published: u64,
    pub(super) doubled: u64,
    /// Of those, samples that no client sent.
    pub(super) unknown: u64,
    /// Answered and not published.
    pub(super) missing: u64,
}

impl Book {
    /// Samples about to be sent, by their numbers.
    pub(super) fn send(&mut self, client: Client, samples: u64) -> Range<u64> {
        let states = self.clients.entry(client).or_default();
        let first = states.len() as u64;
        states.extend((0..samples).map(|_| State::default()));
        first..first + samples
    }

    pub(super) fn answer(&mut self, client: Client, samples: Range<u64>) {
        for n in samples {
            if let Some(state) = self.state(client, n) {
                state.answered = true;
            }
        }
    }

    /// Whether this message is read for the first time.
    pub(super) fn is_new(&mut self, incarnation: Incarnation, seq: Seq) -> bool {
        self.messages.insert((incarnation, seq))
    }

    /// A published message has `count` samples in this bucket of an operation.
    pub(super) fn publish(&mut self, operation: &str, bucket: usize, count: u64) {
        if !operation.starts_with(PREFIX) {
            return;
        }
        let named = Client::of(operation, bucket);
        match named.and_then(|(client, n)| self.state(client, n)) {
            Some(state) => state.published += count,
            None => self.unknown += count,
        }
    }

    fn state(&mut self, client: Client, n: u64) -> Option<&mut State> {
        self.clients.get_mut(&client)?.get_mut(usize::try_from(n).ok()?)
    }

    /// Counts samples as answered that nothing sent.
    pub(super) fn plant(&mut self, samples: u64) {
        self.planted += samples;
    }

    /// The sets as they are.
    pub(super) fn sets(&mut self) -> Sets {
        let states = || self.clients.values().flatten();
        let count =
            |wanted: fn(&State) -> bool| states().filter(|state| wanted(state)).count() as u64;
        let published: u64 = states().map(|state| state.published).sum();
        Sets {
            sent: states().count() as u64,
            answered: count(|state| state.answered) + self.planted,
            published: published + self.unknown,
            doubled: states().map(|state| state.published.saturating_sub(1)).sum(),
            unknown: self.unknown,
            missing: count(|state| state.answered && state.published == 0) + self.planted,
        }
    }
}

/// A book that clients and the tap write.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedBook(Arc<Mutex<Book>>);

impl SharedBook {
    pub(super) fn with<T>(&self, use_it: impl FnOnce(&mut Book) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::histogram::layout::{LEN, MAX_NS, index_of};

    use super::*;

    #[test]
    fn every_sample_has_a_bucket_of_its_own_and_is_read_back() {
        const { assert!(FIRST_BUCKET + 20_000 <= LEN) };
        for client in Client::ALL {
            for n in [0, 1, 19_999, 20_000, 1_234_567] {
                let (operation, ns) = client.sample(n);
                assert!(ns <= MAX_NS);
                assert_eq!(Client::of(&operation, index_of(ns)), Some((client, n)));
            }
        }
        assert_eq!(Client::of("kill.frames.x", 2_000), None);
        assert_eq!(Client::of("kill.frames.0", 1), None);
    }

    #[test]
    fn a_doubled_and_a_vanished_sample_do_not_cancel_out() {
        let mut book = Book::default();
        let sent = book.send(Client::Frames, 4);
        book.answer(Client::Frames, sent.start..3);
        book.send(Client::Otlp, 1);
        for (n, count) in [(0, 1), (1, 2), (3, 1)] {
            let (operation, ns) = Client::Frames.sample(n);
            book.publish(&operation, index_of(ns), count);
        }
        book.publish("publish", 5, 9);
        let sets = Sets { sent: 5, answered: 3, published: 4, doubled: 1, unknown: 0, missing: 1 };
        assert_eq!(book.sets(), sets);
    }

    #[test]
    fn samples_that_nothing_sent_are_unknown_and_planted_ones_missing() {
        let mut book = Book::default();
        let (operation, ns) = Client::Otlp.sample(7);
        book.publish(&operation, index_of(ns), 3);
        book.plant(2);
        let sets = Sets { answered: 2, missing: 2, published: 3, unknown: 3, ..Sets::default() };
        assert_eq!(book.sets(), sets);
    }
}
