//! Messages that were handed out and are not acknowledged: in flight, waiting to go again, or
//! resting. Each is in exactly one of the three places, and none ever changes its bytes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use plimsoll_schemas::ids::Seq;
use plimsoll_schemas::limits::node::{ACK_WAIT, ATTEMPTS_IN_A_ROW_MAX};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;

/// One message for the broker. Sent again, it is the same bytes under the same seq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// Its number; what an acknowledgement names.
    pub seq: Seq,
    /// Where it goes.
    pub subject: String,
    /// What the broker recognises a repetition by.
    pub message_id: String,
    /// The encoded snapshot.
    pub payload: Bytes,
}

/// A message that was handed out.
#[derive(Debug)]
pub struct Sent {
    /// Its bytes, the same at every attempt.
    pub publish: Publish,
    /// The lane that its subject names.
    pub lane: Lane,
    /// Samples that it carries.
    pub samples: u64,
    /// When its oldest part came to be.
    pub enqueued: Mono,
    attempts: u32,
    failures_in_a_row: u32,
}

impl Sent {
    /// A message about to be sent for the first time.
    #[must_use]
    pub fn new(publish: Publish, lane: Lane, samples: u64, enqueued: Mono) -> Self {
        Self { publish, lane, samples, enqueued, attempts: 1, failures_in_a_row: 0 }
    }
}

/// All messages that were handed out.
#[derive(Debug, Default)]
pub struct Flight {
    sent: BTreeMap<Seq, Sent>,
    bytes: usize,
    samples: u64,
    /// Sent at this time and not yet answered.
    in_flight: BTreeMap<Seq, Mono>,
    again: BTreeMap<Lane, BTreeSet<Seq>>,
    /// Failed too often in a row; waits again from this time on.
    resting: BTreeMap<Seq, Mono>,
}

impl Flight {
    /// Number of messages.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.sent.len()
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Their samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Messages on their way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The oldest message of a lane that waits to go again.
    #[must_use]
    pub fn waiting(&self, lane: Lane) -> Option<Seq> {
        self.again.get(&lane)?.first().copied()
    }

    /// A message is on its way for the first time.
    pub fn send_first(&mut self, now: Mono, sent: Sent) {
        self.bytes += sent.publish.payload.len();
        self.samples += sent.samples;
        self.in_flight.insert(sent.publish.seq, now);
        self.sent.insert(sent.publish.seq, sent);
    }

    /// A message that waited is on its way; tells whether it was before.
    pub fn send_again(&mut self, now: Mono, seq: Seq) -> Option<(Publish, bool)> {
        let sent = self.sent.get_mut(&seq)?;
        sent.attempts += 1;
        self.again.entry(sent.lane).or_default().remove(&seq);
        self.in_flight.insert(seq, now);
        Some((sent.publish.clone(), sent.attempts > 1))
    }

    /// A message came back without an answer and waits; false when it was not on its way.
    pub fn release(&mut self, seq: Seq) -> bool {
        let was_in_flight = self.in_flight.remove(&seq).is_some();
        if was_in_flight {
            self.wait_again(seq);
        }
        was_in_flight
    }

    /// A message did not set out after all; tells whether this would have been a repetition.
    pub fn take_back(&mut self, seq: Seq) -> bool {
        let Some(sent) = self.sent.get_mut(&seq) else { return false };
        let was_before = sent.attempts > 1;
        sent.attempts = sent.attempts.saturating_sub(1);
        was_before
    }

    /// A message was not acknowledged; false when it was not on its way. After too many failures
    /// in a row it rests, so that one which the broker cannot take holds up no other.
    pub fn fail(&mut self, seq: Seq, rests_until: Mono) -> bool {
        if self.in_flight.remove(&seq).is_none() {
            return false;
        }
        let Some(sent) = self.sent.get_mut(&seq) else { return false };
        sent.failures_in_a_row += 1;
        if sent.failures_in_a_row < ATTEMPTS_IN_A_ROW_MAX {
            self.wait_again(seq);
        } else {
            sent.failures_in_a_row = 0;
            self.resting.insert(seq, rests_until);
        }
        true
    }

    fn wait_again(&mut self, seq: Seq) {
        if let Some(sent) = self.sent.get(&seq) {
            self.again.entry(sent.lane).or_default().insert(seq);
        }
    }

    /// Lets a message go.
    pub fn remove(&mut self, seq: Seq) -> Option<Sent> {
        let sent = self.sent.remove(&seq)?;
        self.again.entry(sent.lane).or_default().remove(&seq);
        self.in_flight.remove(&seq);
        self.resting.remove(&seq);
        self.bytes -= sent.publish.payload.len();
        self.samples -= sent.samples;
        Some(sent)
    }

    /// A new connection knows nothing of the one before: all that is here waits to go again.
    pub fn on_connected(&mut self) {
        let unanswered = std::mem::take(&mut self.in_flight).into_keys();
        let resting = std::mem::take(&mut self.resting).into_keys();
        unanswered.chain(resting).for_each(|seq| self.wait_again(seq));
        self.sent.values_mut().for_each(|sent| sent.failures_in_a_row = 0);
    }

    /// Messages whose acknowledgement is overdue.
    #[must_use]
    pub fn overdue(&self, now: Mono) -> Vec<Seq> {
        let late = self.in_flight.iter().filter(|(_, sent)| now.since(**sent) >= ACK_WAIT);
        late.map(|(seq, _)| *seq).collect()
    }

    /// Lets messages that have rested wait again.
    pub fn wake(&mut self, now: Mono) {
        let rested = self.resting.iter().filter(|(_, until)| now >= **until);
        for seq in rested.map(|(seq, _)| *seq).collect::<Vec<_>>() {
            self.resting.remove(&seq);
            self.wait_again(seq);
        }
    }

    /// When the next message is overdue or has rested.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let overdue = self.in_flight.values().min().map(|sent| sent.plus(ACK_WAIT));
        overdue.into_iter().chain(self.resting.values().min().copied()).min()
    }
}
