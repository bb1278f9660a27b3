//! Four aggregators that each read a part of the nodes, and one above them, beside one that reads
//! all nodes: a shard is killed under load, another process takes its partition, and both answer
//! alike, to the sample.

use std::path::Path;
use std::time::Duration;

use plimsoll_clock::Stopwatch;
use plimsoll_mesh::api::Api;
use plimsoll_mesh::broker::Broker;
use plimsoll_mesh::child::{Child, log_field, until};
use plimsoll_mesh::jetstream::JetStreamAdmin;
use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::ids::{MeshName, Partition};
use plimsoll_schemas::subject::{Lane, lane_stream, partition_mapping};
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::process::{MeshProcess, fleet_samples};
use plimsoll_tests::program::program;
use plimsoll_tests::statsd::StatsdSender;
use serde_json::{Value, json};

/// A partition without an owner for as long as its lease lasts, its streams read anew, and the
/// machine's other tests.
const WAIT: Duration = Duration::from_secs(90);
const PARTITIONS: u16 = 4;
/// One in each partition, and two more.
const NODES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const RACKS: [&str; 2] = ["r1", "r2"];
const ROLLUPS: &str = "rollup_labels = ['role']\n\
    [[rollup]]\nname = 'racks'\nnodes_by = ['rack']\n";

fn mesh() -> MeshName {
    MeshName::new("local").unwrap()
}

fn mappings() -> String {
    let lines = Lane::ALL.map(|lane| {
        let (from, to) = partition_mapping(&mesh(), lane, PARTITIONS);
        format!("  {from:?}: {to:?}\n")
    });
    format!("mappings = {{\n{}}}\n", lines.concat())
}

/// What `plimsoll-aggregator` is started with: a process of this name with a state file.
fn aggregator(dir: &Path, broker: &Broker, name: &str, shards: &str) -> Child {
    let dir = dir.join(name);
    std::fs::create_dir_all(&dir).unwrap();
    let (state, settings) = (dir.join("state.redb"), dir.join("settings.toml"));
    let text = format!(
        "{ROLLUPS}[confirm]\nname = '{name}'\n[state]\npath = {state:?}\n[shards]\n{shards}\n"
    );
    std::fs::write(&settings, text).unwrap();
    let mut command = program("plimsoll-aggregator").unwrap();
    command.args(["--mesh", "local", "--nats", &broker.url(), "--http", "127.0.0.1:0"]);
    command.arg("--config").arg(settings);
    Child::start(name, &dir, command).unwrap()
}

fn shard(dir: &Path, broker: &Broker, name: &str) -> Child {
    aggregator(dir, broker, name, &format!("count = {PARTITIONS}\nlease_seconds = 3"))
}

async fn pages(child: &Child) -> Api {
    let logged = until("its HTTP address", WAIT, async || log_field(&child.log(), "http"));
    let api = Api::at(&logged.await.unwrap_or_else(|error| panic!("{error}\n{}", child.log())));
    api.unwrap()
}

/// The partition that a process has.
async fn partition(child: &Child) -> Partition {
    let what = "this aggregator has a partition";
    let owned = until(what, WAIT, async || {
        let log = child.log();
        let line = log.lines().find(|line| line.contains(what))?;
        log_field(line, "partition")?.parse().ok()
    });
    owned.await.unwrap_or_else(|error| panic!("{error}\n{}", child.log()))
}

/// Streams of the mesh that have the messages of all partitions, for the aggregator beside.
fn collect_partitions(broker: &Broker) {
    let mut admin = JetStreamAdmin::connect(&broker.url()).unwrap();
    for lane in Lane::ALL {
        let name = lane_stream(&mesh(), lane, None);
        let parts = (0..PARTITIONS).map(|n| lane_stream(&mesh(), lane, Some(Partition(n))));
        let sources: Vec<Value> = parts.map(|part| json!({ "name": part })).collect();
        let config = json!({ "name": name, "storage": "file", "sources": sources });
        admin.request(&format!("STREAM.CREATE.{name}"), &config).unwrap();
    }
}

/// A latency in nanoseconds, spread over three decades.
fn latency(n: u64) -> u64 {
    let spread = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    500_000 + spread * spread % 400_000_000
}

async fn merged(api: &Api, count: u64) -> anyhow::Result<Summary> {
    until(&format!("{count} samples are merged"), WAIT, async || {
        let summary = api.summary().await.ok()?;
        (fleet_samples(&summary, "epoch_hook") == count).then_some(summary)
    })
    .await
}

/// The fleet's figures and those of roll-ups of these operations, without numbers of nodes.
fn figures(summary: &Summary, operations: &[&str]) -> Vec<String> {
    let is_one = |operation: &str| operations.contains(&operation);
    let rows = summary.operations.iter();
    let rows = rows.filter(|row| row.scope == Scope::Fleet && is_one(&row.operation));
    let fleet = rows.map(|row| format!("{} {:?}", row.operation, row.total));
    let groups = summary.rollups.iter().filter(|row| is_one(&row.operation));
    let groups = groups
        .map(|row| format!("{} {} {:?} {:?}", row.rollup, row.operation, row.labels, row.total));
    fleet.chain(groups).collect()
}

/// Jobs send at their own pace.
async fn poll_pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

#[tokio::test]
async fn four_shards_answer_as_one_aggregator_though_one_is_killed_under_load() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let broker = Broker::start_with(at, true, mappings()).await.unwrap();
    let above = aggregator(at, &broker, "above", "count = 4\nrole = 'above'");
    let above_api = pages(&above).await;
    let mut shards: Vec<Child> = Vec::new();
    for name in ["s1", "s2", "s3", "s4"] {
        shards.push(shard(at, &broker, name));
    }
    let mut owned = Vec::new();
    for child in &shards {
        owned.push(partition(child).await);
        pages(child).await;
    }
    owned.sort();
    assert_eq!(owned, [0, 1, 2, 3].map(Partition), "each has another one");
    let spare = shard(at, &broker, "spare");
    collect_partitions(&broker);
    let single = aggregator(at, &broker, "single", "");
    let single_api = pages(&single).await;

    let mut nodes = Vec::new();
    for (n, name) in NODES.into_iter().enumerate() {
        let (rack, role) = (RACKS[n % 2], ["train", "serve", "idle"][n % 3]);
        let labels = [format!("rack={rack}"), format!("role={role}")];
        let spool = at.join(format!("spool-{name}"));
        let flags = [
            "--set",
            "bus.streams=managed",
            "--label",
            &labels[0],
            "--label",
            &labels[1],
            "--spool",
            spool.to_str().unwrap(),
        ];
        let node = MeshProcess::node_with(name, at, &broker.url(), &flags).await.unwrap();
        let sender = StatsdSender::unix(node.socket()).unwrap();
        nodes.push((node, sender));
    }
    let mut sent = 0_u64;
    let mut send = |count: u64| {
        for _ in 0..count {
            for (node, (_, sender)) in (0_u64..).zip(&nodes) {
                let ms = latency(sent * 7 + node) as f64 / 1e6;
                sender.send(format!("epoch_hook:{ms}|ms\nkernel_fetch:{}|ms", ms / 3.0)).unwrap();
            }
            sent += 1;
        }
        sent * nodes.len() as u64
    };
    let mut total = send(20);
    merged(&above_api, total).await.unwrap_or_else(|error| panic!("{error}\n{}", above.log()));
    for turn in 0..60 {
        if turn == 20 {
            shards[1].kill();
        }
        total = send(5);
        poll_pause(100).await;
    }
    let watch = Stopwatch::start();
    let taken = partition(&spare).await;
    let logs = || format!("{}\n--\n{}\n--\n{}", above.log(), spare.log(), shards[0].log());
    let all = merged(&above_api, total).await.unwrap_or_else(|error| panic!("{error}\n{}", logs()));
    eprintln!(
        "partition {taken} taken over, all merged {:?} after the last sample",
        watch.elapsed()
    );
    let beside = merged(&single_api, total).await.unwrap();
    let sent = figures(&all, &["epoch_hook", "kernel_fetch"]);
    assert_eq!(sent, figures(&beside, &["epoch_hook", "kernel_fetch"]));
    assert_eq!(sent.len(), 2 * (1 + RACKS.len() + 3), "the fleet, racks, roles: {sent:?}");

    for (mut node, _) in nodes {
        assert!(node.terminate(WAIT).await.unwrap().success(), "{}", node.log());
    }
    // Nodes time their own sending, too: of that all is read at the end.
    let alike = until("both answer alike about the nodes' own samples", WAIT, async || {
        let (all, beside) = (above_api.summary().await.ok()?, single_api.summary().await.ok()?);
        let own = figures(&all, &["publish"]);
        (own.len() == 6 && own == figures(&beside, &["publish"])).then_some(())
    });
    alike.await.unwrap_or_else(|error| panic!("{error}\n{}", logs()));
    let exact = until("the ledger above is exact", WAIT, async || {
        let ledger = above_api.summary().await.ok()?.ledger;
        let rest = ledger.held + ledger.unread + ledger.unaccounted;
        (rest == 0 && ledger.lost.values().sum::<u64>() == 0).then_some(ledger)
    });
    let exact = exact.await.unwrap_or_else(|error| panic!("{error}\n{}", logs()));
    assert_eq!(exact.recorded, exact.merged);
}
