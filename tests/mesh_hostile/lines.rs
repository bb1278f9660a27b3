//! Malformed DogStatsD at a node's sockets.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::fed::{Fed, NODE};
use plimsoll_tests::feed::{Feed, caught_up};
use plimsoll_tests::lone::{Lone, fleet_count, node, operation, summary_when};
use plimsoll_tests::noise::Noise;
use plimsoll_tests::page::{Page, shown};

const WAIT: Duration = Duration::from_secs(20);
/// What a node may take in memory whatever it is sent, in a build without optimisation.
const RESIDENT_BYTES_MAX: f64 = 64.0 * 1024.0 * 1024.0;
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

/// Datagrams of all sorts; no line of them can be taken.
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
        let mut noise = Noise::seeded(seed);
        let byte = |bits: u8| match bits {
            0..0x40 => [0, b'\n', b'\r', b'|'][usize::from(bits) % 4],
            _ => bits | 0x80,
        };
        let datagrams: Vec<Vec<u8>> = (0..300)
            .map(|_| {
                let len = noise.below(2_000);
                noise.bytes(len).into_iter().map(byte).collect()
            })
            .collect();
        let lines = datagrams.iter().flat_map(|d| d.split(|byte| *byte == b'\n'));
        let lines = lines.filter(|line| !line.is_empty()).count();
        Self { datagrams, refused: BTreeMap::from([("any".to_owned(), lines as f64)]) }
    }

    /// Sends everything, a good line after each datagram, never further ahead of the node than
    /// a socket's buffer reaches. Returns the number of good lines.
    async fn run(&self, feed: &Feed, target: &Lone) -> u64 {
        let before = target.api.metric("plimsoll_agent_datagrams_total").await.unwrap().unwrap();
        let mut sent = before_count(before);
        for datagram in &self.datagrams {
            feed.send(datagram).unwrap();
            feed.send(GOOD).unwrap();
            sent += 2;
            if matches!(feed, Feed::Udp(_)) {
                caught_up(&target.api, sent).await.unwrap();
            }
        }
        caught_up(&target.api, sent).await.unwrap();
        self.datagrams.len() as u64
    }
}

fn before_count(counter: f64) -> usize {
    format!("{counter:.0}").parse().unwrap()
}

async fn rejected(target: &Lone) -> BTreeMap<String, f64> {
    let page = Page::of(&target.api).await.unwrap();
    page.by_label("plimsoll_agent_rejected_lines_total", "reason")
}

fn resident_bytes(page: &Page) -> f64 {
    page.value("process_resident_memory_bytes").unwrap()
}

async fn drained(mesh: &mut Fed) -> Summary {
    let summary = mesh.drained().await.unwrap();
    let ledger = &node(&summary, NODE).unwrap().ledger;
    assert!(ledger.lost.is_empty(), "{ledger:?}");
    summary
}

#[tokio::test]
async fn every_refused_line_is_counted_by_reason_and_costs_itself_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = Fed::start(dir.path()).await.unwrap();
    let feeds =
        [Feed::unix(mesh.node.socket()).unwrap(), Feed::udp(mesh.node.udp().unwrap()).unwrap()];
    let (by_reason, noise) = (Attack::by_reason(), Attack::noise(11));
    let (mut good, mut expected) = (0, BTreeMap::new());
    for feed in &feeds {
        good += by_reason.run(feed, &mesh.node).await;
        for (reason, lines) in &by_reason.refused {
            *expected.entry(reason.clone()).or_default() += lines;
        }
        assert_eq!(rejected(&mesh.node).await, expected);
    }
    for feed in &feeds {
        let before: f64 = rejected(&mesh.node).await.values().sum();
        good += noise.run(feed, &mesh.node).await;
        let after: f64 = rejected(&mesh.node).await.values().sum();
        assert_eq!(after - before, noise.refused["any"]);
    }
    assert!(mesh.node.is_alive().unwrap());
    let summary = drained(&mut mesh).await;
    assert_eq!(fleet_count(&summary, "good"), good);
    let page = Page::of(mesh.stack.api()).await.unwrap();
    let told = "plimsoll_node_rejected_lines_total{node=\"fed\",reason=\"negative\"}";
    assert_eq!(page.value(told), Some(expected["negative"]), "the aggregator hears of it too");
}

#[tokio::test]
async fn a_hundred_thousand_names_fold_into_one_and_memory_stays_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = Fed::start(dir.path()).await.unwrap();
    let feed = Feed::unix(mesh.node.socket()).unwrap();
    feed.send(GOOD).unwrap();
    // An operation that is new after the flood finds no room, unless a budget judges it.
    let known = |summary: &Summary| fleet_count(summary, "good") == 1;
    summary_when(mesh.stack.api(), "the good operation is known", known).await.unwrap();
    let mut good = 1;
    for first in (0..NAMES).step_by(50) {
        let names = (first..first + 50).map(|n| format!("name_{n}:1|ms\n"));
        feed.send(GOOD.to_owned() + &names.collect::<String>()).unwrap();
        good += 1;
    }
    let page = until("the node has read everything", WAIT, async || {
        let page = Page::of(&mesh.node.api).await.ok()?;
        let values = page.value("plimsoll_agent_values_total")?;
        (values >= (NAMES + good) as f64).then_some(page)
    });
    let page = page.await.unwrap();
    assert_eq!(page.value("plimsoll_agent_values_total"), Some((NAMES + good) as f64));
    assert!(page.value("plimsoll_agent_overflowed_total").unwrap() > 0.0);
    assert!(resident_bytes(&page) < RESIDENT_BYTES_MAX, "{} bytes", resident_bytes(&page));
    let summary = drained(&mut mesh).await;
    assert_eq!(fleet_count(&summary, "good"), good as u64);
    let publish = operation(&summary, NODE, "publish").unwrap().total.count;
    let all = (NAMES + good) as u64 + publish;
    assert_eq!(node(&summary, NODE).unwrap().ledger.merged, all);
    for scope in [NODE, ""] {
        let rows = summary.operations.iter().filter(|row| row.scope.node() == scope);
        assert_eq!(rows.map(|row| row.total.count).sum::<u64>(), all, "{scope:?}");
        assert!(operation(&summary, scope, "other").is_some_and(|row| row.total.count > 0));
    }
    let aggregator = Page::of(mesh.stack.api()).await.unwrap();
    assert!(resident_bytes(&aggregator) < RESIDENT_BYTES_MAX, "{}", resident_bytes(&aggregator));
}

#[tokio::test]
async fn huge_and_tiny_values_are_taken_and_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = Fed::start(dir.path()).await.unwrap();
    let feed = Feed::unix(mesh.node.socket()).unwrap();
    feed.send("huge:1e300:3600001:0|ms\ntiny:0.0000001|ms\nmany:1|ms|@0.000001").unwrap();
    feed.send("sum:1e308:1e308:1e308|c\nlow:-1e308|g").unwrap();
    caught_up(&mesh.node.api, 2).await.unwrap();
    let page = Page::of(&mesh.node.api).await.unwrap();
    assert_eq!(page.value("plimsoll_agent_clamped_total"), Some(2.0));
    // A gauge is shown only while its node speaks.
    for (series, value) in [
        ("plimsoll_job_increments{node=\"fed\",counter=\"sum\"}", f64::MAX),
        ("plimsoll_job_value{node=\"fed\",gauge=\"low\"}", -1e308),
    ] {
        shown(mesh.stack.api(), series, value).await.unwrap();
    }
    let summary = drained(&mut mesh).await;
    let hour = 3_600_000_000_000;
    for (name, count, min_ns, max_ns) in
        [("huge", 3, 0, hour), ("tiny", 1, 0, 0), ("many", 1_000_000, 1_000_000, 1_000_000)]
    {
        let total = &operation(&summary, NODE, name).unwrap().total;
        assert_eq!((total.count, total.min_ns, total.max_ns), (count, min_ns, max_ns), "{name}");
    }
}
