//! Nodes that answer requests of their histories with what is no answer: each is named with its
//! reason, and nothing of it is merged.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_bus::{Listener, Messenger, UnacknowledgedMessage};
use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::Stack;
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::{Labels, MeshName, NodeName};
use plimsoll_schemas::limits::wire::{COUNT_MAX, HISTORY_RESPONSE_BYTES_MAX, HISTORY_SLOTS_MAX};
use plimsoll_schemas::subject::answer_subject;
use plimsoll_schemas::summary::{HardwareHistoryPage, HistoryPage, HistoryPoint, NodeHistory};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::history::{
    HistoryOf, HistoryRequest, HistoryResponse, HistorySlot, ReadingRange,
};
use plimsoll_schemas::wire::{Body, Bus};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::process::{await_summary, node_row};
use plimsoll_tests::publisher::Publisher;
use plimsoll_tests::rng::SeededRng;
use serde_json::from_str;

use super::forgery::{header_of_now, message};
use crate::history::{await_samples, query};

const WAIT: Duration = Duration::from_secs(60);
const COUNTS: &str = "plimsoll_aggregator_history_requests_total";

/// Each node's name is what it does; with the reason that a query of latencies, and one of
/// readings, must state for it.
const LIARS: [(&str, &str, &str); 13] = [
    ("bytes", "bytes, more than", "bytes, more than"),
    ("garbage", "not a snapshot", "not a snapshot"),
    ("trailing", "1 bytes after the end", "1 bytes after the end"),
    ("slots", "slots is out of bounds", "slots is out of bounds"),
    ("outside", "slots is out of bounds", "slots is out of bounds"),
    ("claims", "samples is out of bounds", "samples is out of bounds"),
    ("unasked", "readings is out of bounds", "samples is out of bounds"),
    ("disorder", "readings is out of bounds", "readings is out of bounds"),
    ("flood", "readings is out of bounds", "more than 65536 points of readings"),
    ("late", "to other requests", "to other requests"),
    ("number", "to other requests", "to other requests"),
    ("name", "no answer: the node is away", "no answer: the node is away"),
    ("refuses", "refused is out of bounds", "refused is out of bounds"),
];

fn samples(count: u64) -> Option<Packed> {
    let mut samples = Histogram::default();
    samples.record_n(5_000_000, count);
    Some(Packed::from(&samples))
}

fn reading(sensor: String) -> ReadingRange {
    let labels = Labels::default();
    ReadingRange { sensor, labels, min: 1.0, mean: 1.0, max: 1.0, count: 1 }
}

/// What a liar publishes: under the name of which node, and what.
fn lie(node: &str, request: &HistoryRequest) -> Option<(String, Vec<u8>)> {
    let (number, range) = (request.number, &request.range);
    let slot = HistorySlot { begin_ns: range.start.0, covered_ns: 0, ..HistorySlot::default() };
    let with_samples = HistorySlot { samples: samples(1_000), ..slot.clone() };
    let with_readings = |readings| HistorySlot { readings, ..slot.clone() };
    let of = |slots| HistoryResponse {
        number,
        from: range.start,
        kept_from: Some(Wall(1)),
        missing: 0,
        slots,
        refused: String::new(),
    };
    let asks_readings = matches!(request.of, HistoryOf::Hardware { .. });
    let response = match node {
        "bytes" => HistoryResponse::refusal(number, "x".repeat(HISTORY_RESPONSE_BYTES_MAX)),
        "garbage" => return Some((node.to_owned(), SeededRng::new(number).bytes(3_000))),
        "trailing" => return Some((node.to_owned(), [of(vec![]).encode(), vec![0]].concat())),
        "slots" => of(vec![slot; HISTORY_SLOTS_MAX + 1]),
        "outside" => of(vec![HistorySlot { begin_ns: range.end.0, ..with_samples }]),
        "claims" => of(vec![HistorySlot { samples: samples(COUNT_MAX + 1), ..slot }]),
        "unasked" if asks_readings => of(vec![with_samples]),
        "unasked" => of(vec![with_readings(vec![reading("load1".to_owned())])]),
        "disorder" => {
            let wrong = ReadingRange { min: 2.0, ..reading("load1".to_owned()) };
            of(vec![with_readings(vec![wrong])])
        }
        // As many readings as a message holds, and in each part others.
        "flood" => {
            let from = Wall(range.end.0 - request.step_ns);
            let readings = (0..5_500).map(|n| reading(format!("{}_{n}", from.0)));
            let begin_ns = from.0;
            let slot = HistorySlot { begin_ns, ..with_readings(readings.collect()) };
            HistoryResponse { from, ..of(vec![slot]) }
        }
        "number" => HistoryResponse { number: number + 1_000_000, ..of(vec![with_samples]) },
        "late" => of(vec![with_samples]),
        "name" => return Some(("node-1".to_owned(), of(vec![with_samples]).encode())),
        "refuses" => HistoryResponse::refusal(number, "x".repeat(10_000)),
        _ => return None,
    };
    Some((node.to_owned(), response.encode()))
}

/// Answers for all liars, until it is aborted. `late` answers a request when it receives the next
/// one: the first of two attempts is over then, and the second waits.
async fn serve(messenger: Messenger, mut requests: Listener) {
    let mesh = MeshName::new("local").unwrap();
    let mut late = None;
    while let Some(received) = requests.next().await {
        let node = received.subject.rsplit('.').next().unwrap().to_owned();
        let request = HistoryRequest::decode(&received.payload).unwrap();
        let Some((name, payload)) = lie(&node, &request) else { continue };
        let subject = answer_subject(&mesh, &NodeName::new(name).unwrap(), &request.asker);
        let (headers, payload) = (Vec::new(), Bytes::from(payload));
        let outgoing = UnacknowledgedMessage { subject, headers, payload };
        let outgoing = if node == "late" { late.replace(outgoing) } else { Some(outgoing) };
        if let Some(outgoing) = outgoing {
            messenger.publish(outgoing).unwrap();
        }
    }
}

/// Publishes a message of each liar, so that the aggregator knows it.
async fn introduce(stack: &Stack, publisher: &mut Publisher) {
    for (name, ..) in LIARS {
        let payload = message(header_of_now(name), Body::Bus(Bus::default()));
        let subject = format!("plimsoll.v1.local.normal.{name}.bus");
        publisher.publish(&subject, payload).await.unwrap();
    }
    let known = |summary: &_| LIARS.iter().all(|(name, ..)| node_row(summary, name).is_ok());
    await_summary(stack.api(), "all liars are known", known).await.unwrap();
}

/// Each liar is named with its reason and adds nothing; returns the rows of all others.
fn check_rows<'r>(
    rows: impl Iterator<Item = &'r NodeHistory>,
    reason: impl Fn(&str) -> Option<&'static str>,
) -> Vec<&'r NodeHistory> {
    let (liars, others): (Vec<_>, Vec<_>) = rows.partition(|row| reason(&row.node).is_some());
    assert_eq!(liars.len(), LIARS.len());
    for row in liars {
        let (reason, error) = (reason(&row.node).unwrap(), row.error.clone().unwrap_or_default());
        assert!(error.contains(reason), "{}: {reason:?} is not in {error:?}", row.node);
        assert_eq!(row.samples, 0, "{row:?}");
    }
    others
}

fn counts(page: &HistoryPage) -> Vec<u64> {
    page.points.iter().map(|point: &HistoryPoint| point.count).collect()
}

#[tokio::test]
async fn a_node_that_answers_with_what_is_no_answer_is_named_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    await_samples(&stack, 120).await;
    stack.end_jobs().await.unwrap();
    let equal = async || {
        let of_nodes = query(&stack, "operation=epoch_hook&node=*&last=15m&step=1s").await;
        let of_fleet = query(&stack, "operation=epoch_hook&last=1h").await;
        (counts(&of_nodes).iter().sum::<u64>() == counts(&of_fleet)[0]).then_some(of_nodes)
    };
    let before = until("nodes and fleet agree", WAIT, equal).await.unwrap();

    let mut publisher = Publisher::connect(stack.broker().url()).await.unwrap();
    let messenger = publisher.messenger();
    let requests = messenger.listen("plimsoll.v1.local.ask.*".to_owned());
    // What the broker acknowledges on the same connection comes after the subscription.
    introduce(&stack, &mut publisher).await;
    let serving = tokio::spawn(serve(messenger, requests));
    let range = format!("node=*&from={}&to={}", before.from_seconds, before.to_seconds);
    let after = query(&stack, &format!("operation=epoch_hook&{range}&step=1s")).await;
    let of_latency = |name: &str| LIARS.iter().find(|liar| liar.0 == name).map(|liar| liar.1);
    let others = check_rows(after.nodes.iter().flatten(), of_latency);
    let had: Vec<&NodeHistory> = before.nodes.iter().flatten().collect();
    let figures = |rows: &[&NodeHistory]| -> Vec<(String, u64, Option<String>)> {
        rows.iter().map(|row| (row.node.clone(), row.samples, row.error.clone())).collect()
    };
    assert_eq!(figures(&others), figures(&had));
    assert_eq!(counts(&after), counts(&before));
    let completeness: Vec<f64> =
        after.points.iter().filter_map(|point| point.completeness).collect();
    // Of one second it may be more: a late interval is as long as several.
    let mean = completeness.iter().sum::<f64>() / completeness.len() as f64;
    assert!(mean < 0.25, "sixteen nodes are expected, three answer: {mean}");

    let path = format!("/api/v1/hardware/history?{range}");
    let page: HardwareHistoryPage = from_str(&stack.api().get(&path).await.unwrap()).unwrap();
    let of_hardware = |name: &str| LIARS.iter().find(|liar| liar.0 == name).map(|liar| liar.2);
    let others = check_rows(page.nodes.iter().map(|node| &node.of), of_hardware);
    assert!(others.iter().all(|row| row.error.is_none() && row.samples > 0), "{others:?}");
    let of_liars = page.nodes.iter().filter(|node| of_hardware(&node.of.node).is_some());
    assert_eq!(of_liars.map(|node| node.readings.len()).sum::<usize>(), 0);

    // In each query three liars get no answer, and five responses or more are to other requests: of
    // `number` and `name` two each, and one or two of `late`. The others are invalid, except that
    // the flood of readings is cut.
    let counted = async || {
        let counted = MetricsPage::of(stack.api()).await.ok()?.by_label(COUNTS, "result");
        let has = |result: &str, least: f64| counted.get(result).is_some_and(|n| *n >= least);
        let least = [("invalid", 19.0), ("missing", 6.0), ("unexpected", 10.0), ("answered", 6.0)];
        least.iter().all(|(result, least)| has(result, *least)).then_some(counted)
    };
    let counted: BTreeMap<String, f64> = until("all is counted", WAIT, counted).await.unwrap();
    assert_eq!(counted["invalid"], 19.0, "{counted:?}");
    stack.check_alive().unwrap();
    assert!(!stack.aggregator().log().contains("panicked"), "{}", stack.aggregator().log());
    serving.abort();
}
