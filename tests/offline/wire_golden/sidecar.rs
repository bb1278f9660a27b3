//! What is stated about one golden message: its header, what went in, and what must come out.
//!
//! The stated figures were computed from the samples by another HdrHistogram library; the code here
//! computes none, it only reads those of a decoded histogram.

use std::collections::BTreeMap;

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, LossReason, NodeName, Operation, Seq, Series};
use plimsoll_schemas::subject::SnapshotSubject;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{Body, Header, Interval, Latency, Snapshot, Totals};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sidecar {
    pub(crate) about: String,
    subject: String,
    /// True for a message with fields that this version does not define.
    #[serde(default)]
    pub(crate) unknown_fields: bool,
    pub(crate) schema: u16,
    pub(crate) kind: String,
    node: NodeName,
    incarnation: Incarnation,
    seq: Seq,
    start_ns: Wall,
    length_ns: u64,
    recorded: u64,
    lost: BTreeMap<LossReason, u64>,
    last: bool,
    #[serde(default)]
    labels: Labels,
    body: Stated,
}

/// What is stated about a body. Hardware, bus and events are stored by the names of their fields,
/// so that a renamed field is a difference.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Stated {
    Latency(Latencies),
    Hardware(Value),
    Bus(Value),
    Event(Value),
    Interval(Parts),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Latencies {
    histograms: Vec<Distribution>,
    counters: Vec<Number>,
    gauges: Vec<Number>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    latency: Option<Latencies>,
    hardware: Option<Value>,
    bus: Option<Value>,
    event: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Distribution {
    operation: Operation,
    labels: Labels,
    figures: Figures,
    /// What was recorded: nanoseconds and how often.
    samples: Vec<(u64, u64)>,
    /// What was recorded before the node received a limit.
    #[serde(default)]
    before: Vec<(u64, u64)>,
    /// Samples of which only the bucket of the producer is recorded: over, up to, how many.
    #[serde(default)]
    within: Vec<(u64, u64, u64)>,
    /// Where these are counted: nanoseconds and how often.
    #[serde(default)]
    placed: Vec<(u64, u64)>,
    /// What they were: nanoseconds and how often.
    #[serde(default)]
    truth: Vec<(u64, u64)>,
    /// The bounds between which quantiles lie.
    #[serde(default)]
    bounds: BTreeMap<String, (u64, u64)>,
    /// Limits, samples over each, and samples of which it is uncertain.
    #[serde(default)]
    over: Vec<(u64, u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Number {
    operation: Operation,
    labels: Labels,
    value: f64,
}

impl Sidecar {
    /// Reads the text of a sidecar.
    pub(crate) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Where the message was published.
    pub(crate) fn subject(&self) -> SnapshotSubject {
        self.subject.parse().unwrap_or_else(|error| panic!("{}: {error}", self.subject))
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let header = Header {
            node: self.node.clone(),
            incarnation: self.incarnation,
            seq: self.seq,
            start: self.start_ns,
            length_ns: self.length_ns,
            totals: Totals { recorded: self.recorded, lost: self.lost.clone() },
            last: self.last,
            successor: None,
            labels: self.labels.clone(),
        };
        Snapshot { header, body: self.body.input() }
    }

    /// Fails unless a decoded body has the figures and the field names that are stated.
    pub(crate) fn assert_decoded(&self, body: &Body) {
        let about = &self.about;
        match (&self.body, body) {
            (Stated::Interval(parts), Body::Interval(_)) => {
                let stated = parts.latency.as_ref().zip(body.latency());
                stated.into_iter().for_each(|(stated, decoded)| stated.assert(about, decoded));
                let decoded = [json!(body.hardware()), json!(body.bus()), json!(body.event())];
                let stated = [&parts.hardware, &parts.bus, &parts.event].map(|part| json!(part));
                assert_eq!(decoded, stated, "{about}");
            }
            (Stated::Latency(stated), Body::Latency(latency)) => stated.assert(about, latency),
            (Stated::Hardware(fields), Body::Hardware(decoded)) => {
                assert_eq!(&json!(decoded), fields, "{about}");
            }
            (Stated::Bus(fields), Body::Bus(decoded)) => {
                assert_eq!(&json!(decoded), fields, "{about}");
            }
            (Stated::Event(fields), Body::Event(decoded)) => {
                assert_eq!(&json!(decoded), fields, "{about}");
            }
            (stated, _) => panic!("{about}: the message is not {stated:?}"),
        }
    }
}

impl Stated {
    fn input(&self) -> Body {
        match self {
            Self::Latency(latencies) => Body::Latency(latencies.input()),
            Self::Hardware(fields) => Body::Hardware(parsed(fields)),
            Self::Bus(fields) => Body::Bus(parsed(fields)),
            Self::Event(fields) => Body::Event(parsed(fields)),
            Self::Interval(parts) => Body::Interval(Interval {
                latency: parts.latency.as_ref().map(Latencies::input),
                hardware: parts.hardware.as_ref().map(parsed),
                bus: parts.bus.as_ref().map(parsed),
                event: parts.event.as_ref().map(parsed),
            }),
        }
    }
}

fn parsed<T: DeserializeOwned>(fields: &Value) -> T {
    serde_json::from_value(fields.clone()).expect("the sidecar names the fields of the body")
}

impl Latencies {
    fn input(&self) -> Latency {
        Latency {
            histograms: self.histograms.iter().map(Distribution::input).collect(),
            counters: self.counters.iter().map(Number::input).collect(),
            gauges: self.gauges.iter().map(Number::input).collect(),
        }
    }

    fn assert(&self, about: &str, latency: &Latency) {
        let decoded = latency.histograms.iter().map(|(_, histogram)| Figures::of(histogram));
        let stated = self.histograms.iter().map(|one| one.figures);
        assert_eq!(decoded.collect::<Vec<_>>(), stated.collect::<Vec<_>>(), "{about}");
        for (stated, (_, decoded)) in self.histograms.iter().zip(&latency.histograms) {
            stated.assert_bounds(decoded);
        }
        let decoded = latency.histograms.iter().map(|(_, histogram)| json!(histogram.overs()));
        let stated = self.histograms.iter().map(|one| json!(one.over));
        assert_eq!(decoded.collect::<Vec<_>>(), stated.collect::<Vec<_>>(), "{about}");
    }
}

impl Distribution {
    fn input(&self) -> (Series, Histogram) {
        let mut histogram = Histogram::default();
        self.before.iter().for_each(|(value_ns, n)| histogram.record_n(*value_ns, *n));
        histogram.watch(&self.over.iter().map(|(limit_ns, ..)| *limit_ns).collect::<Vec<_>>());
        self.samples.iter().for_each(|(value_ns, n)| histogram.record_n(*value_ns, *n));
        for (over_ns, upto_ns, n) in &self.within {
            histogram.record_within(*over_ns, *upto_ns, *n);
        }
        histogram.state_sum(self.figures.sum_ns);
        (Series { operation: self.operation.clone(), labels: self.labels.clone() }, histogram)
    }
}

impl Distribution {
    /// Fails unless quantiles have the bounds that are stated.
    fn assert_bounds(&self, decoded: &Histogram) {
        let n = |samples: &[(u64, u64)]| samples.iter().map(|(_, n)| n).sum::<u64>();
        let within = self.within.iter().map(|(.., n)| n).sum::<u64>();
        assert_eq!((n(&self.placed), n(&self.truth)), (within, within));
        assert_eq!(decoded.is_approximate(), within > 0);
        for (name, bounds) in &self.bounds {
            let permille = match name.as_str() {
                "p50_ns" => 500,
                "p90_ns" => 900,
                "p99_ns" => 990,
                "p999_ns" => 999,
                other => panic!("{other} is no quantile"),
            };
            let found = decoded.quantile(f64::from(permille) / 1000.0).expect("it has samples");
            assert_eq!((found.lower_ns, found.upper_ns), *bounds, "{name}");
        }
    }
}

impl Figures {
    fn of(histogram: &Histogram) -> Self {
        let quantile = |quantile| histogram.quantile(quantile).map_or(0, |found| found.value_ns);
        Self {
            count: histogram.count(),
            sum_ns: histogram.sum_ns(),
            min_ns: histogram.min_ns(),
            max_ns: histogram.max_ns(),
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
        }
    }
}

impl Number {
    fn input(&self) -> (Series, f64) {
        (Series { operation: self.operation.clone(), labels: self.labels.clone() }, self.value)
    }
}
