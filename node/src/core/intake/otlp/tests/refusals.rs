//! Refused points: the text that their producer receives, and that nothing else is affected.

use super::*;

fn good() -> Writer {
    metric(("good", ""), SUM, &[number(BEGAN + 1, BEGAN + 2, 1.0)], DELTA)
}

#[test]
fn a_refused_point_is_explained_and_costs_only_itself() {
    let (from, to) = (BEGAN + 1, BEGAN + 2);
    let buckets = || histogram(from, to, &[0.1], &[4, 1]);
    let long = "x".repeat(2_000);
    let bad_bounds = histogram(from, to, &[2.0, 1.0], &[1, 1, 1]);
    for (bad, reason, words) in [
        (
            metric(("req.size", "KiBy"), HISTOGRAM, &[buckets()], DELTA),
            "unit",
            "metric req.size: a histogram in \"KiBy\" has no known unit",
        ),
        (
            metric(("req", ""), EXPONENTIAL, &[buckets()], DELTA),
            "unit",
            "metric req: this exponential_histogram has no unit; set",
        ),
        (
            metric(("req_size", ""), HISTOGRAM, &[buckets()], DELTA),
            "unit",
            "metric req_size: this histogram has no unit",
        ),
        (
            metric(("req", "s"), HISTOGRAM, &[buckets()], 0),
            "temporality",
            "metric req: this histogram has no temporality; set it to delta or cumulative",
        ),
        (
            metric(("req", "s"), SUM, &[number(from, to, 1.0)], 9),
            "temporality",
            "metric req: this sum has no temporality",
        ),
        (metric(("n", ""), GAUGE, &[Writer::default().fixed(3, to)], 0), "number", "metric n:"),
        (metric(("n", ""), GAUGE, &[number(0, to, f64::NAN)], 0), "number", "no finite value"),
        (
            metric(("n", ""), GAUGE, &[number(0, 0, 1.0)], 0),
            "timestamp",
            "metric n: it has no time",
        ),
        (metric(("", ""), GAUGE, &[number(0, to, 1.0)], 0), "name", "metric without a name: "),
        (metric((&long[..200], ""), GAUGE, &[number(0, to, 1.0)], 0), "name", "otlp.operations"),
        (metric((&long, ""), GAUGE, &[number(0, to, 1.0)], 0), "too_long", "too long; rename"),
        (
            metric(("h", "s"), HISTOGRAM, &[bad_bounds], DELTA),
            "bounds",
            "metric h: its bounds do not ascend",
        ),
    ] {
        let mut node = Node::new(Rules::default());
        let outcome = node.metrics(&[good(), bad, good_too()]);
        let message = outcome.message.unwrap_or_default();
        assert!(message.contains(words) && message.len() <= 512, "{words}: {message}");
        assert_eq!(outcome.refused, 1, "{words}");
        let expected = [("good{service=shop}", 1.0), ("too{service=shop}", 1.0)];
        assert_eq!(node.recorded(), recorded(expected), "{words}");
        let rejected: Vec<_> =
            node.intake.stats().rejected.iter().map(|(r, n)| (r.as_str(), *n)).collect();
        assert_eq!(rejected, [(reason, 1)], "{words}");
        assert_eq!(node.intake.otlp_stats().points_rejected, 1, "{words}");
    }
}

fn good_too() -> Writer {
    metric(("too", ""), SUM, &[number(BEGAN + 1, BEGAN + 2, 1.0)], DELTA)
}

#[test]
fn two_processes_of_one_name_are_advised_which_label_separates_them() {
    let got = |points: [(u64, u64, [u64; 2]); 2], temporality| {
        let point = |(from, to, counts): (u64, u64, [u64; 2])| {
            histogram(BEGAN + from, BEGAN + to, &[0.1], &counts)
        };
        let points = points.map(point);
        let outcome = Node::new(Rules::default()).metrics(&[metric(
            ("h", "s"),
            HISTOGRAM,
            &points,
            temporality,
        )]);
        (outcome.refused, outcome.message.unwrap_or_default())
    };
    for (points, temporality) in
        [([(1, 3, [1, 0]), (2, 4, [1, 0])], DELTA), ([(1, 3, [5, 0]), (1, 4, [1, 0])], CUMULATIVE)]
    {
        let (refused, message) = got(points, temporality);
        assert_eq!(refused, 1);
        assert!(message.contains("service.instance.id"), "{message}");
    }
    let (_, message) = got([(1, 3, [1, 0]), (1, 2, [1, 0])], DELTA);
    assert!(message.contains("was the clock set back"), "{message}");
}

#[test]
fn the_first_refusal_is_logged_and_all_are_counted() {
    let mut node = Node::new(Rules::default());
    let bad = |name| metric((name, "KiBy"), HISTOGRAM, &[histogram(1, 2, &[], &[1])], DELTA);
    let outcome = node.metrics(&[bad("a"), good(), bad("b"), bad("c")]);
    assert_eq!(outcome.refused, 3);
    assert!(outcome.message.unwrap().starts_with("metric a: "));
    // Many SDKs do not log it, so the node warns the operator once for each reason.
    let unstated = metric(("d", "s"), HISTOGRAM, &[histogram(1, 2, &[], &[1])], 0);
    node.metrics(&[bad("e"), unstated]);
    let got = node.intake.take_otlp_warnings();
    let begin = |text: &String| text.split(':').next().unwrap().to_owned();
    assert_eq!(got.iter().map(begin).collect::<Vec<_>>(), ["metric a", "metric d"]);
}

#[test]
fn a_malformed_body_changes_nothing() {
    let body = body_of(&[("service.name", "shop")], &[good()]);
    let broken = [&body[..], &[0x0a, 99]].concat();
    let mut node = Node::new(Rules::default());
    let Malformed(text) = node.take(Signal::Metrics, Encoding::Protobuf, &broken).unwrap_err();
    assert_eq!(text, "metrics request: ends within a field");
    let json = b"{\"resourceMetrics\":[{}],";
    let Malformed(text) = node.take(Signal::Traces, Encoding::Json, json).unwrap_err();
    assert!(text.starts_with("trace request: EOF while parsing"), "{text}");
    assert_eq!(node.recorded(), recorded([]));
    let figures = node.intake.otlp_stats();
    assert_eq!((figures.malformed, figures.metrics, figures.points), ([1, 1], 0, [0; 5]));
}

#[test]
fn more_points_than_a_body_may_have_are_malformed() {
    let points = vec![Writer::default(); OTLP_POINTS_MAX + 1];
    let body = |points: &[Writer]| body_of(&[], &[metric(("a", ""), GAUGE, points, 0)]);
    let mut node = Node::new(Rules::default());
    let most = node.take(Signal::Metrics, Encoding::Protobuf, &body(&points[1..])).unwrap();
    assert_eq!(most.refused, OTLP_POINTS_MAX as u64);
    let more = node.take(Signal::Metrics, Encoding::Protobuf, &body(&points));
    assert!(more.unwrap_err().0.contains("65537 points or spans, more than 65536; send fewer"));
}

#[test]
fn a_leaving_node_takes_nothing() {
    let mut node = Node::new(Rules::default());
    let body = body_of(&[], &[good(), good_too()]);
    let outcome =
        node.intake.on_otlp(node.now, Signal::Metrics, Encoding::Protobuf, &body, true).unwrap();
    assert_eq!(outcome.refused, 2);
    assert!(outcome.message.unwrap().contains("shutting down"));
}
