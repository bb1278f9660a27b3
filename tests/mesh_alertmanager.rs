//! Alerts reach people: through a real Alertmanager, which dies in between, from a pair of
//! aggregators as one notification, and past receivers that do not work.

#[path = "mesh_alertmanager/bad.rs"]
mod bad;
#[path = "mesh_alertmanager/deaths.rs"]
mod deaths;
#[path = "mesh_alertmanager/pair.rs"]
mod pair;

use std::time::Duration;

use anyhow::Result;
use plimsoll_mesh::child::until;
use plimsoll_tests::feed::Feed;
use plimsoll_tests::hook::Hook;
use serde_json::Value;

/// The rule that the tests provoke.
const RULE: &str = "epoch_hook";
const WAIT: Duration = Duration::from_secs(40);
/// Judges a short window, and leaves out what a busy machine might breach.
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

/// A hundred and twenty hooks that took so long.
fn hooks(feed: &Feed, ms: u32) -> Result<()> {
    let values = format!(":{ms}").repeat(60);
    (0..2).try_for_each(|_| feed.send(format!("epoch_hook{values}|ms")))
}

/// Feeds hooks that took so long until there is what is awaited.
async fn fed_until<T>(
    feed: &Feed,
    ms: u32,
    what: &str,
    attempt: impl AsyncFn() -> Option<T>,
) -> Result<T> {
    until(what, WAIT, async || {
        hooks(feed, ms).ok()?;
        attempt().await
    })
    .await
}

/// Notifications of Alertmanager in a state, about one scope.
fn notifications(hook: &Hook, status: &str, scope: &str) -> Vec<Value> {
    let bodies = hook.bodies().into_iter();
    let fits = |body: &Value| {
        body["status"] == status
            && body["groupLabels"]["alertname"] == RULE
            && body["groupLabels"]["scope"] == scope
    };
    bodies.filter(fits).collect()
}
