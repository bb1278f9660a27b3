//! The packages `datadog` and `statsd` as PyPI has them, and our own.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use plimsoll_schemas::summary::{BudgetRow, Summary, Verdict};
use plimsoll_tests::capability::{semaphore_refusal, skip};
use plimsoll_tests::metrics_page::await_value;
use plimsoll_tests::oracle::RawSamples;
use plimsoll_tests::process::{await_summary, fleet_samples, node_row, operation_row};
use plimsoll_tests::program::{run, run_with_input};
use plimsoll_tests::rng::SeededRng;
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use serde_json::{Value, json};

pub(super) const WAIT: Duration = Duration::from_secs(60);
/// How old a sample may be that a killed worker loses, on average over workers: three times what
/// the README has for the oldest, since this machine may be busy.
const LAST_MOMENTS_MS: &str = "150";
/// Few enough for the buffer of a UDP socket.
const VALUES: usize = 3_000;
/// Rest of workers before they are killed: twenty times what lies between two flushes.
const REST_S: &str = "1";

/// One of `tests/python/clients`, in the environment that `deploy/test` makes.
pub(super) fn script(name: &str) -> Command {
    python(&format!("python/clients/{name}"))
}

/// A program in Python, by its path from here.
pub(crate) fn python(path: &str) -> Command {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let mut command = Command::new(here.join(".venv/bin/python"));
    command.arg(here.join(path));
    command.env("PYTHONPATH", here.join("../node/client-python"));
    command
}

/// Runs workers that count their calls of 10 ms themselves: calls recorded, and those of each
/// worker's last moments before its end.
async fn run_workers(mesh: &SingleNodeMesh, start: &str, ending: &str, calls: &str) -> (u64, u64) {
    let mut command = python("../node/client-python/bench/killed_workers.py");
    command.env("PLIMSOLL_SOCKET", mesh.node.socket());
    command.args(["--json", "--start", start, "--ending", ending]);
    command.args(["--calls", calls, "--rest-s", REST_S, "--recent-ms", LAST_MOMENTS_MS]);
    let outcome = run(command, WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let number = |name: &str| printed["rows"][0][name].as_u64().unwrap();
    assert!(number("recorded") >= number("workers") * number("calls"), "{printed}");
    (number("recorded"), number("recent"))
}

/// From a microsecond to a quarter of a second, each to the nanosecond.
fn values_ns(seed: u64) -> Vec<u64> {
    let mut rng = SeededRng::new(seed);
    (0..VALUES).map(|_| 1_000 + rng.next_u64() % 250_000_000).collect()
}

async fn feed(command: Command, task: &Value) {
    let outcome = run_with_input(command, &task.to_string(), WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{}\n(deploy/test installs the packages)", outcome.stderr);
}

/// The aggregator has exactly these values, and these numbers of the node.
async fn arrived(
    mut mesh: SingleNodeMesh,
    operation: &str,
    values: &[u64],
    numbers: &[(&str, f64)],
) {
    for (series, value) in numbers {
        await_value(mesh.stack.api(), series, *value).await.unwrap();
    }
    let summary = mesh.drain_node().await.unwrap();
    for scope in [NODE, ""] {
        RawSamples::sent(operation, values).check(&summary, scope).unwrap();
    }
    let ledger = &node_row(&summary, NODE).unwrap().ledger;
    assert!(ledger.lost.is_empty(), "{ledger:?}");
    mesh.stack.end().await.unwrap();
}

#[tokio::test]
async fn the_datadog_package_over_udp_and_unix_loses_nothing() {
    for unix in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
        let values = values_ns(1);
        let socket = if unix { mesh.node.socket().to_str().unwrap() } else { "" };
        let port = mesh.node.udp().unwrap().port();
        let task = json!({
            "socket": socket, "port": port, "operation": "datadog_op", "values_ns": values,
        });
        feed(script("datadog_client.py"), &task).await;
        let numbers = [
            ("plimsoll_job_count_datadog_count_total{node=\"fed\",zone=\"x\"}", 2.0),
            ("plimsoll_job_value_datadog_gauge{node=\"fed\"}", -2.5),
            (
                "plimsoll_node_events_total{node=\"fed\",source=\"event\",alert_type=\"warning\"}",
                1.0,
            ),
            ("plimsoll_service_check_status{node=\"fed\",check=\"disk\",status=\"critical\"}", 1.0),
        ];
        arrived(mesh, "datadog_op", &values, &numbers).await;
    }
}

/// Calls of a function of 30 ms, enough for a verdict.
const TIMED_CALLS: u64 = 120;
const SUSPECT: &str = "plimsoll_agent_suspect_unit_info{operation=\"epoch_hook\"}";

/// What the aggregator merged of `epoch_hook` after [`TIMED_CALLS`] calls by `timed` of the datadog
/// package at a node with these flags, its verdict, and whether the node suspects the unit.
async fn timed_calls(flags: &[&str], use_ms: Option<bool>) -> (f64, Verdict, bool) {
    let dir = tempfile::tempdir().unwrap();
    let mesh = SingleNodeMesh::start_node_with(dir.path(), flags).await.unwrap();
    let task = json!({
        "socket": mesh.node.socket(), "operation": "epoch_hook", "calls": TIMED_CALLS,
        "use_ms": use_ms,
    });
    feed(script("datadog_timed.py"), &task).await;
    let judged = |summary: &Summary| {
        let is_judged = |row: &BudgetRow| row.samples == TIMED_CALLS;
        hook(summary).is_some_and(is_judged)
    };
    let summary = await_summary(mesh.stack.api(), "all calls are judged", judged).await.unwrap();
    let verdict = hook(&summary).unwrap().verdict;
    let total = &operation_row(&summary, "", "epoch_hook").unwrap().total;
    let is_suspect = mesh.node.api.metric(SUSPECT).await.unwrap();
    let suspects = node_row(&summary, NODE).unwrap().suspect_units;
    assert_eq!(suspects, u64::from(is_suspect.is_some()), "the node's page and its report");
    let warned = mesh.node.log().matches("epoch_hook looks like seconds").count();
    assert_eq!(warned, usize::from(is_suspect.is_some()), "{}", mesh.node.log());
    let p50 = Duration::from_nanos(total.p50_ns.unwrap()).as_secs_f64();
    mesh.stack.end().await.unwrap();
    (p50, verdict, is_suspect.is_some())
}

/// The fleet's row of the budget for hooks.
fn hook(summary: &Summary) -> Option<&BudgetRow> {
    summary.budgets.iter().find(|row| row.budget == "epoch_hook" && row.scope.node().is_empty())
}

#[tokio::test]
async fn timers_in_seconds_are_reported_and_a_pattern_makes_their_budget_breach() {
    // A call takes 30 ms or more, on a busy machine much more, but never a thousand times as much.
    let (p50, verdict, is_suspect) = timed_calls(&[], None).await;
    assert!((30e-6..30e-3).contains(&p50), "a thousandth of 30 ms: {p50}");
    assert_eq!((verdict, is_suspect), (Verdict::Within, true));

    let pattern = ["--set", "units.patterns=[\"epoch_*=s\"]"];
    let (p50, verdict, is_suspect) = timed_calls(&pattern, None).await;
    assert!((30e-3..30.0).contains(&p50), "30 ms: {p50}");
    assert_eq!((verdict, is_suspect), (Verdict::Breach, false));

    let (p50, verdict, is_suspect) = timed_calls(&[], Some(true)).await;
    assert!((30e-3..30.0).contains(&p50), "30 ms: {p50}");
    assert_eq!((verdict, is_suspect), (Verdict::Breach, false));
}

#[tokio::test]
async fn the_statsd_package_over_udp_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let values = values_ns(2);
    let port = mesh.node.udp().unwrap().port();
    let task = json!({ "port": port, "operation": "statsd_op", "values_ns": values });
    feed(script("statsd_client.py"), &task).await;
    let numbers = [
        ("plimsoll_job_count_statsd_count_total{node=\"fed\"}", 3.0),
        ("plimsoll_job_value_statsd_gauge{node=\"fed\"}", 4.5),
    ];
    arrived(mesh, "statsd_op", &values, &numbers).await;
}

#[tokio::test]
async fn our_python_package_loses_nothing_over_fork_thread_and_exit() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let values = values_ns(3);
    let mut command = script("plimsoll_client.py");
    command.env("PLIMSOLL_SOCKET", mesh.node.socket());
    let task = json!({ "operation": "plimsoll_op", "values_ns": values });
    feed(command, &task).await;
    let numbers = [
        ("plimsoll_job_count_plimsoll_count_total{node=\"fed\",zone=\"x\"}", 7.0),
        ("plimsoll_job_value_plimsoll_gauge{node=\"fed\"}", 1.25),
    ];
    arrived(mesh, "plimsoll_op", &values, &numbers).await;
}

#[tokio::test]
async fn workers_that_rest_before_they_are_killed_lose_nothing() {
    if let Some(refusal) = semaphore_refusal() {
        return skip(&refusal);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let mut recorded = 0;
    for start in ["fork", "forkserver", "spawn"] {
        recorded += run_workers(&mesh, start, "rest", "25").await.0;
    }
    let summary = mesh.drain_node().await.unwrap();
    assert_eq!(fleet_samples(&summary, "killed_worker"), recorded);
    assert!(node_row(&summary, NODE).unwrap().ledger.lost.is_empty());
    mesh.stack.end().await.unwrap();
}

#[tokio::test]
async fn workers_that_are_killed_while_they_record_lose_their_last_moments_at_most() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let (mut recorded, mut recent) = (0, 0);
    for ending in ["sigterm", "sigkill", "exit"] {
        // Half a second between flushes would put the last one far before the end.
        let counted = run_workers(&mesh, "fork", ending, "80").await;
        (recorded, recent) = (recorded + counted.0, recent + counted.1);
    }
    let summary = mesh.drain_node().await.unwrap();
    let arrived = fleet_samples(&summary, "killed_worker");
    assert!(arrived <= recorded, "{arrived} of {recorded}");
    assert!(arrived + recent >= recorded, "{arrived} of {recorded}, {recent} of them recent");
    assert!(node_row(&summary, NODE).unwrap().ledger.lost.is_empty());
    mesh.stack.end().await.unwrap();
}
