//! Cost of writing a page for Prometheus: 100 000 gauges with three labels, by our writer and by
//! the crates `prometheus` and `prometheus-client`, all from numbers to bytes; then the pages of an
//! aggregator with 10 000 nodes of three operations each. The contenders alternate in one run; a
//! figure is the median over the rounds. `--json` prints the table as JSON; two numbers change the
//! nodes and the seconds for which each has sent.
//!
//! `cargo bench -p plimsoll-aggregator --bench exposition_speed [-- [--json] [N [S]]]`

use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::AtomicU64;

use flate2::Compression;
use flate2::write::GzEncoder;
use plimsoll_aggregator::core::Core;
use plimsoll_aggregator::core::view::{Nodes, ViewQuery};
use plimsoll_aggregator::exposition::writer::{Family, Value, Writer};
use plimsoll_aggregator::exposition::{Format, PageOptions, ServingStats, nodes_page, page};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Operation, Seq, Series};
use plimsoll_schemas::rule::file::effective;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::transport::Delivered;
use plimsoll_schemas::wire::{self, Body, Header, Latency, Snapshot, Totals};
use prometheus::Encoder;
use serde_json::{Value as Json, json};

const ROUNDS: usize = 15;
const NODES: usize = 1_000;
const OPERATIONS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
const WINDOWS: [&str; 10] = ["10s", "1m", "5m", "30m", "1h", "2h", "6h", "1d", "3d", "30d"];
const NAME: &str = "plimsoll_latency_p99_seconds";
const HELP: &str = "99th percentile of latency from merged counts, upper end of its bucket";
/// As a job has them: two that a budget judges and one of the node's own.
const JUDGED: [&str; 3] = ["epoch_hook", "kernel_fetch", "publish"];
const SAMPLES: u64 = 20;
const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;

/// One contender: its name, and a turn that returns how many bytes it wrote.
type Contender<'a> = (String, Box<dyn FnMut() -> usize + 'a>);

/// Median milliseconds and bytes of each contender; all of them take their turn in every round.
fn measure(mut contenders: Vec<Contender<'_>>) -> Vec<(String, f64, usize)> {
    let mut spent = vec![Vec::new(); contenders.len()];
    let mut bytes = vec![0; contenders.len()];
    for _ in 0..ROUNDS {
        for (place, (_, turn)) in contenders.iter_mut().enumerate() {
            let watch = Stopwatch::start();
            bytes[place] = black_box(turn());
            spent[place].push(watch.elapsed().as_secs_f64() * 1e3);
        }
    }
    let median = |spent: &mut Vec<f64>| {
        spent.sort_by(f64::total_cmp);
        spent[ROUNDS / 2]
    };
    let names = contenders.into_iter().map(|(name, _)| name);
    let figures = names.zip(&mut spent).zip(bytes);
    figures.map(|((name, spent), bytes)| (name, median(spent), bytes)).collect()
}

/// Every series with its labels and its value, which has a fraction as latencies have.
fn gauges(names: &[String]) -> impl Iterator<Item = ([&str; 3], u64)> {
    let operations = names.iter().flat_map(|node| OPERATIONS.map(|operation| (node, operation)));
    let all = operations.flat_map(|(node, of)| WINDOWS.map(|window| [node.as_str(), of, window]));
    all.zip(1..).map(|(labels, n)| (labels, n * 104_729 % 40_000_000))
}

fn ours(names: &[String], format: Format) -> Vec<u8> {
    let mut writer = Writer::new(format);
    let windows = WINDOWS.map(|window| writer.labels([("window", window)]));
    writer.family(Family::gauge(NAME, HELP), |rows| {
        let mut values = (1..).map(|n| n * 104_729 % 40_000_000);
        for node in names {
            for operation in OPERATIONS {
                let scope = rows.labels([("node", node.as_str()), ("operation", operation)]);
                for (window, ns) in windows.iter().zip(&mut values) {
                    rows.add(&[&scope, window], Value::nanos(ns));
                }
            }
        }
    });
    writer.finish()
}

#[expect(clippy::cast_precision_loss, reason = "below a second")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn theirs(names: &[String]) -> prometheus::Registry {
    let registry = prometheus::Registry::new();
    let labels = ["node", "operation", "window"];
    let family = prometheus::GaugeVec::new(prometheus::Opts::new(NAME, HELP), &labels)
        .expect("constant names");
    for (labels, ns) in gauges(names) {
        family.with_label_values(&labels).set(seconds(ns));
    }
    registry.register(Box::new(family)).expect("the only family");
    registry
}

type ClientLabels = [(&'static str, String); 3];
type ClientGauge = prometheus_client::metrics::gauge::Gauge<f64, AtomicU64>;

fn client(names: &[String]) -> prometheus_client::registry::Registry {
    let family = prometheus_client::metrics::family::Family::<ClientLabels, ClientGauge>::default();
    for ([node, operation, window], ns) in gauges(names) {
        let pairs = [("node", node), ("operation", operation), ("window", window)];
        let labels = pairs.map(|(key, value)| (key, value.to_owned()));
        family.get_or_create(&labels).set(seconds(ns));
    }
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register(NAME, HELP, family);
    registry
}

fn gzip(plain: &[u8]) -> usize {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).expect("memory takes all");
    encoder.finish().expect("memory takes all").len()
}

fn series_contenders(names: &[String]) -> Vec<Contender<'_>> {
    let (registry, client) = (theirs(names), client(names));
    let prometheus = move || {
        let mut text = Vec::new();
        let encoder = prometheus::TextEncoder::new();
        encoder.encode(&registry.gather(), &mut text).expect("memory takes all");
        text.len()
    };
    let prometheus_client = move || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &client).expect("memory takes all");
        text.len()
    };
    let text = ours(names, Format::Text);
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for format in Format::ALL {
        let name = format!("ours, {}", format.as_str());
        contenders.push((name, Box::new(move || ours(names, format).len())));
    }
    contenders.push(("prometheus".to_owned(), Box::new(prometheus)));
    contenders.push(("prometheus-client".to_owned(), Box::new(prometheus_client)));
    contenders.push(("gzip of our text".to_owned(), Box::new(move || gzip(&text))));
    contenders
}

fn now(second: u64) -> Now {
    Now { mono: Mono(second * SECOND), wall: Wall(START + second * SECOND) }
}

/// What a node sends in one second: some samples of each operation around its own median.
fn message(node: &str, number: u64, second: u64) -> (String, Vec<u8>) {
    let histograms = JUDGED.iter().zip(1_u64..).map(|(name, operation)| {
        let mut samples = Histogram::default();
        let median = (2 + operation * 2 + number % 5) * 1_000_000;
        for n in 0..SAMPLES {
            let noise = (n * 7_919 + number * 104_729 + second * 1_299_709) % 1_000;
            samples.record(median * (500 + noise) / 1_000);
        }
        (Series::plain(Operation::new(*name).expect("a constant name")), samples)
    });
    let latency = Latency { histograms: histograms.collect(), ..Latency::default() };
    let header = Header {
        node: NodeName::new(node).expect("a name of letters and digits"),
        incarnation: Incarnation(1),
        seq: Seq(second),
        start: Wall(START + (second - 1) * SECOND),
        length_ns: SECOND,
        totals: Totals { recorded: second * SAMPLES * 3, ..Totals::default() },
        last: false,
        successor: None,
        labels: Labels::default(),
    };
    let snapshot = Snapshot { header, body: Body::Latency(latency) };
    (format!("plimsoll.v1.m.normal.{node}.latency"), wire::encode(&snapshot))
}

/// An aggregator that has read this many nodes for this many seconds.
fn core(budgets: &[Budget], nodes: u64, seconds: u64) -> Core {
    let mesh = MeshName::new("m").expect("a constant name");
    let mut core = Core::new(mesh, budgets.to_vec(), now(0));
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s"));
    for second in 1..=seconds {
        for number in 0..nodes {
            let (subject, payload) = message(&format!("node-{number:05}"), number, second);
            let (lane, stream_seq, pending) = (Lane::Normal, second * nodes + number, 0);
            let (at, sent) = (Some(now(second).wall), None);
            let message =
                Delivered { lane, stream_seq, pending, at, sent, subject, payload: payload.into() };
            core.on_message(now(second), &message).expect("an honest message");
        }
        core.on_deadline(now(second));
    }
    core
}

fn page_contenders<'a>(core: &'a Core, budgets: &'a [Budget], end: Wall) -> Vec<Contender<'a>> {
    let still = core.read_view(end, "jetstream");
    let shown = PageOptions { budgets, aliases: false };
    let (worst, all) = (Nodes::Worst(100), Nodes::All);
    let mut contenders: Vec<Contender<'a>> = Vec::new();
    let look = move || core.read_view(end, "jetstream").nodes.len();
    contenders.push(("a look by the driver (nodes)".to_owned(), Box::new(look)));
    for format in Format::ALL {
        let native = format == Format::Protobuf;
        let of = still.clone();
        let fleet = move || {
            let view = of.view(ViewQuery { fleet: true, nodes: worst, native });
            page(&view, shown, &ServingStats::default(), format).len()
        };
        contenders.push((format!("/metrics, {}", format.as_str()), Box::new(fleet)));
        let of = still.clone();
        let nodes = move || {
            let view = of.view(ViewQuery { fleet: false, nodes: all, native });
            nodes_page(&view, shown, format).len()
        };
        contenders.push((format!("/metrics/nodes, {}", format.as_str()), Box::new(nodes)));
    }
    let of = still.clone();
    let rows = move || of.view(ViewQuery { fleet: false, nodes: all, native: false }).nodes.len();
    contenders.push(("rows of /metrics/nodes alone (nodes)".to_owned(), Box::new(rows)));
    let view = still.view(ViewQuery { fleet: false, nodes: all, native: false });
    let text = nodes_page(&view, shown, Format::Text);
    contenders.push(("gzip of /metrics/nodes, text".to_owned(), Box::new(move || gzip(&text))));
    contenders
}

fn print(title: &str, figures: &[(String, f64, usize)]) {
    println!("{title}\n  {:<38}{:>10}{:>14}", "", "ms", "bytes");
    figures.iter().for_each(|(name, ms, bytes)| println!("  {name:<38}{ms:>10.2}{bytes:>14}"));
}

fn as_json(figures: &[(String, f64, usize)]) -> Json {
    let rows = figures.iter();
    rows.map(|(name, ms, bytes)| json!({ "what": name, "ms": ms, "bytes": bytes })).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_json = arguments.iter().any(|argument| argument == "--json");
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse::<u64>().ok());
    let (nodes, seconds_sent) = (numbers.next().unwrap_or(10_000), numbers.next().unwrap_or(30));
    let names: Vec<String> = (0..NODES).map(|number| format!("node-{number:04}")).collect();
    let series = measure(series_contenders(&names));
    let of = |name: &str| series.iter().find(|row| row.0 == name).map_or(f64::NAN, |row| row.1);
    let ratio = of("prometheus").min(of("prometheus-client")) / of("ours, text");
    let budgets = effective(&[]).expect("the built-in budgets");
    let core = core(&budgets, nodes, seconds_sent);
    let pages = measure(page_contenders(&core, &budgets, now(seconds_sent).wall));
    if is_json {
        let (series, pages) = (as_json(&series), as_json(&pages));
        println!("{}", json!({ "series": series, "ratio": ratio, "nodes": nodes, "pages": pages }));
        return;
    }
    print("100 000 gauges with three labels", &series);
    println!("  the better of the two crates / ours: {ratio:.1}\n");
    print(&format!("{nodes} nodes with 3 operations, each for {seconds_sent} s"), &pages);
}
