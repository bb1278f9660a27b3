//! The HTTP API answers as its OpenAPI document states, whatever is requested: schemathesis sends
//! what fits the document and what does not, with the token and without it. `plimsoll nodes` lists
//! what the API does.

use std::process::Command;
use std::time::Duration;

use plimsoll_mesh::certificates::write_secret;
use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::{Stack, StackOptions, bin_dir};
use plimsoll_schemas::alert::{AlertState, AlertsPage};
use plimsoll_schemas::summary::{HardwarePage, NodesPage, OperationsPage};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::program::run;
use plimsoll_tests::statsd::StatsdSender;
use serde_json::{from_str, json};

use crate::clients::python;

const TOKEN: &str = "the-token-of-the-test";
const WAIT: Duration = Duration::from_secs(30);
const CHECK_WAIT: Duration = Duration::from_secs(270);
/// A budget and a threshold that are violated, so that alerts with evidence are on the pages.
const RULES: &str = r#"
[[budget]]
name = "epoch_hook"
limit = "1us"
[[rule]]
name = "has_memory"
metric = "sensor:memory_total_bytes"
greater = 1
for = 1
clear_for = 1
severity = "info"
summary = "It has memory."
"#;

/// One node with jobs, a run, an event, alerts of both kinds, readings, and a history.
async fn start(dir: &std::path::Path) -> Stack {
    let token_file = dir.join("token");
    write_secret(&token_file, TOKEN).unwrap();
    let token_file = token_file.display().to_string();
    let aggregator_settings = format!("[http]\ntoken_file = {token_file:?}\n{RULES}");
    let options = StackOptions { nodes: 1, aggregator_settings, ..with_jobs(dir) };
    let stack = Stack::start(options).await.unwrap();
    let api = stack.api().clone().with_token(Some(TOKEN.to_owned()));
    api.request("POST", "/api/v1/runs", Some(&json!({"name": "v42"}))).await.unwrap();
    let sender = StatsdSender::unix(&stack.stations()[0].socket).unwrap();
    sender.send("_e{5,4}:title|text|t:warning|#run:v42").unwrap();
    sender.send("epoch_hook:5|ms|#run:v42").unwrap();
    let all = async || {
        let alerts: AlertsPage = from_str(&stack.api().get("/api/v1/alerts").await.ok()?).ok()?;
        let firing = alerts.alerts.iter().filter(|alert| alert.state == AlertState::Firing);
        let events = stack.api().get("/api/v1/events").await.ok()?;
        let past = stack.api().get("/api/v1/operations").await.ok()?;
        let past: OperationsPage = from_str(&past).ok()?;
        let of_node = firing.filter(|alert| !alert.key.scope.node().is_empty()).count();
        let has_past = past.operations.iter().any(|operation| operation == "epoch_hook");
        (of_node >= 2 && events.contains("title") && has_past).then_some(())
    };
    until("alerts, an event and a history", WAIT, all).await.unwrap();
    stack
}

/// Runs schemathesis with a token or without.
async fn check(token: Option<&str>) {
    let dir = tempfile::tempdir().unwrap();
    let stack = start(dir.path()).await;
    let mut command = python("python/openapi.py");
    command.arg(stack.api().url()).env_remove("PLIMSOLL_TOKEN");
    command.envs(token.map(|token| ("PLIMSOLL_TOKEN", token)));
    let checked = run(command, CHECK_WAIT).await.unwrap();
    assert_eq!(checked.code, Some(0), "{}\n{}", checked.stdout, checked.stderr);
    stack.end().await.unwrap();
}

#[tokio::test]
async fn the_api_answers_as_its_document_states() {
    check(Some(TOKEN)).await;
}

#[tokio::test]
async fn without_a_token_the_api_answers_as_its_document_states() {
    check(None).await;
}

#[tokio::test]
async fn the_command_lists_the_nodes_and_the_api_their_readings() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = with_jobs(dir.path());
    options.workload = None;
    let stack = Stack::start(options).await.unwrap();
    let names: Vec<_> = stack.stations().iter().map(|station| station.name.clone()).collect();
    let read = async || {
        let page: HardwarePage =
            from_str(&stack.api().get("/api/v1/hardware?sensor=load1").await.ok()?).ok()?;
        let loads = page.nodes.iter().filter(|node| node.readings.len() == 1).count();
        (loads == names.len()).then_some(())
    };
    until("every node has read its load", WAIT, read).await.unwrap();
    let plimsoll = |arguments: &[&str]| {
        let mut command = Command::new(bin_dir().unwrap().join("plimsoll"));
        command.arg("nodes").args(arguments).args(["--url", stack.api().url()]);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = plimsoll(&[]);
    let rows = text.lines().skip(1).map(|row| row.split_whitespace().take(2).collect());
    let rows: Vec<Vec<&str>> = rows.collect();
    let expected: Vec<_> = names.iter().map(|name| vec![name.as_str(), "up"]).collect();
    assert_eq!((code, rows), (Some(0), expected), "{text}");
    let (_, text) = plimsoll(&["--node", &names[1], "--json"]);
    let page: NodesPage = from_str(&text).unwrap();
    let rows: Vec<_> = page.nodes.iter().map(|node| &node.row).collect();
    assert_eq!((rows.len(), &rows[0].node), (1, &names[1]));
    assert_eq!(rows[0].version, env!("CARGO_PKG_VERSION"));
    let (code, text) = plimsoll(&["--node", "absent"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("404 Not Found: node \"absent\" is unknown"), "{text}");
    stack.end().await.unwrap();
}
