//! `plimsoll up` as an operator runs it. It ends after a time or on Ctrl-C, accounts for every
//! sample, and leaves no process behind.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use plimsoll_mesh::child::{free_port, until};
use plimsoll_runtime::client::Api;
use plimsoll_tests::process::{await_summary, fleet_samples};
use plimsoll_tests::program::run;
use plimsoll_tests::program::{
    ProgramOutput, RunningProgram, ScratchDir, await_no_processes, processes_naming, program,
};
use serde_json::Value;

const WAIT: Duration = Duration::from_secs(60);
const OPERATIONS: [&str; 3] = ["epoch_hook", "kernel_fetch", "publish"];

fn up(dir: &Path, http: &str) -> Command {
    let mut command = program("plimsoll").unwrap();
    command.args(["up", "--json", "--http", http, "--dir"]).arg(dir);
    command
}

fn report(outcome: &ProgramOutput) -> Value {
    let report = serde_json::from_str(&outcome.stdout);
    report.unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

#[tokio::test]
async fn up_for_some_seconds_reports_every_budget_of_fleet_and_nodes() {
    let scratch = ScratchDir::new().unwrap();
    let http = format!("127.0.0.1:{}", free_port().unwrap());
    let mut command = up(&scratch.path(), &http);
    command.args(["--seconds", "8"]);
    let outcome = run(command, WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let report = report(&outcome);
    assert_eq!(report["accounted"], true, "{report}");
    assert!(report["seconds"].as_f64().unwrap() >= 8.0);
    assert_eq!(report["ledger"]["held"], 0);
    assert_eq!(report["ledger"]["unaccounted"], 0);
    assert_eq!(report["ledger"]["recorded"], report["ledger"]["merged"]);
    let nodes = ["node-1", "node-2", "node-3"];
    assert_eq!(report["nodes"].as_object().unwrap().keys().collect::<Vec<_>>(), nodes);
    for name in OPERATIONS {
        let figures_of = |operations: &Value| {
            let figures = &operations[name];
            let [count, p50, p99] =
                ["count", "p50_ns", "p99_ns"].map(|key| figures[key].as_u64().unwrap());
            assert!(count > 0 && 0 < p50 && p50 <= p99, "{name}: {figures}");
            count
        };
        let of_nodes = nodes.map(|node| figures_of(&report["nodes"][node]["operations"]));
        assert_eq!(figures_of(&report["fleet"]), of_nodes.iter().sum::<u64>(), "{name}");
    }
    for node in nodes {
        assert_eq!(report["nodes"][node]["elsewhere"], 0, "{report}");
    }
    await_no_processes(&scratch.path()).await.unwrap();
}

#[tokio::test]
async fn up_with_a_cluster_stores_each_stream_on_three_servers() {
    let scratch = ScratchDir::new().unwrap();
    let http = format!("127.0.0.1:{}", free_port().unwrap());
    let mut command = up(&scratch.path(), &http);
    command.args(["--cluster", "3", "--nodes", "2"]);
    let running = RunningProgram::start(command).unwrap();
    let enough = |summary: &_| fleet_samples(summary, "epoch_hook") >= 60;
    let api = Api::at(&http).unwrap();
    until("60 hooks are merged", WAIT, async || api.summary().await.ok().filter(enough))
        .await
        .unwrap();
    let stores = |number| {
        let store = scratch.path().join(format!("server-{number}/streams/jetstream"));
        store.join("$G/streams/PLIMSOLL_local_normal").is_dir()
    };
    assert_eq!([1, 2, 3].map(stores), [true; 3]);
    running.signal(Signal::SIGINT);
    let outcome = running.end(WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(report(&outcome)["accounted"], true, "{outcome:?}");
    assert!(outcome.stderr.contains("starting a cluster of 3 brokers"), "{outcome:?}");
    await_no_processes(&scratch.path()).await.unwrap();
    let mut command = up(&scratch.path(), &http);
    command.args(["--cluster", "2"]);
    let refused = run(command, WAIT).await.unwrap();
    assert!(refused.stderr.contains("a cluster has 3 or 5 servers"), "{refused:?}");
}

/// Runs the line that `up` printed to send a sample.
async fn send_as_printed(running: &RunningProgram, operation: &str) {
    let printed = running.stderr().unwrap();
    let line = printed.lines().find_map(|line| line.strip_prefix("a sample, in bash: "));
    let line = line.unwrap_or_else(|| panic!("{printed}")).replace("my_operation", operation);
    let mut bash = Command::new("bash");
    bash.args(["-c", &line]);
    assert_eq!(run(bash, WAIT).await.unwrap().code, Some(0), "{line}");
}

#[tokio::test]
async fn ctrl_c_drains_and_accounts_for_everything() {
    let scratch = ScratchDir::new().unwrap();
    let http = format!("127.0.0.1:{}", free_port().unwrap());
    let running = RunningProgram::start(up(&scratch.path(), &http)).unwrap();
    let enough = |summary: &_| fleet_samples(summary, "epoch_hook") >= 60;
    let api = Api::at(&http).unwrap();
    await_summary(&api, "60 hooks are merged", enough).await.unwrap();
    send_as_printed(&running, "my_operation").await;
    send_as_printed(&running, "epoch_hook").await;
    let sent = |summary: &_| fleet_samples(summary, "my_operation") == 1;
    await_summary(&api, "the sample of the printed line", sent).await.unwrap();
    assert!(processes_naming(&scratch.path()).len() >= 8, "broker, aggregator, nodes, jobs");
    running.signal(Signal::SIGINT);
    let outcome = running.end(WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let report = report(&outcome);
    assert_eq!(report["accounted"], true, "{outcome:?}");
    let elsewhere = ["node-1", "node-2", "node-3"].map(|node| &report["nodes"][node]["elsewhere"]);
    assert_eq!(elsewhere, [1, 0, 0], "the second printed line: {outcome:?}");
    assert!(outcome.stderr.contains("every sample is accounted for"), "{outcome:?}");
    let token = scratch.path().join("token").display().to_string();
    assert!(outcome.stderr.contains(&format!("--token-file {token}")), "{outcome:?}");
    await_no_processes(&scratch.path()).await.unwrap();
}

#[tokio::test]
async fn a_taken_port_is_named_and_nothing_keeps_running() {
    let scratch = ScratchDir::new().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let http = taken.local_addr().unwrap().to_string();
    let outcome = run(up(&scratch.path(), &http), WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let message = format!("http.address: cannot listen on {http}: Address already in use");
    assert!(outcome.stderr.contains(&message), "{outcome:?}");
    assert_eq!(outcome.stdout, "");
    await_no_processes(&scratch.path()).await.unwrap();
}
