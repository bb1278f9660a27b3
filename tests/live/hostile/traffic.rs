//! What real services send: the mix of types, tags and packing that was counted in production
//! traffic, compared with a model of what must arrive.
//!
//! The weights are those of the load generator `lading` for DogStatsD: 208 counts, 66 gauges, 72
//! distributions, 9 sets, 1 histogram; 2 to 50 tags; 8 % of the lines packed.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::process::{node_row, operation_row};
use plimsoll_tests::rng::SeededRng;
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use plimsoll_tests::statsd::StatsdSender;

const WAIT: Duration = Duration::from_secs(20);
const LINES: usize = 40_000;
/// Names and tag sets of one type; fewer in all than a node has places for series.
const CONTEXTS: usize = 60;
const TYPES: [(&str, usize); 5] = [("c", 208), ("g", 66), ("d", 72), ("s", 9), ("h", 1)];

/// What one context must amount to.
#[derive(Default)]
struct Expected {
    /// Count and sum in whole milliseconds, by operation.
    latencies: BTreeMap<String, (u64, u64)>,
    counters: BTreeMap<String, f64>,
    sets: u64,
}

struct Traffic {
    rng: SeededRng,
    tags: Vec<String>,
    expected: Expected,
}

impl Traffic {
    fn new(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        let tags = (0..CONTEXTS).map(|_| tags(&mut rng)).collect();
        Self { rng, tags, expected: Expected::default() }
    }

    fn line(&mut self) -> String {
        let letter = self.letter();
        let context = self.rng.below(CONTEXTS);
        let name = format!("svc{context}.{letter}");
        let packed = self.rng.below(100) < 8;
        let count = if packed { 2 + self.rng.below(30) } else { 1 };
        let values: Vec<u64> = (0..count).map(|_| self.rng.next_u64() % 1_000).collect();
        self.expect(letter, &name, &values);
        let values: String = values.iter().map(|value| format!(":{value}")).collect();
        format!("{name}{values}|{letter}|#{}", self.tags[context])
    }

    fn letter(&mut self) -> &'static str {
        let mut ticket = self.rng.below(TYPES.iter().map(|(_, weight)| weight).sum());
        for (letter, weight) in TYPES {
            if ticket < weight {
                return letter;
            }
            ticket -= weight;
        }
        unreachable!("a ticket is below the sum of all weights")
    }

    fn expect(&mut self, letter: &str, name: &str, values: &[u64]) {
        let (count, sum) = (values.len() as u64, values.iter().sum::<u64>());
        match letter {
            "c" => *self.expected.counters.entry(name.to_owned()).or_default() += sum as f64,
            "d" | "h" => {
                let known = self.expected.latencies.entry(name.to_owned()).or_default();
                *known = (known.0 + count, known.1 + sum);
            }
            "s" => self.expected.sets += 1,
            _ => {}
        }
    }
}

fn tags(rng: &mut SeededRng) -> String {
    let count = 2 + rng.below(49);
    let tags: Vec<String> =
        (0..count).map(|n| format!("key{n}:value{}", rng.below(1_000))).collect();
    tags.join(",")
}

#[tokio::test]
async fn a_mix_as_in_production_arrives_to_the_last_sample() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    let mut traffic = Traffic::new(7);
    for _ in 0..LINES / 8 {
        let lines: Vec<String> = (0..8).map(|_| traffic.line()).collect();
        sender.send(lines.join("\n")).unwrap();
    }
    let Expected { latencies, counters, sets } = traffic.expected;
    let family = |name: &str| format!("plimsoll_job_count_{}_total", name.replace('.', "_"));
    let page = until("every counter is complete at the aggregator", WAIT, async || {
        let page = MetricsPage::of(mesh.stack.api()).await.ok()?;
        let sum: f64 = counters.keys().map(|name| page.sum(&family(name))).sum();
        (sum >= counters.values().sum()).then_some(page)
    });
    let page = page.await.unwrap();
    for (name, increments) in &counters {
        assert_eq!(page.sum(&family(name)), *increments, "{name}");
    }
    let own = MetricsPage::of(&mesh.node.api).await.unwrap();
    let rejected = own.by_label("plimsoll_agent_rejected_lines_total", "reason");
    assert_eq!(rejected, BTreeMap::from([("unsupported".to_owned(), sets as f64)]));
    let summary = mesh.drain_node().await.unwrap();
    for (name, (count, sum_ms)) in &latencies {
        let total = &operation_row(&summary, NODE, name).unwrap().total;
        let mean_ns = sum_ms * 1_000_000 / count;
        assert_eq!((total.count, total.mean_ns), (*count, mean_ns), "{name}");
    }
    let ledger = &node_row(&summary, NODE).unwrap().ledger;
    assert!(ledger.lost.is_empty(), "{ledger:?}");
    mesh.stack.end().await.unwrap();
}
