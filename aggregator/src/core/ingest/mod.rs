//! Ingest: a broker's message becomes a snapshot with its event time.
//!
//! Owns how far each lane has been read, whether everything stored at the start has been read, the
//! span that is being caught up with after a restart, the broker's health, and the counts of
//! messages that could not be decoded. It merges nothing, judges nothing and keeps no sample.
//!
//! Interface: [`Decoded::of`] decodes one message on any thread and [`Ingest::on_decoded`] takes
//! it; [`Ingest::next_catch_up`] returns the past times that are to be judged before;
//! [`Ingest::broker_health`] and [`Ingest::read_up_to`] report how far what was read can be
//! trusted.

mod broker_clock;
mod broker_health;
mod catch_up;
mod decode;
mod event_time;
mod progress;
mod turns;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{CLOCK_STEP_MIN, CONNECTION_SETTLES, LANE_AWAITED};
use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::transport::BusEvent;
use plimsoll_schemas::wire::Snapshot;
use serde::{Deserialize, Serialize};

pub use broker_health::{BrokerHealth, MeshLinks};
pub use decode::{Decoded, Unreadable};
use event_time::ReadingState;
pub use event_time::{EventTime, Skew, Timeliness};
pub use progress::{Position, ReadUpTo, Recoveries};
pub use turns::{LaneOrder, Turns};

use broker_clock::BrokerClock;
use broker_health::BrokerWatch;
use catch_up::CatchUp;
use progress::Progress;

/// How far the streams have been read, and what is known of the broker.
#[derive(Debug)]
pub struct Ingest {
    lanes: BTreeMap<Lane, Progress>,
    ready: bool,
    /// Both clocks at the last tick.
    pub(super) ticked_at: Now,
    catch_up: Option<CatchUp>,
    broker: BrokerWatch,
    broker_clock: BrokerClock,
    /// When the present connection, or the last one, was made.
    connected_at: Option<Mono>,
    /// Messages that could not be decoded, by reason.
    pub(super) undecodable: BTreeMap<Cow<'static, str>, u64>,
    /// Since the last checkpoint.
    pub(super) has_changed: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredIngest {
    lanes: BTreeMap<Lane, Position>,
    undecodable: BTreeMap<Cow<'static, str>, u64>,
}

/// What the wall clock did between two ticks beyond the time that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockJump {
    /// By how much it moved forward more than the monotonic clock.
    pub forward: Duration,
    pub is_back: bool,
}

impl Ingest {
    /// Nothing has been read yet.
    pub fn new(now: Now) -> Self {
        Self {
            lanes: Lane::ALL.map(|lane| (lane, Progress::default())).into(),
            ready: false,
            ticked_at: now,
            catch_up: None,
            broker: BrokerWatch::default(),
            broker_clock: BrokerClock::default(),
            connected_at: None,
            undecodable: BTreeMap::new(),
            has_changed: false,
        }
    }

    /// Reads on from the positions of a checkpoint and catches up with the time since
    /// `judged_at`, when rules were last judged.
    pub fn restore(now: Now, stored: StoredIngest, judged_at: Wall) -> Self {
        let mut ingest = Self::new(now);
        for (lane, Position { read, stream_id }) in stored.lanes {
            ingest.lanes.insert(lane, Progress::restored(read, stream_id));
        }
        ingest.undecodable = stored.undecodable;
        ingest.catch_up = Some(CatchUp::since(judged_at));
        ingest
    }

    /// Reading of a lane begins. Until all that its stream holds now has been read, answers would
    /// be parts of the truth and are withheld.
    pub fn on_positioned(&mut self, lane: Lane, first_seq: u64, last_seq: u64, stream_id: &str) {
        let progress = self.lanes.entry(lane).or_default();
        if !stream_id.is_empty() {
            progress.stream_id = Some(stream_id.to_owned());
        }
        progress.on_positioned(first_seq, last_seq);
        self.broker.streams_used.insert(lane, 0.0);
        self.has_changed = true;
        self.update_readiness();
    }

    /// The lane's stream was created anew: positions begin again, merged samples stay merged.
    pub fn on_reset(&mut self, lane: Lane, last_seq: u64) {
        self.lanes.entry(lane).or_default().reset(last_seq);
        self.has_changed = true;
        self.update_readiness();
    }

    /// Takes one decoded message and sets its event time. Callers judge the past before it first,
    /// see [`Self::on_stored_at`].
    ///
    /// # Errors When it could not be decoded; it has been counted.
    pub fn on_decoded(
        &mut self,
        now: Now,
        Decoded { message, snapshot }: Decoded,
    ) -> Result<(EventTime, Snapshot<Packed>), Unreadable> {
        let progress = self.lanes.entry(message.lane).or_default();
        progress.on_read(now.mono, message.stream_seq, message.pending);
        self.has_changed = true;
        let judged_up_to = self.judged_up_to();
        // Before the event time, which depends on whether the clocks agree.
        if let Some(at) = message.at {
            self.broker_clock.on_message(now, at);
        }

        let clocks_agree = self.broker_clock.agrees();
        let reading = ReadingState { ready: self.ready, clocks_agree, judged_up_to };
        let mut time = EventTime::of(now.wall, &message, reading);
        time.since_stored = time.since_stored.filter(|since| self.is_usual(now.mono, *since));
        // After the event time: the message that completes the past is still one of the past.
        self.update_readiness();

        // The later of both clocks, so that one that is
        // behind refuses no node that has just started.
        let latest = message.at.map_or(now.wall, |at| at.max(now.wall));
        let snapshot = snapshot.and_then(|snapshot| decode::plausible(latest, snapshot));

        match snapshot {
            Ok(snapshot) => Ok((time, snapshot)),
            Err(unreadable) => Err(self.refuse(unreadable)),
        }
    }

    /// Counts a message that is not merged.
    pub fn refuse(&mut self, unreadable: Unreadable) -> Unreadable {
        let count = self.undecodable.entry(unreadable.reason.into()).or_default();
        *count += 1;
        Unreadable { count: *count, ..unreadable }
    }

    /// Whether a message was stored long enough after the present connection was made: one that
    /// waited while the broker restarted is no slow delivery.
    fn is_usual(&self, now: Mono, since_stored: Duration) -> bool {
        let settles = CONNECTION_SETTLES + self.broker.reconnects_within;
        let unusual = since_stored.saturating_add(settles);
        self.connected_at.is_none_or(|at| now.since(at) > unusual)
    }

    fn update_readiness(&mut self) {
        self.ready = self.ready || self.lanes.values().all(Progress::has_read_the_past);
    }

    /// The broker stored the next message of `lane` at `at`. While catching up, everything stored
    /// before the returned time has been merged, so the time before it can be judged.
    pub fn on_stored_at(&mut self, now: Wall, lane: Lane, at: Option<Wall>) -> Option<Wall> {
        let catch_up = self.catch_up?;
        let Some(at) = at else {
            // Without times only the present can be judged.
            self.catch_up = None;
            return None;
        };
        let progress = self.lanes.entry(lane).or_default();
        progress.at = progress.at.max(Some(at));
        // The lane that is further back decides: what it
        // brings next may belong to any time after that.
        let behind = self.lanes.values().filter(|lane| !lane.has_read_the_past());
        behind.map(|lane| lane.at.unwrap_or(catch_up.from).min(now)).min()
    }

    /// The next past time before `before` that is to be judged; to be called until there is none.
    pub fn next_catch_up(&mut self, now: Wall, before: Wall) -> Option<Wall> {
        self.catch_up.as_mut()?.next(now, before)
    }

    /// Whether a past span is being caught up with.
    pub fn is_catching_up(&self) -> bool {
        self.catch_up.is_some()
    }

    /// Up to when the past has been judged, while catching up.
    pub fn judged_up_to(&self) -> Option<Wall> {
        self.catch_up.map(|catch_up| catch_up.judged)
    }

    /// The present begins: all of the past has been judged.
    pub fn end_catch_up(&mut self) {
        self.catch_up = None;
    }

    /// While catching up, the lane that is further back in time. It is read first, so that the
    /// other one need not be held in memory.
    pub fn lags(&self) -> Option<Lane> {
        self.catch_up?;
        let behind = self.lanes.iter().filter(|(_, lane)| !lane.has_read_the_past());
        behind.min_by_key(|(_, lane)| lane.at).map(|(lane, _)| *lane)
    }

    /// Whether messages of the past are about to be read from this lane: some are unread, and a
    /// moment ago one was read or the connection was made.
    pub fn awaits(&self, lane: Lane) -> bool {
        let Some(progress) = self.lanes.get(&lane) else { return false };
        // Only for a while: if the rest of its past was dropped by the stream, nothing more comes.
        let latest = progress.read_at.max(self.connected_at);
        let is_recent = latest.is_some_and(|at| self.ticked_at.mono.since(at) < LANE_AWAITED);
        is_recent && !progress.has_read_the_past()
    }

    /// Whether the broker answers follows from the events of the connection.
    pub fn on_bus_event(&mut self, event: &BusEvent, now: Mono) {
        self.broker.on_event(event, now);
        if matches!(event, BusEvent::Connected { .. }) {
            self.connected_at = Some(now);
        }
    }

    /// Compares both clocks with those of the last tick.
    pub fn on_tick(&mut self, now: Now) -> ClockJump {
        let before = std::mem::replace(&mut self.ticked_at, now);
        let (wall, mono) = (now.wall.since(before.wall), now.mono.since(before.mono));
        let jump =
            ClockJump { forward: wall.saturating_sub(mono), is_back: now.wall < before.wall };
        // The broker's clock was compared with another one of ours.
        if jump.is_back || jump.forward >= CLOCK_STEP_MIN {
            self.broker_clock.on_set();
        }
        jump
    }

    /// Whether the wall clock was set forward since the last tick.
    pub fn is_clock_set(&self, now: Now) -> bool {
        let (wall, mono) = (self.ticked_at.wall, self.ticked_at.mono);
        now.wall.since(wall).saturating_sub(now.mono.since(mono)) >= CLOCK_STEP_MIN
    }

    /// Updates the broker's health, once a second after everything stored at the start was read.
    pub fn watch_broker(&mut self, now: Mono, mesh: MeshLinks) {
        self.broker.watch(now, self.read_up_to().as_of(now), mesh);
    }

    /// So much of a lane's stream is used, if it refuses messages when it is full; else 0.
    pub fn on_stream_used(&mut self, lane: Lane, ratio: f64) {
        self.broker.streams_used.insert(lane, ratio);
    }

    /// The broker's health as last updated.
    pub fn broker_health(&self) -> BrokerHealth {
        let pending = || self.lanes.values().fold(0, |n: u64, of| n.saturating_add(of.pending));
        self.broker.health((!self.is_catching_up()).then(pending))
    }

    /// Whether everything that the streams held at the start has been read.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether unread messages may wait in a stream.
    pub fn is_behind(&self) -> bool {
        !self.lanes.values().all(Progress::has_read_all)
    }

    /// Up to when all lanes have been read.
    pub fn read_up_to(&self) -> ReadUpTo {
        self.lanes.values().map(Progress::read_up_to).min().unwrap_or(ReadUpTo::Never)
    }

    /// How far a lane has been read.
    pub fn position(&self, lane: Lane) -> Position {
        self.lanes.get(&lane).map(Progress::position).unwrap_or_default()
    }

    /// Messages still to be read, by lane.
    pub fn pending(&self) -> Vec<(Lane, u64)> {
        self.lanes.iter().map(|(lane, progress)| (*lane, progress.pending)).collect()
    }

    /// How long backlogs lasted, by lane.
    pub fn recoveries(&self) -> Vec<(Lane, Recoveries)> {
        self.lanes.iter().map(|(lane, progress)| (*lane, progress.recoveries)).collect()
    }

    /// What a checkpoint stores; from here on nothing has changed.
    pub fn checkpoint(&mut self) -> StoredIngest {
        self.has_changed = false;
        StoredIngest {
            lanes: Lane::ALL.map(|lane| (lane, self.position(lane))).into(),
            undecodable: self.undecodable.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
