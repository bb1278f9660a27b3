//! Aggregators that each read a part of the nodes, and one above them. Beside one that reads all
//! nodes a shard is killed under load, another process takes its partition, and both answer alike,
//! to the sample. Shards that begin again have the partition of before.

use std::path::Path;
use std::time::Duration;

use plimsoll_clock::{Deadline, Stopwatch};
use plimsoll_mesh::broker::Broker;
use plimsoll_mesh::child::{Child, free_port, log_field, until};
use plimsoll_mesh::cluster::{Cluster, Member};
use plimsoll_mesh::jetstream::JetStreamAdmin;
use plimsoll_mesh::site::Site;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::ids::{MeshName, Partition};
use plimsoll_schemas::subject::{
    Lane, SnapshotKind, SnapshotSubject, above, bucket_stream, lane_stream, lease_bucket,
    partition_mapping, shard_name,
};
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::process::{MeshProcess, await_firing, fleet_samples};
use plimsoll_tests::program::program;
use plimsoll_tests::statsd::StatsdSender;
use serde_json::{Value, json};

/// A partition without an owner for as long as its lease lasts, its streams read anew, and the
/// machine's other tests.
const WAIT: Duration = Duration::from_secs(90);
/// A lease that a busy machine renews in time.
const LEASE: &str = "lease_seconds = 10";
const OWNED: &str = "this aggregator has a partition";
const PARTITIONS: u16 = 4;
const FEW: u16 = 2;
/// One in each partition, and two more.
const NODES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const RACKS: [&str; 2] = ["r1", "r2"];
const ROLLUPS: &str = "rollup_labels = ['role']\n\
    [[rollup]]\nname = 'racks'\nnodes_by = ['rack']\n";
/// Settings of a broker without users.
const OPEN: &str = "[bus]\n";
const DENIED: &str = "broker denies permission";

fn mesh() -> MeshName {
    MeshName::new("local").unwrap()
}

fn mappings(partitions: u16) -> String {
    let lines = Lane::ALL.map(|lane| {
        let (from, to) = partition_mapping(&mesh(), lane, partitions);
        format!("  {from:?}: {to:?}\n")
    });
    format!("mappings = {{\n{}}}\n", lines.concat())
}

/// An aggregator of this name with a state file; `sections` begin with lines of `[shards]`.
fn aggregator(dir: &Path, url: &str, name: &str, sections: &str) -> Child {
    let dir = dir.join(name);
    std::fs::create_dir_all(&dir).unwrap();
    let (state, settings) = (dir.join("state.redb"), dir.join("settings.toml"));
    let text = format!(
        "{ROLLUPS}[confirm]\nname = '{name}'\n[state]\npath = {state:?}\n[shards]\n{sections}\n"
    );
    std::fs::write(&settings, text).unwrap();
    let mut command = program("plimsoll-aggregator").unwrap();
    command.args(["--mesh", "local", "--nats", url, "--http", "127.0.0.1:0"]);
    command.arg("--config").arg(settings);
    Child::start(name, &dir, command).unwrap()
}

async fn pages(child: &Child) -> Api {
    let logged = until("its HTTP address", WAIT, async || log_field(&child.log(), "http"));
    let api = Api::at(&logged.await.unwrap_or_else(|error| panic!("{error}\n{}", child.log())));
    api.unwrap()
}

/// The partition that a process has, which was started this many times before.
async fn partition(child: &Child, starts: usize) -> Partition {
    let owned = until(OWNED, WAIT, async || {
        let log = child.log();
        let line = log.lines().filter(|line| line.contains(OWNED)).nth(starts)?;
        log_field(line, "partition")?.parse().ok()
    });
    owned.await.unwrap_or_else(|error| panic!("{error}\n{}", child.log()))
}

/// Prometheus finds a process that waits up and alive, though not ready.
async fn assert_stands_by(child: &Child) {
    let logged = until("its pages", WAIT, async || log_field(&child.log(), "pages"));
    let api = Api::at(&logged.await.unwrap()).unwrap();
    let page = api.get("/metrics").await.unwrap();
    for row in ["plimsoll_aggregator_standing_by 1", "plimsoll_aggregator_build_info{"] {
        assert!(page.lines().any(|line| line.starts_with(row)), "{page}");
    }
    assert!(!page.contains("plimsoll_aggregator_ready"), "{page}");
    assert_eq!(api.get("/healthz").await.unwrap(), "alive\n");
    let error = api.get("/readyz").await.unwrap_err().to_string();
    assert!(error.contains("503") && error.contains("standing by"), "{error}");
}

/// Shards, each with a partition, and the aggregator above.
struct Fleet {
    shards: Vec<Child>,
    owned: Vec<Partition>,
    above: Child,
    api: Api,
}

impl Fleet {
    /// Starts one for each partition with `start`, which gets a name and whether it is above.
    async fn start(partitions: u16, start: impl Fn(&str, bool) -> Child) -> Self {
        let above = start("above", true);
        let api = pages(&above).await;
        let shards = (1..=partitions).map(|n| start(&format!("s{n}"), false));
        let mut fleet = Self { shards: shards.collect(), owned: Vec::new(), above, api };
        fleet.owned = fleet.partitions(0).await;
        let mut sorted = fleet.owned.clone();
        sorted.sort();
        assert!(sorted.into_iter().eq(Partition::first(partitions)), "each has another one");
        fleet
    }

    /// What each shard has, which was started this many times before, once it has read its streams.
    async fn partitions(&self, starts: usize) -> Vec<Partition> {
        let mut owned = Vec::new();
        for child in &self.shards {
            owned.push(partition(child, starts).await);
            pages(child).await;
        }
        owned
    }

    /// Waits until this many samples are merged above.
    async fn poll_merged(&self, count: u64) -> Summary {
        let all = merged(&self.api, count).await;
        all.unwrap_or_else(|error| panic!("{error}\n{}", self.logs()))
    }

    /// Waits until the ledger of what shards reported is exact.
    async fn poll_exact(&self) {
        let exact = until("the ledger above is exact", WAIT, async || {
            let ledger = self.api.summary().await.ok()?.ledger;
            let rest = ledger.held + ledger.unread + ledger.unaccounted;
            (rest == 0 && ledger.lost.values().sum::<u64>() == 0).then_some(ledger)
        });
        let exact = exact.await.unwrap_or_else(|error| panic!("{error}\n{}", self.logs()));
        assert_eq!(exact.recorded, exact.merged);
    }

    fn logs(&self) -> String {
        let all = std::iter::once(&self.above).chain(&self.shards);
        all.map(Child::log).collect::<Vec<_>>().join("\n--\n")
    }
}

/// Nodes, and the samples that jobs send to each.
struct Load {
    nodes: Vec<(MeshProcess, StatsdSender)>,
    sent: u64,
}

impl Load {
    /// Starts nodes that are connected to these brokers in turn; `bus` makes the section `[bus]` of
    /// each.
    async fn start(dir: &Path, urls: &[&str], bus: impl Fn(&str) -> String) -> Self {
        let (mut nodes, mut urls) = (Vec::new(), urls.iter().cycle());
        for (n, name) in NODES.into_iter().enumerate() {
            let (settings, spool) =
                (dir.join(format!("{name}.toml")), dir.join(format!("{name}.spool")));
            let (rack, role) = (RACKS[n % 2], ["train", "serve", "idle"][n % 3]);
            let text = format!(
                "[identity]\nlabels = ['rack={rack}', 'role={role}']\n{}streams = 'managed'\n\
                 [spool]\npath = {spool:?}\n",
                bus(name)
            );
            std::fs::write(&settings, text).unwrap();
            let flags = ["--config", settings.to_str().unwrap()];
            let url = urls.next().unwrap();
            let node = MeshProcess::node_with(name, dir, url, &flags).await.unwrap();
            let sender = StatsdSender::unix(node.socket()).unwrap();
            nodes.push((node, sender));
        }
        Self { nodes, sent: 0 }
    }

    /// Sends this many samples of each operation to each node; returns how many of one all nodes
    /// have.
    fn send(&mut self, count: u64) -> u64 {
        for _ in 0..count {
            for (node, (_, sender)) in (0_u64..).zip(&self.nodes) {
                let ms = latency(self.sent * 7 + node) as f64 / 1e6;
                sender.send(format!("epoch_hook:{ms}|ms\nkernel_fetch:{}|ms", ms / 3.0)).unwrap();
            }
            self.sent += 1;
        }
        self.sent * self.nodes.len() as u64
    }

    /// Ends all nodes, which have delivered everything by then.
    async fn end(self) {
        for (mut node, _) in self.nodes {
            assert!(node.terminate(WAIT).await.unwrap().success(), "{}", node.log());
            assert!(!node.log().contains(DENIED), "{}", node.log());
        }
    }
}

/// A latency in nanoseconds, spread over three decades.
fn latency(n: u64) -> u64 {
    let spread = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    500_000 + spread * spread % 400_000_000
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

/// Samples of one operation that are merged.
async fn now_merged(api: &Api) -> Option<u64> {
    Some(fleet_samples(&api.summary().await.ok()?, "epoch_hook"))
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
    let broker = Broker::start_with(at, true, mappings(PARTITIONS)).await.unwrap();
    let url = broker.url();
    let start = |name: &str, is_above: bool| {
        let role = if is_above { "above" } else { "shard" };
        aggregator(at, &url, name, &format!("count = {PARTITIONS}\nrole = '{role}'"))
    };
    let mut fleet = Fleet::start(PARTITIONS, start).await;
    let spare = start("spare", false);
    assert_stands_by(&spare).await;
    collect_partitions(&broker);
    let single = aggregator(at, &url, "single", "");
    let single_api = pages(&single).await;

    let mut load = Load::start(at, &[&url], |_| OPEN.to_owned()).await;
    let mut total = load.send(20);
    fleet.poll_merged(total).await;
    for turn in 0..60 {
        if turn == 20 {
            fleet.shards[1].kill();
        }
        total = load.send(5);
        poll_pause(100).await;
    }
    let watch = Stopwatch::start();
    let owned = until("the partition is taken over", WAIT, async || {
        spare.log().contains(OWNED).then_some(())
    });
    owned.await.unwrap_or_else(|error| panic!("{error}\n{}", spare.log()));
    let taken = partition(&spare, 0).await;
    assert_eq!(taken, fleet.owned[1]);
    let page = pages(&spare).await.get("/metrics").await.unwrap();
    assert!(page.contains("\nplimsoll_aggregator_standing_by 0\n"), "{page}");
    eprintln!("partition {taken} taken over {:?} after the last sample", watch.elapsed());
    let all = fleet.poll_merged(total).await;
    eprintln!("all merged {:?} after the last sample", watch.elapsed());
    let beside = merged(&single_api, total).await.unwrap();
    let sent = figures(&all, &["epoch_hook", "kernel_fetch"]);
    assert_eq!(sent, figures(&beside, &["epoch_hook", "kernel_fetch"]));
    assert_eq!(sent.len(), 2 * (1 + RACKS.len() + 3), "the fleet, racks, roles: {sent:?}");

    load.end().await;
    // Nodes time their own sending, too: of that all is read at the end.
    let alike = until("both answer alike about the nodes' own samples", WAIT, async || {
        let (all, beside) = (fleet.api.summary().await.ok()?, single_api.summary().await.ok()?);
        let own = figures(&all, &["publish"]);
        (own.len() == 6 && own == figures(&beside, &["publish"])).then_some(())
    });
    alike.await.unwrap_or_else(|error| panic!("{error}\n{}\n--\n{}", fleet.logs(), spare.log()));
    fleet.poll_exact().await;
}

#[tokio::test]
async fn shards_that_begin_again_have_their_partition_and_skip_what_is_no_report() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let mut broker = Broker::start_with(at, true, mappings(FEW)).await.unwrap();
    let url = broker.url();
    let start = |name: &str, is_above: bool| {
        let own = if is_above { "role = 'above'" } else { LEASE };
        aggregator(at, &url, name, &format!("count = {FEW}\n{own}"))
    };
    let mut fleet = Fleet::start(FEW, start).await;
    let mut load = Load::start(at, &[&url], |_| OPEN.to_owned()).await;
    let total = load.send(20);
    fleet.poll_merged(total).await;

    // Killed with what they had read; the newest message of their subject is none of theirs.
    load.send(5);
    fleet.shards.iter_mut().for_each(Child::kill);
    let mut stranger = JetStreamAdmin::connect(&url).unwrap();
    for partition in Partition::first(FEW) {
        let subject = SnapshotSubject {
            mesh: above(&mesh()).unwrap(),
            lane: Lane::Normal,
            node: shard_name(partition),
            kind: SnapshotKind::Shard,
        };
        for text in ["no report", "", "\u{83}"] {
            stranger.publish(&subject.to_string(), "no.listener", text).unwrap();
        }
    }
    await_firing(&fleet.api, &["undecodable"]).await.unwrap();
    fleet.shards = ["s1", "s2"].map(|name| start(name, false)).into();
    assert_eq!(fleet.partitions(1).await, fleet.owned, "each has the state of this one");
    let total = load.send(5);
    fleet.poll_merged(total).await;

    // Away for longer than a lease.
    broker.kill();
    load.send(5);
    for child in &mut fleet.shards {
        assert_eq!(child.wait(WAIT).await.unwrap().code(), Some(1), "{}", child.log());
    }
    broker.restart().await.unwrap();
    fleet.shards = ["s1", "s2"].map(|name| start(name, false)).into();
    assert_eq!(fleet.partitions(2).await, fleet.owned, "each has the state of this one");
    let total = load.send(5);
    fleet.poll_merged(total).await;
    load.end().await;
    fleet.poll_exact().await;
    let logs = fleet.logs();
    assert!(!logs.contains("moved aside"), "no other process has reported: {logs}");
    assert!(logs.contains("not a report of a shard"), "{logs}");
}

#[tokio::test]
async fn a_shard_that_loses_its_lease_before_one_above_runs_waits_for_another() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let broker = Broker::start_with(at, true, mappings(FEW)).await.unwrap();
    let url = broker.url();
    let shard = aggregator(at, &url, "s1", &format!("count = {FEW}\n{LEASE}"));
    let times = |what: &str| shard.log().matches(what).count();
    let poll_times = async |what: &str, count: usize| {
        let seen = until(what, WAIT, async || (times(what) >= count).then_some(())).await;
        seen.unwrap_or_else(|error| panic!("{error}\n{}", shard.log()));
    };
    poll_times("newest report cannot be read yet", 1).await;
    let leases = bucket_stream(&lease_bucket(&mesh()));
    JetStreamAdmin::connect(&url).unwrap().recreate(&leases).unwrap();
    poll_times("partition taken", 2).await;
    assert!(times("lease lost") >= 1, "{}", shard.log());

    let _above = aggregator(at, &url, "above", &format!("count = {FEW}\nrole = 'above'"));
    partition(&shard, 0).await;
    pages(&shard).await;
}

/// A shard whose lease ends during the elections ends too, and is started again, as by its service
/// manager.
#[tokio::test]
async fn shards_on_a_cluster_lose_nothing_with_the_server_that_leads_their_leases() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let mut cluster = Cluster::start(at, 3, &mappings(FEW)).await.unwrap();
    let url = cluster.url();
    let start = |name: &str, is_above: bool| {
        let role = if is_above { "above" } else { "shard" };
        let sections = format!("count = {FEW}\nrole = '{role}'\n[bus]\nreplicas = 3");
        aggregator(at, &url, name, &sections)
    };
    let mut fleet = Fleet::start(FEW, start).await;
    let mut load = Load::start(at, &[&url], |_| OPEN.to_owned()).await;
    let mut total = load.send(20);
    fleet.poll_merged(total).await;

    let leases = bucket_stream(&lease_bucket(&mesh()));
    let info = cluster.request(&format!("STREAM.INFO.{leases}"), &Value::Null).unwrap();
    assert_eq!(info["config"]["num_replicas"], 3, "{info}");
    let leader = cluster.leader(&leases).await.unwrap();
    cluster.server(leader).kill();
    let (until, mut restarted) = (Deadline::within(WAIT), 0);
    for turn in 0.. {
        if turn < 60 {
            total = load.send(2);
        } else if now_merged(&fleet.api).await == Some(total) {
            break;
        }
        for (child, name) in fleet.shards.iter_mut().zip(["s1", "s2"]) {
            if child.ended().unwrap().is_some() {
                *child = start(name, false);
                restarted += 1;
            }
        }
        assert!(!until.has_passed(), "{total} samples are not merged\n{}", fleet.logs());
        poll_pause(200).await;
    }
    eprintln!("all merged with {restarted} shards restarted");
    cluster.server(leader).restart().await.unwrap();
    load.end().await;
    fleet.poll_exact().await;
}

/// The shipped configurations: TLS, a key with exact permissions for each, a site behind a leaf
/// node.
#[tokio::test]
async fn shards_and_nodes_of_a_site_have_all_permissions_that_they_need() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let names: Vec<String> = NODES.iter().map(|&name| name.to_owned()).collect();
    let (west_nodes, central) = names.split_at(names.len() / 2);
    let hub = Site::make_hub(&at("hub"), &mesh(), central, "west", west_nodes, FEW).unwrap();
    let west = Site::make(&at("west"), &mesh(), west_nodes).unwrap();
    let ports: Vec<String> =
        (0..3).map(|_| format!("127.0.0.1:{}", free_port().unwrap())).collect();
    let number = |member: &Member| usize::from(member.name.as_bytes().last().unwrap() - b'1');
    let lines = |member: &Member| hub.server_settings(member, &ports[number(member)]);
    let mut cluster = Cluster::start_with(&at("servers"), 3, lines).await.unwrap();
    let settings = west.leaf_settings(&hub, "west", &ports).unwrap();
    std::fs::create_dir(at("leaf")).unwrap();
    let leaf = Broker::start_with(&at("leaf"), false, settings).await.unwrap();

    let url = cluster.url();
    let fleet = Fleet::start(FEW, |name, is_above| {
        let (role, user) =
            if is_above { ("above", "aggregator-above") } else { ("shard", "aggregator") };
        let bus = hub.bus_settings(user);
        let sections = format!("count = {FEW}\nrole = '{role}'\n{bus}replicas = 3\n");
        aggregator(dir.path(), &url, name, &sections)
    });
    let fleet = fleet.await;
    let at_site = leaf.url();
    let urls = [&at_site, &at_site, &at_site, &url, &url, &url].map(String::as_str);
    let load = Load::start(dir.path(), &urls, |name| {
        let site = if west_nodes.iter().any(|other| other == name) { &west } else { &hub };
        site.bus_settings(&format!("node-{name}"))
    });
    let mut load = load.await;
    let total = load.send(20);
    fleet.poll_merged(total).await;
    cluster.server(0).kill();
    let total = load.send(20);
    fleet.poll_merged(total).await;
    load.end().await;
    fleet.poll_exact().await;
    let logs = fleet.logs();
    assert!(!logs.contains(DENIED), "{logs}");
}
