//! A broker that runs and misbehaves: a stream that vanishes or is full, and a missing permission.
//! Each fault is logged, loses no sample that the node can hold, and ends with its
//! cause.

use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_mesh::jetstream::JetStreamAdmin;
use plimsoll_mesh::stack::{Stack, StackOptions, Station};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::summary::{LedgerPage, Summary};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::oracle::check_drained;
use plimsoll_tests::process::{await_held, await_summary, fleet_samples};

const WAIT: Duration = Duration::from_secs(40);
const NORMAL: &str = "PLIMSOLL_local_normal";
/// A node retries soon after the cause has ended.
const QUICK_BREAKER: &str = "[breaker]\nopen_seconds = 1\n";
const DEPTH: &str = "plimsoll_agent_outbox_depth";

/// What the aggregator and every node have logged.
fn logs(stack: &Stack) -> String {
    let nodes = stack.stations().iter().map(Station::node_log);
    std::iter::once(stack.aggregator().log()).chain(nodes).collect::<Vec<_>>().join("\n")
}

async fn started(options: StackOptions) -> Stack {
    let node_settings = QUICK_BREAKER.to_owned();
    let stack = Stack::start(StackOptions { node_settings, ..options }).await.unwrap();
    hooks_after(&stack, 0).await;
    stack
}

/// Waits until the fleet has sixty more hooks than `had`.
async fn hooks_after(stack: &Stack, had: u64) -> Summary {
    let grown = |summary: &Summary| fleet_samples(summary, "epoch_hook") >= had + 60;
    let grown = await_summary(stack.api(), "sixty more hooks are merged", grown).await;
    grown.unwrap_or_else(|error| panic!("{error:#}\n{}", logs(stack)))
}

async fn await_logged(what: &str, log: impl Fn() -> String, words: &[&str]) {
    let logged = until(what, WAIT, async || {
        let log = log();
        log.lines().any(|line| words.iter().all(|word| line.contains(word))).then_some(())
    });
    logged.await.unwrap_or_else(|error| panic!("{error:#}: {words:?} not in {}", log()));
}

/// Waits until sending has stopped and the messages that failed are counted.
async fn poll_open(api: &Api) {
    let open = until("the breaker opens", WAIT, async || {
        let page = MetricsPage::of(api).await.ok()?;
        let retried = page.value("plimsoll_agent_messages_total{outcome=\"retried\"}")?;
        let open = page.value("plimsoll_agent_breaker_state{state=\"open\"}")?;
        (open == 1.0 && retried > 0.0).then_some(())
    });
    open.await.unwrap();
}

/// Waits until every message that was lost on the way has been sent again. A node that leaves waits
/// for a confirmation for three seconds, in which a disk beside other tests may store none.
async fn poll_complete(stack: &Stack) {
    let complete = until("no message is missing", WAIT, async || {
        let page = stack.api().get("/api/v1/ledger").await.ok()?;
        let page: LedgerPage = serde_json::from_str(&page).ok()?;
        let mut runs = page.nodes.iter().flat_map(|node| &node.runs);
        runs.all(|run| run.missing_seqs == 0).then_some(())
    });
    complete.await.unwrap_or_else(|error| panic!("{error:#}\n{}", logs(stack)));
}

async fn recovers_and_is_exact(mut stack: Stack) {
    let summary = stack.api().summary().await.unwrap();
    hooks_after(&stack, fleet_samples(&summary, "epoch_hook")).await;
    for station in stack.stations() {
        let what = format!("{} holds next to nothing", station.name);
        let empty = until(&what, WAIT, async || {
            station.api.metric(DEPTH).await.ok().flatten().filter(|depth| *depth <= 4.0)
        });
        empty.await.unwrap();
    }
    poll_complete(&stack).await;
    let drained = stack.drain().await.unwrap();
    let drained = check_drained(&drained, stack.stations());
    drained.unwrap_or_else(|error| panic!("{error:#}\n{}", logs(&stack)));
    stack.end().await.unwrap();
}

#[tokio::test]
async fn a_stream_recreated_by_an_operator_is_noticed_and_costs_no_sample() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(with_jobs(dir.path())).await;
    JetStreamAdmin::connect(&stack.broker().url()).unwrap().recreate(NORMAL).unwrap();
    await_logged("the aggregator logs it", || stack.aggregator().log(), &["stream was recreated"])
        .await;
    recovers_and_is_exact(stack).await;
}

#[tokio::test]
async fn a_full_stream_is_logged_and_costs_no_sample() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(with_jobs(dir.path())).await;
    let mut admin = JetStreamAdmin::connect(&stack.broker().url()).unwrap();
    let room = admin.bytes(NORMAL).unwrap() + 200;
    admin.set_limit(NORMAL, room, "new").unwrap();
    await_held(stack.stations(), 12.0).await.unwrap();
    for station in stack.stations() {
        let words = ["broker rejected a message", "maximum bytes exceeded"];
        await_logged(&station.name, || station.node_log(), &words).await;
        poll_open(&station.api).await;
        let refused = "plimsoll_agent_lost_samples_total{reason=\"refused\"}";
        assert_eq!(station.api.metric(refused).await.unwrap().unwrap_or(0.0), 0.0);
    }
    let fires = |summary: &Summary| {
        let mut changes = summary.changes.iter();
        changes.any(|of| of.key.rule.as_str() == "stream_full" && of.state == AlertState::Firing)
    };
    await_summary(stack.api(), "the aggregator reports the full stream", fires).await.unwrap();
    admin.set_limit(NORMAL, 1 << 30, "old").unwrap();
    recovers_and_is_exact(stack).await;
}

/// Anonymous clients are this user, whose nodes may not subscribe to confirmations.
const DENYING_CONFIRMATIONS: &str =
    "authorization: { users: [ { user: mesh, password: x, permissions: {
    subscribe: { deny: \"plimsoll.v1.local.confirm.>\" } } } ] }
no_auth_user: mesh
";

#[tokio::test]
async fn nodes_without_permission_for_confirmations_log_it_and_deliver() {
    let dir = tempfile::tempdir().unwrap();
    let broker_settings = DENYING_CONFIRMATIONS.to_owned();
    let stack = started(StackOptions { broker_settings, ..with_jobs(dir.path()) }).await;
    for station in stack.stations() {
        let words = ["broker denies", "Subscription", "plimsoll.v1.local.confirm."];
        await_logged(&station.name, || station.node_log(), &words).await;
    }
    recovers_and_is_exact(stack).await;
}
