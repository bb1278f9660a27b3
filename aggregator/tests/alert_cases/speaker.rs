//! A node as the aggregator receives it: real messages, numbered, with running totals.

use std::time::Duration;

use plimsoll_schemas::hardware::{MissingReading, Reading as Sensed, sensor};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, LossReason, NodeName, Operation, Seq, Series};
use plimsoll_schemas::own_operations::OWN_LOST;
use plimsoll_schemas::time::{Wall, nanos};
use plimsoll_schemas::wire::{self, Body, Bus, Hardware, Header, Latency, Snapshot, Totals};

use crate::case::{Reading, Report, nanoseconds};

/// Subject and bytes.
pub(crate) type Message = (String, Vec<u8>);

/// One incarnation of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Speaker {
    seq: u64,
    recorded: u64,
    lost: u64,
    lost_own: u64,
    labels: Labels,
}

impl Speaker {
    /// The messages for an interval that ends now, by the node's own clock.
    pub(crate) fn report(&mut self, report: &Report, now: Wall, length: Duration) -> Vec<Message> {
        self.lost += report.drops_samples;
        self.lost_own += report.drops_own_samples;
        self.recorded += report.drops_samples + report.drops_own_samples;
        if let Some(labels) = &report.node_labels {
            self.labels = labels.clone();
        }
        let mut bodies = Vec::new();
        let latency = latency(report);
        if latency != Latency::default() || report.drops_samples > 0 {
            self.recorded += latency.histograms.iter().map(|(_, of)| of.count()).sum::<u64>();
            bodies.push(Body::Latency(latency));
        }
        if !report.readings.is_empty() {
            bodies.push(Body::Hardware(readings(report)));
        }
        if report.bus.is_some() || report.final_message || bodies.is_empty() {
            bodies.push(Body::Bus(bus(report)));
        }
        let message = |body| self.message(report, now.minus(length), length, body);
        bodies.into_iter().map(message).collect()
    }

    fn message(&mut self, report: &Report, start: Wall, length: Duration, body: Body) -> Message {
        self.seq += 1;
        let lost = [("released", self.lost), (OWN_LOST, self.lost_own)].into_iter();
        let lost = lost.filter(|(_, n)| *n > 0).map(|(of, n)| (LossReason::new(of).unwrap(), n));
        let header = Header {
            node: NodeName::new(&report.node).unwrap(),
            incarnation: Incarnation(report.incarnation.max(1)),
            seq: Seq(self.seq),
            start,
            length_ns: nanos(length),
            totals: Totals { recorded: self.recorded, lost: lost.collect() },
            last: report.final_message,
            successor: None,
            labels: self.labels.clone(),
        };
        let subject = format!("plimsoll.v1.m.normal.{}.{}", report.node, body.kind().as_str());
        (subject, wire::encode(&Snapshot { header, body }))
    }
}

fn latency(report: &Report) -> Latency {
    let series = |name: &str| Series::plain(Operation::new(name).unwrap());
    let numbers = |of: &std::collections::BTreeMap<String, f64>| {
        of.iter().map(|(name, value)| (series(name), *value)).collect()
    };
    let values = report.values();
    let mut samples = Histogram::default();
    let limits: Vec<u64> = report.limits.iter().map(|limit| nanoseconds(limit)).collect();
    samples.watch(&limits);
    values.iter().for_each(|(value, n)| samples.record_n(*value, *n));
    let operation = || Operation::new(&report.operation).unwrap();
    let histograms = (!values.is_empty())
        .then(|| (Series { operation: operation(), labels: report.labels.clone() }, samples));
    Latency {
        histograms: histograms.into_iter().collect(),
        counters: numbers(&report.counters),
        gauges: numbers(&report.gauges),
    }
}

fn readings(report: &Report) -> Hardware {
    let reading = |(name, reading): (&String, &Reading)| {
        let sensor = sensor(name).unwrap_or_else(|| panic!("no sensor {name}"));
        match reading {
            Reading::Value(value) => Sensed::ok(sensor, Labels::default(), *value),
            Reading::State(state) => {
                let missing = MissingReading { state: *state, reason: "case" };
                Sensed::absent(sensor, Labels::default(), missing)
            }
        }
    };
    Hardware::all(report.readings.iter().map(reading).collect())
}

fn bus(report: &Report) -> Bus {
    let table = report.bus.clone().unwrap_or_default();
    table.try_into().unwrap_or_else(|why| panic!("bus of {}: {why}", report.node))
}
