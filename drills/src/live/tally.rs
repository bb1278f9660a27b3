//! Counters of nodes and aggregator, read from their metrics pages.

use anyhow::{Context, Result};
use plimsoll_runtime::client::Api;

use super::mesh::Mesh;

/// Messages that a node holds.
pub const DEPTH: &str = "plimsoll_agent_outbox_depth";
/// Samples that reached the aggregator too late for its shortest window.
pub const LATE: &str = "plimsoll_aggregator_late_samples_total";
/// Identifies a process; seconds since 1970.
pub const STARTED: &str = "process_start_time_seconds";

/// The counters at one time; a value for each node, in the order of the mesh's nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct MeshCounters {
    pub taken: Vec<f64>,
    /// Of those, samples put into snapshots.
    pub recorded: Vec<f64>,
    /// Messages in the outbox.
    pub depths: Vec<f64>,
    /// When the aggregator's process was started.
    pub aggregator_started: f64,
    /// Samples that came late.
    pub late: f64,
}

impl MeshCounters {
    /// Reads all pages.
    ///
    /// # Errors
    /// When a process does not respond or lacks a metric.
    pub async fn take(mesh: &Mesh) -> Result<Self> {
        let aggregator = mesh.stack.api();
        Ok(Self {
            taken: of_nodes(mesh, "plimsoll_agent_samples_total").await?,
            recorded: of_nodes(mesh, "plimsoll_agent_recorded_samples_total").await?,
            depths: of_nodes(mesh, DEPTH).await?,
            aggregator_started: metric(aggregator, STARTED).await?,
            late: metric(aggregator, LATE).await?,
        })
    }
}

/// One series of one process.
///
/// # Errors
/// When the process does not respond or lacks it.
pub async fn metric(api: &Api, series: &str) -> Result<f64> {
    api.metric(series).await?.with_context(|| format!("{}/metrics lacks {series}", api.url()))
}

/// One series of every node.
///
/// # Errors
/// When a node does not respond or lacks it.
pub async fn of_nodes(mesh: &Mesh, series: &str) -> Result<Vec<f64>> {
    let mut values = Vec::new();
    for station in mesh.stack.stations() {
        values.push(metric(&station.api, series).await?);
    }
    Ok(values)
}
