//! Bodies in, an interval out: what is recorded, what is refused, and what the producer receives.

use std::time::Duration;

use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::Latency;
use proptest::prelude::*;

use super::*;
use crate::core::intake::glob::Glob;
use crate::core::intake::otlp::writer::{metrics as body_of, *};
use crate::core::intake::{Intake, Rules};
use plimsoll_schemas::ids::Operation;

mod golden;
mod refusals;

/// When the node began.
const BEGAN: u64 = 1_700_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

pub(super) struct Node {
    pub(super) intake: Intake,
    now: Now,
}

impl Node {
    /// One that began ten seconds ago.
    pub(super) fn new(rules: Rules) -> Self {
        let began = Now { mono: Mono(0), wall: Wall(BEGAN) };
        Self {
            intake: Intake::new(began, 2_000, rules, 7),
            now: began.after(Duration::from_secs(10)),
        }
    }

    pub(super) fn take(
        &mut self,
        signal: Signal,
        encoding: Encoding,
        body: &[u8],
    ) -> Result<Outcome, Malformed> {
        self.intake.on_otlp(self.now, signal, encoding, body, false)
    }

    pub(super) fn metrics(&mut self, metrics: &[Writer]) -> Outcome {
        let body = body_of(&[("service.name", "shop")], metrics);
        self.take(Signal::Metrics, Encoding::Protobuf, &body).unwrap()
    }

    pub(super) fn close(&mut self) -> Latency {
        self.now = self.now.after(Duration::from_secs(1));
        self.intake.close(self.now).latency
    }

    /// Each series with its samples, its amount or its value.
    pub(super) fn recorded(&mut self) -> Vec<(String, f64)> {
        let Latency { histograms, counters, gauges } = self.close();
        let counts = histograms.into_iter().map(|(series, all)| (series, all.count() as f64));
        let all = counts.chain(counters).chain(gauges);
        all.map(|(series, value)| (series.to_string(), value)).collect()
    }
}

pub(super) fn recorded<const N: usize>(expected: [(&str, f64); N]) -> Vec<(String, f64)> {
    expected.map(|(series, value)| (series.to_owned(), value)).into()
}

#[test]
fn each_kind_of_metric_is_recorded() {
    let mut node = Node::new(Rules::default());
    let (from, to) = (BEGAN + SECOND, BEGAN + 2 * SECOND);
    let powers = Writer::default().signed(1, -1).packed_varints(2, &[2, 0, 3]);
    let exponential = Writer::default()
        .fixed(2, from)
        .fixed(3, to)
        .fixed(4, 6)
        .fixed(7, 1)
        .message(8, &powers)
        .attribute(1, "http.route", "/a");
    let outcome = node.metrics(&[
        metric(("a.duration", "s"), HISTOGRAM, &[histogram(from, to, &[0.1], &[4, 1])], DELTA),
        metric(("b", "ms"), EXPONENTIAL, &[exponential], CUMULATIVE),
        metric(("jobs", ""), SUM, &[number(from, to, 2.5)], CUMULATIVE),
        metric(("load", "1"), GAUGE, &[number(0, to, 0.5)], 0),
    ]);
    assert_eq!(outcome, Outcome::default());
    let expected = [
        ("a.duration{service=shop}", 5.0),
        ("b{http_route=/a,service=shop}", 6.0),
        ("jobs{service=shop}", 2.5),
        ("load{service=shop}", 0.5),
    ];
    assert_eq!(node.recorded(), recorded(expected));
    assert_eq!(node.intake.otlp_stats().points, [1, 1, 1, 1, 0]);
}

#[test]
fn a_summary_becomes_gauges_and_counters() {
    let mut node = Node::new(Rules::default());
    let quantile = |q, value| Writer::default().double(1, q).double(2, value);
    let point = |n: u64| {
        Writer::default()
            .fixed(2, BEGAN + 1)
            .fixed(3, BEGAN + n * SECOND)
            .fixed(4, 10 * n)
            .double(5, 1.5 * n as f64)
            .message(6, &quantile(0.5, 0.1))
            .message(6, &quantile(0.99, 0.7))
    };
    for n in [1, 2] {
        let summary = metric(("rpc", "s"), SUMMARY, &[point(n)], 0);
        assert_eq!(node.metrics(&[summary]), Outcome::default());
        let expected = [
            ("rpc_count{service=shop}", 10.0),
            ("rpc_sum{service=shop}", 1.5),
            ("rpc{quantile=0.5,service=shop}", 0.1),
            ("rpc{quantile=0.99,service=shop}", 0.7),
        ];
        assert_eq!(node.recorded(), recorded(expected));
    }
    let figures = node.intake.otlp_stats();
    assert_eq!((figures.points, figures.metrics), ([0, 0, 0, 0, 2], 2));
    let mut rules = Rules::default();
    rules.labels.drop.insert("quantile".to_owned());
    let mut node = Node::new(rules);
    node.metrics(&[metric(("rpc", "s"), SUMMARY, &[point(1)], 0)]);
    assert_eq!(node.recorded().len(), 2, "without their label quantiles are one gauge");
}

#[test]
fn producers_of_one_metric_are_differenced_apart_and_merged() {
    let mut node = Node::new(Rules::default());
    let mut body = |instance: &str, time: u64, value| {
        let resource = [("service.name", "shop"), ("service.instance.id", instance)];
        let point = number(BEGAN + 1, BEGAN + time, value);
        let body = body_of(&resource, &[metric(("a", ""), SUM, &[point], CUMULATIVE)]);
        assert_eq!(node.take(Signal::Metrics, Encoding::Protobuf, &body), Ok(Outcome::default()));
    };
    body("one", 10, 5.0);
    body("two", 10, 100.0);
    body("one", 20, 7.0);
    body("two", 20, 101.0);
    assert_eq!(node.recorded(), recorded([("a{service=shop}", 108.0)]));
    assert_eq!(node.intake.stats().points.streams, 2);
}

#[test]
fn a_stream_is_known_by_its_attributes_in_any_order() {
    let mut node = Node::new(Rules::default());
    let point = |time, value, keys: [&str; 2]| {
        let point = number(BEGAN + 1, BEGAN + time, value);
        keys.into_iter().fold(point, |point, key| point.attribute(7, key, key))
    };
    let points = [point(10, 5.0, ["x", "y"]), point(20, 6.0, ["y", "x"])];
    node.metrics(&[metric(("a", ""), SUM, &points, CUMULATIVE)]);
    assert_eq!(node.recorded(), recorded([("a{service=shop,x=x,y=y}", 6.0)]));
    assert_eq!(node.intake.stats().points.streams, 1);
}

#[test]
fn rules_rename_metrics_and_choose_labels() {
    let mut rules = Rules::default();
    rules.labels.drop.insert("drop_me".to_owned());
    rules.otlp.resource_labels = vec![LabelOf::read("host.name=host").unwrap()];
    let renamed = Operation::new("http_request").unwrap();
    rules.otlp.operations.insert("a b".to_owned(), renamed);
    let mut node = Node::new(rules);
    let list = Writer::default().text(1, "list").message(2, &Writer::default().bytes(5, b""));
    let point = number(BEGAN + 1, BEGAN + 2, 1.0)
        .attribute(7, "drop.me", "1")
        .attribute(7, "keep.me", "2")
        .message(7, &list);
    let sums = |name| metric((name, ""), SUM, std::slice::from_ref(&point), DELTA);
    let resource = [("service.name", "shop"), ("host.name", "h")];
    let body = body_of(&resource, &[sums("a b"), sums("é c")]);
    node.take(Signal::Metrics, Encoding::Protobuf, &body).unwrap();
    let expected = [("__c{host=h,keep_me=2}", 1.0), ("http_request{host=h,keep_me=2}", 1.0)];
    assert_eq!(node.recorded(), recorded(expected));
    let figures = node.intake.otlp_stats();
    assert_eq!((figures.nested, figures.labels.drop), (2, 2));
}

#[test]
fn units_come_from_the_metric_its_name_or_the_configuration() {
    let mut rules = Rules::default();
    rules.otlp.unit = "us".parse().unwrap();
    let mut node = Node::new(rules);
    let units = [("a", "s"), ("b", "ms"), ("c", "us"), ("d", "ns"), ("e_seconds", ""), ("f", "")];
    let metrics = units.map(|unit| {
        let point = histogram(BEGAN + 1, BEGAN + 2, &[5_000.0], &[1, 0]);
        metric(unit, HISTOGRAM, &[point.double(11, 4_000.0).double(12, 4_000.0)], DELTA)
    });
    assert_eq!(node.metrics(&metrics), Outcome::default());
    let all = node.close().histograms;
    let most: Vec<_> = all.iter().map(|(_, histogram)| histogram.max_ns()).collect();
    let hour = 3_600 * SECOND;
    assert_eq!(most, [hour, 4 * SECOND, 4_000_000, 4_000, hour, 4_000_000]);
}

#[test]
fn histograms_of_bytes_and_counts_are_operations_of_that_unit() {
    let mut node = Node::new(Rules::default());
    let units = [("req.size", "By"), ("req.tokens", "{token}"), ("resp_bytes", ""), ("share", "1")];
    let metrics = units.map(|unit| {
        let point = histogram(BEGAN + 1, BEGAN + 2, &[5_000.0], &[1, 0]);
        metric(unit, HISTOGRAM, &[point.double(11, 4_000.0).double(12, 4_000.0)], DELTA)
    });
    assert_eq!(node.metrics(&metrics), Outcome::default());
    let all = node.close().histograms;
    let found = all.iter().map(|(series, of)| (series.operation.as_str(), of.max_ns()));
    let expected = [
        ("req.size:bytes", 4_000),
        ("req.tokens:count", 4_000_000),
        ("resp:bytes", 4_000),
        ("share:count", 4_000_000),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn a_name_that_contradicts_its_unit_is_refused() {
    let mut node = Node::new(any_span_rule());
    let point = histogram(BEGAN + 1, BEGAN + 2, &[5.0], &[1, 0]);
    let wrong = metric(("size:bytes", "ms"), HISTOGRAM, &[point], DELTA);
    assert_eq!(node.metrics(&[wrong]).refused, 1);
    assert_eq!(node.close().histograms, []);
}

#[test]
fn a_point_without_a_value_is_skipped_and_counted() {
    let mut node = Node::new(Rules::default());
    let gone = number(BEGAN + 1, BEGAN + 2, 1.0).varint(8, 1);
    assert_eq!(node.metrics(&[metric(("a", ""), GAUGE, &[gone], 0)]), Outcome::default());
    assert_eq!((node.intake.otlp_stats().without_value, node.recorded()), (1, recorded([])));
}

fn any_span_rule() -> Rules {
    let mut rules = Rules::default();
    let name = Glob::new("*");
    let rule = SpanRule { name, attributes: vec![], operation: None, labels: vec![] };
    rules.otlp.spans = vec![rule];
    rules
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_and_every_sample_is_counted(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
    ) {
        let point = histogram(BEGAN + 1, BEGAN + 2, &[0.1], &[4, 1]).attribute(9, "k", "v");
        let metrics =
            body_of(&[("a", "b")], &[metric(("a", "s"), HISTOGRAM, &[point], DELTA)]);
        let spans = traces(&[("a", "b")], &[span("a", 1, BEGAN, 5)]);
        let mut node = Node::new(any_span_rule());
        for whole in [&metrics, &spans, &Vec::new()] {
            let at = at.index(whole.len() + 1);
            let body = [&whole[..at], &bytes, &whole[at..]].concat();
            for signal in [Signal::Metrics, Signal::Traces] {
                for encoding in [Encoding::Protobuf, Encoding::Json] {
                    let _taken: Result<Outcome, Malformed> = node.take(signal, encoding, &body);
                }
            }
        }
        let samples = node.intake.stats().samples;
        prop_assert_eq!(node.close().samples(), samples);
    }

    #[test]
    fn deltas_are_recorded_in_full(
        points in prop::collection::vec(
            (prop::collection::vec(0..1_000_u64, 4), 0..5_usize), 1..20,
        ),
    ) {
        let mut node = Node::new(Rules::default());
        let mut expected = [0; 5];
        for (n, (counts, route)) in (1..).zip(&points) {
            let (from, to) = (BEGAN + n * 10, BEGAN + n * 10 + 10);
            let point = histogram(from, to, &[0.001, 0.01, 0.1], counts);
            let point = point.attribute(9, "route", &route.to_string());
            let all = metric(("a", "s"), HISTOGRAM, &[point], DELTA);
            prop_assert_eq!(node.metrics(&[all]), Outcome::default());
            expected[*route] += counts.iter().sum::<u64>();
        }
        let histograms = node.close().histograms;
        let found: Vec<_> = histograms.iter().map(|(_, all)| all.count()).collect();
        let expected: Vec<_> = expected.into_iter().filter(|n| *n > 0).collect();
        prop_assert_eq!(found, expected);
    }
}
