//! Malformed DogStatsD at a node's sockets.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_schemas::own_operations::MESSAGE_DELIVERY;
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::metrics_page::{MetricsPage, await_value};
use plimsoll_tests::process::{MeshProcess, await_summary, fleet_samples, node_row, operation_row};
use plimsoll_tests::rng::SeededRng;
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use plimsoll_tests::statsd::{StatsdSender, await_datagrams};

const WAIT: Duration = Duration::from_secs(20);
/// Resident memory of a node under any input, in a build without optimisation.
const RESIDENT_BYTES_MAX: f64 = 64.0 * 1024.0 * 1024.0;
/// Anonymous memory of the aggregator, whose allocator keeps freed pages for a while. Pages of its
/// program, which in a build without optimisation are many, are not among it.
const AGGREGATOR_BYTES_MAX: u64 = 96 * 1024 * 1024;
/// The largest payload of a UDP datagram over IPv4.
const UDP_BYTES_MAX: usize = 65_507;
const NAMES: usize = 100_000;
const GOOD: &str = "good:2|ms\n";

/// A line and the reason for which it is refused.
const REFUSED: [(&[u8], &str); 22] = [
    (b"a", "shape"),
    (b"a|ms", "shape"),
    (b"a:|ms", "shape"),
    (b"a:1", "shape"),
    (b"|||", "shape"),
    (b":1|ms", "name"),
    (b"a b:1|ms", "name"),
    (b"\xf0\x28\x8c\xbc:1|ms", "encoding"),
    (b"a:1|x", "type"),
    (b"a:1|", "type"),
    (b"a:1|msms", "type"),
    (b"a:1|s", "unsupported"),
    (b"_e{5,4}:title|tex", "event"),
    (b"_sc|name|4", "event"),
    (b"a:NaN|ms", "number"),
    (b"a:inf|g", "number"),
    (b"a:0x10|c", "number"),
    (b"a:1:2:|ms", "number"),
    (b"a:-1|ms", "negative"),
    (b"a:1:-0.5|h", "negative"),
    (b"a:1|ms|@0", "rate"),
    (b"a:1|ms|@NaN", "rate"),
];

/// Datagrams without a valid line.
struct Attack {
    datagrams: Vec<Vec<u8>>,
    refused: BTreeMap<String, f64>,
}

impl Attack {
    /// Every refused line alone and all in one, a line that is too long, and the largest
    /// datagram there is.
    fn by_reason() -> Self {
        let mut datagrams: Vec<Vec<u8>> = REFUSED.iter().map(|(line, _)| line.to_vec()).collect();
        datagrams.push(REFUSED.map(|(line, _)| line).join(&b'\n'));
        let mut refused = BTreeMap::new();
        for (_, reason) in REFUSED {
            *refused.entry(reason.to_owned()).or_default() += 2.0;
        }
        datagrams.push(format!("{}:1|ms", "a".repeat(8_192)).into_bytes());
        datagrams.push([b'x'; UDP_BYTES_MAX].to_vec());
        refused.insert("too_long".to_owned(), 2.0);
        datagrams.push(b"\n".repeat(UDP_BYTES_MAX));
        datagrams.push(Vec::new());
        Self { datagrams, refused }
    }

    /// Bytes above ASCII, zeros and line ends: never a line, and mostly not even text.
    fn noise(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        let byte = |bits: u8| match bits {
            0..0x40 => [0, b'\n', b'\r', b'|'][usize::from(bits) % 4],
            _ => bits | 0x80,
        };
        let datagrams: Vec<Vec<u8>> = (0..300)
            .map(|_| {
                let len = rng.below(2_000);
                rng.bytes(len).into_iter().map(byte).collect()
            })
            .collect();
        let lines = datagrams.iter().flat_map(|d| d.split(|byte| *byte == b'\n'));
        let lines = lines.filter(|line| !line.is_empty()).count();
        Self { datagrams, refused: BTreeMap::from([("any".to_owned(), lines as f64)]) }
    }

    /// Sends everything, a good line after each datagram, never further ahead of the node than
    /// a socket's buffer reaches. Returns the number of good lines.
    async fn run(&self, sender: &StatsdSender, target: &MeshProcess) -> u64 {
        let before = target.api.metric("plimsoll_agent_datagrams_total").await.unwrap().unwrap();
        let mut sent = before_count(before);
        for datagram in &self.datagrams {
            sender.send(datagram).unwrap();
            sender.send(GOOD).unwrap();
            sent += 2;
            if matches!(sender, StatsdSender::Udp(_)) {
                await_datagrams(&target.api, sent).await.unwrap();
            }
        }
        await_datagrams(&target.api, sent).await.unwrap();
        self.datagrams.len() as u64
    }
}

fn before_count(counter: f64) -> usize {
    format!("{counter:.0}").parse().unwrap()
}

async fn rejected(target: &MeshProcess) -> BTreeMap<String, f64> {
    let page = MetricsPage::of(&target.api).await.unwrap();
    page.by_label("plimsoll_agent_rejected_lines_total", "reason")
}

fn resident_bytes(page: &MetricsPage) -> f64 {
    page.value("process_resident_memory_bytes").unwrap()
}

/// Anonymous resident bytes of a process.
fn anonymous_bytes(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

async fn drain_node(mesh: &mut SingleNodeMesh) -> Summary {
    let summary = mesh.drain_node().await.unwrap();
    let ledger = &node_row(&summary, NODE).unwrap().ledger;
    assert!(ledger.lost.is_empty(), "{ledger:?}");
    summary
}

#[tokio::test]
async fn every_refused_line_is_counted_by_reason_and_costs_itself_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let senders = [
        StatsdSender::unix(mesh.node.socket()).unwrap(),
        StatsdSender::udp(mesh.node.udp().unwrap()).unwrap(),
    ];
    let (by_reason, noise) = (Attack::by_reason(), Attack::noise(11));
    let (mut good, mut expected) = (0, BTreeMap::new());
    for sender in &senders {
        good += by_reason.run(sender, &mesh.node).await;
        for (reason, lines) in &by_reason.refused {
            *expected.entry(reason.clone()).or_default() += lines;
        }
        assert_eq!(rejected(&mesh.node).await, expected);
    }
    for sender in &senders {
        let before: f64 = rejected(&mesh.node).await.values().sum();
        good += noise.run(sender, &mesh.node).await;
        let after: f64 = rejected(&mesh.node).await.values().sum();
        assert_eq!(after - before, noise.refused["any"]);
    }
    assert!(mesh.node.is_alive().unwrap());
    let summary = drain_node(&mut mesh).await;
    assert_eq!(fleet_samples(&summary, "good"), good);
    let page = MetricsPage::of(mesh.stack.api()).await.unwrap();
    let series = "plimsoll_node_rejected_lines_total{node=\"fed\",reason=\"negative\"}";
    assert_eq!(page.value(series), Some(expected["negative"]), "the aggregator exports it too");
}

#[tokio::test]
async fn a_hundred_thousand_names_fold_into_one_and_memory_stays_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    sender.send(GOOD).unwrap();
    // An operation that is new after the flood finds no room, unless a budget judges it.
    let known = |summary: &Summary| fleet_samples(summary, "good") == 1;
    await_summary(mesh.stack.api(), "the good operation is merged", known).await.unwrap();
    let mut good = 1;
    for first in (0..NAMES).step_by(50) {
        let names = (first..first + 50).map(|n| format!("name_{n}:1|ms\n"));
        sender.send(GOOD.to_owned() + &names.collect::<String>()).unwrap();
        good += 1;
    }
    let page = until("the node has read everything", WAIT, async || {
        let page = MetricsPage::of(&mesh.node.api).await.ok()?;
        let values = page.value("plimsoll_agent_values_total")?;
        (values >= (NAMES + good) as f64).then_some(page)
    });
    let page = page.await.unwrap();
    assert_eq!(page.value("plimsoll_agent_values_total"), Some((NAMES + good) as f64));
    assert!(page.value("plimsoll_agent_overflow_values_total").unwrap() > 0.0);
    assert!(resident_bytes(&page) < RESIDENT_BYTES_MAX, "{} bytes", resident_bytes(&page));
    let summary = drain_node(&mut mesh).await;
    assert_eq!(fleet_samples(&summary, "good"), good as u64);
    let publish = operation_row(&summary, NODE, "publish").unwrap().total.count;
    let all = (NAMES + good) as u64 + publish;
    assert_eq!(node_row(&summary, NODE).unwrap().ledger.merged, all);
    for scope in [NODE, ""] {
        // What the aggregator measures itself is no sample of a node.
        let rows = summary.operations.iter().filter(|row| row.scope.node() == scope);
        let rows = rows.filter(|row| row.operation != MESSAGE_DELIVERY);
        assert_eq!(rows.map(|row| row.total.count).sum::<u64>(), all, "{scope:?}");
        assert!(operation_row(&summary, scope, "other").is_some_and(|row| row.total.count > 0));
    }
    let aggregator = anonymous_bytes(mesh.stack.aggregator_id());
    assert!(aggregator < AGGREGATOR_BYTES_MAX, "{aggregator} bytes");
}

#[tokio::test]
async fn huge_and_tiny_values_are_accepted_and_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    sender.send("huge:1e300:3600001:0|ms\ntiny:0.0000001|ms\nmany:1|ms|@0.000001").unwrap();
    sender.send("sum:1e308:1e308:1e308|c\nlow:-1e308|g").unwrap();
    await_datagrams(&mesh.node.api, 2).await.unwrap();
    let page = MetricsPage::of(&mesh.node.api).await.unwrap();
    assert_eq!(page.value("plimsoll_agent_clamped_samples_total"), Some(2.0));
    // A gauge is exported only until its node leaves.
    for (series, value) in [
        ("plimsoll_job_count_sum_total{node=\"fed\"}", f64::MAX),
        ("plimsoll_job_value_low{node=\"fed\"}", -1e308),
    ] {
        await_value(mesh.stack.api(), series, value).await.unwrap();
    }
    let summary = drain_node(&mut mesh).await;
    let hour = 3_600_000_000_000;
    for (name, count, min_ns, max_ns) in
        [("huge", 3, 0, hour), ("tiny", 1, 0, 0), ("many", 1_000_000, 1_000_000, 1_000_000)]
    {
        let total = &operation_row(&summary, NODE, name).unwrap().total;
        assert_eq!((total.count, total.min_ns, total.max_ns), (count, min_ns, max_ns), "{name}");
    }
}
