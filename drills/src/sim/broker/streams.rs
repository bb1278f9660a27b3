//! The broker's streams: one for each lane, with a window in which it recognises duplicates, and
//! the ways in which a crash loses acknowledged messages.
//!
//! An acknowledgement only means that a message is in the stream now. The files of a killed process
//! remain; a power cut loses what was not yet synced; and as Jepsen saw in NATS 2.12.1, a crash may
//! lose any messages, synced or not. Later messages reuse their numbers.

use std::collections::BTreeMap;
use std::rc::Rc;

use plimsoll_bus::limits::DUPLICATE_WINDOW;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Wall, nanos};

use crate::sim::act::Crash;
use crate::sim::clocks::Clocks;
use crate::sim::event::Message;
use crate::sim::rng::Rng;
use crate::sim::schedule::Time;

/// One message in a stream.
#[derive(Clone, Debug)]
pub struct StreamMessage {
    pub message: Rc<Message>,
    pub at: Time,
}

/// The broker's response to a published message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PublishOutcome {
    /// It is in the stream.
    StreamMessage,
    /// It was there already, within the broker's duplicate window.
    Duplicate,
    /// There is no space.
    Full,
}

#[derive(Debug, Default)]
pub struct Stream {
    /// Identifies it among all streams of its name.
    pub id: u64,
    /// Number of the newest message ever stored.
    pub last: u64,
    messages: BTreeMap<u64, StreamMessage>,
    known: BTreeMap<String, Time>,
}

impl Stream {
    /// Number of the oldest message stored.
    pub fn first(&self) -> u64 {
        self.messages.keys().next().map_or(self.last + 1, |first| *first)
    }

    /// The first message from `number` on.
    pub fn from(&self, number: u64) -> Option<(u64, &StreamMessage)> {
        self.messages.range(number..).next().map(|(number, stored)| (*number, stored))
    }

    /// How many messages come after `number`.
    pub fn behind(&self, number: u64) -> u64 {
        self.last.saturating_sub(number)
    }

    fn take(&mut self, now: Time, message: &Rc<Message>) -> PublishOutcome {
        let window = nanos(DUPLICATE_WINDOW);
        if self.known.get(&message.publish.message_id).is_some_and(|at| now < at + window) {
            return PublishOutcome::Duplicate;
        }
        self.known.insert(message.publish.message_id.clone(), now);
        self.last += 1;
        self.messages.insert(self.last, StreamMessage { message: Rc::clone(message), at: now });
        PublishOutcome::StreamMessage
    }

    fn lose(&mut self, mut gone: impl FnMut(u64, &StreamMessage) -> bool) -> Vec<Rc<Message>> {
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

    fn remember_stored(&mut self) {
        self.known = self
            .messages
            .values()
            .map(|stored| (stored.message.publish.message_id.clone(), stored.at))
            .collect();
    }
}

/// The streams of all lanes, on the broker's disk.
#[derive(Debug)]
pub(super) struct Streams {
    /// Whether the disk is full.
    pub is_full: bool,
    /// Time between two syncs.
    sync_every: Time,
    /// The clock of the messages' timestamps.
    clocks: Clocks,
    emergency: Stream,
    normal: Stream,
    streams_made: u64,
}

impl Streams {
    pub(super) fn new(sync_every: Time) -> Self {
        let stream = |id| Stream { id, ..Stream::default() };
        Self {
            is_full: false,
            sync_every,
            clocks: Clocks::new(0, 0),
            emergency: stream(1),
            normal: stream(2),
            streams_made: 2,
        }
    }

    /// The stream of a lane.
    pub(super) fn stream(&self, lane: Lane) -> &Stream {
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

    /// The timestamp of a message that was stored at a time.
    pub(super) fn timestamp(&self, at: Time) -> Wall {
        self.clocks.now(0, at).wall
    }

    /// Stores a message, if there is space.
    pub(super) fn take(&mut self, now: Time, message: &Rc<Message>) -> PublishOutcome {
        if self.is_full {
            return PublishOutcome::Full;
        }
        self.stream_mut(message.lane).take(now, message)
    }

    /// Recreates a lane's stream; returns the messages of the old one.
    pub(super) fn remake(&mut self, lane: Lane) -> Vec<Rc<Message>> {
        self.streams_made += 1;
        let id = self.streams_made;
        let old = std::mem::replace(self.stream_mut(lane), Stream { id, ..Stream::default() });
        old.messages.into_values().map(|stored| stored.message).collect()
    }

    /// Removes the messages that a crash loses; returns them.
    pub(super) fn crash(&mut self, now: Time, how: Crash, rng: &mut Rng) -> Vec<Rc<Message>> {
        let synced = now / self.sync_every * self.sync_every;
        let remembers = rng.chance(300);
        let mut gone = Vec::new();

        for lane in Lane::ALL {
            let lost = match how {
                Crash::Kill => Vec::new(),
                Crash::Wiped => self.remake(lane),
                Crash::PowerCut => {
                    let stream = self.stream_mut(lane);
                    let unsynced = stream.messages.values().filter(|s| s.at >= synced).count();
                    let last = stream.last - rng.below(unsynced as u64 + 1).min(stream.last);
                    stream.lose(|number, _| number > last)
                }
                Crash::Holes => {
                    let share = rng.one_of([20, 200, 1_000]);
                    self.stream_mut(lane).lose(|_, _| rng.chance(share))
                }
            };

            gone.extend(lost);
            if !(how == Crash::Holes && remembers) {
                self.stream_mut(lane).remember_stored();
            }
        }

        gone
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use plimsoll_schemas::transport::{Publish, Ticket};

    use super::*;
    use crate::sim::schedule::SECOND;

    fn message(number: u64) -> Rc<Message> {
        Rc::new(Message {
            from: 0,
            lane: Lane::Normal,
            name: (1, number),
            publish: Publish {
                headers: Vec::new(),
                ticket: Ticket(number),
                subject: String::new(),
                message_id: format!("n-1-{number}"),
                payload: Bytes::new(),
            },
        })
    }

    #[test]
    fn an_id_is_known_again_for_two_minutes() {
        let mut streams = Streams::new(SECOND);
        assert_eq!(streams.take(0, &message(1)), PublishOutcome::StreamMessage);
        assert_eq!(streams.take(119 * SECOND, &message(1)), PublishOutcome::Duplicate);
        assert_eq!(streams.take(120 * SECOND, &message(1)), PublishOutcome::StreamMessage);
        assert_eq!(streams.stream(Lane::Normal).last, 2);
    }

    #[test]
    fn a_power_cut_spares_synced_data_and_numbers_are_reused() {
        let mut fewest = u64::MAX;
        for seed in 0..50 {
            let mut streams = Streams::new(10 * SECOND);
            for number in 1..=10 {
                streams.take(number * 2 * SECOND, &message(number));
            }
            let lost = streams.crash(21 * SECOND, Crash::PowerCut, &mut Rng::new(seed, 0));
            let last = streams.stream(Lane::Normal).last;
            assert_eq!(10 - lost.len() as u64, last);
            fewest = fewest.min(last);
            assert_eq!(streams.take(22 * SECOND, &message(11)), PublishOutcome::StreamMessage);
            assert_eq!(streams.stream(Lane::Normal).last, last + 1);
        }
        assert_eq!(fewest, 9, "the sync at 20 s held nine messages");
    }

    #[test]
    fn a_wiped_store_is_another_stream() {
        let mut streams = Streams::new(SECOND);
        streams.take(0, &message(1));
        let before = streams.stream(Lane::Normal).id;
        assert_eq!(streams.crash(0, Crash::Wiped, &mut Rng::new(1, 0)).len(), 1);
        let stream = streams.stream(Lane::Normal);
        assert_ne!(stream.id, before);
        assert_eq!((stream.first(), stream.last), (1, 0));
    }
}
