//! What it costs to take one point of OTLP: bodies of 1 000 streams with three attributes each, as
//! histograms of 15 bounds (in Protocol Buffers and as JSON), exponential histograms of 160
//! buckets, sums, and spans that a rule names. All are cumulative and known. Prints nanoseconds a
//! point and points a second of one core, as the median of eleven rounds: `cargo bench -p
//! plimsoll-node --bench otlp_cost`.

use std::hint::black_box;

use plimsoll_clock::Clock;
use plimsoll_node::core::Bounds;
use plimsoll_node::core::intake::glob::Glob;
use plimsoll_node::core::intake::otlp::{Encoding, Signal};
use plimsoll_node::core::intake::otlp::{LabelOf, SpanRule};
use plimsoll_node::core::{Core, Identity};
use plimsoll_schemas::ids::{Labels, MeshName, NodeName, Operation};
use plimsoll_schemas::time::{Mono, Now, Wall, nanos};

const POINTS: u64 = 1_000;
const ROUNDS: u64 = 11;
const BEGAN: u64 = 1_700_000_000_000_000_000;
const NOW: Now = Now { mono: Mono(0), wall: Wall(BEGAN) };

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.extend((number | 0x80).to_le_bytes().first());
        number >>= 7;
    }
    out.extend(number.to_le_bytes().first());
}

fn fixed(number: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, number << 3 | 1);
    [out, value.to_le_bytes().to_vec()].concat()
}

fn bytes(number: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    let inner = parts.concat();
    let mut out = Vec::new();
    varint(&mut out, number << 3 | 2);
    varint(&mut out, inner.len() as u64);
    [out, inner].concat()
}

fn text(number: u64, text: &str) -> Vec<u8> {
    bytes(number, &[text.as_bytes().to_vec()])
}

fn attributes(number: u64, stream: u64) -> Vec<u8> {
    let one = |key, value: &str| bytes(number, &[text(1, key), bytes(2, &[text(1, value)])]);
    let route = format!("/api/v1/items/{stream}");
    [one("http.request.method", "GET"), one("http.route", &route), one("zone", "a")].concat()
}

fn body(metrics: &[Vec<u8>]) -> Vec<u8> {
    let service = bytes(1, &[text(1, "service.name"), bytes(2, &[text(1, "shop")])]);
    let scope = bytes(1, &[text(1, "bench"), text(2, "1")]);
    let scope = bytes(2, &[vec![scope], metrics.to_vec()].concat());
    bytes(1, &[bytes(1, &[service]), scope])
}

fn counts(round: u64, len: u64) -> Vec<u8> {
    (0..len).flat_map(|n| ((round + 1) * (1 + n % 3)).to_le_bytes()).collect()
}

fn times(round: u64) -> Vec<u8> {
    [fixed(2, BEGAN), fixed(3, BEGAN + 1 + round)].concat()
}

fn histogram(round: u64, stream: u64) -> Vec<u8> {
    let count: u64 = (0..16).map(|n| (round + 1) * (1 + n % 3)).sum();
    let bounds = (0..15).flat_map(|n| (f64::from(1 << n) / 1e4).to_le_bytes()).collect();
    let parts = [times(round), fixed(4, count), fixed(5, 1_f64.to_bits())];
    let lists = [bytes(6, &[counts(round, 16)]), bytes(7, &[bounds])];
    bytes(1, &[parts.concat(), lists.concat(), attributes(9, stream)])
}

fn exponential(round: u64, stream: u64) -> Vec<u8> {
    let numbers: Vec<u64> = (0..160).map(|n| (round + 1) * u64::from(n % 4 == 0)).collect();
    let mut packed = Vec::new();
    numbers.iter().for_each(|n| varint(&mut packed, *n));
    // Scale 4 from about a millisecond on.
    let buckets = bytes(8, &[vec![0x08, 0xbf, 0x02], bytes(2, &[packed])]);
    let parts = [times(round), fixed(4, numbers.iter().sum()), vec![0x30, 8], buckets];
    bytes(1, &[parts.concat(), attributes(1, stream)])
}

fn sum(round: u64, stream: u64) -> Vec<u8> {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let value = fixed(4, (round as f64).to_bits());
    bytes(1, &[times(round), value, attributes(7, stream)])
}

fn span(round: u64, stream: u64) -> Vec<u8> {
    let id = (round * POINTS + stream + 1).to_le_bytes().to_vec();
    let ids = [bytes(1, &[id.clone(), id.clone()]), bytes(2, &[id])].concat();
    let span = [text(5, "GET"), fixed(7, BEGAN), fixed(8, BEGAN + 1_000_000 + stream)].concat();
    bytes(2, &[ids, span, attributes(9, stream)])
}

fn metric(kind: u64, points: &[Vec<u8>]) -> Vec<u8> {
    let data = [points.concat(), vec![0x10, 2, 0x18, 1]];
    bytes(2, &[text(1, "http.server.duration"), text(3, "s"), bytes(kind, &data)])
}

fn json(round: u64) -> Vec<u8> {
    let point = |stream: u64| {
        let counts: Vec<u64> = (0..16).map(|n| (round + 1) * (1 + n % 3)).collect();
        let bounds: Vec<f64> = (0..15).map(|n| f64::from(1 << n) / 1e4).collect();
        let attribute = |key, value: &str| {
            format!("{{\"key\":\"{key}\",\"value\":{{\"stringValue\":\"{value}\"}}}}")
        };
        let route = attribute("http.route", &format!("/api/v1/items/{stream}"));
        let (method, zone) = (attribute("http.request.method", "GET"), attribute("zone", "a"));
        let (time, count) = (BEGAN + 1 + round, counts.iter().sum::<u64>());
        format!(
            "{{\"startTimeUnixNano\":\"{BEGAN}\",\"timeUnixNano\":\"{time}\",\"count\":\"{count}\",\
             \"sum\":1.0,\"bucketCounts\":{counts:?},\"explicitBounds\":{bounds:?},\
             \"attributes\":[{method},{route},{zone}]}}"
        )
    };
    let points: Vec<String> = (0..POINTS).map(point).collect();
    format!(
        "{{\"resourceMetrics\":[{{\"scopeMetrics\":[{{\"metrics\":[{{\"name\":\"a\",\"unit\":\"s\",\
         \"histogram\":{{\"aggregationTemporality\":2,\"dataPoints\":[{}]}}}}]}}]}}]}}",
        points.join(",")
    )
    .into_bytes()
}

fn bodies(what: &str) -> Vec<Vec<u8>> {
    let points = |point: fn(u64, u64) -> Vec<u8>, round| -> Vec<Vec<u8>> {
        (0..POINTS).map(|stream| point(round, stream)).collect()
    };
    let one = |round| match what {
        "histogram" => body(&[metric(9, &points(histogram, round))]),
        "exponential" => body(&[metric(10, &points(exponential, round))]),
        "sum" => body(&[metric(7, &points(sum, round))]),
        "span" => body(&points(span, round)),
        _ => json(round),
    };
    (0..=ROUNDS).map(one).collect()
}

fn core() -> Core {
    let name = "a constant name of plain letters";
    let identity = Identity {
        mesh: MeshName::new("m").expect(name),
        node: NodeName::new("n").expect(name),
        labels: Labels::default(),
    };
    let mut bounds = Bounds::default();
    bounds.rules.otlp.spans = vec![SpanRule {
        name: Glob::new("GET*"),
        attributes: vec![("zone".to_owned(), "a".to_owned())],
        operation: Some(Operation::new("get").expect(name)),
        labels: LabelOf::read("http.route=route").into_iter().collect(),
    }];
    Core::new(identity, bounds, NOW)
}

fn main() {
    for what in ["histogram", "json", "exponential", "sum", "span"] {
        let (clock, mut core, bodies) = (Clock::start(), core(), bodies(what));
        let signal = if what == "span" { Signal::Traces } else { Signal::Metrics };
        let encoding = if what == "json" { Encoding::Json } else { Encoding::Protobuf };
        let mut rounds = Vec::new();
        for body in &bodies {
            let begun = clock.now().mono;
            let outcome = core.on_otlp(NOW, signal, encoding, black_box(body));
            rounds.push(nanos(clock.now().mono.since(begun)) / POINTS);
            assert_eq!(outcome.map(|outcome| outcome.message), Ok(None), "{what}");
        }
        // In the first round all streams are new.
        let (first, mut known) = (rounds[0], rounds.split_off(1));
        known.sort_unstable();
        let ns = known[known.len() / 2].max(1);
        let (bytes, a_second) = (bodies[0].len() as u64 / POINTS, 1_000_000_000 / ns);
        println!("{what:12} {bytes:4} bytes {ns:5} ns, new {first:5} ns, {a_second:8} points/s");
    }
}
