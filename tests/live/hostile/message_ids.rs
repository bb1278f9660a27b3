//! A client that publishes under the ids of messages that a node will send, so that the broker
//! would keep its messages in the place of the node's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_mesh::jetstream::JetStreamAdmin;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_node::core::outbox::{IdOf, MessageNonce, message_id};
use plimsoll_schemas::alert::{AlertState, AlertsPage};
use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::oracle::check_drained;
use plimsoll_tests::process::{await_summary, fleet_samples};
use plimsoll_tests::publisher::Publisher;

const WAIT: Duration = Duration::from_secs(60);
const STREAM: &str = "PLIMSOLL_local_normal";
/// The attacker's own subject, in the same stream.
const SUBJECT: &str = "plimsoll.v1.local.normal.attacker.interval";
const NODE: &str = "node-1";
/// How many messages ahead of the node the attacker is: a minute's.
const AHEAD: u64 = 60;
/// How many of these are awaited.
const AWAITED: u64 = 5;

/// Incarnation and number of the node's newest message in the stream.
pub(crate) fn newest(admin: &mut JetStreamAdmin) -> (Incarnation, Seq) {
    let messages = admin.messages(STREAM).unwrap();
    let own = format!("{NODE}-");
    let mut ids = messages.iter().rev().filter_map(|message| message.headers.get("Nats-Msg-Id"));
    let id = ids.find_map(|id| id.strip_prefix(&own)).expect("the node has sent something");
    let mut numbers = id.split('-').map(str::parse::<u64>);
    let mut next = || numbers.next().unwrap().unwrap();
    (Incarnation(next()), Seq(next()))
}

/// What stands before the secret in the id under which a message of the node was stored first, by
/// its number: nothing in the id that it has at first, `t1` after that one was found to be taken,
/// `r1` in that of a copy that an aggregator had missed.
fn tags(url: &str) -> BTreeMap<u64, String> {
    let mut admin = JetStreamAdmin::connect(url).unwrap();
    let own = format!("{NODE}-");
    let mut tags = BTreeMap::new();
    for stream in [STREAM, "PLIMSOLL_local_emergency"] {
        let messages = admin.messages(stream).unwrap().into_iter();
        for message in messages.filter(|message| message.subject != SUBJECT) {
            let id = message.headers.get("Nats-Msg-Id").and_then(|id| id.strip_prefix(&own));
            let Some(id) = id else { continue };
            let mut parts = id.split('-').skip(1);
            let number = parts.next().unwrap().parse().unwrap();
            let tag = parts.next().filter(|part| part.starts_with(['t', 'r']));
            tags.entry(number).or_insert(tag.unwrap_or_default().to_owned());
        }
    }
    tags
}

/// The nonce of the first message in the node's spool.
fn nonce(spool: &Path) -> Option<MessageNonce> {
    // A named field of 16 bytes, as MessagePack has it.
    const KEY: &[u8] = b"\xa5nonce\xc4\x10";
    let files = std::fs::read_dir(spool).unwrap().map(|entry| entry.unwrap().path());
    let mut found = files.filter_map(|path| {
        let bytes = std::fs::read(path).ok()?;
        let at = bytes.windows(KEY.len()).position(|part| part == KEY)? + KEY.len();
        bytes.get(at..at + 16)?.try_into().ok().map(MessageNonce)
    });
    found.next()
}

/// Publishes under the ids of the messages that the node will send next; returns the number of the
/// one before them.
async fn take_ids(stack: &mut Stack, nonce: MessageNonce) -> u64 {
    let url = stack.broker().url();
    let (incarnation, seq) = newest(&mut JetStreamAdmin::connect(&url).unwrap());
    let mut attacker = Publisher::connect(url).await.unwrap();
    for number in seq.0 + 1..=seq.0 + AHEAD {
        let id = message_id(NODE, incarnation, Seq(number), IdOf::Message(0), nonce);
        attacker.publish_as(SUBJECT, id, b"forged".to_vec()).await.unwrap();
    }
    seq.0
}

async fn started(dir: &Path) -> Stack {
    let spools = Some(dir.join("spools"));
    let options = StackOptions { spools, nodes: 1, ..with_jobs(dir) };
    let stack = Stack::start(options).await.unwrap();
    hooks_after(&stack, 0).await;
    stack
}

async fn hooks_after(stack: &Stack, had: u64) -> u64 {
    let grown = |summary: &_| fleet_samples(summary, "epoch_hook") >= had + 60;
    let summary = await_summary(stack.api(), "sixty more hooks are merged", grown).await.unwrap();
    fleet_samples(&summary, "epoch_hook")
}

async fn value(stack: &Stack, series: &str) -> f64 {
    let page = MetricsPage::of(&stack.stations()[0].api).await.unwrap();
    page.value(series).unwrap_or_default()
}

async fn ends_well(mut stack: Stack) {
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
    stack.end().await.unwrap();
}

#[tokio::test]
async fn ids_that_a_neighbour_can_compute_are_no_nodes_ids() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(dir.path()).await;
    let before = take_ids(&mut stack, MessageNonce::default()).await;
    let had = fleet_samples(&stack.api().summary().await.unwrap(), "epoch_hook");
    hooks_after(&stack, had).await;

    // Each was stored under the id that it has at first.
    let url = stack.broker().url();
    let next = before + 1..=before + AWAITED;
    let stored = until("the next messages are stored", WAIT, async || {
        let tags = tags(&url);
        next.clone().all(|number| tags.contains_key(&number)).then_some(tags)
    });
    let tags = stored.await.unwrap();
    assert!(next.clone().all(|number| tags[&number].is_empty()), "after {before}: {tags:?}");
    assert_eq!(value(&stack, "plimsoll_agent_taken_message_ids_total").await, 0.0);
    ends_well(stack).await;
}

#[tokio::test]
async fn an_id_that_is_taken_is_counted_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(dir.path()).await;
    let spool = dir.path().join("spools").join(NODE);
    let stolen = until("the spool holds a message", WAIT, async || nonce(&spool)).await.unwrap();
    let before = take_ids(&mut stack, stolen).await;
    let had = fleet_samples(&stack.api().summary().await.unwrap(), "epoch_hook");
    hooks_after(&stack, had).await;
    let fires = until("the alert fires", WAIT, async || {
        let page = stack.api().get("/api/v1/alerts").await.ok()?;
        let page: AlertsPage = serde_json::from_str(&page).ok()?;
        let mut rows = page.alerts.into_iter();
        rows.find(|row| {
            let is_named = row.key.rule.as_str() == "message_ids_taken";
            is_named && row.state == AlertState::Firing
        })
    });
    let alert = fires.await.unwrap();
    assert_eq!(alert.key.scope.node(), NODE);
    let taken = value(&stack, "plimsoll_agent_taken_message_ids_total").await;
    assert!(taken > 0.0);
    let series = format!("plimsoll_node_taken_message_ids_total{{node=\"{NODE}\"}}");
    assert!(stack.api().metric(&series).await.unwrap().is_some_and(|count| count > 0.0));

    // Sent again at once, and not once an aggregator had missed it.
    let url = stack.broker().url();
    let again = until("a message is stored under another id", WAIT, async || {
        let mut of_taken = tags(&url).into_iter().filter(|(number, _)| *number > before);
        of_taken.find(|(_, tag)| !tag.is_empty())
    });
    let (number, tag) = again.await.unwrap();
    assert_eq!(tag, "t1", "message {number}");
    let log = stack.stations()[0].node_log();
    assert!(log.contains("another client used it"), "{log}");
    ends_well(stack).await;
}
