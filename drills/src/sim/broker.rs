//! The broker as far as its promises go: one stream for each lane, a window in which it knows
//! a message id again, and all the ways in which it breaks its word.
//!
//! An acknowledgement says only that a message is in the stream now. A process that is killed
//! keeps its files; a power cut takes what was not yet synced; and as Jepsen saw in NATS 2.12.1,
//! a crash may take any messages, synced or not. What comes after takes their numbers again.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use plimsoll_bus::limits::DUPLICATE_WINDOW;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::nanos;

use super::agenda::Time;
use super::clocks::Clocks;
use super::dice::Dice;

/// One message as a process hands it to the broker.
#[derive(Clone, Debug)]
pub struct Message {
    /// The node that sent it.
    pub from: usize,
    /// The lane that its subject names.
    pub lane: Lane,
    /// The incarnation and number under which the model knows it.
    pub name: (u64, u64),
    /// Its subject.
    pub subject: String,
    /// What a repetition is known by.
    pub id: String,
    /// Its bytes.
    pub payload: Bytes,
}

/// One message in a stream.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The message.
    pub message: Rc<Message>,
    /// When it came.
    pub at: Time,
}

/// What the broker answers to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is in the stream.
    Stored,
    /// It was there already, as far as the broker remembers.
    Duplicate,
    /// There is no room.
    Full,
}

/// How the broker ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// kill -9: the kernel keeps the files.
    Kill,
    /// What was not synced may be gone, from the newest backwards.
    PowerCut,
    /// Any messages may be gone, and the broker may still think it knows them.
    Holes,
    /// The store was wiped while it was down.
    Wiped,
}

/// One lane's stream.
#[derive(Debug, Default)]
pub struct Stream {
    /// Tells it from any other that had its name.
    pub id: u64,
    /// Number of the newest message ever stored.
    pub last: u64,
    messages: BTreeMap<u64, Stored>,
    known: BTreeMap<String, Time>,
}

impl Stream {
    /// Number of the oldest message kept.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.messages.keys().next().map_or(self.last + 1, |first| *first)
    }

    /// The first message from `number` on.
    #[must_use]
    pub fn from(&self, number: u64) -> Option<(u64, &Stored)> {
        self.messages.range(number..).next().map(|(number, stored)| (*number, stored))
    }

    /// How many messages come after `number`.
    #[must_use]
    pub fn behind(&self, number: u64) -> u64 {
        self.last.saturating_sub(number)
    }

    fn take(&mut self, now: Time, message: &Rc<Message>) -> Taken {
        let window = nanos(DUPLICATE_WINDOW);
        if self.known.get(&message.id).is_some_and(|at| now < at + window) {
            return Taken::Duplicate;
        }
        self.known.insert(message.id.clone(), now);
        self.last += 1;
        self.messages.insert(self.last, Stored { message: Rc::clone(message), at: now });
        Taken::Stored
    }

    fn lose(&mut self, mut gone: impl FnMut(u64, &Stored) -> bool) -> Vec<Rc<Message>> {
        let mut lost = Vec::new();
        self.messages.retain(|number, stored| {
            let gone = gone(*number, stored);
            if gone {
                lost.push(Rc::clone(&stored.message));
            }
            !gone
        });
        self.last = self.messages.keys().next_back().copied().unwrap_or(0);
        lost
    }

    fn know_what_is_here(&mut self) {
        self.known =
            self.messages.values().map(|stored| (stored.message.id.clone(), stored.at)).collect();
    }
}

/// The broker.
#[derive(Debug)]
pub struct Broker {
    /// False while its process is gone.
    pub is_up: bool,
    /// True while its process is stopped.
    pub is_stalled: bool,
    /// True while its disk is full.
    pub is_full: bool,
    /// Share of acknowledgements that get lost, in a thousand.
    pub forgets_permille: u64,
    /// Time between two syncs.
    pub sync_every: Time,
    /// What it stamps messages with.
    pub clocks: Clocks,
    emergency: Stream,
    normal: Stream,
    streams_made: u64,
}

impl Broker {
    /// A broker with empty streams.
    #[must_use]
    pub fn new(sync_every: Time) -> Self {
        let stream = |id| Stream { id, ..Stream::default() };
        Self {
            is_up: true,
            is_stalled: false,
            is_full: false,
            forgets_permille: 0,
            sync_every,
            clocks: Clocks::new(0, 0),
            emergency: stream(1),
            normal: stream(2),
            streams_made: 2,
        }
    }

    /// The stream of a lane.
    #[must_use]
    pub fn stream(&self, lane: Lane) -> &Stream {
        match lane {
            Lane::Emergency => &self.emergency,
            Lane::Normal => &self.normal,
        }
    }

    fn stream_mut(&mut self, lane: Lane) -> &mut Stream {
        match lane {
            Lane::Emergency => &mut self.emergency,
            Lane::Normal => &mut self.normal,
        }
    }

    /// Takes a message, if there is room.
    pub fn take(&mut self, now: Time, message: &Rc<Message>) -> Taken {
        if self.is_full {
            return Taken::Full;
        }
        self.stream_mut(message.lane).take(now, message)
    }

    /// Makes a lane's stream anew; gives what was in the old one.
    pub fn remake(&mut self, lane: Lane) -> Vec<Rc<Message>> {
        self.streams_made += 1;
        let id = self.streams_made;
        let old = std::mem::replace(self.stream_mut(lane), Stream { id, ..Stream::default() });
        old.messages.into_values().map(|stored| stored.message).collect()
    }

    /// Takes from the streams what a crash takes; gives what is gone.
    pub fn crash(&mut self, now: Time, how: Crash, dice: &mut Dice) -> Vec<Rc<Message>> {
        let synced = now / self.sync_every * self.sync_every;
        let remembers = dice.chance(300);
        let mut gone = Vec::new();
        for lane in Lane::ALL {
            let lost = match how {
                Crash::Kill => Vec::new(),
                Crash::Wiped => self.remake(lane),
                Crash::PowerCut => {
                    let stream = self.stream_mut(lane);
                    let unsynced = stream.messages.values().filter(|s| s.at >= synced).count();
                    let last = stream.last - dice.below(unsynced as u64 + 1).min(stream.last);
                    stream.lose(|number, _| number > last)
                }
                Crash::Holes => {
                    let share = dice.one_of([20, 200, 1_000]);
                    self.stream_mut(lane).lose(|_, _| dice.chance(share))
                }
            };
            gone.extend(lost);
            if !(how == Crash::Holes && remembers) {
                self.stream_mut(lane).know_what_is_here();
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::super::agenda::SECOND;
    use super::*;

    fn message(number: u64) -> Rc<Message> {
        Rc::new(Message {
            from: 0,
            lane: Lane::Normal,
            name: (1, number),
            subject: String::new(),
            id: format!("n-1-{number}"),
            payload: Bytes::new(),
        })
    }

    #[test]
    fn an_id_is_known_again_for_two_minutes() {
        let mut broker = Broker::new(SECOND);
        assert_eq!(broker.take(0, &message(1)), Taken::Stored);
        assert_eq!(broker.take(119 * SECOND, &message(1)), Taken::Duplicate);
        assert_eq!(broker.take(120 * SECOND, &message(1)), Taken::Stored);
        assert_eq!(broker.stream(Lane::Normal).last, 2);
    }

    #[test]
    fn a_power_cut_spares_what_was_synced_and_the_numbers_are_given_again() {
        let mut fewest = u64::MAX;
        for seed in 0..50 {
            let mut broker = Broker::new(10 * SECOND);
            for number in 1..=10 {
                broker.take(number * 2 * SECOND, &message(number));
            }
            let lost = broker.crash(21 * SECOND, Crash::PowerCut, &mut Dice::new(seed, 0));
            let last = broker.stream(Lane::Normal).last;
            assert_eq!(10 - lost.len() as u64, last);
            fewest = fewest.min(last);
            assert_eq!(broker.take(22 * SECOND, &message(11)), Taken::Stored);
            assert_eq!(broker.stream(Lane::Normal).last, last + 1);
        }
        assert_eq!(fewest, 9, "the sync at 20 s held nine messages");
    }

    #[test]
    fn a_wiped_store_is_another_stream() {
        let mut broker = Broker::new(SECOND);
        broker.take(0, &message(1));
        let before = broker.stream(Lane::Normal).id;
        assert_eq!(broker.crash(0, Crash::Wiped, &mut Dice::new(1, 0)).len(), 1);
        let stream = broker.stream(Lane::Normal);
        assert_ne!(stream.id, before);
        assert_eq!((stream.first(), stream.last), (1, 0));
    }
}
