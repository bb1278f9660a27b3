//! An aggregator that is killed restores its state from its own file, not from the streams.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use plimsoll_mesh::certificates::write_secret;
use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::{Stack, Station, bin_dir};
use plimsoll_schemas::alert::{AlertState, Scope};
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::oracle::{RawSamples, check_drained};
use plimsoll_tests::process::{self, await_checkpoint, operation_row};
use plimsoll_tests::single_node::SingleNodeMesh;
use plimsoll_tests::statsd::StatsdSender;
use plimsoll_tests::webhook::WebhookReceiver;
use redb::ReadableTable as _;
use serde_json::{Value, json};

const WAIT: Duration = Duration::from_secs(30);
/// The header of a store, before its first page.
const STORE_HEADER_BYTES: usize = 4_096;
/// Operations that only jobs time; a node adds its own.
const JOBS: [&str; 2] = ["epoch_hook", "kernel_fetch"];

fn merged(summary: &Summary, scope: &str, name: &str) -> u64 {
    operation_row(summary, scope, name).map_or(0, |row| row.total.count)
}

async fn await_summary(stack: &Stack, what: &str, fits: impl Fn(&Summary) -> bool) -> Summary {
    process::await_summary(stack.api(), what, |summary| summary.ready && fits(summary))
        .await
        .unwrap()
}

/// This number of samples of 60 ms, far over the budget, as a job would send them.
fn send_slow(station: &Station, count: usize) {
    let socket = UnixDatagram::unbound().unwrap();
    socket.connect(&station.socket).unwrap();
    for _ in 0..count {
        socket.send(b"epoch_hook:60|ms").unwrap();
    }
}

fn fires(summary: &Summary) -> bool {
    let row =
        summary.budgets.iter().find(|row| row.budget == "epoch_hook" && row.scope == Scope::Fleet);
    row.is_some_and(|row| row.alert == AlertState::Firing)
}

#[tokio::test]
async fn an_aggregator_killed_again_and_again_under_load_ends_with_exact_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    let mut had = 0;
    for _ in 0..4 {
        let summary = await_summary(&stack, "more hooks are merged", |summary| {
            merged(summary, "", "epoch_hook") >= had + 60
        });
        had = merged(&summary.await, "", "epoch_hook");
        stack.kill_aggregator();
        stack.restart_aggregator().await.unwrap();
        let now = merged(&stack.api().summary().await.unwrap(), "", "epoch_hook");
        assert!(now >= had, "{now} after {had}");
    }
    assert!(stack.aggregator().log().contains("state restored"), "{}", stack.aggregator().log());
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
}

#[tokio::test]
async fn counts_and_alerts_outlive_the_aggregator_and_the_streams_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    await_summary(&stack, "hooks are merged", |now| merged(now, "", "epoch_hook") >= 100).await;
    stack.end_jobs().await.unwrap();
    send_slow(&stack.stations()[0], 300);
    let raw = RawSamples::of_all(stack.stations()).unwrap();
    let totals = [raw.count(JOBS[0]) + 300, raw.count(JOBS[1])];
    let first = await_summary(&stack, "all is merged and the alert fires", |summary| {
        JOBS.map(|name| merged(summary, "", name)) == totals && fires(summary)
    });
    let first = first.await;
    await_checkpoint(stack.api()).await.unwrap();
    stack.kill_aggregator();
    stack.broker().kill();
    std::fs::remove_dir_all(dir.path().join("streams")).unwrap();
    stack.broker().restart().await.unwrap();
    stack.restart_aggregator().await.unwrap();
    let second = stack.api().summary().await.unwrap();
    assert_eq!(JOBS.map(|name| merged(&second, "", name)), totals);
    assert!(fires(&second), "{:#?}", second.budgets);
    assert!(second.changes.starts_with(&first.changes), "{:#?}", second.changes);
    send_slow(&stack.stations()[0], 50);
    await_summary(&stack, "what came later is added", |summary| {
        merged(summary, "", "epoch_hook") == totals[0] + 50
    })
    .await;
    let log = stack.aggregator().log();
    assert!(log.contains("stream was recreated"), "the new stream is not logged:\n{log}");
}

#[tokio::test]
async fn a_damaged_state_is_quarantined_and_the_streams_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    await_summary(&stack, "hooks are merged", |now| merged(now, "", "epoch_hook") >= 60).await;
    await_checkpoint(stack.api()).await.unwrap();
    stack.kill_aggregator();
    let state = dir.path().join("state.redb");
    // Not truncated: a shorter file might still hold all that was ever written.
    let mut bytes = std::fs::read(&state).unwrap();
    bytes[STORE_HEADER_BYTES..].fill(0xa5);
    std::fs::write(&state, bytes).unwrap();
    stack.restart_aggregator().await.unwrap();
    let failures = r#"plimsoll_aggregator_checkpoint_failures_total{reason="damaged"}"#;
    assert_eq!(stack.api().metric(failures).await.unwrap(), Some(1.0));
    let names = std::fs::read_dir(dir.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with("state.redb.quarantined-")).count(), 1);
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
}

#[test]
fn a_state_that_cannot_be_kept_where_it_should_be_is_refused_at_the_start() {
    let program = bin_dir().unwrap().join("plimsoll-aggregator");
    let output = Command::new(program).args(["--state", "/proc/absent/state.redb"]).output();
    let output = output.unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{words}");
    assert!(words.contains("state.path: ") && words.contains("/proc"), "{words}");
}

/// Evaluates a short window.
const BUDGET: &str = "
[[budget]]
name = 'epoch_hook'
window = '10s'
fire_after = 1
clear_after = 1
";
/// The version of a record that no program has written yet.
const LATER_VERSION: [u8; 2] = [0, 99];
const TOKEN: &str = "the-token-of-the-test";

/// Puts the record that holds positions, alerts and silences under a later version.
fn upgrade_rest(path: &Path) {
    let records = redb::TableDefinition::<&str, &[u8]>::new("records");
    let database = redb::Database::open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut table = transaction.open_table(records).unwrap();
        let mut rest = table.get("rest").unwrap().unwrap().value().to_vec();
        rest[..2].copy_from_slice(&LATER_VERSION);
        table.insert("rest", rest.as_slice()).unwrap();
    }
    transaction.commit().unwrap();
}

fn overwrite(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[STORE_HEADER_BYTES..].fill(0xa5);
    std::fs::write(path, bytes).unwrap();
}

/// The states of the fleet's alert that the receiver was sent.
fn sent(webhook: &WebhookReceiver) -> Vec<Value> {
    let sent = webhook.bodies().into_iter().map(|mut body| body["notification"].take());
    let of_fleet = |of: &Value| of["rule"] == "epoch_hook" && of["scope"] == "fleet";
    sent.filter(of_fleet).map(|of| of["state"].clone()).collect()
}

#[tokio::test]
async fn a_receiver_of_a_begin_is_sent_the_end_although_the_state_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let webhook = WebhookReceiver::accepting().await.unwrap();
    let token = dir.path().join("token");
    write_secret(&token, TOKEN).unwrap();
    let settings = format!(
        "{BUDGET}[[webhook]]\nname = 'pager'\nurl = '{}'\n[http]\ntoken_file = {token:?}\n",
        webhook.url()
    );
    let mut mesh = SingleNodeMesh::start_with(dir.path(), settings).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    let send = |ms: u32| {
        let values = format!(":{ms}").repeat(60);
        sender.send(format!("epoch_hook{values}|ms")).unwrap();
    };
    let state = dir.path().join("state.redb");
    let mut until_now = Vec::new();
    for reason in ["newer_version", "damaged"] {
        until_now.push(json!("firing"));
        until("the receiver is sent the begin", WAIT, async || {
            send(60);
            (sent(&webhook) == until_now).then_some(())
        })
        .await
        .unwrap();
        if reason == "newer_version" {
            let silence = json!({"match": {"rule": "other"}, "by": "a", "for": "1h"});
            let api = mesh.stack.api().clone().with_token(Some(TOKEN.to_owned()));
            api.request("POST", "/api/v1/silences", Some(&silence)).await.unwrap();
        }
        await_checkpoint(mesh.stack.api()).await.unwrap();
        let before = mesh.stack.api().summary().await.unwrap();
        mesh.stack.kill_aggregator();
        match reason {
            "newer_version" => upgrade_rest(&state),
            _ => overwrite(&state),
        }
        mesh.stack.restart_aggregator().await.unwrap();
        let failures =
            format!("plimsoll_aggregator_checkpoint_failures_total{{reason=\"{reason}\"}}");
        assert_eq!(mesh.stack.api().metric(&failures).await.unwrap(), Some(1.0));
        let after = mesh.stack.api().summary().await.unwrap();
        assert!(fires(&after), "{reason}: {:#?}", after.budgets);
        let merged = |summary: &Summary| merged(summary, "", "epoch_hook");
        assert!(merged(&after) >= merged(&before), "the error budget stays");
        until_now.push(json!("resolved"));
        until("the receiver is sent the end", WAIT, async || {
            send(1);
            (sent(&webhook) == until_now).then_some(())
        })
        .await
        .unwrap();
        let page = mesh.stack.api().get("/api/v1/silences").await.unwrap();
        let page: Value = serde_json::from_str(&page).unwrap();
        assert_eq!(page["silences"].as_array().map(Vec::len), Some(1), "{reason}: {page}");
    }
    let summary = mesh.drain_node().await.unwrap();
    let ledger = &summary.nodes[0].ledger;
    assert!(ledger.lost.is_empty(), "{ledger:?}");
    assert_eq!(ledger.recorded, ledger.merged, "nothing is merged twice or missing: {ledger:?}");
}
