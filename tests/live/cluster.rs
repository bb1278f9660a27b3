//! A broker of three servers: one dies, its leader dies, two restart, a stream is deleted, a store
//! is lost. After each the ledger is exact, an alert that should fire has, and the mesh is ready
//! again.
//!
//! Published failures of such clusters: nats-io/nats-server issues 6888, 7545, 7549, 7556, 7564
//! (acknowledged messages or whole streams are lost) and 8319 (a server that stays behind).

use std::time::Duration;

use anyhow::Context;
use plimsoll_clock::Stopwatch;
use plimsoll_mesh::broker::Broker;
use plimsoll_mesh::child::{free_port, until};
use plimsoll_mesh::cluster::{Cluster, Member};
use plimsoll_mesh::jetstream::JetStreamAdmin;
use plimsoll_mesh::site::Site;
use plimsoll_mesh::stack::{Stack, StackOptions, Station};
use plimsoll_schemas::alert::{AlertState, AlertsPage};
use plimsoll_schemas::ids::MeshName;
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::get_any_status;
use plimsoll_tests::oracle::check_drained;
use plimsoll_tests::process::{MeshProcess, await_held, fleet_samples};
use plimsoll_tests::statsd::StatsdSender;
use serde_json::{Value, json};

/// Elections, an answer that never comes, a breaker's pause and the machine's other tests.
const WAIT: Duration = Duration::from_secs(90);
const NORMAL: &str = "PLIMSOLL_local_normal";
/// A node retries soon after the cause has ended.
const QUICK_BREAKER: &str = "[breaker]\nopen_seconds = 1\n";
const DEPTH: &str = "plimsoll_agent_outbox_depth";

/// What the aggregator, every node and every server have logged.
fn logs(stack: &mut Stack) -> String {
    let nodes: Vec<String> = stack.stations().iter().map(Station::node_log).collect();
    let servers = cluster(stack).servers().iter().map(Broker::log);
    let mut logs: Vec<String> = servers.collect();
    logs.extend(nodes);
    logs.push(stack.aggregator().log());
    logs.join("\n--\n")
}

fn cluster(stack: &mut Stack) -> &mut Cluster {
    stack.cluster().expect("a cluster was started")
}

fn info(cluster: &Cluster, stream: &str) -> Option<Value> {
    cluster.request(&format!("STREAM.INFO.{stream}"), &Value::Null).ok()
}

async fn started(dir: &tempfile::TempDir) -> Stack {
    let options = StackOptions {
        servers: 3,
        nodes: 2,
        node_settings: QUICK_BREAKER.to_owned(),
        ..with_jobs(dir.path())
    };
    let mut stack = Stack::start(options).await.unwrap();
    for stream in [NORMAL, "PLIMSOLL_local_emergency", "PLIMSOLL_local_alert"] {
        let info = info(cluster(&mut stack), stream).unwrap();
        assert_eq!(info["config"]["num_replicas"], 3, "{info}");
    }
    flows(&mut stack).await;
    stack
}

/// Waits until sixty more samples of each node are merged.
async fn flows(stack: &mut Stack) {
    let api = stack.api().clone();
    let merged = async || {
        let summary = api.summary().await.ok()?;
        Some(summary.nodes.iter().map(|row| row.ledger.merged).collect::<Vec<_>>())
    };
    let before = until("a summary", WAIT, merged).await.unwrap();
    let grown = until("sixty more samples of each node are merged", WAIT, async || {
        let now = merged().await?;
        let grown = now.iter().zip(&before).all(|(now, before)| *now >= before + 60);
        (now.len() >= 2 && grown).then_some(())
    });
    if let Err(error) = grown.await {
        panic!("{error:#}\n{}", logs(stack));
    }
}

/// The mesh is ready again, samples flow and nothing waits. Prints how long that took since the
/// fault was over.
async fn recovers(stack: &mut Stack, fault: &str) {
    let watch = Stopwatch::start();
    let api = stack.api().clone();
    let ready = until("the aggregator is ready", WAIT, async || api.is_ready().await.then_some(()));
    if let Err(error) = ready.await {
        panic!("{error:#}\n{}", logs(stack));
    }
    flows(stack).await;
    for station in stack.stations() {
        let what = format!("{} is ready and holds next to nothing", station.name);
        let calm = until(&what, WAIT, async || {
            let depth = station.api.metric(DEPTH).await.ok().flatten()?;
            (depth <= 4.0 && station.api.is_ready().await).then_some(())
        });
        calm.await.unwrap_or_else(|error| panic!("{error:#}\n{}", station.node_log()));
    }
    eprintln!("{fault}: recovered after {:.1} s", watch.elapsed().as_secs_f64());
}

/// A job becomes slow, and its alert fires and is in the stream of notifications.
async fn breach_is_reported(stack: &mut Stack) {
    stack.stations()[0].command("extra-work-ms 30").unwrap();
    let api = stack.api().clone();
    let firing = until("epoch_hook fires", WAIT, async || {
        let page: AlertsPage = serde_json::from_str(&api.get("/api/v1/alerts").await.ok()?).ok()?;
        let mut rows = page.alerts.iter();
        let fires = |state| state == AlertState::Firing;
        rows.any(|row| row.key.rule.as_str() == "epoch_hook" && fires(row.state)).then_some(())
    });
    if let Err(error) = firing.await {
        panic!("{error:#}\n{}", logs(stack));
    }
    let servers: &Cluster = cluster(stack);
    let kept = until("the notification is kept", WAIT, async || {
        let info = info(servers, "PLIMSOLL_local_alert")?;
        info["state"]["messages"].as_u64().filter(|messages| *messages > 0)
    });
    kept.await.unwrap();
    stack.stations()[0].command("extra-work-ms 0").unwrap();
}

/// Nothing is lost: every node and the fleet show exactly what the jobs sent.
async fn is_exact(mut stack: Stack) {
    let drained = match stack.drain().await {
        Ok(drained) => drained,
        Err(error) => panic!("{error:#}\n{}", logs(&mut stack)),
    };
    if let Err(error) = check_drained(&drained, stack.stations()) {
        panic!("{error:#}\n{}", logs(&mut stack));
    }
    stack.end().await.unwrap();
}

/// The server that an aggregator's consumer of the normal lane is on.
async fn server_of_consumer(stack: &mut Stack) -> usize {
    let subject = format!("CONSUMER.LIST.{NORMAL}");
    let servers: &Cluster = cluster(stack);
    let found = until("the aggregator's consumer is listed", WAIT, async || {
        let list = servers.request(&subject, &json!({})).ok()?;
        let leader = list["consumers"][0]["cluster"]["leader"].as_str()?.to_owned();
        leader.strip_prefix("server-")?.parse::<usize>().ok()
    });
    found.await.unwrap() - 1
}

#[tokio::test]
async fn the_server_of_an_aggregators_consumer_is_killed_and_another_serves_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(&dir).await;
    let number = server_of_consumer(&mut stack).await;
    cluster(&mut stack).server(number).kill();
    recovers(&mut stack, "one of three killed").await;
    breach_is_reported(&mut stack).await;
    cluster(&mut stack).server(number).restart().await.unwrap();
    flows(&mut stack).await;
    is_exact(stack).await;
}

#[tokio::test]
async fn the_leader_of_a_stream_is_killed_under_load_and_costs_no_sample() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(&dir).await;
    for round in 0..2 {
        let leader = cluster(&mut stack).leader(NORMAL).await.unwrap();
        cluster(&mut stack).server(leader).kill();
        let other = cluster(&mut stack).leader(NORMAL).await.unwrap();
        assert_ne!(other, leader);
        recovers(&mut stack, "the leader killed").await;
        if round == 0 {
            breach_is_reported(&mut stack).await;
        }
        cluster(&mut stack).server(leader).restart().await.unwrap();
        cluster(&mut stack).await_complete().await.unwrap();
    }
    is_exact(stack).await;
}

#[tokio::test]
async fn two_of_three_servers_restart_and_cost_no_sample() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(&dir).await;
    let leader = cluster(&mut stack).leader(NORMAL).await.unwrap();
    let two = [leader, (leader + 1) % 3];
    for number in two {
        cluster(&mut stack).server(number).kill();
    }
    // One server alone takes no message.
    await_held(stack.stations(), 6.0).await.unwrap();
    for number in two {
        cluster(&mut stack).server(number).restart().await.unwrap();
    }
    recovers(&mut stack, "two of three killed").await;
    breach_is_reported(&mut stack).await;
    is_exact(stack).await;
}

/// Waits until the stream has so many messages that no aggregator has read.
async fn poll_unread(stack: &mut Stack, more: u64) {
    let servers: &Cluster = cluster(stack);
    let newest = || info(servers, NORMAL)?["state"]["last_seq"].as_u64();
    let before = until("the stream", WAIT, async || newest()).await.unwrap();
    let grown =
        until("unread messages", WAIT, async || newest().filter(|newest| *newest >= before + more));
    grown.await.unwrap();
}

#[tokio::test]
async fn a_deleted_stream_costs_no_sample_that_its_servers_had_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(&dir).await;
    stack.kill_aggregator();
    poll_unread(&mut stack, 10).await;
    let subject = format!("STREAM.DELETE.{NORMAL}");
    cluster(&mut stack).request(&subject, &Value::Null).unwrap();
    stack.launch_aggregator().unwrap();
    recovers(&mut stack, "a stream deleted").await;
    let info = info(cluster(&mut stack), NORMAL).unwrap();
    assert_eq!(info["config"]["num_replicas"], 3, "{info}");
    breach_is_reported(&mut stack).await;
    is_exact(stack).await;
}

/// One server is outdated, one lost its store, and the only one that has all messages dies: the
/// first two may elect the outdated one. nats-server before 2.12 does, and loses what it had
/// acknowledged (its pull request 7038).
#[tokio::test]
async fn a_wiped_store_beside_an_outdated_one_costs_no_sample() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(&dir).await;
    let leader = cluster(&mut stack).leader(NORMAL).await.unwrap();
    let (outdated, wiped) = ((leader + 1) % 3, (leader + 2) % 3);
    stack.kill_aggregator();
    cluster(&mut stack).server(outdated).kill();
    poll_unread(&mut stack, 10).await;
    let before = info(cluster(&mut stack), NORMAL).unwrap()["state"]["last_seq"].clone();
    cluster(&mut stack).server(wiped).wipe().unwrap();
    cluster(&mut stack).server(leader).kill();
    for number in [wiped, outdated] {
        cluster(&mut stack).server(number).restart().await.unwrap();
    }
    stack.launch_aggregator().unwrap();
    // Time for the two to elect one, if they do.
    await_held(stack.stations(), 3.0).await.unwrap();
    let elected = info(cluster(&mut stack), NORMAL);
    eprintln!("message {before} was acknowledged; the other two have {elected:?}");
    cluster(&mut stack).server(leader).restart().await.unwrap();
    recovers(&mut stack, "a store wiped").await;
    breach_is_reported(&mut stack).await;
    is_exact(stack).await;
}

/// The shipped configurations: TLS everywhere, users with exact permissions, a site behind a leaf
/// node.
#[tokio::test]
async fn a_site_behind_a_leaf_node_loses_nothing_while_its_link_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let (mesh, nodes) = (MeshName::new("local").unwrap(), ["n1".to_owned()]);
    let at = |name: &str| dir.path().join(name);
    let hub =
        Site::make_hub(&at("hub"), &mesh, &["central".to_owned()], "west", &nodes, 0).unwrap();
    let west = Site::make(&at("west"), &mesh, &nodes).unwrap();
    let leaf_ports: Vec<String> =
        (0..3).map(|_| format!("127.0.0.1:{}", free_port().unwrap())).collect();
    let mut left = leaf_ports.iter();
    let left = std::cell::RefCell::new(&mut left);
    let lines = |member: &Member| {
        hub.server_settings(member, left.borrow_mut().next().context("a port for each server")?)
    };
    let mut cluster = Cluster::start_with(&at("servers"), 3, lines).await.unwrap();
    let settings = west.leaf_settings(&hub, "west", &leaf_ports).unwrap();
    std::fs::create_dir(at("leaf")).unwrap();
    let mut leaf = Broker::start_with(&at("leaf"), false, settings).await.unwrap();

    let file = at("aggregator.toml");
    let bus = hub.bus_settings("aggregator") + "replicas = 3\n[confirm]\nwithout_state = true\n";
    std::fs::write(&file, bus).unwrap();
    let url = cluster.url();
    let mut aggregator = MeshProcess::aggregator_with(dir.path(), &url, &file).await.unwrap();
    let file = at("node.toml");
    let bus = west.bus_settings("node-n1") + "streams = \"managed\"\n" + QUICK_BREAKER;
    std::fs::write(&file, bus).unwrap();
    let flags = ["--config", file.to_str().unwrap()];
    let mut node = MeshProcess::node_with("n1", dir.path(), &leaf.url(), &flags).await.unwrap();
    let sender = StatsdSender::unix(node.socket()).unwrap();
    let mut sent = 0;
    let mut send = || {
        sent += 1;
        sender.send("epoch_hook:1|ms").unwrap();
        sent
    };
    let api = aggregator.api.clone();
    let merged = async |count: u64| {
        let merged = until("the samples are merged", WAIT, async || {
            let summary = api.summary().await.ok()?;
            (fleet_samples(&summary, "epoch_hook") == count).then_some(())
        });
        merged.await
    };
    let logged = |node: &MeshProcess, leaf: &Broker| format!("{}\n{}", node.log(), leaf.log());
    let count = send();
    merged(count).await.unwrap_or_else(|error| panic!("{error:#}\n{}", logged(&node, &leaf)));
    assert!(node.log().contains("delivery=\"jetstream\""), "{}", node.log());

    for number in 0..3 {
        cluster.server(number).pause();
    }
    let count = send();
    let held = until("the node holds its message", WAIT, async || {
        node.api.metric(DEPTH).await.ok().flatten().filter(|depth| *depth >= 2.0)
    });
    held.await.unwrap();
    for number in 0..3 {
        cluster.server(number).resume();
    }
    merged(count).await.unwrap_or_else(|error| panic!("{error:#}\n{}", logged(&node, &leaf)));
    leaf.kill();
    let count = send();
    leaf.restart().await.unwrap();
    merged(count).await.unwrap_or_else(|error| panic!("{error:#}\n{}", logged(&node, &leaf)));
    node.terminate(WAIT).await.unwrap();
    aggregator.terminate(WAIT).await.unwrap();
    cluster.end().await.unwrap();
}

#[tokio::test]
async fn too_few_servers_for_the_replicas_are_named_until_there_are_enough() {
    let dir = tempfile::tempdir().unwrap();
    let members = Member::plan(3).unwrap();
    let start = async |member: &Member| {
        let dir = dir.path().join(&member.name);
        std::fs::create_dir(&dir).unwrap();
        Broker::start_with(&dir, true, member.plain()).await.unwrap()
    };
    // A server that the others have never known; one that was just killed they would choose.
    let (first, second) = (start(&members[0]).await, start(&members[1]).await);
    let settings = dir.path().join("aggregator.toml");
    std::fs::write(&settings, "[bus]\nreplicas = 3\n[confirm]\nwithout_state = true\n").unwrap();
    let url = format!("{},{}", first.url(), second.url());
    let mut aggregator = MeshProcess::aggregator_with(dir.path(), &url, &settings).await.unwrap();
    let flags = ["--set", "bus.replicas=3", "--set", "breaker.open_seconds=1"];
    let mut node = MeshProcess::node_with("n1", dir.path(), &url, &flags).await.unwrap();
    let sender = StatsdSender::unix(node.socket()).unwrap();
    sender.send("epoch_hook:1|ms").unwrap();
    // Before nats-server 2.12 two of three elect a leader of a new cluster, which then lacks one.
    let texts = [
        "bus.replicas = 3, but fewer servers of the cluster are connected",
        "the broker's servers have no leader",
    ];
    for process in [&aggregator, &node] {
        let named = until("the cause is named", WAIT, async || {
            let (status, body) = get_any_status(&process.api, "/readyz").await.ok()?;
            (status == 503 && texts.iter().any(|text| body.contains(text))).then_some(())
        });
        named.await.unwrap_or_else(|error| panic!("{error:#}\n{}", process.log()));
    }
    assert!(texts.iter().any(|text| aggregator.log().contains(text)), "{}", aggregator.log());
    let third = start(&members[2]).await;
    for api in [&aggregator.api, &node.api] {
        until("ready", WAIT, async || api.is_ready().await.then_some(())).await.unwrap();
    }
    let merged = until("the sample is merged", WAIT, async || {
        let summary = aggregator.api.summary().await.ok()?;
        (fleet_samples(&summary, "epoch_hook") == 1).then_some(())
    });
    merged.await.unwrap();
    let config = JetStreamAdmin::connect(&third.url()).unwrap().config(NORMAL).unwrap();
    assert_eq!(config["num_replicas"], 3, "{config}");
    node.terminate(WAIT).await.unwrap();
    aggregator.terminate(WAIT).await.unwrap();
}
