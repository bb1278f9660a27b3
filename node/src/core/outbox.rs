//! Messages that the broker has not acknowledged yet: bounded, in order, nothing forgotten.
//!
//! A message is waiting or in flight. It leaves only by an acknowledgement, or by being refused
//! for good, which the caller accounts for in samples. When the outbox is full a new message
//! does not get in; what is inside is never pushed out, because it may already be at the broker.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use plimsoll_schemas::ids::Seq;
use plimsoll_schemas::limits::node::{ACK_WAIT, IN_FLIGHT_MAX, RETRY_PAUSE};
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::Bus;

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

struct Held {
    publish: Publish,
    samples: u64,
    enqueued: Mono,
    attempts: u32,
}

/// The outbox.
pub struct Outbox {
    messages_max: usize,
    bytes_max: usize,
    held: BTreeMap<Seq, Held>,
    waiting: BTreeSet<Seq>,
    /// Sent at this time and not yet acknowledged.
    in_flight: BTreeMap<Seq, Mono>,
    bytes: usize,
    connected: bool,
    resume_at: Mono,
    depth_max: usize,
    account: Bus,
}

impl Outbox {
    /// An empty outbox that waits for its first connection.
    #[must_use]
    pub fn new(messages_max: usize, bytes_max: usize) -> Self {
        Self {
            messages_max,
            bytes_max,
            held: BTreeMap::new(),
            waiting: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            bytes: 0,
            connected: false,
            resume_at: Mono(0),
            depth_max: 0,
            account: Bus::default(),
        }
    }

    /// Whether a message of `bytes` still fits; if not, it counts as dropped.
    #[must_use]
    pub fn admit(&mut self, bytes: usize) -> bool {
        self.account.attempted += 1;
        let fits = self.held.len() < self.messages_max && self.bytes + bytes <= self.bytes_max;
        if !fits {
            self.account.dropped += 1;
        }
        fits
    }

    /// Lets the last message of all in, full or not: it tells what was lost, and that silence
    /// after it is no fault.
    pub fn admit_last(&mut self) {
        self.account.attempted += 1;
    }

    /// Takes a message that was admitted.
    pub fn push(&mut self, now: Mono, publish: Publish, samples: u64) {
        self.bytes += publish.payload.len();
        self.waiting.insert(publish.seq);
        let seq = publish.seq;
        let held = Held { publish, samples, enqueued: now, attempts: 0 };
        self.held.insert(seq, held);
        self.depth_max = self.depth_max.max(self.held.len());
    }

    /// The oldest waiting message, now in flight; `None` while there is no connection, a pause
    /// is running, or enough is in flight.
    pub fn next_publish(&mut self, now: Mono) -> Option<Publish> {
        if !self.connected || now < self.resume_at || self.in_flight.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let seq = self.waiting.pop_first()?;
        let held = self.held.get_mut(&seq)?;
        held.attempts += 1;
        self.account.retried += u64::from(held.attempts > 1);
        self.in_flight.insert(seq, now);
        Some(held.publish.clone())
    }

    /// The message could not be handed over: it waits again, as if never sent.
    pub fn on_not_taken(&mut self, now: Mono, seq: Seq) {
        if let Some(held) = self.held.get_mut(&seq) {
            self.account.retried -= u64::from(held.attempts > 1);
            held.attempts = held.attempts.saturating_sub(1);
        }
        self.wait_again(seq);
        self.resume_at = now.plus(RETRY_PAUSE / 10);
    }

    fn wait_again(&mut self, seq: Seq) {
        if self.in_flight.remove(&seq).is_some() {
            self.waiting.insert(seq);
        }
    }

    /// The broker has it; tells when it was enqueued. `None` when that was known already.
    pub fn on_acknowledged(&mut self, seq: Seq) -> Option<Mono> {
        let held = self.remove(seq)?;
        self.account.published += 1;
        Some(held.enqueued)
    }

    /// The broker did not take it now: it waits again, and everything pauses for a moment.
    pub fn on_deferred(&mut self, now: Mono, seq: Seq) {
        self.resume_at = now.plus(RETRY_PAUSE);
        self.wait_again(seq);
    }

    /// The broker will never take it; returns the samples that are lost with it.
    pub fn on_refused(&mut self, seq: Seq) -> Option<u64> {
        let held = self.remove(seq)?;
        self.account.refused += 1;
        Some(held.samples)
    }

    fn remove(&mut self, seq: Seq) -> Option<Held> {
        let held = self.held.remove(&seq)?;
        self.waiting.remove(&seq);
        self.in_flight.remove(&seq);
        self.bytes -= held.publish.payload.len();
        Some(held)
    }

    /// Sending may begin. What was in flight on an earlier connection is sent again: the broker
    /// and the aggregator both recognise a repetition.
    pub fn on_connected(&mut self) {
        self.connected = true;
        self.resume_at = Mono(0);
        self.waiting.extend(std::mem::take(&mut self.in_flight).into_keys());
    }

    /// Sending must pause.
    pub fn on_disconnected(&mut self) {
        self.connected = false;
    }

    /// Whoever was not acknowledged in time waits again; a pause that is over is forgotten.
    pub fn on_deadline(&mut self, now: Mono) {
        if now >= self.resume_at {
            self.resume_at = Mono(0);
        }
        let overdue = |sent: &Mono| now.since(*sent) >= ACK_WAIT;
        let late: Vec<Seq> =
            self.in_flight.iter().filter(|(_, sent)| overdue(sent)).map(|(seq, _)| *seq).collect();
        late.into_iter().for_each(|seq| self.wait_again(seq));
    }

    /// When something changes without an event from outside.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let overdue = self.in_flight.values().min().map(|sent| sent.plus(ACK_WAIT));
        let could_send = self.in_flight.len() < IN_FLIGHT_MAX && !self.waiting.is_empty();
        let paused = self.connected && could_send && self.resume_at > Mono(0);
        overdue.into_iter().chain(paused.then_some(self.resume_at)).min()
    }

    /// Counters and depth for the aggregator.
    #[must_use]
    pub fn account(&self) -> Bus {
        Bus {
            outbox_messages: self.held.len() as u64,
            outbox_messages_max: self.depth_max as u64,
            outbox_bytes: self.bytes as u64,
            ..self.account.clone()
        }
    }

    /// Begins a new measurement of the greatest depth.
    pub fn reset_depth_max(&mut self) {
        self.depth_max = self.held.len();
    }

    /// Samples in all messages held.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.held.values().map(|held| held.samples).sum()
    }

    /// Messages in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// True when every message has been acknowledged or refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether messages may be sent.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connected
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn publish(seq: u64) -> Publish {
        Publish {
            seq: Seq(seq),
            subject: "s".into(),
            message_id: seq.to_string(),
            payload: Bytes::from_static(&[0; 10]),
        }
    }

    fn filled(messages: u64) -> Outbox {
        let mut outbox = Outbox::new(100, 1_000);
        for seq in 1..=messages {
            assert!(outbox.admit(10));
            outbox.push(Mono(seq), publish(seq), 5);
        }
        outbox
    }

    #[test]
    fn nothing_is_sent_without_a_connection() {
        let mut outbox = filled(1);
        assert_eq!(outbox.next_publish(Mono(9)), None);
        outbox.on_connected();
        assert_eq!(outbox.next_publish(Mono(9)), Some(publish(1)));
        assert_eq!(outbox.next_publish(Mono(9)), None);
    }

    #[test]
    fn a_message_stays_until_acknowledged_and_tells_when_it_came() {
        let mut outbox = filled(2);
        outbox.on_connected();
        outbox.next_publish(Mono(9));
        assert_eq!(outbox.on_acknowledged(Seq(1)), Some(Mono(1)));
        assert_eq!(outbox.on_acknowledged(Seq(1)), None);
        assert_eq!((outbox.samples(), outbox.account().published), (5, 1));
    }

    #[test]
    fn an_overdue_message_is_sent_again_before_newer_ones() {
        let mut outbox = filled(2);
        outbox.on_connected();
        outbox.next_publish(Mono(0));
        assert_eq!(outbox.next_deadline(), Some(Mono(0).plus(ACK_WAIT)));
        outbox.on_deadline(Mono(0).plus(ACK_WAIT));
        assert_eq!(outbox.next_publish(Mono(9)).map(|p| p.seq), Some(Seq(1)));
        assert_eq!(outbox.account().retried, 1);
    }

    #[test]
    fn a_full_outbox_lets_nothing_in_and_pushes_nothing_out() {
        let mut outbox = filled(100);
        assert!(!outbox.admit(10));
        assert_eq!((outbox.held.len(), outbox.account().dropped), (100, 1));
        let mut outbox = Outbox::new(100, 15);
        assert!(outbox.admit(10));
        outbox.push(Mono(0), publish(1), 5);
        assert!(!outbox.admit(10), "the byte bound holds too");
    }

    #[test]
    fn a_declined_message_is_sent_again_after_a_pause() {
        let mut outbox = filled(1);
        outbox.on_connected();
        assert_eq!(outbox.next_publish(Mono(0)), Some(publish(1)));
        outbox.on_deferred(Mono(0), Seq(1));
        assert_eq!(outbox.next_publish(Mono(0)), None);
        let resumed = outbox.next_deadline().unwrap();
        assert_eq!(resumed, Mono(0).plus(RETRY_PAUSE));
        assert_eq!(outbox.next_publish(resumed), Some(publish(1)));
    }

    #[test]
    fn a_refused_message_gives_back_the_samples_lost_with_it() {
        let mut outbox = filled(1);
        assert_eq!(outbox.on_refused(Seq(1)), Some(5));
        assert_eq!((outbox.is_empty(), outbox.account().refused), (true, 1));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push,
        Send,
        Acknowledge(u64),
        Defer(u64),
        Refuse(u64),
        Connect,
        Disconnect,
        Pass(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => Just(Step::Push),
            3 => Just(Step::Send),
            2 => (1..40_u64).prop_map(Step::Acknowledge),
            1 => (1..40_u64).prop_map(Step::Defer),
            1 => (1..40_u64).prop_map(Step::Refuse),
            1 => Just(Step::Connect),
            1 => Just(Step::Disconnect),
            1 => (0..8_u64).prop_map(Step::Pass),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn messages_balance_whatever_happens(steps in steps()) {
            let mut outbox = Outbox::new(10, 1_000);
            let (mut now, mut seq, mut samples) = (Mono(0), 0, 0_u64);
            for step in steps {
                match step {
                    Step::Push => if outbox.admit(10) {
                        seq += 1;
                        samples += 5;
                        outbox.push(now, publish(seq), 5);
                    },
                    Step::Send => { outbox.next_publish(now); }
                    Step::Acknowledge(seq) => if outbox.on_acknowledged(Seq(seq)).is_some() {
                        samples -= 5;
                    },
                    Step::Defer(seq) => outbox.on_deferred(now, Seq(seq)),
                    Step::Refuse(seq) => samples -= outbox.on_refused(Seq(seq)).unwrap_or(0),
                    Step::Connect => outbox.on_connected(),
                    Step::Disconnect => outbox.on_disconnected(),
                    Step::Pass(seconds) => {
                        now = now.plus(Duration::from_secs(seconds));
                        outbox.on_deadline(now);
                    }
                }
                let account = outbox.account();
                prop_assert_eq!(
                    account.attempted,
                    account.published + account.dropped + account.refused + account.outbox_messages
                );
                prop_assert_eq!(outbox.samples(), samples);
                prop_assert_eq!(
                    outbox.waiting.len() + outbox.in_flight.len(), outbox.held.len()
                );
                prop_assert_eq!(account.outbox_bytes, account.outbox_messages * 10);
                prop_assert!(outbox.held.len() <= 10 && outbox.in_flight.len() <= IN_FLIGHT_MAX);
            }
        }
    }
}
