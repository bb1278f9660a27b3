//! The end of an interval: what was recorded becomes messages, numbered and accounted for.

use bytes::Bytes;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{LossReason, Seq, Series};
use plimsoll_schemas::limits::wire::{INTERVAL_NS_MAX, MESSAGE_BYTES_SPLIT, SERIES_MAX};
use plimsoll_schemas::subject::{Lane, SnapshotSubject};
use plimsoll_schemas::time::{Now, nanos};
use plimsoll_schemas::wire::{self, Body, Hardware, Header, Latency, Snapshot, Totals};

use super::Core;
use super::outbox::Publish;

/// Samples lost because the outbox was full.
pub(super) const OUTBOX_FULL: &str = "outbox_full";
/// Samples lost because the broker would not take their message.
pub(super) const REFUSED: &str = "refused";

/// An upper bound of the bytes one bucket takes: six for its count, three for the gap before.
const BUCKET_BYTES: usize = 9;
/// An upper bound of the bytes around a series: field names, numbers, HDR header.
const SERIES_BYTES: usize = 256;

impl Core {
    /// Closes the interval into one message or more, each of which enters the outbox or is
    /// counted as dropped. A bus message closes every interval, so a quiet node is still heard.
    pub(super) fn seal(&mut self, now: Now, last: bool) {
        let started = self.interval.started;
        let latency = self.interval.take(now);
        for part in split(latency) {
            self.enqueue(now, started, Body::Latency(part), false);
        }
        if !self.hardware.is_empty() {
            let readings = std::mem::take(&mut self.hardware);
            self.enqueue(now, started, Body::Hardware(Hardware { readings }), false);
        }
        let bus = self.bus_account();
        self.outbox.reset_depth_max();
        self.enqueue(now, started, Body::Bus(bus), last);
    }

    /// Numbers a message only once it has a place, so that seq has no holes of our own making;
    /// the samples of one that has none are recorded and lost at the same moment.
    fn enqueue(&mut self, now: Now, started: Now, body: Body, last: bool) {
        let samples = body.samples();
        let totals = Totals {
            recorded: self.totals.recorded.saturating_add(samples),
            lost: self.totals.lost.clone(),
        };
        let kind = body.kind();
        let header = Header {
            node: self.identity.node.clone(),
            incarnation: self.incarnation,
            seq: self.next_seq,
            start: started.wall,
            length_ns: nanos(now.mono.since(started.mono)).clamp(1, INTERVAL_NS_MAX),
            totals,
            last,
        };
        let payload = Bytes::from(wire::encode(&Snapshot { header, body }, &mut self.encoder));
        self.totals.recorded = self.totals.recorded.saturating_add(samples);
        if last {
            self.outbox.admit_last();
        } else if !self.outbox.admit(payload.len()) {
            self.lose(OUTBOX_FULL, samples);
            return;
        }
        let subject = SnapshotSubject {
            mesh: self.identity.mesh.clone(),
            lane: Lane::Normal,
            node: self.identity.node.clone(),
            kind,
        };
        let seq = self.next_seq;
        self.next_seq = Seq(seq.0 + 1);
        let message_id = format!("{}-{}-{seq}", self.identity.node, self.incarnation);
        let publish = Publish { seq, subject: subject.to_string(), message_id, payload };
        self.outbox.push(now.mono, publish, samples);
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

fn name_bytes(series: &Series) -> usize {
    let labels: usize = series.labels.iter().map(|(key, value)| key.len() + value.len() + 6).sum();
    series.operation.as_str().len() + labels + SERIES_BYTES
}

fn histogram_bytes(histogram: &Histogram) -> usize {
    histogram.counts().iter().count() * BUCKET_BYTES
}
