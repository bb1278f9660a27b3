//! Counters of nodes and aggregator, read from their metrics pages.

use anyhow::{Context, Result};
use plimsoll_mesh::stack::Stack;
use plimsoll_runtime::client::Api;

/// Messages that a node holds.
pub const DEPTH: &str = "plimsoll_agent_outbox_depth";

/// One series of one process.
///
/// # Errors
/// When the process does not respond or lacks it.
pub async fn metric(api: &Api, series: &str) -> Result<f64> {
    api.metric(series).await?.with_context(|| format!("{}/metrics lacks {series}", api.url()))
}

/// One series of every node, in the order of the mesh's nodes.
///
/// # Errors
/// When a node does not respond or lacks it.
pub async fn of_nodes(stack: &Stack, series: &str) -> Result<Vec<f64>> {
    let mut values = Vec::new();
    for station in stack.stations() {
        values.push(metric(&station.api, series).await?);
    }
    Ok(values)
}
