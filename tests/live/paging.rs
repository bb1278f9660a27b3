//! What causes no page: a broker's restart.

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_clock::Deadline;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::oracle::check_drained;
use plimsoll_tests::process::{await_summary, fleet_samples};

/// How long the broker is away: a planned restart with a slow disk.
const AWAY: Duration = Duration::from_secs(20);
/// Evaluations after it that show whether a rule fires late.
const WATCHED_FOR: Duration = Duration::from_secs(60);
/// Half of the restart: the messages that waited for the broker would breach the limit of
/// `publish`, those that wait for a busy disk do not. No machine is so busy that jobs breach
/// theirs, which no restart of a broker makes slower.
const LIMITS: &str = r#"
[[budget]]
name = "publish"
limit = "10s"
[[budget]]
name = "epoch_hook"
limit = "60s"
[[budget]]
name = "kernel_fetch"
limit = "60s"
"#;

/// Rules that page someone within this time.
async fn poll_paged(stack: &Stack, span: Duration) -> BTreeSet<String> {
    let (deadline, mut fired) = (Deadline::within(span), BTreeSet::new());
    while !deadline.has_passed() {
        // A summary has what fired before it, so one that is late is made up for by the next.
        fired.extend(stack.api().summary().await.iter().flat_map(paged));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    fired
}

/// Rules of severity warning and above that have fired so far.
fn paged(summary: &Summary) -> BTreeSet<String> {
    let fired = summary.changes.iter().filter(|of| of.state == AlertState::Firing);
    let paging = fired.filter(|of| of.severity >= Severity::Warning);
    paging.map(|of| of.key.rule.to_string()).collect()
}

/// What these rules did, one change a line and no other rule's: a log may be cut.
fn changes_of(summary: &Summary, rules: &[String]) -> String {
    let named = |rule: &str| rules.iter().any(|name| name == rule);
    let changes = summary.changes.iter().filter(|of| named(of.key.rule.as_str()));
    changes.map(|of| format!("{:?} {:?} {:?}\n", of.key, of.state, of.evidence)).collect()
}

#[tokio::test]
async fn a_broker_that_restarts_within_half_a_minute_under_load_pages_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let aggregator_settings = LIMITS.to_owned();
    let options = StackOptions { aggregator_settings, ..with_jobs(dir.path()) };
    let mut stack = Stack::start(options.without_machine_rules()).await.unwrap();
    let hooks = |more: u64| move |summary: &Summary| fleet_samples(summary, "epoch_hook") >= more;
    let before = await_summary(stack.api(), "the mesh works", hooks(100)).await.unwrap();
    stack.broker().terminate().await.unwrap();
    let mut fired = poll_paged(&stack, AWAY).await;
    stack.broker().restart().await.unwrap();
    let more = fleet_samples(&before, "epoch_hook") + 200;
    await_summary(stack.api(), "the mesh works again", hooks(more)).await.unwrap();
    fired.extend(poll_paged(&stack, WATCHED_FOR).await);
    let new: Vec<_> = fired.difference(&paged(&before)).cloned().collect();
    let summary = stack.api().summary().await.unwrap();
    assert_eq!(new, [""; 0], "{}", changes_of(&summary, &new));
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
    stack.end().await.unwrap();
}
