//! Bodies that the official SDK has made; see `otlp_seeds.py` beside the fuzz targets.

use super::*;

const DELTA_EXPLICIT: [&[u8]; 2] = [
    include_bytes!("../../../../../fuzz/seeds/otlp/delta_explicit.pb"),
    include_bytes!("../../../../../fuzz/seeds/otlp/delta_explicit.json"),
];
const CUMULATIVE_EXPONENTIAL: [&[u8]; 2] = [
    include_bytes!("../../../../../fuzz/seeds/otlp/cumulative_exponential.pb"),
    include_bytes!("../../../../../fuzz/seeds/otlp/cumulative_exponential.json"),
];
const SPANS: [&[u8]; 2] = [
    include_bytes!("../../../../../fuzz/seeds/otlp/spans.pb"),
    include_bytes!("../../../../../fuzz/seeds/otlp/spans.json"),
];
const ENCODINGS: [Encoding; 2] = [Encoding::Protobuf, Encoding::Json];

#[test]
fn metrics_of_the_official_sdk_are_recorded_in_either_encoding() {
    for bodies in [DELTA_EXPLICIT, CUMULATIVE_EXPONENTIAL] {
        for (encoding, body) in ENCODINGS.into_iter().zip(bodies) {
            let mut node = Node::new(Rules::default());
            let taken = node.take(Signal::Metrics, encoding, body);
            assert_eq!(taken, Ok(Outcome::default()), "{encoding:?}");
            let route = |route, n| {
                let status = "http_response_status_code=200";
                (
                    format!(
                        "http.server.request.duration{{{status},http_route={route},service=shop}}"
                    ),
                    n,
                )
            };
            let rest = [
                ("jobs{kind=x,service=shop}", 3.0),
                ("load{cpu=true,service=shop}", 0.5),
                ("queue{service=shop}", -2.0),
            ];
            let expected = [vec![route("/a", 4.0), route("/b", 1.0)], recorded(rest)].concat();
            assert_eq!(node.recorded(), expected, "{encoding:?}");
        }
    }
}

#[test]
fn exponential_buckets_of_the_official_sdk_hold_what_was_recorded() {
    let mut node = Node::new(Rules::default());
    node.take(Signal::Metrics, Encoding::Protobuf, CUMULATIVE_EXPONENTIAL[0]).unwrap();
    let latency = node.close();
    for ((_, histogram), samples_ms) in
        latency.histograms.iter().zip([&[4.0, 20.0, 20.0, 300.0][..], &[1_500.0]])
    {
        for (rank, ms) in (1..).zip(samples_ms) {
            let quantile = f64::from(rank) / samples_ms.len() as f64;
            let found = histogram.quantile(quantile).unwrap();
            let (least, most) = (found.lower_ns as f64 / 1e6, found.upper_ns as f64 / 1e6);
            assert!(least <= *ms && *ms <= most, "{quantile}: {ms} in {found:?}");
            // Scale 1: a bucket is as wide as the square root of 2.
            assert!(most / least < 1.42, "{quantile}: {found:?}");
        }
    }
}

#[test]
fn spans_of_the_official_sdk_are_latencies_in_either_encoding() {
    for (encoding, body) in ENCODINGS.into_iter().zip(SPANS) {
        let mut rules = Rules::default();
        rules.otlp.spans = vec![SpanRule {
            name: Glob::new("GET *"),
            attributes: vec![],
            operation: Some(Operation::new("get").unwrap()),
            labels: vec![LabelOf::read("http.route=route").unwrap()],
        }];
        let mut node = Node::new(rules);
        for _ in 0..2 {
            let taken = node.take(Signal::Traces, encoding, body);
            assert_eq!(taken, Ok(Outcome::default()), "{encoding:?}");
        }
        let figures = node.intake.otlp_stats();
        assert_eq!((figures.spans_matched, figures.spans_repeated), (2, 2));
        assert_eq!((figures.spans_unmatched, figures.traces), (2, 2));
        let all = node.close().histograms;
        let all: Vec<_> =
            all.iter().map(|(s, all)| (s.to_string(), all.count(), all.max_ns())).collect();
        let expected = [
            ("get{outcome=error,route=/b,service=shop}".to_owned(), 1, 40_000_000),
            ("get{route=/a,service=shop}".to_owned(), 1, 20_000_000),
        ];
        assert_eq!(all, expected, "{encoding:?}");
    }
}
