//! An aggregator on a real broker, and its files of rules: changed, broken and repaired while it
//! runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use plimsoll_mesh::broker::Broker;
use plimsoll_mesh::child::{Child, until};
use plimsoll_runtime::client::Api;

const WAIT: Duration = Duration::from_secs(60);

struct Aggregator {
    child: Child,
    api: Api,
}

impl Aggregator {
    /// Starts one with a file of rules, and waits until it has read the past.
    async fn start(dir: &Path, broker: &Broker, rules: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll-aggregator"));
        command.args(["--mesh", "m", "--nats", &broker.url(), "--http", "127.0.0.1:0"]);
        command.arg("--rules").arg(rules);
        let child = Child::start("aggregator", dir, command).unwrap();
        let http = until("it logs its address", WAIT, async || {
            let log = child.log();
            let (_, rest) = log.split_once("aggregator started http=")?;
            Some(rest.split_whitespace().next()?.to_owned())
        });
        let api = Api::at(&http.await.unwrap()).unwrap();
        let ready = until("it is ready", WAIT, async || api.is_ready().await.then_some(()));
        ready.await.unwrap();
        Self { child, api }
    }

    /// Waits until a series has a value.
    async fn shows(&self, series: &str, value: f64) {
        let what = format!("{series} is {value}");
        let shown = until(&what, WAIT, async || {
            let found = self.api.metric(series).await.ok()??;
            ((found - value).abs() < 1e-9).then_some(())
        });
        shown.await.unwrap();
    }

    async fn limit(&self, seconds: f64) {
        let of = r#"{budget="publish",operation="publish",window="1m",severity="warning"}"#;
        self.shows(&format!("plimsoll_budget_limit_seconds{of}"), seconds).await;
    }

    async fn rules_error(&self) -> Option<String> {
        self.api.summary().await.unwrap().rules.rules_error
    }
}

fn write(path: &Path, limit: &str) {
    // As an editor does: no reader sees half of it.
    let beside = path.with_extension("new");
    let text = format!("[[budget]]\nname = \"publish\"\nlimit = {limit}\n");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, path).unwrap();
}

#[tokio::test]
async fn rules_are_exchanged_on_a_signal_or_a_change_and_kept_when_their_file_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), true).await.unwrap();
    let rules: PathBuf = dir.path().join("rules.toml");
    write(&rules, "\"7ms\"");
    let aggregator = Aggregator::start(dir.path(), &broker, &rules).await;
    aggregator.limit(0.007).await;
    write(&rules, "\"8ms\"");
    aggregator.child.signal(Signal::SIGHUP);
    aggregator.limit(0.008).await;
    assert_eq!(aggregator.rules_error().await, None);

    write(&rules, "9");
    aggregator.child.signal(Signal::SIGHUP);
    aggregator.shows("plimsoll_rules_invalid", 1.0).await;
    aggregator.limit(0.008).await;
    let why = "line 3, column 1: budget \"publish\": limit: 9 has no unit; write \"9ms\"";
    let why = format!("{}: {why}", rules.display());
    assert_eq!(aggregator.rules_error().await, Some(why));
    let log = aggregator.child.log();
    assert!(log.contains("rule files are invalid; previous rules stay active"), "{log}");
    assert!(log.contains("limit: 9 has no unit"), "{log}");
    let refused = r#"plimsoll_rules_reloads_total{outcome="refused"}"#;
    assert!(aggregator.api.metric(refused).await.unwrap() >= Some(1.0));

    // No reload is requested now.
    write(&rules, "\"9ms\"");
    aggregator.limit(0.009).await;
    aggregator.shows("plimsoll_rules_invalid", 0.0).await;
    assert_eq!(aggregator.rules_error().await, None);
    aggregator.shows(r#"plimsoll_rules_reloads_total{outcome="loaded"}"#, 3.0).await;
    assert_eq!(aggregator.child.log().matches("rules reloaded").count(), 2);
}
