//! A node as the core's tests simulate it: numbered messages with running totals.

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, LossReason, NodeName, Operation, Seq, Series};
use plimsoll_schemas::own_operations::OWN_LOST;
use plimsoll_schemas::time::Now;
use plimsoll_schemas::wire::{self, Body, Bus, Header, Latency, Snapshot, Totals};

/// A node as the aggregator sees it: one latency message of `n` samples for each call.
pub(crate) struct Speaker {
    node: &'static str,
    incarnation: u64,
    seq: u64,
    recorded: u64,
    lost: u64,
    lost_own: u64,
    labels: Labels,
}

impl Speaker {
    pub(crate) fn new(node: &'static str) -> Self {
        Self {
            node,
            incarnation: 1,
            seq: 0,
            recorded: 0,
            lost: 0,
            lost_own: 0,
            labels: Labels::default(),
        }
    }

    /// Samples in all its messages.
    pub(crate) fn recorded_so_far(&self) -> u64 {
        self.recorded
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(crate) fn of(self, incarnation: u64) -> Self {
        Self { incarnation, ..self }
    }

    pub(crate) fn called(self, labels: Labels) -> Self {
        Self { labels, ..self }
    }

    /// This many samples in messages of its own making.
    pub(crate) fn recorded(self, recorded: u64) -> Self {
        Self { recorded, ..self }
    }

    /// Records samples that the test itself puts into a message.
    pub(crate) fn record(&mut self, n: u64) {
        self.recorded += n;
    }

    /// Counts recorded samples as lost.
    pub(crate) fn lose(&mut self, n: u64) {
        self.lost += n;
    }

    /// Counts recorded samples that it took of itself as lost.
    pub(crate) fn lose_own(&mut self, n: u64) {
        self.lost_own += n;
    }

    pub(crate) fn send(&mut self, now: Now, value_ns: u64, n: u64) -> (String, Vec<u8>) {
        let mut histogram = Histogram::default();
        histogram.record_n(value_ns, n);
        self.send_samples(now, &["epoch_hook"], &histogram)
    }

    /// Samples, and a counter that grew by as many.
    pub(crate) fn send_counted(&mut self, now: Now, value_ns: u64, n: u64) -> (String, Vec<u8>) {
        let mut samples = Histogram::default();
        samples.record_n(value_ns, n);
        self.recorded += n;
        let series = |name| Series::plain(Operation::new(name).unwrap());
        let latency = Latency {
            histograms: vec![(series("epoch_hook"), samples)],
            counters: vec![(series("tokens"), n as f64)],
            gauges: Vec::new(),
        };
        self.message(now, Body::Latency(latency), false)
    }

    /// The same samples of three operations.
    pub(crate) fn send_all(
        &mut self,
        now: Now,
        values_ns: impl IntoIterator<Item = u64>,
    ) -> (String, Vec<u8>) {
        let mut histogram = Histogram::default();
        values_ns.into_iter().for_each(|value| histogram.record(value));
        self.send_samples(now, &["epoch_hook", "kernel_fetch", "publish"], &histogram)
    }

    /// The same samples of each of these operations.
    pub(crate) fn send_samples(
        &mut self,
        now: Now,
        operations: &[&str],
        samples: &Histogram,
    ) -> (String, Vec<u8>) {
        self.recorded += samples.count() * operations.len() as u64;
        let series = |name: &&str| Series::plain(Operation::new(*name).unwrap());
        let histograms = operations.iter().map(|name| (series(name), samples.clone())).collect();
        self.message(now, Body::Latency(Latency { histograms, ..Latency::default() }), false)
    }

    pub(crate) fn final_message(&mut self, now: Now) -> (String, Vec<u8>) {
        self.message(now, Body::Bus(Bus::default()), true)
    }

    /// The final message for this incarnation, sent by its successor.
    pub(crate) fn crash_report(&mut self, now: Now, successor: u64) -> (String, Vec<u8>) {
        let header = Header { successor: Some(Incarnation(successor)), ..self.header(now, true) };
        self.encode(header, Body::Bus(Bus::default()))
    }

    pub(crate) fn message(&mut self, now: Now, body: Body, last: bool) -> (String, Vec<u8>) {
        let header = self.header(now, last);
        self.encode(header, body)
    }

    fn header(&mut self, now: Now, last: bool) -> Header {
        self.seq += 1;
        let lost = [("released", self.lost), (OWN_LOST, self.lost_own)].into_iter();
        let lost = lost.filter(|(_, n)| *n > 0).map(|(of, n)| (LossReason::new(of).unwrap(), n));
        Header {
            node: NodeName::new(self.node).unwrap(),
            incarnation: Incarnation(self.incarnation),
            seq: Seq(self.seq),
            start: now.wall,
            length_ns: 1_000_000_000,
            totals: Totals { recorded: self.recorded, lost: lost.collect() },
            last,
            successor: None,
            labels: self.labels.clone(),
        }
    }

    fn encode(&self, header: Header, body: Body) -> (String, Vec<u8>) {
        let subject = format!("plimsoll.v1.m.normal.{}.{}", self.node, body.kind().as_str());
        (subject, wire::encode(&Snapshot { header, body }))
    }
}
