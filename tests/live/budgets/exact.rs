//! Nodes count samples over a limit to the nanosecond after they have received the limit.

use std::time::Duration;

use plimsoll_bus::Listener;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_schemas::histogram::{Over, Packed};
use plimsoll_schemas::subject::SnapshotSubject;
use plimsoll_schemas::summary::Verdict;
use plimsoll_schemas::wire::decode_packed;
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::process::{MeshProcess, await_summary, fleet_samples, operation_row};
use plimsoll_tests::publisher::Publisher;
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use plimsoll_tests::statsd::{StatsdSender, await_datagrams};
use tokio::time::timeout;

use super::{await_limit, budget, line};

const SETTINGS: &str = "
[[budget]]
name = 'epoch_hook'
window = '5m'
confidence = 0.95
";
const PUBLISH_LIMIT_NS: u64 = 25_000_000;
const WAIT: Duration = Duration::from_secs(60);

/// A datagram of hooks: at the limit, a nanosecond over it, far over it, and far below.
fn hooks(at: usize, just_over: usize, far_over: usize, below: usize) -> String {
    let parts = [("18", at), ("18.000001", just_over), ("30", far_over), ("1", below)];
    parts.map(|(ms, samples)| line("epoch_hook", ms, samples)).join("\n")
}

#[tokio::test]
async fn a_limit_reaches_a_node_which_from_then_on_counts_to_the_nanosecond() {
    let dir = tempfile::tempdir().unwrap();
    let options = StackOptions {
        nodes: 0,
        aggregator_settings: SETTINGS.to_owned(),
        ..with_jobs(dir.path())
    };
    let mut stack = Stack::start(options).await.unwrap();
    // Without it the node receives no limits.
    stack.kill_aggregator();
    let broker = stack.broker().url();
    let (mut publisher, listener) = listen(broker.clone()).await;
    let node = MeshProcess::node(NODE, dir.path(), &broker).await.unwrap();
    let sender = StatsdSender::unix(node.socket()).unwrap();
    sender.send(hooks(40, 30, 10, 5)).unwrap();
    await_datagrams(&node.api, 1).await.unwrap();
    let known = node.api.get("/metrics").await.unwrap();
    assert!(!known.contains("plimsoll_agent_limit_info{"), "{known}");

    stack.restart_aggregator().await.unwrap();
    await_limit(&node.api, "epoch_hook", "0.018").await.unwrap();
    await_limit(&node.api, "publish", "0.025").await.unwrap();
    let before = |summary: &_| fleet_samples(summary, "epoch_hook") == 85;
    let summary =
        await_summary(stack.api(), "the samples without an aggregator are merged", before)
            .await
            .unwrap();
    for scope in ["", NODE] {
        let row = budget(&summary, "epoch_hook", scope).unwrap();
        assert_eq!((row.samples, row.over, row.uncertain), (85, 10, 70), "{scope:?}");
    }

    sender.send(hooks(200, 37, 5, 58)).unwrap();
    let after = |summary: &_| fleet_samples(summary, "epoch_hook") == 385;
    let summary = await_summary(stack.api(), "all is merged", after).await.unwrap();
    for (scope, completeness) in [("", (1, 1)), (NODE, (1, 1))] {
        let row = budget(&summary, "epoch_hook", scope).unwrap();
        assert_eq!((row.samples, row.over, row.uncertain), (385, 52, 70), "{scope:?}");
        assert_eq!(row.since_limit, Some((385, 52)), "{scope:?}");
        assert_eq!(row.completeness, completeness, "{scope:?}");
        assert_eq!(row.verdict, Verdict::Breach, "{scope:?}");
        let (lower, value) = (row.lower_ns.unwrap(), row.value_ns.unwrap());
        assert!(row.limit_ns < lower && lower <= value && value <= 30_000_000, "{row:?}");
        // Until clusters are known the samples count for a quarter: 96 have no upper bound of p99.
        assert_eq!(row.upper_ns, None, "{row:?}");
    }
    let fleet = budget(&summary, "epoch_hook", "").unwrap();
    // One in a hundred may be over it.
    let remaining = 1.0 - (52.0 / 385.0) / 0.01;
    assert!((fleet.budget_remaining.unwrap() - remaining).abs() < 1e-6, "{fleet:?}");

    let mut mesh = SingleNodeMesh { stack, node };
    let summary = mesh.drain_node().await.unwrap();
    let own = publishes(&mut publisher, listener).await;
    let count: u64 = own.iter().map(|histogram| histogram.exact().count).sum();
    let total = operation_row(&summary, NODE, "publish").unwrap().total.count;
    assert_eq!(count, total, "some of its messages were not listened to");
    let watched = own.iter().position(|of| of.overs().get(PUBLISH_LIMIT_NS).is_some());
    let mut over = 0;
    for (place, histogram) in own.iter().enumerate() {
        let Over { over: more, uncertain } = histogram.over(PUBLISH_LIMIT_NS);
        over += more;
        if place >= watched.expect("its own publishing is watched as well") {
            assert_eq!(uncertain, 0, "{:?}", histogram.overs());
        }
    }
    let row = budget(&summary, "publish", NODE).unwrap();
    assert_eq!(row.since_limit, Some((total, over)), "{row:?}");
    mesh.stack.end().await.unwrap();
}

/// Receives every message of the node from now on.
async fn listen(url: String) -> (Publisher, Listener) {
    let mut publisher = Publisher::connect(url).await.unwrap();
    let listener = publisher.messenger().listen(format!("plimsoll.v1.local.*.{NODE}.*"));
    // What the broker acknowledges on the same connection comes after the subscription.
    publisher.publish("plimsoll.v1.local.normal.listener.begin", Vec::new()).await.unwrap();
    (publisher, listener)
}

/// The own publishing of a node that has ended, in each of its messages, in their order.
async fn publishes(publisher: &mut Publisher, mut listener: Listener) -> Vec<Packed> {
    let end = format!("plimsoll.v1.local.normal.{NODE}.end");
    publisher.publish(&end, Vec::new()).await.unwrap();
    let mut found = Vec::new();
    loop {
        let got = timeout(WAIT, listener.next()).await.expect("the end comes").unwrap();
        if got.subject == end {
            return found;
        }
        let subject: SnapshotSubject = got.subject.parse().unwrap();
        let body = decode_packed(&subject, &got.payload).unwrap().body;
        let Some(latency) = body.into_parts().latency else { continue };
        let of_publish = |(series, of): (plimsoll_schemas::ids::Series, Packed)| {
            (series.operation.to_string() == "publish").then_some(of)
        };
        found.extend(latency.histograms.into_iter().filter_map(of_publish));
    }
}
