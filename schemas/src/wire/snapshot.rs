//! A snapshot: what a node sends of one interval, before it becomes bytes and after it was checked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::event::Events;
use crate::hardware::Reading;
use crate::histogram::{Distribution, Histogram};
use crate::ids::{Incarnation, Labels, LossReason, NodeName, Operation, Seq, Series};
use crate::own_operations::is_own_series;
use crate::subject::{Lane, SnapshotKind};
use crate::time::Wall;

/// Header of a bus message: when its node sent it this time, in nanoseconds since 1970 by the
/// node's clock. Compared with the broker's own time it shows how much the two clocks differ,
/// which the payload cannot: that stays the same however often and late it is sent.
pub const SENT_HEADER: &str = "Plimsoll-Sent";

/// One message: a snapshot of one kind. Its distributions are `H`: a [`Histogram`] where samples
/// are recorded, [`Packed`](crate::histogram::Packed) where they are only merged.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot<H = Histogram> {
    /// Who, when, and where in the sequence.
    pub header: Header,
    /// What.
    pub body: Body<H>,
}

/// The header of every message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The node; equal to the one in the subject.
    pub node: NodeName,
    /// The incarnation of the node.
    pub incarnation: Incarnation,
    /// The message's number within the incarnation, without holes.
    pub seq: Seq,
    /// Begin of the interval on the node's clock.
    pub start: Wall,
    /// Length of the interval in nanoseconds.
    pub length_ns: u64,
    /// The node's ledger up to and including this message.
    pub totals: Totals,
    /// True on the final message of an orderly end: silence after it is no fault.
    pub last: bool,
    /// The incarnation that sends this message for a crashed one; `None` when the message is from
    /// its own incarnation.
    pub successor: Option<Incarnation>,
    /// Labels of the node: rack, role, version and the like.
    pub labels: Labels,
}

/// A node's running ledger within one incarnation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Samples put into snapshots up to and including this one.
    pub recorded: u64,
    /// Of those, samples that the node lost, by reason.
    pub lost: BTreeMap<LossReason, u64>,
}

impl Totals {
    /// Samples lost for any reason.
    #[must_use]
    pub fn lost_sum(&self) -> u64 {
        self.lost.values().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

/// The part of a message that depends on its kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Body<H = Histogram> {
    /// Latencies, counters and gauges.
    Latency(Latency<H>),
    /// Sensor readings.
    Hardware(Hardware),
    /// The node's outbox and connection.
    Bus(Bus),
    /// Events and service checks of the jobs.
    Event(Events),
    /// Several of these, of one interval.
    Interval(Interval<H>),
    /// What an aggregator has merged of its nodes since its message before.
    Shard(ShardReport<H>),
}

/// What a node sends of one interval in one message, as far as it fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval<H = Histogram> {
    /// Latencies, counters and gauges.
    pub latency: Option<Latency<H>>,
    /// Sensor readings.
    pub hardware: Option<Hardware>,
    /// The node's outbox and connection.
    pub bus: Option<Bus>,
    /// Events and service checks of the jobs.
    pub event: Option<Events>,
}

impl<H> Default for Interval<H> {
    fn default() -> Self {
        Self { latency: None, hardware: None, bus: None, event: None }
    }
}

impl<H: Distribution> Body<H> {
    /// The kind that the subject must name.
    #[must_use]
    pub fn kind(&self) -> SnapshotKind {
        match self {
            Self::Latency(_) => SnapshotKind::Latency,
            Self::Hardware(_) => SnapshotKind::Hardware,
            Self::Bus(_) => SnapshotKind::Bus,
            Self::Event(_) => SnapshotKind::Event,
            Self::Interval(_) => SnapshotKind::Interval,
            Self::Shard(_) => SnapshotKind::Shard,
        }
    }

    /// The parts of the interval that it carries: one, or several; none of a shard's report.
    #[must_use]
    pub fn into_parts(self) -> Interval<H> {
        match self {
            Self::Latency(latency) => Interval { latency: Some(latency), ..Interval::default() },
            Self::Hardware(hardware) => {
                Interval { hardware: Some(hardware), ..Interval::default() }
            }
            Self::Bus(bus) => Interval { bus: Some(bus), ..Interval::default() },
            Self::Event(events) => Interval { event: Some(events), ..Interval::default() },
            Self::Interval(parts) => parts,
            Self::Shard(_) => Interval::default(),
        }
    }

    /// Its latencies, counters and gauges.
    #[must_use]
    pub fn latency(&self) -> Option<&Latency<H>> {
        match self {
            Self::Latency(latency) => Some(latency),
            Self::Interval(parts) => parts.latency.as_ref(),
            Self::Hardware(_) | Self::Bus(_) | Self::Event(_) | Self::Shard(_) => None,
        }
    }

    /// Its sensor readings.
    #[must_use]
    pub fn hardware(&self) -> Option<&Hardware> {
        match self {
            Self::Hardware(hardware) => Some(hardware),
            Self::Interval(parts) => parts.hardware.as_ref(),
            Self::Latency(_) | Self::Bus(_) | Self::Event(_) | Self::Shard(_) => None,
        }
    }

    /// What it reports of the node's outbox and connection.
    #[must_use]
    pub fn bus(&self) -> Option<&Bus> {
        match self {
            Self::Bus(bus) => Some(bus),
            Self::Interval(parts) => parts.bus.as_ref(),
            Self::Latency(_) | Self::Hardware(_) | Self::Event(_) | Self::Shard(_) => None,
        }
    }

    /// Its events and service checks.
    #[must_use]
    pub fn event(&self) -> Option<&Events> {
        match self {
            Self::Event(events) => Some(events),
            Self::Interval(parts) => parts.event.as_ref(),
            Self::Latency(_) | Self::Hardware(_) | Self::Bus(_) | Self::Shard(_) => None,
        }
    }

    /// Samples that this message carries.
    #[must_use]
    pub fn samples(&self) -> u64 {
        match self {
            Self::Shard(report) => report.samples(),
            _ => self.latency().map_or(0, Latency::samples),
        }
    }

    /// Those of them that the node took of itself.
    #[must_use]
    pub fn own_samples(&self) -> u64 {
        match self {
            Self::Shard(report) => report.own_samples(),
            _ => self.latency().map_or(0, Latency::own_samples),
        }
    }
}

/// Everything the jobs beside a node reported in one interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency<H = Histogram> {
    /// One distribution for each series.
    pub histograms: Vec<(Series, H)>,
    /// What each counter grew by in this interval; finite.
    pub counters: Vec<(Series, f64)>,
    /// The last value of each gauge; finite.
    pub gauges: Vec<(Series, f64)>,
}

impl<H> Default for Latency<H> {
    fn default() -> Self {
        Self { histograms: Vec::new(), counters: Vec::new(), gauges: Vec::new() }
    }
}

impl<H: Distribution> Latency<H> {
    /// Samples in all histograms.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.histograms.iter().fold(0, |sum, (_, h)| sum.saturating_add(h.count()))
    }

    /// Those of them that the node took of itself.
    #[must_use]
    pub fn own_samples(&self) -> u64 {
        let own = self.histograms.iter().filter(|(series, _)| is_own_series(series));
        own.fold(0, |sum, (_, h)| sum.saturating_add(h.count()))
    }
}

/// What an aggregator has merged since its message before.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardReport<H = Histogram> {
    /// Up to where it has read, one for each lane that it has read from: all that is merged of it
    /// is in this message or in one before.
    pub read: Vec<ReadPosition>,
    /// Samples by when they were taken; at most `limits::wire::SHARD_SLOTS_MAX`.
    pub slots: Vec<ShardSlot<H>>,
}

/// Up to where a lane's stream was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadPosition {
    /// The lane.
    pub lane: Lane,
    /// The stream: one that was created anew has another.
    pub stream_id: String,
    /// Number of the last message that was read.
    pub seq: u64,
}

/// Samples of nodes with the same labels that were taken within a second.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardSlot<H = Histogram> {
    /// When, by the aggregator's clock.
    pub taken: Wall,
    /// Labels that their nodes have in common.
    pub labels: Labels,
    /// The samples.
    pub latency: Latency<H>,
}

impl<H: Distribution> ShardReport<H> {
    /// Samples in all slots.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.slots.iter().fold(0, |sum, slot| sum.saturating_add(slot.latency.samples()))
    }

    /// Those of them that nodes took of themselves.
    #[must_use]
    pub fn own_samples(&self) -> u64 {
        self.slots.iter().fold(0, |sum, slot| sum.saturating_add(slot.latency.own_samples()))
    }
}

/// One sample of the machine's sensors: all readings, or those values that differ from an earlier
/// message with all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hardware {
    /// At most `limits::wire::SERIES_MAX` readings; none when only values have changed.
    pub readings: Vec<Reading>,
    /// Number of the set of readings within the incarnation, which grows with each message that has
    /// all of them; 0 from a node that sends no changes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub set: u64,
    /// Without readings: places in the set of this number and their values, of all readings whose
    /// value has changed since that set was sent. All others are as they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<(u32, f64)>,
}

impl Hardware {
    /// All readings, to which no changes refer.
    #[must_use]
    pub fn all(readings: Vec<Reading>) -> Self {
        Self { readings, ..Self::default() }
    }

    /// Whether these are changes of an earlier set.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.readings.is_empty() && self.set > 0
    }
}

/// Puts changed values into the readings of their set; a place without a value is left alone.
pub fn apply_changes(readings: &mut [Reading], changed: &[(u32, f64)]) {
    for (place, value) in changed {
        let reading = usize::try_from(*place).ok().and_then(|place| readings.get_mut(place));
        if let Some(known) = reading.and_then(|reading| reading.value.as_mut()) {
            *known = *value;
        }
    }
}

/// Counts of the node's messages between the outbox and the aggregators. Counters run from the
/// start of the incarnation and count messages: `attempted = published + dropped + refused +
/// coalesced + combined + held`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bus {
    /// Messages made.
    pub attempted: u64,
    /// Messages that the broker has acknowledged.
    pub published: u64,
    /// Messages sent in the emergency lane.
    pub rerouted: u64,
    /// Messages dropped because the outbox was full.
    pub dropped: u64,
    /// Messages that the broker can never take.
    pub refused: u64,
    /// Messages sent once more because no acknowledgement came.
    pub retried: u64,
    /// Messages in the outbox now; what was merged is one.
    pub outbox_messages: u64,
    /// The messages in the outbox as they were produced: one that stands for 40 merged ones counts
    /// 40.
    #[serde(skip_serializing_if = "is_zero")]
    pub outbox_depth: u64,
    /// The greatest depth since the last bus message.
    #[serde(skip_serializing_if = "is_zero")]
    pub outbox_depth_max: u64,
    /// Bytes in the outbox now.
    pub outbox_bytes: u64,
    /// Age in nanoseconds of the oldest message in the outbox.
    #[serde(skip_serializing_if = "is_zero")]
    pub outbox_age_ns: u64,
    /// The greatest of depth, bytes and age, each in millionths of the way to the node's own
    /// marks: half of them where rerouting begins, all where dropping begins.
    #[serde(skip_serializing_if = "is_zero")]
    pub outbox_pressure: u64,
    /// Connections made after the first.
    pub reconnects: u64,
    /// Latest round trip to the broker in nanoseconds, when there is a connection.
    pub round_trip_ns: Option<u64>,
    /// Input that the node refused, by reason.
    pub rejected: BTreeMap<LossReason, u64>,
    /// Messages merged into a neighbour, or superseded by a newer one, before they were sent.
    #[serde(skip_serializing_if = "is_zero")]
    pub coalesced: u64,
    /// Messages that travelled as a part of another message of their interval.
    #[serde(skip_serializing_if = "is_zero")]
    pub combined: u64,
    /// Messages that had to wait for a token of the emergency lane.
    #[serde(skip_serializing_if = "is_zero")]
    pub rate_limited: u64,
    /// Published messages that an aggregator has confirmed as stored: `published = confirmed +
    /// released + unconfirmed`.
    #[serde(skip_serializing_if = "is_zero")]
    pub confirmed: u64,
    /// Published messages whose copy was evicted without a confirmation.
    #[serde(skip_serializing_if = "is_zero")]
    pub released: u64,
    /// Published messages whose copy is kept until an aggregator confirms them.
    #[serde(skip_serializing_if = "is_zero")]
    pub unconfirmed: u64,
    /// Times that a published message was sent again because no aggregator had it.
    #[serde(skip_serializing_if = "is_zero")]
    pub resent: u64,
    /// Times that a stream had the id of a message that the node had never sent under it, so that
    /// someone else has used it; the message was sent again under another id.
    #[serde(skip_serializing_if = "is_zero")]
    pub taken_ids: u64,
    /// Confirmations that the node refused, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub confirmations_refused: BTreeMap<LossReason, u64>,
    /// Datagrams that the kernel dropped because a socket of the node was full.
    #[serde(skip_serializing_if = "is_zero")]
    pub kernel_dropped: u64,
    /// Tasks and threads of the node that it had to start again.
    #[serde(skip_serializing_if = "is_zero")]
    pub task_restarts: u64,
    /// [`BreakerState::as_number`]; absent when the node has no breaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker_state: Option<u8>,
    /// True while the emergency lane alone is sent.
    #[serde(skip_serializing_if = "is_false")]
    pub conservative: bool,
    /// Samples of all intervals closed so far, whether or not a message carries them yet. If the
    /// incarnation ends without a final message, what it held is known from this.
    #[serde(skip_serializing_if = "is_zero")]
    pub recorded: u64,
    /// Those of `recorded` that the node took of itself, so that a crash which loses only these is
    /// known as such.
    #[serde(skip_serializing_if = "is_zero")]
    pub recorded_own: u64,
    /// Whether a spool keeps its messages, so that the next incarnation reports a crash of this
    /// one; absent when the node does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spooled: Option<bool>,
    /// Whether all that it holds would outlive its process: false while its spool, or the notes
    /// beside it, cannot be written. Absent without a spool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spool_durable: Option<bool>,
    /// What the node found noted of incarnations before it whose spool is gone, as after a full
    /// disk: no crash report can be made of them. At most `limits::wire::FORMER_INCARNATIONS_MAX`.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub former: Box<[NotedIncarnation]>,
    /// True while new messages may go by the emergency lane because the outbox is deep.
    #[serde(skip_serializing_if = "is_false")]
    pub rerouting: bool,
    /// True while messages are dropped because the outbox is full.
    #[serde(skip_serializing_if = "is_false")]
    pub dropping: bool,
    /// Operations of which the node suspects that their values are in another unit than it
    /// assumes.
    #[serde(skip_serializing_if = "is_zero")]
    pub suspect_units: u64,
    /// Operations of which every client that brought their latencies has ended normally, as of
    /// the end of the interval: silence after it is no fault. In order of their names, at most
    /// `limits::wire::ENDED_OPERATIONS_MAX`.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub ended_operations: Box<[Operation]>,
    /// Version of the node's software, at most `limits::wire::VERSION_BYTES_MAX`; empty when the
    /// node does not report it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: Box<str>,
}

impl Bus {
    /// Confirmations refused for any reason.
    #[must_use]
    pub fn confirmations_refused_sum(&self) -> u64 {
        self.confirmations_refused.values().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

/// What an incarnation had noted when it ended: without its spool all that is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedIncarnation {
    /// The incarnation.
    pub incarnation: Incarnation,
    /// Samples recorded in it: those in messages, in drafts and in the open interval, and those
    /// lost before a message could carry them.
    pub recorded: u64,
}

/// The state of a node's circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Everything may be sent.
    Closed,
    /// One message, the probe, may be sent.
    HalfOpen,
    /// Nothing may be sent.
    Open,
}

impl BreakerState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Closed, Self::HalfOpen, Self::Open];

    /// The state on the wire.
    #[must_use]
    pub const fn as_number(self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::HalfOpen => 1,
            Self::Open => 2,
        }
    }

    /// The state as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde needs")]
pub(super) fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde needs")]
fn is_false(is_so: &bool) -> bool {
    !*is_so
}
