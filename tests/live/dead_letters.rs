//! Brokers that refuse: messages become dead letters, which the broker's own stream holds and whose
//! samples the ledger names. The time between refusals that count is scaled to a second.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_mesh::jetstream::JetStreamAdmin;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_schemas::own_operations::OWN_LOST;
use plimsoll_schemas::summary::Ledger;
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::process::{await_summary, fleet_samples, node_row};
use serde_json::{Value, json};

const WAIT: Duration = Duration::from_secs(90);
const NORMAL: &str = "PLIMSOLL_local_normal";
const DEAD: &str = "PLIMSOLL_local_dead";
/// Five minutes become five seconds.
const SCALED: &str = "[breaker]\nopen_seconds = 1\n[dead_letter]\nevery_seconds = 1\n";
const ALLOWING: &str = "authorization: { users: [ { user: mesh, password: x } ] }
no_auth_user: mesh
";
/// No node may publish in the normal lane.
const DENYING: &str = "authorization: { users: [ { user: mesh, password: x, permissions: {
    publish: { deny: \"plimsoll.v1.local.normal.>\" } } } ] }
no_auth_user: mesh
";

async fn started(dir: &Path, node_settings: &str) -> Stack {
    let (node_settings, broker_settings) = (node_settings.to_owned(), ALLOWING.to_owned());
    let options = StackOptions { nodes: 1, node_settings, broker_settings, ..with_jobs(dir) };
    let stack = Stack::start(options).await.unwrap();
    hooks_after(&stack, 0).await;
    stack
}

/// Whether samples of jobs were lost for this reason alone.
fn named_only(ledger: &Ledger, reason: &str) -> bool {
    ledger.lost.keys().all(|name| [reason, OWN_LOST].contains(&name.as_str()))
}

/// Waits until the fleet has thirty more hooks than `had`.
async fn hooks_after(stack: &Stack, had: u64) {
    let grown = |summary: &_| fleet_samples(summary, "epoch_hook") >= had + 30;
    await_summary(stack.api(), "thirty more hooks are merged", grown).await.unwrap();
}

/// Waits until the node reports this, and returns it.
async fn poll_value(stack: &Stack, series: &str, least: f64) -> f64 {
    let api = &stack.stations()[0].api;
    let value = until(series, WAIT, async || {
        let page = MetricsPage::of(api).await.ok()?;
        page.value(series).filter(|value| *value >= least)
    });
    value.await.unwrap_or_else(|error| panic!("{error:#}: {}", stack.stations()[0].node_log()))
}

/// The mesh recovers and ends, and what jobs sent is merged or lost by name.
async fn drained(stack: &mut Stack) -> Ledger {
    let summary = stack.api().summary().await.unwrap();
    hooks_after(stack, fleet_samples(&summary, "epoch_hook")).await;
    let summary = stack.drain().await.unwrap();
    let ledger = node_row(&summary, &stack.stations()[0].name).unwrap().ledger.clone();
    assert!(ledger.is_settled(), "{ledger:?}");
    let raw = stack.stations()[0].raw_samples().unwrap().len() as u64;
    assert!(ledger.recorded >= raw, "{raw} samples of the job, of {ledger:?}");
    ledger
}

/// Refuses messages until three are dead letters, accepts them again, and compares the letters in
/// the broker's stream with the ledger.
async fn compare(
    refuse: impl FnOnce(&mut Stack, &mut JetStreamAdmin),
    accept: impl AsyncFnOnce(&mut Stack, &mut JetStreamAdmin),
    reason: &str,
    has_payload: bool,
) {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(dir.path(), SCALED).await;
    let mut admin = JetStreamAdmin::connect(&stack.broker().url()).unwrap();
    refuse(&mut stack, &mut admin);
    let letters = format!("plimsoll_agent_dead_letters_total{{reason=\"{reason}\"}}");
    poll_value(&stack, &letters, 3.0).await;
    let loss = if reason == "max_payload" { reason } else { "refused" };
    let lost = format!("plimsoll_agent_lost_samples_total{{reason=\"{loss}\"}}");
    poll_value(&stack, &lost, 1.0).await;
    accept(&mut stack, &mut admin).await;
    let ledger = drained(&mut stack).await;
    let (letters, node) = (admin.messages(DEAD).unwrap(), stack.stations()[0].name.clone());
    let (mut messages, mut samples) = (BTreeSet::new(), 0);
    for letter in &letters {
        let header = |name: &str| letter.headers[name].as_str();
        let number = |name: &str| header(name).parse::<u64>().unwrap();
        assert_eq!(letter.subject, format!("plimsoll.v1.local.dead.{node}"));
        assert_eq!((header("Plimsoll-Reason"), header("Plimsoll-Node")), (reason, node.as_str()));
        let subject = header("Plimsoll-Subject");
        assert!(subject.starts_with(&format!("plimsoll.v1.local.normal.{node}.")), "{subject}");
        let bytes = if has_payload { number("Plimsoll-Bytes") } else { 0 };
        assert_eq!(letter.payload_bytes as u64, bytes);
        let name = (number("Plimsoll-Incarnation"), number("Plimsoll-Seq"));
        assert!(messages.insert(name), "{name:?} has two letters");
        samples += number("Plimsoll-Samples");
    }
    let lost = |reason: &str| ledger.lost.get(reason).copied().unwrap_or(0);
    assert_eq!(lost(loss) + lost(OWN_LOST), samples, "{letters:?}");
    assert!(lost(loss) > 0 && named_only(&ledger, loss), "{ledger:?}");
    stack.end().await.unwrap();
}

#[tokio::test]
async fn a_full_stream_makes_dead_letters_that_the_ledger_names() {
    let limit = |admin: &mut JetStreamAdmin, messages: Value, discard: &str| {
        let changes = [("max_msgs", messages), ("discard", json!(discard))];
        admin.update(NORMAL, &changes).unwrap();
    };
    let refuse = |_: &mut Stack, admin: &mut JetStreamAdmin| {
        let info = admin.request(&format!("STREAM.INFO.{NORMAL}"), &Value::Null).unwrap();
        limit(admin, info["state"]["messages"].clone(), "new");
    };
    let accept = async |_: &mut Stack, admin: &mut JetStreamAdmin| limit(admin, json!(-1), "old");
    compare(refuse, accept, "stream_full", true).await;
}

#[tokio::test]
async fn a_stream_without_the_nodes_subjects_makes_dead_letters_that_the_ledger_names() {
    let subjects = |admin: &mut JetStreamAdmin, filter: &str| {
        admin.update(NORMAL, &[("subjects", json!([filter]))]).unwrap();
    };
    let refuse = |_: &mut Stack, admin: &mut JetStreamAdmin| {
        subjects(admin, "plimsoll.v1.local.normal.another.>");
    };
    let accept = async |_: &mut Stack, admin: &mut JetStreamAdmin| {
        subjects(admin, "plimsoll.v1.local.normal.>");
    };
    compare(refuse, accept, "no_stream", true).await;
}

#[tokio::test]
async fn messages_too_large_for_the_stream_become_dead_letters_that_the_ledger_names() {
    let limit = |admin: &mut JetStreamAdmin, bytes: Value| {
        admin.update(NORMAL, &[("max_msg_size", bytes)]).unwrap();
    };
    let refuse = |_: &mut Stack, admin: &mut JetStreamAdmin| limit(admin, json!(512));
    let accept = async |_: &mut Stack, admin: &mut JetStreamAdmin| limit(admin, json!(-1));
    compare(refuse, accept, "too_large", false).await;
}

/// The client compares the length with the broker's limit: no message is sent, and the connection
/// stays. Messages are divided, and a series is longer by itself.
#[tokio::test]
async fn messages_too_large_for_the_broker_become_dead_letters_that_the_ledger_names() {
    let refuse = |stack: &mut Stack, _: &mut JetStreamAdmin| {
        stack.broker().reload(&format!("{ALLOWING}max_payload: 450\n")).unwrap();
    };
    // A client learns a raised limit when it connects again.
    let accept = async |stack: &mut Stack, admin: &mut JetStreamAdmin| {
        stack.broker().reload(ALLOWING).unwrap();
        stack.broker().terminate().await.unwrap();
        stack.broker().restart().await.unwrap();
        *admin = JetStreamAdmin::connect(&stack.broker().url()).unwrap();
    };
    compare(refuse, accept, "max_payload", false).await;
}

#[tokio::test]
async fn a_refused_permission_makes_dead_letters_that_the_ledger_names() {
    let refuse = |stack: &mut Stack, _: &mut JetStreamAdmin| {
        stack.broker().reload(DENYING).unwrap();
    };
    let accept = async |stack: &mut Stack, _: &mut JetStreamAdmin| {
        stack.broker().reload(ALLOWING).unwrap();
    };
    compare(refuse, accept, "denied", true).await;
}

#[tokio::test]
async fn with_a_ttl_what_waits_too_long_expires_and_the_ledger_names_it() {
    let dir = tempfile::tempdir().unwrap();
    // Fifteen minutes become two seconds.
    let mut stack = started(dir.path(), "[outbox]\nttl_seconds = 2\n").await;
    stack.broker().terminate().await.unwrap();
    let expired = "plimsoll_agent_lost_samples_total{reason=\"expired\"}";
    poll_value(&stack, expired, 1.0).await;
    stack.broker().restart().await.unwrap();
    let ledger = drained(&mut stack).await;
    assert!(ledger.lost.get("expired").is_some_and(|samples| *samples > 0), "{ledger:?}");
    assert!(named_only(&ledger, "expired"), "{ledger:?}");
    stack.end().await.unwrap();
}
