//! The oracle's record of a node's present incarnation: where its samples are, what it reported
//! last, and the bounds it must keep.

use std::time::Duration;

use plimsoll_node::limits::{OUTBOX_ENTRIES_MAX, SHARE_BURST, SHARE_PER_MINUTE};
use plimsoll_schemas::limits::wire::MESSAGE_BYTES_MAX;
use plimsoll_schemas::time::{Mono, Now};
use plimsoll_schemas::wire::Bus;

use super::meter::Meter;
use crate::sim::cores::node::{BreakerState, IN_FLIGHT_MAX, NodeStats, Status};
use crate::sim::kernel::Kernel;
use crate::sim::plan::Depths;

/// Bytes of a final message, at most.
const FINAL_MESSAGE_BYTES: usize = 4_096;
/// Bytes of any message of an incarnation, at most: its samples are few.
const MESSAGE_BYTES: usize = 8_192;

/// See the module.
#[derive(Clone, Debug)]
pub struct Incarnation {
    number: usize,
    /// Samples of jobs in the open interval.
    open: Vec<usize>,
    /// Messages made when the last interval was closed, and samples taken until then.
    closed: (u64, u64),
    /// Samples of jobs in closed intervals that are not in the spool.
    unwritten: Vec<usize>,
    /// How many of those are in the batch under way, and samples taken until it was made.
    in_batch: (usize, u64),
    /// Samples taken until the last batch was made that is in the spool.
    spooled: u64,
    /// Messages taken over from former incarnations.
    adopted: u64,
    meter: Meter,
    /// When it was first observed.
    first_observed: Option<Mono>,
    /// Whether the load of its outbox was ever so great that new intervals overtook the others.
    has_rerouted: bool,
    stats: Option<NodeStats>,
    answered: Option<Answered>,
}

/// What an incarnation had recorded when the last frame came that it answered.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    pub incarnation: u64,
    pub recorded: u64,
}

/// A message that goes before others.
#[derive(Clone, Copy, Debug)]
pub struct Overtaking {
    pub is_urgent: bool,
    /// Whether it has samples of any operation.
    pub has_samples: bool,
}

/// Samples of an incarnation that ended.
pub struct Unkept {
    /// Samples of any operation that were in no closed interval, or not in the spool.
    pub count: u64,
    pub samples: Vec<usize>,
}

impl Incarnation {
    /// Before the first start of a node.
    pub fn new(number: usize, depths: Depths) -> Self {
        Self {
            number,
            open: Vec::new(),
            closed: (0, 0),
            unwritten: Vec::new(),
            in_batch: (0, 0),
            spooled: 0,
            adopted: 0,
            meter: Meter::new(depths),
            first_observed: None,
            has_rerouted: false,
            stats: None,
            answered: None,
        }
    }

    /// The node has started and taken over these messages.
    pub fn begin(&mut self, adopted: u64, depths: Depths) {
        *self = Self { closed: (adopted, 0), adopted, ..Self::new(self.number, depths) };
    }

    /// What the node reported last.
    pub fn stats(&self) -> Option<&NodeStats> {
        self.stats.as_ref()
    }

    /// A job sends a sample.
    pub fn record(&mut self, sample: usize) {
        self.open.push(sample);
    }

    /// It answers a frame, at whose arrival it had recorded this many samples.
    pub fn on_answer(&mut self, name: u64, recorded: u64) {
        let before = self.answered.map_or(0, |answered| answered.recorded);
        self.answered = Some(Answered { incarnation: name, recorded: recorded.max(before) });
    }

    /// None before it answered a frame.
    pub fn answered(&self) -> Option<Answered> {
        self.answered
    }

    /// A batch of everything in closed intervals is on its way to the spool.
    pub fn on_batch(&mut self) {
        self.in_batch = (self.unwritten.len(), self.closed.1);
    }

    /// That batch is in the spool.
    pub fn on_batch_written(&mut self) {
        self.unwritten.drain(..self.in_batch.0);
        (self.spooled, self.in_batch) = (self.in_batch.1, (0, 0));
    }

    /// Compares what the node reports of itself with its bounds.
    pub fn observe(&mut self, k: &mut Kernel, now: Now, stats: NodeStats) {
        let attempted = stats.status.bus.attempted;
        if attempted != self.closed.0 {
            // A message of its own closes every interval: all that was recorded is in one.
            self.closed = (attempted, stats.status.intake.samples);
            self.unwritten.append(&mut self.open);
        }

        let before = self.stats.take();
        count_branches(k, before.as_ref(), &stats);
        let at_once_before = before.as_ref().map_or(0, |stats| stats.status.sent_at_once);

        for _ in at_once_before..stats.status.sent_at_once {
            k.reach("declared critical, so it went at once");
            self.on_emergency(k, now, true);
        }

        let since = *self.first_observed.get_or_insert(now.mono);
        check_share(k, self.number, now.mono.since(since), stats.status.sent_at_once);
        let sent = |stats: &NodeStats| (stats.status.bus.rerouted, stats.status.critical_rerouted);
        let (all_before, critical_before) = before.as_ref().map_or((0, 0), sent);
        let (all, critical) = sent(&stats);
        let everyday = (all - critical) - (all_before - critical_before);
        (0..everyday).for_each(|_| self.on_emergency(k, now, false));
        (critical_before..critical).for_each(|_| self.on_emergency(k, now, true));
        k.reach_n("critical message sent before a backlog", critical - critical_before);
        self.has_rerouted |= stats.status.bus.rerouting;
        self.check_bounds(k, &stats);

        if let Some(before) = before {
            self.check_depth(k, &before.status, &stats.status);
            self.check_room(k, &before, &stats);
        }

        self.stats = Some(stats);
    }

    /// While no message leaves the outbox, its depth grows by what is produced, whatever is merged.
    fn check_depth(&self, k: &mut Kernel, before: &Status, after: &Status) {
        let left = |s: &Status| (s.bus.published, s.bus.refused, s.bus.dropped, s.in_flight);
        let grown = after.bus.outbox_depth.wrapping_sub(before.bus.outbox_depth);
        let produced = after.bus.attempted - before.bus.attempted;
        if left(before) == left(after) && grown != produced {
            let words = || format!("n{}: {grown} of {produced}: {:?}", self.number, after.bus);
            k.fail("the depth counts what is held, as it was produced", words);
        }
    }

    /// Depth drops readings. Samples are dropped when there is no room for another message.
    fn check_room(&self, k: &mut Kernel, before: &NodeStats, after: &NodeStats) {
        let (depths, bus) = (k.knobs().depths, &after.status.bus);
        let has_bytes = bus.outbox_bytes + (MESSAGE_BYTES as u64) < depths.bytes as u64;
        let has_entry = bus.outbox_messages < OUTBOX_ENTRIES_MAX as u64;
        if after.dropped > before.dropped && has_bytes && has_entry {
            let words = || format!("n{}: {bus:?}", self.number);
            k.fail("samples are dropped for want of room alone", words);
        }
    }

    /// A message of the emergency lane is handed over for the first time: it shows a breach, or it
    /// is the last, or the newest under load, or has samples that are declared critical.
    pub fn on_overtaking(&self, k: &mut Kernel, message: Overtaking) {
        let Overtaking { is_urgent, has_samples } = message;
        let is_declared = k.knobs().declares && has_samples;
        if !is_urgent && !is_declared && !self.has_rerouted {
            let words = || format!("n{}: {:?}", self.number, self.stats);
            k.fail("only what is urgent overtakes a backlog", words);
        }
    }

    fn check_bounds(&self, k: &mut Kernel, stats: &NodeStats) {
        let (depths, bus) = (k.knobs().depths, &stats.status.bus);
        // The final message always has room.
        let bytes_max = (depths.bytes + FINAL_MESSAGE_BYTES) as u64;
        let known = bus.published + bus.dropped + bus.refused + bus.coalesced + bus.combined;
        let number = self.number;
        let words = || format!("n{number}: {bus:?}");

        if bus.attempted != known + bus.outbox_messages {
            k.fail("messages: attempted = known + held", words);
        } else if bus.published != bus.confirmed + bus.released + bus.unconfirmed {
            k.fail("published = confirmed + released + unconfirmed", words);
        } else if bus.outbox_messages > self.adopted + OUTBOX_ENTRIES_MAX as u64 + 2 {
            k.fail("the outbox is bounded in messages", words);
        } else if bus.outbox_bytes > self.adopted * MESSAGE_BYTES_MAX as u64 + bytes_max {
            k.fail("the outbox is bounded in bytes", words);
        } else if bus.unconfirmed > self.adopted + depths.unconfirmed as u64 + 1 {
            k.fail("copies are bounded in messages", words);
        } else if stats.status.in_flight > IN_FLIGHT_MAX {
            let words = || format!("n{number}: {}", stats.status.in_flight);
            k.fail("what is in flight is bounded", words);
        }
    }

    /// A message takes a token of the emergency lane: when it is sealed, which may be before it
    /// is sent, and each time it is sent again.
    pub fn on_emergency(&mut self, k: &mut Kernel, now: Now, is_critical: bool) {
        k.reach("sent by the emergency lane");
        if let Err(what) = self.meter.on_sent(now.mono.0, is_critical) {
            let number = self.number;
            k.fail("the emergency lane keeps to its rate", || format!("n{number}: {what}"));
        }
    }

    /// The node has ended: its last report, and the samples that were not stored.
    pub fn end(&mut self, has_spool: bool) -> Option<(NodeStats, Unkept)> {
        let stats = self.stats.take()?;
        let kept = if has_spool { self.spooled } else { self.closed.1 };
        let mut samples = std::mem::take(&mut self.open);
        samples.extend(self.unwritten.drain(..).filter(|_| has_spool));
        let count = stats.status.intake.samples - kept;
        Some((stats, Unkept { count, samples }))
    }
}

/// What is declared goes at once within its share of the lane; there is one declaration.
fn check_share(k: &mut Kernel, number: usize, since: Duration, sent: u64) {
    let most = u64::from(SHARE_BURST) + since.as_secs() * u64::from(SHARE_PER_MINUTE) / 60 + 1;
    if sent > most {
        k.fail("a declaration keeps to its share", || format!("n{number}: {sent} in {since:?}"));
    }
}

fn count_branches(k: &mut Kernel, before: Option<&NodeStats>, after: &NodeStats) {
    let none = Bus::default();
    let (old, new) = (before.map_or(&none, |before| &before.status.bus), &after.status.bus);
    k.reach_n("drafts merged", new.coalesced - old.coalesced);
    k.reach_n("waited for a token", new.rate_limited - old.rate_limited);
    k.reach_n("dropped", new.dropped - old.dropped);
    let lost = |stats: &NodeStats| stats.dropped;
    k.reach_n("samples without room", lost(after) - before.map_or(0, lost));
    k.reach_n("confirmed", new.confirmed - old.confirmed);
    k.reach_n("resent for lack of a confirmation", new.resent - old.resent);
    k.reach_n("evicted without a confirmation", new.released - old.released);
    let turned = |is: &dyn Fn(&NodeStats) -> bool| is(after) && !before.is_some_and(is);
    let breaker = |state| move |stats: &NodeStats| stats.status.breaker == state;
    let was_closed = before.is_none_or(|b| b.status.breaker == BreakerState::Closed);

    let branches = [
        ("breaker closed again", !was_closed && turned(&breaker(BreakerState::Closed))),
        ("breaker open", turned(&breaker(BreakerState::Open))),
        ("breaker half-open", turned(&breaker(BreakerState::HalfOpen))),
        ("only the emergency lane sent", turned(&|stats| stats.status.bus.conservative)),
    ];

    for (name, turned) in branches {
        k.reach_n(name, u64::from(turned));
    }
}
