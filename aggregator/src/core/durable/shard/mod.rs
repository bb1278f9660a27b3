//! Shard: what an aggregator of one partition reports to the aggregator above it.
//!
//! Owns the samples merged since its latest report, the reports that the aggregator above has not
//! confirmed, and up to where the partition had been reported before this process. It keeps no
//! ledger of nodes, judges nothing and knows no lease.
//!
//! Reports of a partition are a chain: each has the samples of the messages after the one before,
//! and up to where that is. The broker takes a report only as the successor of the newest one, so
//! the partition's next owner reads that one and goes on after it.
//!
//! Interface: [`Shard::on_merged`] and [`Shard::on_read`] collect, [`Shard::seal`] makes a report
//! of it, [`Shard::next_to_send`], [`Shard::on_sent`] and [`Shard::on_confirmation`] follow it
//! until it is confirmed; [`Shard::stored`] is the part of a checkpoint.
//!
//! DESIGN A171, A172.

mod kept_labels;
mod open_report;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Seq};
use plimsoll_schemas::subject::{Lane, SnapshotKind, SnapshotSubject};
use plimsoll_schemas::time::{Wall, nanos};
use plimsoll_schemas::wire::confirmation::Confirmation;
use plimsoll_schemas::wire::{
    Body, Header, ReadPosition, ShardReport, Snapshot, Totals, decode, encode,
};
use serde::{Deserialize, Serialize};

pub use kept_labels::KeptLabels;
use open_report::OpenReport;

use crate::core::fleet::MergedSnapshot;
use crate::limits::{
    SHARD_INTERVAL, SHARD_REPORT_BYTES, SHARD_UNCONFIRMED_BYTES_MAX, SHARD_UNCONFIRMED_MAX,
};

/// Who reports, to whom, and what of the labels.
#[derive(Clone, Debug)]
pub struct ShardIdentity {
    /// The mesh of the aggregator above.
    pub above: MeshName,
    pub name: NodeName,
    /// Labels by which samples stay apart.
    pub kept: KeptLabels,
}

/// A report on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedReport {
    /// Its number within the incarnation.
    pub seq: u64,
    #[serde(with = "serde_bytes")]
    payload: Vec<u8>,
}

/// The next report for the broker.
#[derive(Debug)]
pub struct UnsentReport {
    pub seq: u64,
    pub payload: Bytes,
}

/// The newest report of a partition that the broker has, of any process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestReport {
    pub incarnation: Incarnation,
    /// Its number in it.
    pub seq: u64,
    totals: Totals,
    read: Vec<ReadPosition>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredShard {
    incarnation: Incarnation,
    seq: u64,
    totals: Totals,
    read: Vec<ReadPosition>,
    /// Reports that were not confirmed.
    sealed: Vec<SealedReport>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardCounts {
    pub made: u64,
    /// Reports that the aggregator above has not confirmed.
    pub unconfirmed: u64,
    pub unconfirmed_bytes: u64,
    /// Messages that another process had reported.
    pub reported_before: u64,
}

/// The reports of one partition.
#[derive(Debug)]
pub struct Shard {
    pub identity: ShardIdentity,
    pub incarnation: Incarnation,
    /// Number of the latest report; 0 before the first.
    pub seq: u64,
    totals: Totals,
    /// Up to where others had reported.
    reported: BTreeMap<Lane, ReadPosition>,
    /// Up to where messages are in a report or in the open one.
    read: BTreeMap<Lane, ReadPosition>,
    open: OpenReport,
    opened_at: Wall,
    /// Unconfirmed reports, oldest first.
    sealed: VecDeque<SealedReport>,
    sealed_bytes: usize,
    /// Number of the newest report that the broker has taken.
    sent: u64,
    counts: ShardCounts,
}

impl NewestReport {
    pub fn read(identity: &ShardIdentity, payload: &[u8]) -> Result<Self, String> {
        let Snapshot { header, body } =
            decode(&identity.subject(), payload).map_err(|error| error.to_string())?;
        let Body::Shard(ShardReport { read, .. }) = body else {
            return Err("not a report of a shard".to_owned());
        };
        let Header { incarnation, seq, totals, .. } = header;
        Ok(Self { incarnation, seq: seq.0, totals, read })
    }
}

impl StoredShard {
    /// Whether no other process has reported since: the state beside it is the partition's latest.
    pub fn is_latest(&self, newest: Option<&NewestReport>) -> bool {
        newest.is_none_or(|newest| newest.incarnation == self.incarnation)
    }
}

impl ShardIdentity {
    /// Where its reports are published.
    pub fn subject(&self) -> SnapshotSubject {
        SnapshotSubject {
            mesh: self.above.clone(),
            lane: Lane::Normal,
            node: self.name.clone(),
            kind: SnapshotKind::Shard,
        }
    }
}

impl Shard {
    /// Goes on after the newest report that the broker has: in the incarnation of `stored`, if that
    /// is its own latest state, else in a new one.
    pub fn resume(
        identity: ShardIdentity,
        now: Wall,
        newest: Option<NewestReport>,
        stored: Option<StoredShard>,
    ) -> Self {
        let by_lane = |read: Vec<ReadPosition>| read.into_iter().map(|of| (of.lane, of)).collect();

        let mut shard = Self {
            identity,
            incarnation: Incarnation(now.0.max(1)),
            seq: 0,
            totals: Totals::default(),
            reported: BTreeMap::new(),
            read: BTreeMap::new(),
            open: OpenReport::default(),
            opened_at: now,
            sealed: VecDeque::new(),
            sealed_bytes: 0,
            sent: 0,
            counts: ShardCounts::default(),
        };

        let stored = stored.filter(|stored| stored.is_latest(newest.as_ref()));
        if let Some(StoredShard { incarnation, seq, totals, read, sealed }) = stored {
            (shard.incarnation, shard.seq, shard.totals) = (incarnation, seq, totals);
            shard.reported = by_lane(read);
            shard.sealed = sealed.into();
        }

        if let Some(NewestReport { incarnation, seq, totals, read }) = newest {
            // What the broker has counts, except where the stored state
            // is further: its newest reports are still to be sent.
            if incarnation != shard.incarnation || seq >= shard.seq {
                shard.reported = by_lane(read);
            }
            if incarnation == shard.incarnation {
                if seq >= shard.seq {
                    (shard.seq, shard.totals) = (seq, totals);
                }
                shard.sent = seq;
                shard.sealed.retain(|report| report.seq > seq);
            }
        }

        shard.sealed_bytes = shard.sealed.iter().map(|report| report.payload.len()).sum();
        shard.read = shard.reported.clone();
        shard
    }

    /// Samples stay apart by these labels from now on.
    pub fn keep(&mut self, kept: KeptLabels) {
        self.identity.kept = kept;
    }

    /// Reading of a lane begins, of this stream. What was reported of another one does not
    /// count.
    pub fn on_stream(&mut self, lane: Lane, stream_id: &str) {
        let is_other = |of: &ReadPosition| of.stream_id != stream_id;
        if self.read.get(&lane).is_none_or(is_other) {
            self.reported.remove(&lane);
            let position = ReadPosition { lane, stream_id: stream_id.to_owned(), seq: 0 };
            self.read.insert(lane, position);
        }
    }

    /// Whether a message had been reported by those before.
    pub fn is_reported(&mut self, lane: Lane, seq: u64) -> bool {
        let is_reported = self.reported.get(&lane).is_some_and(|reported| seq <= reported.seq);
        self.counts.reported_before += u64::from(is_reported);
        is_reported
    }

    /// A message was read; what it brought has been added.
    pub fn on_read(&mut self, lane: Lane, seq: u64) {
        if let Some(position) = self.read.get_mut(&lane) {
            position.seq = position.seq.max(seq);
        }
    }

    /// Adds a snapshot that was merged and that is in no report. If the open report might
    /// become too large with it, that is sealed before.
    pub fn on_merged(&mut self, now: Wall, merged: &MergedSnapshot) {
        let more = merged.samples.iter().map(|of| OpenReport::cost(&of.latency)).sum::<usize>();
        // What is added up is an upper bound. To measure takes the encoding of all samples, so it
        // is done only when that bound is reached.
        if self.open.bytes() + more > SHARD_REPORT_BYTES {
            self.open.measure();
        }
        let is_large = self.open.bytes() + more > SHARD_REPORT_BYTES;
        if (is_large || !self.open.has_room()) && !self.open.is_empty() {
            self.seal(now);
        }
        self.open.add(merged, &self.identity.kept);
    }

    /// Makes a report of what is open, empty or not: a shard that reports nothing is silent.
    pub fn seal(&mut self, now: Wall) {
        let (slots, lost) = std::mem::take(&mut self.open).into_parts(now);
        let report = ShardReport { read: self.read.values().cloned().collect(), slots };
        self.totals.recorded = self.totals.recorded.saturating_add(report.samples());

        // As in a node's ledger what is lost was recorded,
        // or the difference would be missing above.
        for (reason, n) in lost {
            self.totals.recorded = self.totals.recorded.saturating_add(n);
            let sum = self.totals.lost.entry(reason).or_default();
            *sum = sum.saturating_add(n);
        }

        self.seq += 1;

        let header = Header {
            node: self.identity.name.clone(),
            incarnation: self.incarnation,
            seq: Seq(self.seq),
            start: self.opened_at,
            length_ns: nanos(now.since(self.opened_at)).clamp(1, nanos(SHARD_INTERVAL * 60)),
            totals: self.totals.clone(),
            // A partition without a reader is no orderly end.
            last: false,
            successor: None,
            labels: Labels::default(),
        };

        let payload = encode(&Snapshot { header, body: Body::Shard(report) });
        self.opened_at = now;
        self.sealed_bytes += payload.len();
        self.sealed.push_back(SealedReport { seq: self.seq, payload });
        self.counts.made += 1;
    }

    /// Seals once a second, unless too much is unconfirmed.
    pub fn seal_if_due(&mut self, now: Wall) {
        if self.is_full() {
            return;
        }
        // A clock that was set back would put off the next report, and the shard would seem silent.
        let is_back = now < self.opened_at;
        if is_back || now.since(self.opened_at) >= SHARD_INTERVAL {
            self.seal(now);
        }
    }

    pub fn next_seal(&self) -> Wall {
        let rest = if self.is_full() { SHARD_INTERVAL * 3_600 } else { SHARD_INTERVAL };
        self.opened_at.plus(rest)
    }

    /// True while so much is unconfirmed that no more messages should be read: they stay in their
    /// streams.
    pub fn is_full(&self) -> bool {
        self.sealed.len() >= SHARD_UNCONFIRMED_MAX
            || self.sealed_bytes >= SHARD_UNCONFIRMED_BYTES_MAX
    }

    /// The oldest report that the broker has not taken.
    pub fn next_to_send(&self) -> Option<UnsentReport> {
        let next = self.sealed.iter().find(|report| report.seq > self.sent)?;
        Some(UnsentReport { seq: next.seq, payload: Bytes::copy_from_slice(&next.payload) })
    }

    /// Whether the broker lacks a report.
    pub fn has_unsent(&self) -> bool {
        self.sealed.back().is_some_and(|report| report.seq > self.sent)
    }

    /// The broker has taken a report.
    pub fn on_sent(&mut self, seq: u64) {
        self.sent = self.sent.max(seq);
    }

    /// The broker has lost what it had taken, beyond the report with this number: all later ones
    /// that are not confirmed are sent again.
    pub fn on_lost(&mut self, newest: u64) {
        self.sent = newest;
    }

    /// The aggregator above has stored reports.
    pub fn on_confirmation(&mut self, confirmation: &Confirmation) {
        let mut incarnations = confirmation.incarnations.iter();
        let Some(confirmed) =
            incarnations.find(|confirmed| confirmed.incarnation == self.incarnation)
        else {
            return;
        };
        while let Some(oldest) = self.sealed.front() {
            // What was not sent cannot be stored above: that confirmation is about something else.
            if oldest.seq > self.sent || !confirmed.covers(Seq(oldest.seq)) {
                return;
            }
            self.sealed_bytes -= oldest.payload.len();
            self.sealed.pop_front();
        }
    }

    /// Whether the aggregator above has stored all reports up to this one.
    pub fn has_confirmed(&self, seq: u64) -> bool {
        self.sealed.front().is_none_or(|oldest| oldest.seq > seq)
    }

    pub fn counts(&self) -> ShardCounts {
        ShardCounts {
            unconfirmed: self.sealed.len() as u64,
            unconfirmed_bytes: self.sealed_bytes as u64,
            ..self.counts
        }
    }

    /// What a checkpoint stores, after what was open is sealed.
    pub fn stored(&mut self, now: Wall) -> StoredShard {
        // The stored positions include what is open. Left out of a report, it would be read as
        // reported after a restart and be in none.
        if !self.open.is_empty() {
            self.seal(now);
        }
        StoredShard {
            incarnation: self.incarnation,
            seq: self.seq,
            totals: self.totals.clone(),
            read: self.read.values().cloned().collect(),
            sealed: self.sealed.iter().cloned().collect(),
        }
    }
}
