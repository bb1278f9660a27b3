//! A broker that runs and does not do its part: streams that vanish, fill up or are not there,
//! permissions that do not allow what a node must do. Nothing of it is silent, nothing is lost
//! that can be kept, and all is well again once the cause is mended.

use std::time::Duration;

use plimsoll_cli::api::Api;
use plimsoll_cli::child::until;
use plimsoll_cli::stack::{Stack, StackOptions};
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::lone::{fleet_count, summary_when};
use plimsoll_tests::operator::Operator;
use plimsoll_tests::oracle::check_mesh;
use plimsoll_tests::page::Page;

const WAIT: Duration = Duration::from_secs(40);
const NORMAL: &str = "PLIMSOLL_local_normal";
/// So that a node tries again soon after the cause is mended.
const QUICK_BREAKER: &str = "[breaker]\nopen_seconds = 1\n";
const DEPTH: &str = "plimsoll_agent_outbox_messages";

async fn started(options: StackOptions) -> Stack {
    let node_settings = QUICK_BREAKER.to_owned();
    let stack = Stack::start(StackOptions { node_settings, ..options }).await.unwrap();
    hooks_after(&stack, 0).await;
    stack
}

/// Waits until the fleet has sixty more hooks than `had`.
async fn hooks_after(stack: &Stack, had: u64) -> Summary {
    let grown = |summary: &Summary| fleet_count(summary, "epoch_hook") >= had + 60;
    summary_when(stack.api(), "sixty more hooks are merged", grown).await.unwrap()
}

/// Waits until every node, or the one at `place`, holds so many messages.
async fn poll_held(stack: &Stack, place: Option<usize>, messages: f64) {
    for (number, station) in stack.stations().iter().enumerate() {
        if place.is_some_and(|place| place != number) {
            continue;
        }
        let what = format!("{} holds {messages} messages", station.name);
        let held = until(&what, WAIT, async || {
            station.api.metric(DEPTH).await.ok().flatten().filter(|depth| *depth >= messages)
        });
        held.await.unwrap();
    }
}

async fn poll_said(what: &str, log: impl Fn() -> String, words: &[&str]) {
    let said = until(what, WAIT, async || {
        let log = log();
        log.lines().any(|line| words.iter().all(|word| line.contains(word))).then_some(())
    });
    said.await.unwrap_or_else(|error| panic!("{error:#}: {words:?} not in {}", log()));
}

/// Waits until sending has stopped and the messages that failed are counted.
async fn poll_open(api: &Api) {
    let open = until("the breaker opens", WAIT, async || {
        let page = Page::of(api).await.ok()?;
        let retried = page.value("plimsoll_agent_messages_total{outcome=\"retried\"}")?;
        (page.value("plimsoll_agent_breaker_state")? == 2.0 && retried > 0.0).then_some(())
    });
    open.await.unwrap();
}

async fn recovers_and_is_exact(mut stack: Stack) {
    let summary = stack.api().summary().await.unwrap();
    hooks_after(&stack, fleet_count(&summary, "epoch_hook")).await;
    for station in stack.stations() {
        let what = format!("{} holds next to nothing", station.name);
        let empty = until(&what, WAIT, async || {
            station.api.metric(DEPTH).await.ok().flatten().filter(|depth| *depth <= 4.0)
        });
        empty.await.unwrap();
    }
    let drained = stack.drain().await.unwrap();
    check_mesh(&drained, stack.stations()).unwrap();
    stack.end().await.unwrap();
}

#[tokio::test]
async fn a_stream_made_anew_behind_our_back_is_noticed_and_costs_no_sample() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(StackOptions::new(dir.path())).await;
    Operator::connect(&stack.broker().url()).unwrap().make_anew(NORMAL).unwrap();
    poll_said("the aggregator notices", || stack.aggregator_log(), &["stream was recreated"]).await;
    recovers_and_is_exact(stack).await;
}

#[tokio::test]
async fn a_broker_that_only_later_has_streams_is_used_with_them_from_then_on() {
    let dir = tempfile::tempdir().unwrap();
    let options = StackOptions { jetstream: false, ..StackOptions::new(dir.path()) };
    let mut stack = started(options).await;
    let summary = stack.api().summary().await.unwrap();
    assert_eq!(summary.broker, "core");
    // Not killed: what it had read and not passed on would be gone, and nobody can know.
    stack.broker().terminate().await.unwrap();
    stack.broker().set_jetstream(true);
    stack.broker().restart().await.unwrap();
    let kept = |summary: &Summary| summary.broker == "jetstream";
    summary_when(stack.api(), "the aggregator reads streams", kept).await.unwrap();
    recovers_and_is_exact(stack).await;
}

#[tokio::test]
async fn a_full_stream_is_told_of_and_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(StackOptions::new(dir.path())).await;
    let mut operator = Operator::connect(&stack.broker().url()).unwrap();
    let room = operator.bytes(NORMAL).unwrap() + 2_000;
    operator.bound(NORMAL, room, "new").unwrap();
    poll_held(&stack, None, 12.0).await;
    for station in stack.stations() {
        let words = ["broker did not take a message", "maximum bytes exceeded"];
        poll_said(&station.name, || station.node_log(), &words).await;
        poll_open(&station.api).await;
        let refused = "plimsoll_agent_lost_samples_total{reason=\"refused\"}";
        assert_eq!(station.api.metric(refused).await.unwrap().unwrap_or(0.0), 0.0);
    }
    operator.bound(NORMAL, 1 << 30, "old").unwrap();
    recovers_and_is_exact(stack).await;
}

/// Anonymous clients are this user, who may do all but publish as the second node.
const DENYING: &str = "authorization: { users: [ { user: mesh, password: x, permissions: {
    publish: { deny: \"plimsoll.v1.local.*.node-2.>\" } } } ] }
no_auth_user: mesh
";
const ALLOWING: &str = "authorization: { users: [ { user: mesh, password: x } ] }
no_auth_user: mesh
";

#[tokio::test]
async fn a_refused_permission_is_told_of_and_what_it_concerns_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let broker_settings = ALLOWING.to_owned();
    let mut stack =
        started(StackOptions { broker_settings, ..StackOptions::new(dir.path()) }).await;
    stack.broker().reload(DENYING).unwrap();
    poll_held(&stack, Some(1), 12.0).await;
    let denied = ["broker denies", "Permissions Violation", "plimsoll.v1.local.normal.node-2."];
    let log = || stack.stations()[1].node_log();
    poll_said("the node tells of it", log, &denied).await;
    poll_open(&stack.stations()[1].api).await;
    assert!(!stack.stations()[0].node_log().contains("broker denies"), "it concerns node-2 alone");
    stack.broker().reload(ALLOWING).unwrap();
    recovers_and_is_exact(stack).await;
}

/// The same user, whose nodes may not hear what is stored.
const DEAFENING: &str = "authorization: { users: [ { user: mesh, password: x, permissions: {
    subscribe: { deny: \"plimsoll.v1.local.confirm.>\" } } } ] }
no_auth_user: mesh
";

#[tokio::test]
async fn nodes_that_may_not_hear_confirmations_say_so_and_deliver_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let broker_settings = DEAFENING.to_owned();
    let stack = started(StackOptions { broker_settings, ..StackOptions::new(dir.path()) }).await;
    for station in stack.stations() {
        let words = ["broker denies", "Subscription", "plimsoll.v1.local.confirm."];
        poll_said(&station.name, || station.node_log(), &words).await;
    }
    recovers_and_is_exact(stack).await;
}

#[tokio::test]
async fn streams_switched_off_for_a_while_are_told_of_and_cost_no_sample() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(StackOptions::new(dir.path())).await;
    stack.broker().set_jetstream(false);
    stack.broker().reload("").unwrap();
    poll_held(&stack, None, 12.0).await;
    for station in stack.stations() {
        let words = ["broker did not take a message", "no stream keeps this subject"];
        poll_said(&station.name, || station.node_log(), &words).await;
        poll_open(&station.api).await;
    }
    let aggregator = ["streams not checked", "jetstream did not answer"];
    poll_said("the aggregator", || stack.aggregator_log(), &aggregator).await;
    stack.broker().set_jetstream(true);
    stack.broker().reload("").unwrap();
    recovers_and_is_exact(stack).await;
}
