//! Silences and acknowledgements by the operator's command, as the README shows it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use plimsoll_mesh::certificates::write_secret;
use plimsoll_mesh::child::until;
use plimsoll_tests::program::{ProgramOutput, program, run};
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use plimsoll_tests::statsd::StatsdSender;
use plimsoll_tests::webhook::WebhookReceiver;
use serde_json::Value;

use super::line;

const WAIT: Duration = Duration::from_secs(40);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// An operator with a token and the address of an aggregator.
struct OperatorCommand<'a> {
    url: &'a str,
    token_file: &'a Path,
}

impl OperatorCommand<'_> {
    async fn runs(&self, words: &str) -> Result<ProgramOutput> {
        let mut command = program("plimsoll")?;
        command.args(words.split(' ')).args(["--url", self.url]).arg("--token-file");
        command.arg(self.token_file).env_remove("PLIMSOLL_TOKEN");
        run(command, WAIT).await
    }

    /// Its standard output; an error if it fails.
    async fn output(&self, words: &str) -> Result<String> {
        let outcome = self.runs(words).await?;
        ensure!(outcome.code == Some(0), "{words}: {outcome:?}");
        Ok(outcome.stdout)
    }

    async fn alert(&self, rule: &str, node: &str) -> Result<Value> {
        let words = format!("alerts --state firing --rule {rule} --node {node} --json");
        let page: Value = serde_json::from_str(&self.output(&words).await?)?;
        let alert = page["alerts"].get(0).cloned();
        alert.with_context(|| format!("{rule} does not fire: {page}"))
    }
}

/// The scopes of the notifications about a rule in this state.
fn notified(webhook: &WebhookReceiver, rule: &str, state: &str) -> Vec<String> {
    let bodies = webhook.bodies().into_iter().map(|body| body["notification"].clone());
    let of = bodies
        .filter(|notification| notification["rule"] == rule && notification["state"] == state);
    let mut scopes: Vec<_> = of.map(|notification| notification["scope"].to_string()).collect();
    scopes.sort();
    scopes
}

fn settings(webhook: &WebhookReceiver, token_file: &Path) -> String {
    let budget = |name: &str| {
        format!("[[budget]]\nname = '{name}'\nwindow = '10s'\nfire_after = 1\nclear_after = 1\n")
    };
    format!(
        "[http]\ntoken_file = {:?}\n[[webhook]]\nname = 'chat'\nurl = '{}'\n{}{}",
        token_file.display().to_string(),
        webhook.url(),
        budget("epoch_hook"),
        budget("kernel_fetch"),
    )
}

#[tokio::test]
async fn a_silence_suppresses_a_notification_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let webhook = WebhookReceiver::accepting().await.unwrap();
    let token_file = dir.path().join("token");
    write_secret(&token_file, TOKEN).unwrap();
    let mesh =
        SingleNodeMesh::start_with(dir.path(), settings(&webhook, &token_file)).await.unwrap();
    let url = mesh.stack.api().url().to_owned();
    let operator = OperatorCommand { url: &url, token_file: &token_file };
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    let fed_until = async |ms: &str, what: &str, fits: &dyn Fn() -> bool| {
        until(what, WAIT, async || {
            sender.send(line("epoch_hook", ms, 150)).ok()?;
            sender.send(line("kernel_fetch", ms, 150)).ok()?;
            fits().then_some(())
        })
        .await
    };
    let both = ["\"fleet\"".to_owned(), format!("{{\"node\":\"{NODE}\"}}")];

    let wrong_file = dir.path().join("wrong");
    write_secret(&wrong_file, "another token of thirty letters").unwrap();
    let stranger = OperatorCommand { url: &url, token_file: &wrong_file };
    let refused = stranger.runs("silence --rule epoch_* --for 1h --by eve").await.unwrap();
    assert_ne!(refused.code, Some(0), "{refused:?}");

    let begun = operator.output("silence --rule epoch_* --for 1h --by ann --comment disks").await;
    assert!(begun.unwrap().starts_with("silence 1 at "));
    // The alert that is not silenced is notified after the one that would have been notified first.
    let marked = || notified(&webhook, "kernel_fetch", "firing") == both;
    fed_until("30", "the other alert is notified", &marked).await.unwrap();
    let alert = operator.alert("epoch_hook", NODE).await.unwrap();
    assert_eq!(alert["silenced_by"], serde_json::json!([1]), "{alert}");
    assert_eq!(alert["context"]["worst"][0]["node"], NODE, "{alert}");
    assert_eq!(notified(&webhook, "epoch_hook", "firing"), [""; 0]);
    let list = operator.output("silence --list").await.unwrap();
    assert!(list.contains("epoch_*") && list.contains("by ann: disks"), "{list}");

    operator.output("silence --end 1").await.unwrap();
    let again = || notified(&webhook, "epoch_hook", "firing") == both;
    fed_until("30", "it is notified after the silence", &again).await.unwrap();

    let words = format!("acknowledge --rule epoch_hook --node {NODE} --for 4h --by bob");
    let answer = operator.output(&words).await.unwrap();
    assert!(answer.starts_with("acknowledged at "), "{answer}");
    let alert = operator.alert("epoch_hook", NODE).await.unwrap();
    assert_eq!(alert["acknowledged"]["by"], "bob", "{alert}");
    let lines = operator.output("alerts --state firing").await.unwrap();
    assert!(lines.contains("[acknowledged by bob]"), "{lines}");

    let over = || notified(&webhook, "epoch_hook", "resolved") == both;
    fed_until("1", "the end is notified", &over).await.unwrap();
    assert_eq!(notified(&webhook, "epoch_hook", "firing"), both, "each once");
    assert_eq!(notified(&webhook, "kernel_fetch", "firing"), both, "each once");
    mesh.stack.end().await.unwrap();
}
