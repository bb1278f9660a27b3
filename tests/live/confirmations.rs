//! Which confirmations make a node give up its copies: forged ones do not where it has a key, nor
//! do those of an aggregator that keeps no state.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use plimsoll_bus::UnacknowledgedMessage;
use plimsoll_mesh::broker::Broker;
use plimsoll_mesh::child::until;
use plimsoll_mesh::jetstream::JetStreamAdmin;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::alert::{AlertState, AlertsPage};
use plimsoll_schemas::ids::{AggregatorName, MeshName, NodeName, Seq};
use plimsoll_schemas::summary::LedgerPage;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::confirmation::{
    Confirmation, ConfirmedIncarnation, Issue, encode, encode_signed,
};
use plimsoll_schemas::wire::signature::ConfirmKey;
use plimsoll_tests::capability::{mount_refusal, skip};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::oracle::check_drained;
use plimsoll_tests::process::{MeshProcess, await_summary, fleet_samples};
use plimsoll_tests::publisher::Publisher;

use crate::full_disk::{SmallDisk, send_others};
use crate::hostile::message_ids::newest;

const WAIT: Duration = Duration::from_secs(60);
const STREAM: &str = "PLIMSOLL_local_normal";
const UNCONFIRMED: &str = "plimsoll_agent_unconfirmed_messages";
/// More than a node holds that is confirmed every second or two.
const MANY: f64 = 12.0;

/// A file with a key.
fn key_file(dir: &Path) -> PathBuf {
    let path = dir.join("confirm.key");
    std::fs::write(&path, "5a".repeat(32)).unwrap();
    set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

async fn poll(api: &Api, series: &str, fits: impl Fn(f64) -> bool) -> f64 {
    let found = until(series, WAIT, async || {
        let value = MetricsPage::of(api).await.ok()?.value(series)?;
        fits(value).then_some(value)
    });
    found.await.unwrap()
}

async fn hooks_after(stack: &Stack, had: u64) -> u64 {
    let grown = |summary: &_| fleet_samples(summary, "epoch_hook") >= had + 60;
    let summary = await_summary(stack.api(), "sixty more hooks are merged", grown).await.unwrap();
    fleet_samples(&summary, "epoch_hook")
}

/// That all messages of the node so far are stored.
fn forgery(admin: &mut JetStreamAdmin) -> Confirmation {
    let (incarnation, newest) = newest(admin);
    let incarnations = vec![ConfirmedIncarnation { incarnation, spans: vec![(Seq(1), newest)] }];
    let aggregator = AggregatorName::new("forger").unwrap();
    Confirmation {
        incarnations,
        issue: Some(Issue { aggregator, at: Wall(u64::MAX) }),
        ..Confirmation::of(NodeName::new("node-1").unwrap())
    }
}

#[tokio::test]
async fn a_forged_confirmation_and_an_emptied_stream_lose_nothing_where_there_is_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let settings = format!("[confirm]\nkey_file = {:?}\n", key_file(dir.path()));
    let (aggregator_settings, node_settings) = (settings.clone(), settings);
    let options =
        StackOptions { nodes: 1, aggregator_settings, node_settings, ..with_jobs(dir.path()) };
    let mut stack = Stack::start(options).await.unwrap();
    let had = hooks_after(&stack, 0).await;
    let node = Api::at(stack.stations()[0].api.url().trim_start_matches("http://")).unwrap();
    let believed = "plimsoll_agent_confirmations_total{outcome=\"believed\"}";
    poll(&node, believed, |n| n > 0.0).await;

    // The broker has messages that no aggregator has read.
    stack.kill_aggregator();
    poll(&node, UNCONFIRMED, |n| n >= MANY).await;
    let url = stack.broker().url();
    let mut admin = JetStreamAdmin::connect(&url).unwrap();
    let publisher = Publisher::connect(url).await.unwrap();
    let attacker = publisher.messenger();
    let forged = forgery(&mut admin);
    let guessed = ConfirmKey::from_hex(&"00".repeat(32)).unwrap();
    let mesh = MeshName::new("local").unwrap();
    let forgeries =
        [(encode(&forged), "unsigned"), (encode_signed(&forged, &mesh, &guessed), "signature")];
    for (payload, reason) in forgeries {
        let subject = "plimsoll.v1.local.confirm.node-1".to_owned();
        let (headers, payload) = (Vec::new(), Bytes::from(payload));
        attacker.publish(UnacknowledgedMessage { subject, headers, payload }).unwrap();
        let counted = format!("plimsoll_agent_confirmations_total{{outcome=\"{reason}\"}}");
        poll(&node, &counted, |n| n > 0.0).await;
    }
    assert!(node.metric(UNCONFIRMED).await.unwrap() >= Some(MANY), "the copies are gone");
    admin.recreate(STREAM).unwrap();

    stack.restart_aggregator().await.unwrap();
    hooks_after(&stack, had).await;
    let fires = until("the alert fires", WAIT, async || {
        let page = stack.api().get("/api/v1/alerts").await.ok()?;
        let page: AlertsPage = serde_json::from_str(&page).ok()?;
        let mut rows = page.alerts.iter().filter(|row| row.state == AlertState::Firing);
        rows.any(|row| row.key.rule.as_str() == "confirmations_refused").then_some(())
    });
    fires.await.unwrap();
    let series = "plimsoll_node_refused_confirmations_total{node=\"node-1\",reason=\"signature\"}";
    assert_eq!(stack.api().metric(series).await.unwrap(), Some(1.0));
    poll(&node, UNCONFIRMED, |n| n < MANY).await;
    let whole = until("what was deleted is sent again", WAIT, async || {
        let page = stack.api().get("/api/v1/ledger").await.ok()?;
        let page: LedgerPage = serde_json::from_str(&page).ok()?;
        let mut runs = page.nodes.iter().flat_map(|node| &node.runs);
        runs.all(|run| run.missing_seqs == 0).then_some(())
    });
    whole.await.unwrap();
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
    stack.end().await.unwrap();
}

#[tokio::test]
async fn an_aggregator_without_state_confirms_only_if_it_is_configured_to() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), true).await.unwrap();
    let settings = dir.path().join("aggregator.toml");
    std::fs::write(&settings, "").unwrap();
    let careful = MeshProcess::aggregator_with(dir.path(), &broker.url(), &settings).await.unwrap();
    assert!(careful.log().contains("no confirmations are sent"), "{}", careful.log());
    let node = MeshProcess::node("n1", dir.path(), &broker.url()).await.unwrap();
    poll(&node.api, UNCONFIRMED, |n| n >= MANY).await;
    let confirmed = "plimsoll_agent_messages_total{outcome=\"confirmed\"}";
    assert_eq!(node.api.metric(confirmed).await.unwrap(), Some(0.0));
    // The limits of budgets come all the same.
    poll(&node.api, "plimsoll_agent_confirmations_total{outcome=\"believed\"}", |n| n > 0.0).await;
    let confirming = "plimsoll_aggregator_confirming";
    poll(&careful.api, confirming, |n| n == 0.0).await;
    drop(careful);
    let _told = MeshProcess::aggregator(dir.path(), &broker.url()).await.unwrap();
    poll(&node.api, UNCONFIRMED, |n| n < MANY).await;
}

#[tokio::test]
async fn copies_stay_while_one_of_a_pair_keeps_no_state_and_the_others_disk_is_full() {
    if let Some(refusal) = mount_refusal() {
        return skip(&refusal);
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(dir.path().join("small"));
    symlink(disk.0.join("state.redb"), dir.path().join("state.redb")).unwrap();
    let mut stack = Stack::start(StackOptions { nodes: 1, ..with_jobs(dir.path()) }).await.unwrap();
    let settings = dir.path().join("other.toml");
    std::fs::write(&settings, "").unwrap();
    let url = stack.broker().url();
    let other = MeshProcess::aggregator_with(dir.path(), &url, &settings).await.unwrap();
    hooks_after(&stack, 0).await;

    disk.fill();
    let station = &stack.stations()[0];
    send_others(&station.socket);
    let failures = "plimsoll_aggregator_checkpoint_failures_total{reason=\"write\"}";
    poll(stack.api(), failures, |n| n > 0.0).await;
    poll(&station.api, UNCONFIRMED, |n| n >= MANY).await;
    let merged = other.api.metric("plimsoll_node_merged_samples_total{node=\"node-1\"}").await;
    assert!(merged.unwrap() > Some(0.0), "the other one has them in memory");

    std::fs::remove_file(disk.ballast()).unwrap();
    poll(&station.api, UNCONFIRMED, |n| n < MANY).await;
    let drained = stack.drain().await.unwrap();
    let ledger = &drained.nodes[0].ledger;
    assert!(ledger.is_settled() && ledger.lost.is_empty(), "{ledger:?}");
    stack.end().await.unwrap();
}
