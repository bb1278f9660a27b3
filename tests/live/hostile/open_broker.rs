//! What anyone can do at a broker without users, beside a mesh that works: alerts name each attack,
//! and no sample of a real node is lost or counted twice.

use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_mesh::jetstream::JetStreamAdmin;
use plimsoll_mesh::stack::Stack;
use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::limits::wire::COUNT_MAX;
use plimsoll_schemas::summary::LedgerPage;
use plimsoll_schemas::wire::{Body, Bus, Header};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::oracle::check_drained;
use plimsoll_tests::process::{await_firing, await_summary, fleet_samples};
use plimsoll_tests::publisher::Publisher;
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use plimsoll_tests::statsd::StatsdSender;

use super::forgery::{header_of_now, message};

const WAIT: Duration = Duration::from_secs(20);
const VICTIM: &str = "node-1";
/// More incarnations than an aggregator keeps of a node.
const INCARNATIONS: u32 = 300;
/// Nodes that do not exist: more than 80 % of the table.
const GHOSTS: u64 = 13_500;

fn subject(node: &str) -> String {
    format!("plimsoll.v1.local.normal.{node}.bus")
}

fn bus(header: Header) -> Vec<u8> {
    message(header, Body::Bus(Bus::default()))
}

async fn present_incarnation(stack: &Stack) -> Incarnation {
    let page = stack.api().get("/api/v1/ledger").await.unwrap();
    let page: LedgerPage = serde_json::from_str(&page).unwrap();
    let node = page.nodes.iter().find(|node| node.node == VICTIM).unwrap();
    Incarnation(node.runs.iter().map(|run| run.incarnation).max().unwrap())
}

/// Waits until the aggregator has refused as many messages for this reason.
async fn await_refused(stack: &Stack, reason: &str, count: f64) {
    let series = format!("plimsoll_aggregator_undecodable_messages_total{{reason=\"{reason}\"}}");
    let refused = until(&series, WAIT, async || {
        let refused = MetricsPage::of(stack.api()).await.ok()?.value(&series)?;
        (refused >= count).then_some(())
    });
    refused.await.unwrap();
}

#[tokio::test]
async fn alerts_name_each_attack_at_an_open_broker_and_no_sample_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    let enough = |least: u64| move |summary: &_| fleet_samples(summary, "epoch_hook") >= least;
    await_summary(stack.api(), "the mesh works", enough(30)).await.unwrap();
    let mut anyone = Publisher::connect(stack.broker().url()).await.unwrap();

    // All that follows the real incarnation would look old.
    for n in 0..INCARNATIONS {
        let header =
            Header { incarnation: Incarnation(u64::MAX - u64::from(n)), ..header_of_now(VICTIM) };
        anyone.publish(&subject(VICTIM), bus(header)).await.unwrap();
    }
    await_refused(&stack, "incarnation", f64::from(INCARNATIONS)).await;
    await_firing(stack.api(), &["undecodable"]).await.unwrap();

    // Its totals would stand until the real numbers reached it.
    let incarnation = present_incarnation(&stack).await;
    let header = Header { incarnation, seq: Seq(COUNT_MAX), ..header_of_now(VICTIM) };
    anyone.publish(&subject(VICTIM), bus(header)).await.unwrap();
    await_refused(&stack, "sequence", 1.0).await;

    let mut jetstream = JetStreamAdmin::connect(&stack.broker().url()).unwrap();
    for stream in ["PLIMSOLL_local_normal", "PLIMSOLL_local_emergency"] {
        jetstream.recreate(stream).unwrap();
    }
    let before = fleet_samples(&stack.api().summary().await.unwrap(), "epoch_hook");
    await_summary(stack.api(), "it goes on", enough(before + 60)).await.unwrap();
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
    stack.end().await.unwrap();
}

#[tokio::test]
async fn made_up_nodes_are_named_by_an_alert_and_hide_no_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let mut anyone = Publisher::connect(mesh.stack.broker().url()).await.unwrap();
    for n in 0..GHOSTS {
        let node = format!("ghost-{n}");
        anyone.publish(&subject(&node), bus(header_of_now(&node))).await.unwrap();
    }
    await_firing(mesh.stack.api(), &["table_filling"]).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    sender.send("epoch_hook:5|ms").unwrap();
    let merged = until("the sample is in the ledger of its node", WAIT, async || {
        let page = mesh.stack.api().get("/api/v1/ledger").await.ok()?;
        let page: LedgerPage = serde_json::from_str(&page).ok()?;
        let node = page.nodes.into_iter().find(|node| node.node == NODE)?;
        (node.ledger.merged > 0).then_some(())
    });
    merged.await.unwrap();
    mesh.stack.end().await.unwrap();
}
