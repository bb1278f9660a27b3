//! Delivery of alerts: through a real Alertmanager that is killed, once from a pair of aggregators,
//! and despite failing receivers.

mod bad;
mod deaths;
mod ends;
mod mail;
mod pair;
mod silent_nodes;

use std::time::Duration;

use anyhow::Result;
use plimsoll_mesh::child::until;
use plimsoll_tests::statsd::StatsdSender;
use plimsoll_tests::webhook::WebhookReceiver;
use serde_json::Value;

/// The rule that the tests fire.
const RULE: &str = "epoch_hook";
const WAIT: Duration = Duration::from_secs(40);
/// Evaluates a short window, and disables a budget that a busy machine might breach.
const BUDGETS: &str = "
[[budget]]
name = 'epoch_hook'
window = '10s'
fire_after = 1
clear_after = 1
[[budget]]
name = 'publish'
enabled = false
";

/// Sends 120 samples of this latency.
fn hooks(sender: &StatsdSender, ms: u32) -> Result<()> {
    let values = format!(":{ms}").repeat(60);
    (0..2).try_for_each(|_| sender.send(format!("epoch_hook{values}|ms")))
}

/// Sends samples of this latency until `attempt` returns a value.
async fn fed_until<T>(
    sender: &StatsdSender,
    ms: u32,
    what: &str,
    attempt: impl AsyncFn() -> Option<T>,
) -> Result<T> {
    until(what, WAIT, async || {
        hooks(sender, ms).ok()?;
        attempt().await
    })
    .await
}

/// Notifications from Alertmanager with this status and scope.
fn notifications(webhook: &WebhookReceiver, status: &str, scope: &str) -> Vec<Value> {
    let bodies = webhook.bodies().into_iter();
    let fits = |body: &Value| {
        body["status"] == status
            && body["groupLabels"]["alertname"] == RULE
            && body["groupLabels"]["scope"] == scope
    };
    bodies.filter(fits).collect()
}
