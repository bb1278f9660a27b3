//! A rule `regression:<operation>` beside a baseline that `plimsoll compare` saved: the alert fires
//! when the job gets slower, and ends when it is as fast as before. Ten minutes of a node are
//! published at once, so that nothing waits for them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use plimsoll_clock::Clock;
use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::{Stack, StackOptions, bin_dir};
use plimsoll_schemas::alert::{AlertRow, AlertState, AlertsPage};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Operation, Series};
use plimsoll_schemas::wire::{Body, Header, Latency};
use plimsoll_tests::publisher::Publisher;
use plimsoll_tests::rng::SeededRng;
use serde_json::from_str;

use crate::history::query;
use crate::hostile::forgery::{header, message};

/// One comparison a minute, after one that the change of the rules starts.
const WAIT: Duration = Duration::from_secs(90);
const NODE: &str = "trainer";
/// Slots of 10 s that have samples, up to now.
const SLOTS: u64 = 60;
const VALUES: u64 = 200;

/// The job as its node reports it, for ten minutes: each latency this many times, in percent of the
/// usual one.
async fn publish(publisher: &mut Publisher, phase: u64, times: u64, percent: u64) {
    let now = Clock::start().now().wall;
    let mut rng = SeededRng::new(7);
    for slot in 0..SLOTS {
        let mut samples = Histogram::default();
        for byte in rng.bytes(usize::try_from(VALUES).unwrap()) {
            let usual_ns = 10_000_000 + u64::from(byte) * 10_000;
            samples.record_n(usual_ns * percent / 100, times);
        }
        let series = Series::plain(Operation::new("fetch").unwrap());
        let histograms = vec![(series, samples)];
        let seq = phase * SLOTS + slot + 1;
        let start = now.minus(Duration::from_secs(10 * (SLOTS - slot)));
        let header = Header { start, ..header(NODE, 1, seq, seq * VALUES * 1_000_000) };
        let body = Body::Latency(Latency { histograms, ..Latency::default() });
        let subject = format!("plimsoll.v1.local.normal.{NODE}.latency");
        publisher.publish(&subject, message(header, body)).await.unwrap();
    }
}

async fn await_samples(stack: &Stack, count: u64) {
    let stored = async || {
        let page = query(stack, "operation=fetch&last=30m").await;
        (page.points[0].count == count).then_some(())
    };
    // Until its first sample the operation is unknown.
    let known = async || stack.api().get("/api/v1/query?operation=fetch").await.ok();
    until("the operation is in the history", WAIT, known).await.unwrap();
    until("all samples are in the history", WAIT, stored).await.unwrap();
}

/// Saves the last half hour as the baseline, whose change starts a comparison.
fn save(stack: &Stack, dir: &Path) {
    let mut command = Command::new(bin_dir().unwrap().join("plimsoll"));
    command.args(["compare", "--baseline", "save", "usual", "range:now-30m/now"]);
    command.arg("--baseline-dir").arg(dir).args(["--operation", "fetch"]);
    let output = command.args(["--url", stack.api().url()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The same bytes once more, which starts a comparison.
fn touch(path: &Path) {
    let baseline = std::fs::read(path).unwrap();
    std::fs::write(path, [&baseline[..], b"\n"].concat()).unwrap();
}

async fn await_alert(stack: &Stack, state: AlertState) -> AlertRow {
    let found = async || {
        let page: AlertsPage = from_str(&stack.api().get("/api/v1/alerts").await.ok()?).ok()?;
        let mut rows = page.alerts.into_iter();
        rows.find(|row| row.key.rule.as_str() == "fetch_regressed" && row.state == state)
    };
    let what = format!("the regression is {state:?}");
    until(&what, WAIT, found)
        .await
        .unwrap_or_else(|e| panic!("{e:#}\n{}", stack.aggregator().log()))
}

#[tokio::test]
async fn a_slower_job_alerts_beside_its_baseline_until_it_is_as_fast_as_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack =
        Stack::start(StackOptions { nodes: 1, ..StackOptions::new(dir.path()) }).await.unwrap();
    let mut publisher = Publisher::connect(stack.broker().url()).await.unwrap();
    let once = SLOTS * VALUES;
    publish(&mut publisher, 0, 1, 100).await;
    await_samples(&stack, once).await;
    save(&stack, dir.path());
    let baseline = dir.path().join("usual.json");
    let rule = format!(
        "[[rule]]\nname = 'fetch_regressed'\nmetric = 'regression:fetch'\nbaseline = {baseline:?}\n\
         window = '30m'\ngreater = 0.05\nfor = 1\nclear_for = 1\nseverity = 'warning'\n\
         summary = 'fetch is slower'\n"
    );

    publish(&mut publisher, 1, 1_000, 120).await;
    await_samples(&stack, 1_001 * once).await;
    std::fs::write(dir.path().join("aggregator.toml"), rule).unwrap();
    let fired = await_alert(&stack, AlertState::Firing).await;
    let evidence = serde_json::to_value(fired.evidence.unwrap()).unwrap();
    let value = evidence["value"].as_f64().unwrap();
    assert!((0.15..0.25).contains(&value), "{evidence}");
    let text = evidence.to_string();
    for part in ["quantile", "low", "high", "samples"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }

    // One in a thousand is slow, whatever the quantile.
    publish(&mut publisher, 2, 1_000_000, 100).await;
    await_samples(&stack, 1_001_001 * once).await;
    touch(&baseline);
    await_alert(&stack, AlertState::Resolved).await;
    stack.check_alive().unwrap();
}
