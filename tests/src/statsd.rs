//! Sends DogStatsD datagrams to a node, as a job does, and loses none on the way.

use std::time::Duration;

use anyhow::Result;
use plimsoll_mesh::child::until;
use plimsoll_runtime::client::Api;

pub use plimsoll_mesh::statsd::StatsdSender;

/// Longest wait for a node that reads continuously.
const WAIT: Duration = Duration::from_secs(60);

/// Waits until a node has read this number of datagrams since its start. Many over UDP need it: the
/// kernel drops what exceeds the buffer.
///
/// # Errors
/// When it has not in time, since some were lost.
pub async fn await_datagrams(node: &Api, datagrams: usize) -> Result<()> {
    let what = format!("the node has read {datagrams} datagrams");
    until(&what, WAIT, async || {
        let read = node.metric("plimsoll_agent_datagrams_total").await.ok()??;
        (read >= datagrams as f64).then_some(())
    })
    .await
}
