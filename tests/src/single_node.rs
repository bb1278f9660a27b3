//! A mesh with one node and no jobs. A test sends samples to the node and reads the aggregator.

use std::path::Path;
use std::time::Duration;

use crate::jobs::with_jobs;
use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_schemas::summary::{Presence, Summary};

use crate::process::{MeshProcess, await_summary, node_row};

pub const NODE: &str = "fed";
/// Longest wait for the node to deliver what it holds and exit.
const DRAIN_WAIT: Duration = Duration::from_secs(60);

/// A broker, an aggregator and a node. All are killed when dropped.
pub struct SingleNodeMesh {
    pub stack: Stack,
    pub node: MeshProcess,
}

impl SingleNodeMesh {
    /// Starts all three in `dir`.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn start(dir: &Path) -> Result<Self> {
        Self::start_with(dir, String::new()).await
    }

    /// Starts all three, with settings of the aggregator as TOML.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn start_with(dir: &Path, aggregator_settings: String) -> Result<Self> {
        Self::start_both(dir, aggregator_settings, &[]).await
    }

    /// Starts all three, with additional flags of the node.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn start_node_with(dir: &Path, flags: &[&str]) -> Result<Self> {
        Self::start_both(dir, String::new(), flags).await
    }

    async fn start_both(dir: &Path, aggregator_settings: String, flags: &[&str]) -> Result<Self> {
        let options = StackOptions { nodes: 0, aggregator_settings, ..with_jobs(dir) };
        let mut stack = Stack::start(options).await?;
        let broker = stack.broker().url();
        let node = MeshProcess::node_with(NODE, dir, &broker, flags).await?;
        Ok(Self { stack, node })
    }

    /// Sends SIGTERM to the node and returns the summary after it, in which its ledger is settled.
    ///
    /// # Errors
    /// When the node exits with an error, or its ledger is not settled.
    pub async fn drain_node(&mut self) -> Result<Summary> {
        self.node.signal(Signal::SIGTERM);
        self.await_departure().await
    }

    /// Waits for a node that has received SIGTERM, and returns the same.
    ///
    /// # Errors
    /// When the node exits with an error, or its ledger is not settled.
    pub async fn await_departure(&mut self) -> Result<Summary> {
        let status = self.node.end(DRAIN_WAIT).await?;
        ensure!(status.success(), "the node ended with {status}: {}", self.node.log());
        let left = |summary: &Summary| {
            node_row(summary, NODE).is_ok_and(|row| row.presence == Presence::Left)
        };
        let summary = await_summary(self.stack.api(), "the node has left", left).await?;
        let ledger = &node_row(&summary, NODE)?.ledger;
        ensure!(ledger.is_settled(), "not settled: {ledger:?}");
        Ok(summary)
    }
}
