//! How many bytes may be on their way to the broker in the normal lane.
//!
//! What is on its way cannot be overtaken: on a slow link megabytes of backlog would lie in the
//! buffers between, and a message of the emergency lane would arrive minutes after them. So the
//! window is what the link delivers within its own delay and a margin, as in BBR: the highest
//! delivery rate of the last rounds, times the round trip through an empty link. It opens twofold
//! in each round trip until the rate stops rising.
//!
//! DESIGN N46.

use std::time::Duration;

use crate::limits::{
    LINK_FLAT_ROUNDS, LINK_MEASURE_AGAIN_AFTER, LINK_MEASURE_EVERY, LINK_MEASURE_MAX, LINK_QUEUE,
    LINK_RATE_ROUNDS, LINK_SLOW, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, WINDOW_BYTES_START,
};
use plimsoll_schemas::limits::delivery::ACK_WAIT;
use plimsoll_schemas::limits::wire::MESSAGE_BYTES_MAX;
use plimsoll_schemas::time::{Mono, nanos};

#[derive(Clone, Copy, Debug)]
pub(super) struct SendWindow {
    bytes: usize,
    rate: DeliveryRate,
    delay: LinkDelay,
    round: Round,
    /// Bytes acknowledged on this connection.
    delivered: u64,
    /// When it last shrank: answers to what was sent before are no new reason.
    shrunk_at: Option<Mono>,
    /// True from then on until it has grown to the size of a full message.
    is_slow: bool,
}

/// What is known of a message when it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub(super) at: Mono,
    delivered: u64,
}

/// The highest delivery rate, in bytes a second, of this span of full rounds and of the one before.
#[derive(Clone, Copy, Debug, Default)]
struct DeliveryRate {
    now: u64,
    before: u64,
    rounds: u32,
}

/// The round trip through an empty link.
#[derive(Clone, Copy, Debug, Default)]
struct LinkDelay {
    shortest: Option<Duration>,
    measured_at: Option<Mono>,
    /// Since when nothing has been on its way.
    empty_since: Option<Mono>,
    /// Until when the normal lane rests so that the link empties.
    measures_until: Option<Mono>,
}

/// The messages sent within one round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began: Mono,
    /// The window kept a message waiting, so that the rate is what the link allows.
    is_full: bool,
    /// The rate at the end of the full round before, and full rounds in a row without a higher one.
    rate_before: u64,
    flat: u32,
}

impl SendWindow {
    /// As at the start of a connection.
    pub(super) fn new() -> Self {
        Self {
            bytes: WINDOW_BYTES_START,
            rate: DeliveryRate::default(),
            delay: LinkDelay::default(),
            round: Round::default(),
            delivered: 0,
            shrunk_at: None,
            is_slow: false,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The longest body of a message: on a link that has proved slow a long message is split, so
    /// that several fit into the window and one is always on its way.
    pub(super) fn body_bytes(&self) -> usize {
        match self.is_slow {
            true => (self.bytes / 4).max(WINDOW_BYTES_MIN),
            false => usize::MAX,
        }
    }

    /// Whether the normal lane rests while the link is measured.
    pub(super) fn is_measuring(&self) -> bool {
        self.delay.measures_until.is_some()
    }

    /// How long an attempt waits for its acknowledgement, if none was overdue before.
    pub(super) fn acknowledgement_wait(&self) -> Duration {
        ACK_WAIT + 2 * self.delay.shortest.unwrap_or_default()
    }

    pub(super) fn depart(&mut self, now: Mono) -> Departure {
        self.delay.empty_since = None;
        Departure { at: now, delivered: self.delivered }
    }

    /// Whether anything is on its way.
    pub(super) fn on_load(&mut self, now: Mono, is_empty: bool) {
        self.delay.empty_since = is_empty.then(|| self.delay.empty_since.unwrap_or(now));
    }

    /// A message of `bytes` is acknowledged; `was_full`: the window kept others waiting.
    pub(super) fn on_acknowledged(
        &mut self,
        now: Mono,
        sent: Departure,
        bytes: usize,
        was_full: bool,
    ) {
        let took = now.since(sent.at);
        self.delay.shorten(took);
        self.delivered += bytes as u64;
        let rate = per_second(self.delivered.saturating_sub(sent.delivered), took);

        // Relative to the link's own delay: with a fixed bound a link of 1.2 s carried one message
        // at a time, and the outbox grew without end (N46).
        if took >= LINK_SLOW + 2 * self.delay.get() {
            self.measure_after(now, LINK_MEASURE_AGAIN_AFTER);
            return self.shrink(now, sent.at, rate);
        }

        self.rate.see(rate);
        self.round.is_full |= was_full;
        // The first answer to what was sent within a round shows that a round trip has passed.
        if sent.at >= self.round.began {
            self.end_round(now);
        }
        // While nothing waited, the rate is what the node produced, and not what the link allows.
        if self.round.is_full {
            self.bytes = self.bytes.max(self.target());
        }
        self.is_slow &= self.bytes < MESSAGE_BYTES_MAX;
    }

    /// A small message made a round trip.
    pub(super) fn on_round_trip(&mut self, now: Mono, took: Duration) {
        let before = self.delay.get();
        self.delay.shorten(took);

        // Only through an empty link is a round trip the link's delay; otherwise it contains a
        // queue.
        let is_alone = |since: Mono| since.plus(took) <= now;
        if self.delay.empty_since.is_some_and(is_alone) {
            self.delay = LinkDelay {
                shortest: Some(took),
                measured_at: Some(now),
                measures_until: None,
                ..self.delay
            };
            // A longer link holds more: the window opens again.
            if took > before * 3 / 2 {
                self.round.flat = 0;
            }
        }
    }

    /// What was on its way is lost with its connection: the window opens anew, since the link may
    /// have become slow.
    pub(super) fn on_lost(&mut self) {
        let bytes = self.bytes.min(WINDOW_BYTES_MIN);
        *self = Self { bytes, is_slow: true, ..Self::new() };
    }

    /// A message that was sent at `sent` is not acknowledged in time.
    pub(super) fn on_overdue(&mut self, now: Mono, sent: Departure) {
        // No answer means that no rate was measured: half of what the link had is assumed.
        self.shrink(now, sent.at, self.rate.get() / 2);
    }

    /// Without a connection nothing is measured.
    pub(super) fn end_measurement(&mut self) {
        self.delay.measures_until = None;
    }

    /// Ends a measurement that got no answer.
    pub(super) fn on_deadline(&mut self, now: Mono) {
        if self.delay.measures_until.take_if(|until| now >= *until).is_some() {
            self.delay.measured_at = Some(now);
        }
    }

    /// When [`Self::on_deadline`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.delay.measures_until
    }

    /// A full round shows what the link allows. While the link is never empty, the shortest delay
    /// that was seen may contain a queue, so it is measured anew from time to time.
    fn end_round(&mut self, now: Mono) {
        let is_full = std::mem::take(&mut self.round.is_full);
        self.round.began = now;
        if !is_full {
            return;
        }

        let (rate, before) = (self.rate.get(), self.round.rate_before);
        // As in BBR: a link is filled once a doubled window no longer brings a quarter more.
        let has_risen = rate >= before.saturating_add(before / 4).max(1);
        self.round.flat = if has_risen { 0 } else { self.round.flat.saturating_add(1) };
        self.round.rate_before = rate;
        self.rate.on_full_round();

        if self.is_filled() {
            self.bytes = self.target();
            self.measure_after(now, LINK_MEASURE_EVERY);
        } else {
            self.bytes = self.bytes.max(self.target());
        }
    }

    fn is_filled(&self) -> bool {
        self.round.flat >= LINK_FLAT_ROUNDS
    }

    /// What the link delivers within its delay and the margin: twice as much until it is filled,
    /// and then a quarter more, so that a link which has become faster is noticed.
    fn target(&self) -> usize {
        let delay = self.delay.get() + LINK_QUEUE;
        let delay = if self.is_filled() { delay * 5 / 4 } else { delay * 2 };
        let bytes = u128::from(self.rate.get()) * u128::from(nanos(delay)) / 1_000_000_000;
        usize::try_from(bytes).unwrap_or(usize::MAX).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
    }

    fn shrink(&mut self, now: Mono, sent: Mono, rate: u64) {
        if self.shrunk_at.is_some_and(|shrunk_at| sent < shrunk_at) {
            return;
        }

        // It counts as filled at once, or the window would double into the same queue again.
        self.rate = DeliveryRate { now: rate, ..DeliveryRate::default() };
        self.round =
            Round { began: now, rate_before: rate, flat: LINK_FLAT_ROUNDS, is_full: false };
        self.bytes = self.target().min(self.bytes / 2).max(WINDOW_BYTES_MIN);
        (self.shrunk_at, self.is_slow) = (Some(now), true);
    }

    /// Measures the delay unless it was measured within `pause`.
    fn measure_after(&mut self, now: Mono, pause: Duration) {
        let is_due = |at: Mono| now.since(at) >= pause;
        if self.delay.measured_at.is_none_or(is_due) && self.delay.measures_until.is_none() {
            self.delay.measures_until = Some(now.plus(LINK_MEASURE_MAX));
        }
    }
}

impl DeliveryRate {
    fn get(&self) -> u64 {
        self.now.max(self.before)
    }

    fn see(&mut self, rate: u64) {
        self.now = self.now.max(rate);
    }

    fn on_full_round(&mut self) {
        self.rounds += 1;
        if self.rounds == LINK_RATE_ROUNDS {
            *self = Self { before: self.now, ..Self::default() };
        }
    }
}

impl LinkDelay {
    fn get(&self) -> Duration {
        self.shortest.unwrap_or_default()
    }

    fn shorten(&mut self, took: Duration) {
        self.shortest = Some(self.shortest.map_or(took, |shortest| shortest.min(took)));
    }
}

fn per_second(bytes: u64, took: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(nanos(took).max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
