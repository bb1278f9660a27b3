//! Spans by rules: which of them are latencies, of which series, and how often.

use plimsoll_schemas::ids::Operation;

use super::*;
use crate::core::intake::Rules;
use crate::core::intake::glob::Glob;
use crate::core::intake::otlp::LabelOf;
use crate::core::intake::otlp::tests::{Node, recorded};
use crate::core::intake::otlp::writer::{Writer, span, traces};
use crate::core::intake::otlp::{Encoding, Outcome, Signal};

const AT: u64 = 1_700_000_000_000_000_000;

fn rule(name: &str, attributes: &[(&str, &str)], operation: Option<&str>) -> SpanRule {
    SpanRule {
        name: Glob::new(name),
        attributes: attributes.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        operation: operation.map(|name| Operation::new(name).unwrap()),
        labels: ["http.route=route", "host.name"].map(|l| LabelOf::read(l).unwrap()).into(),
    }
}

fn node(spans: Vec<SpanRule>) -> Node {
    let mut rules = Rules::default();
    rules.otlp.spans = spans;
    Node::new(rules)
}

fn take(node: &mut Node, spans: &[Writer]) -> Outcome {
    let resource = [("service.name", "shop"), ("host.name", "h")];
    let body = traces(&resource, spans);
    node.take(Signal::Traces, Encoding::Protobuf, &body).unwrap()
}

#[test]
fn the_first_rule_that_fits_decides_and_a_span_that_none_fits_is_counted() {
    let mut node = node(vec![
        rule("GET *", &[("status", "200"), ("host.name", "h")], Some("ok")),
        rule("GET *", &[], None),
    ]);
    let outcome = take(
        &mut node,
        &[
            span("GET /a", 1, AT, 5_000).attribute(9, "status", "200").attribute(
                9,
                "http.route",
                "/a",
            ),
            span("GET /b", 2, AT, 6_000).attribute(9, "status", "404"),
            span("POST /b", 3, AT, 6_000),
        ],
    );
    assert_eq!(outcome, Outcome::default());
    let figures = node.intake.otlp_stats();
    assert_eq!((figures.spans_matched, figures.spans_unmatched), (2, 1));
    let expected =
        [("GET_/b{host_name=h,service=shop}", 1.0), ("ok{host_name=h,route=/a,service=shop}", 1.0)];
    assert_eq!(node.recorded(), recorded(expected));
}

#[test]
fn a_latency_is_exact_and_a_failure_is_stated_without_an_attribute() {
    let mut given = rule("*", &[], Some("op"));
    given.labels = vec![LabelOf::read("outcome").unwrap()];
    let mut node = node(vec![given]);
    let failed = Writer::default().varint(3, 2);
    let fine = Writer::default().varint(3, 1);
    take(
        &mut node,
        &[
            span("a", 1, AT, 123_456_789).message(15, &failed),
            span("a", 2, AT, 7).message(15, &failed).attribute(9, "outcome", "late"),
            span("a", 3, AT, 5_000_000_000_000).message(15, &fine),
        ],
    );
    let figures = node.intake.stats();
    assert_eq!((figures.samples, figures.clamped), (3, 1));
    let latency = node.close();
    let all: Vec<_> =
        latency.histograms.iter().map(|(series, all)| (series.to_string(), all.max_ns())).collect();
    assert_eq!(all[0], ("op{outcome=error,service=shop}".to_owned(), 123_456_789));
    assert_eq!(all[1], ("op{outcome=late,service=shop}".to_owned(), 7));
    assert_eq!(all[2].0, "op{service=shop}");
}

#[test]
fn what_comes_again_counts_once() {
    let mut node = node(vec![rule("*", &[], Some("op"))]);
    let spans = [span("a", 1, AT, 5), span("b", 2, AT, 5), span("a", 1, AT, 5)];
    for repeated in [1, 4] {
        assert_eq!(take(&mut node, &spans), Outcome::default());
        assert_eq!(node.intake.otlp_stats().spans_repeated, repeated);
    }
    assert_eq!(node.recorded(), recorded([("op{host_name=h,service=shop}", 2.0)]));
}

#[test]
fn a_span_that_cannot_be_is_refused_in_words() {
    let no_id = Writer::default().text(5, "a").fixed(7, AT).fixed(8, AT + 5);
    let backwards = Writer::default().bytes(1, &[9; 16]).bytes(2, &[9; 8]).text(5, "a");
    for (bad, reason, words) in [
        (no_id.clone(), "shape", "span a: the trace id must have 16 bytes"),
        (no_id.bytes(1, &[0; 16]).bytes(2, &[0; 8]), "shape", "span id 8"),
        (backwards.clone().fixed(7, 8).fixed(8, 7), "negative", "ends before it starts"),
        (backwards.clone().fixed(7, AT), "timestamp", "no start or no end"),
        (backwards.fixed(8, AT), "timestamp", "no start or no end"),
        (
            span("", 9, AT, 5),
            "name",
            "span without a name: the span's name is not a valid operation",
        ),
    ] {
        let mut node = node(vec![rule("*", &[], None)]);
        let outcome = take(&mut node, &[span("good", 1, AT, 5), bad]);
        let message = outcome.message.unwrap_or_default();
        assert!(message.contains(words), "{words}: {message}");
        assert_eq!((outcome.refused, node.intake.otlp_stats().spans_rejected), (1, 1), "{words}");
        let rejected = node.intake.stats().rejected;
        let rejected: Vec<_> = rejected.iter().map(|(r, n)| (r.as_str(), *n)).collect();
        assert_eq!(rejected, [(reason, 1)], "{words}");
        assert_eq!(node.recorded().len(), 1, "{words}");
    }
}
