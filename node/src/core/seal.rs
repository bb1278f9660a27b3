//! The end of an interval: what was recorded becomes drafts, and a draft that is handed out
//! becomes a message, numbered and accounted for.

use std::collections::BTreeMap;

use bytes::Bytes;
use plimsoll_schemas::ids::{Incarnation, Labels, LossReason, NodeName, Seq};
use plimsoll_schemas::limits::wire::{INTERVAL_NS_MAX, MESSAGE_BYTES_SPLIT, SERIES_MAX};
use plimsoll_schemas::subject::{Lane, SnapshotSubject};
use plimsoll_schemas::time::{Now, Wall, nanos};
use plimsoll_schemas::wire::{self, Body, Hardware, Header, Latency, Snapshot, Totals};

use super::draft::{Draft, histogram_bytes, name_bytes};
use super::intake::{Closed, SAMPLES_CAP, SOCKET};
use super::journal::RunAccount;
use super::sealed::Sealed;
use super::{Core, Identity};

/// Samples lost because the outbox was full.
pub(super) const OUTBOX_FULL: &str = "outbox_full";
/// Samples lost because the broker would not take their message.
pub(super) const REFUSED: &str = "refused";

/// Samples of messages that were never sent and grew too old.
pub(super) const EXPIRED: &str = "expired";

/// Reasons for which samples are lost that no message ever carried.
const NEVER_SENT: [&str; 4] = [OUTBOX_FULL, EXPIRED, SOCKET, SAMPLES_CAP];

/// Makes messages of drafts.
pub(super) struct Sealer {
    identity: Identity,
    incarnation: Incarnation,
    /// Samples in all messages handed out so far.
    handed_out: u64,
}

impl Sealer {
    pub(super) fn new(identity: Identity, incarnation: Incarnation) -> Self {
        Self { identity, incarnation, handed_out: 0 }
    }

    /// The run of the node that it seals for.
    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The node's name.
    pub(super) fn node(&self) -> &NodeName {
        &self.identity.node
    }

    /// What the header of a message says about the node: only samples are grouped by it, so
    /// nothing else pays its bytes.
    fn labels_of(&self, body: &Body) -> Labels {
        match body {
            Body::Latency(_) => self.identity.labels.clone(),
            Body::Hardware(_) | Body::Bus(_) | Body::Event(_) => Labels::default(),
        }
    }

    /// Gives the run another name, before anything of it was sealed.
    pub(super) fn rename(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
    }

    /// Recorded and lost, as the next message states them.
    pub(super) fn totals(&self, lost: &BTreeMap<LossReason, u64>) -> Totals {
        let given_up: u64 = NEVER_SENT.into_iter().filter_map(|reason| lost.get(reason)).sum();
        Totals { recorded: self.handed_out.saturating_add(given_up), lost: lost.clone() }
    }

    /// The last word of a former incarnation that ended without one: nothing of it is still to
    /// come but what was sealed before.
    pub(super) fn testament(&mut self, now: Wall, run: &RunAccount) -> Sealed {
        let header = Header {
            node: self.identity.node.clone(),
            incarnation: run.incarnation,
            seq: Seq(run.newest.0 + 1),
            start: now,
            length_ns: 1,
            totals: run.totals.clone(),
            last: true,
            heir: Some(self.incarnation),
            labels: Labels::default(),
        };
        let body = Body::Bus(wire::Bus::default());
        self.encode(Lane::Normal, now, &Snapshot { header, body })
    }

    fn encode(&mut self, lane: Lane, now: Wall, snapshot: &Snapshot) -> Sealed {
        let Header { incarnation, seq, last, .. } = snapshot.header;
        let subject = SnapshotSubject {
            mesh: self.identity.mesh.clone(),
            lane,
            node: self.identity.node.clone(),
            kind: snapshot.body.kind(),
        };
        Sealed {
            incarnation,
            seq,
            lane,
            subject: subject.to_string(),
            payload: Bytes::from(wire::encode(snapshot)),
            samples: snapshot.body.samples(),
            last,
            sealed_at: now,
        }
    }

    /// The message with number `seq`. The outbox gives out each number once and in order.
    ///
    /// The totals are those of this moment, not of the end of the interval, because the lanes
    /// may overtake one another and drafts may merge: only now is it settled which samples stand
    /// under which seq. Recorded is what messages 1 to `seq` carry plus what was dropped before
    /// it could be sent; lost is what was dropped so far and what the broker refused of the
    /// messages before. So once every message up to `seq` that can arrive has been merged,
    /// merged = recorded - lost: the dropped cancel out, and what was refused is in both sums.
    /// A sample that still waits in a draft is in neither, and comes with its own message.
    pub(super) fn seal(
        &mut self,
        lost: &BTreeMap<LossReason, u64>,
        seq: Seq,
        lane: Lane,
        now: Wall,
        draft: Draft,
    ) -> Sealed {
        self.handed_out = self.handed_out.saturating_add(draft.samples());
        let totals = self.totals(lost);
        let header = Header {
            node: self.identity.node.clone(),
            incarnation: self.incarnation,
            seq,
            start: draft.start,
            length_ns: draft.length_ns,
            totals,
            last: draft.last,
            heir: None,
            labels: draft.labels,
        };
        self.encode(lane, now, &Snapshot { header, body: draft.body })
    }
}

impl Core {
    /// Closes the interval into one draft or more, each of which enters the outbox or is
    /// counted as dropped. A bus message closes every interval, so a quiet node is still heard.
    pub(super) fn seal(&mut self, now: Now, last: bool) {
        let Closed { started, latency, events, lost } = self.intake.close(now);
        for (reason, samples) in lost {
            self.totals.recorded = self.totals.recorded.saturating_add(samples);
            self.lose(reason, samples);
        }
        for part in split(latency) {
            self.enqueue(now, started, Body::Latency(part), false);
        }
        if !events.events.is_empty() {
            self.enqueue(now, started, Body::Event(events), false);
        }
        if !self.hardware.is_empty() {
            let readings = std::mem::take(&mut self.hardware);
            self.enqueue(now, started, Body::Hardware(Hardware { readings }), false);
        }
        let bus = self.bus_account();
        self.outbox.reset_depth_max();
        self.enqueue(now, started, Body::Bus(bus), last);
        self.intervals += 1;
    }

    /// The samples of a draft for which there is no room are recorded and lost at once.
    fn enqueue(&mut self, now: Now, started: Now, body: Body, last: bool) {
        let length_ns = nanos(now.mono.since(started.mono)).min(INTERVAL_NS_MAX);
        let labels = self.sealer.labels_of(&body);
        let draft = Draft::new(body, started.wall, length_ns, now.mono).labelled(labels);
        self.enqueue_draft(now, if last { draft.farewell() } else { draft });
    }

    pub(super) fn enqueue_draft(&mut self, now: Now, draft: Draft) {
        self.totals.recorded = self.totals.recorded.saturating_add(draft.samples());
        if let Err(dropped) = self.outbox.try_push(now.mono, draft) {
            self.lose(OUTBOX_FULL, dropped.samples());
        }
    }

    pub(super) fn lose(&mut self, reason: &'static str, samples: u64) {
        if samples > 0 {
            let reason = LossReason::new(reason).expect("a constant of letters and underscores");
            let lost = self.totals.lost.entry(reason).or_default();
            *lost = lost.saturating_add(samples);
        }
    }
}

/// Cuts an interval into parts that each fit into one message; none when it holds nothing.
fn split(latency: Latency) -> Vec<Latency> {
    let mut parts = Parts::default();
    for entry in latency.histograms {
        parts.room(name_bytes(&entry.0) + histogram_bytes(&entry.1)).histograms.push(entry);
    }
    for entry in latency.counters {
        parts.room(name_bytes(&entry.0)).counters.push(entry);
    }
    for entry in latency.gauges {
        parts.room(name_bytes(&entry.0)).gauges.push(entry);
    }
    parts.done
}

#[derive(Default)]
struct Parts {
    done: Vec<Latency>,
    bytes: usize,
    series: usize,
}

impl Parts {
    /// The part that has room for one more series of `bytes`.
    fn room(&mut self, bytes: usize) -> &mut Latency {
        let fits = self.bytes + bytes <= MESSAGE_BYTES_SPLIT && self.series < SERIES_MAX;
        if self.done.is_empty() || !fits {
            self.done.push(Latency::default());
            (self.bytes, self.series) = (0, 0);
        }
        self.bytes += bytes;
        self.series += 1;
        let newest = self.done.len() - 1;
        &mut self.done[newest]
    }
}
