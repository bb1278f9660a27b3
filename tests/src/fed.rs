//! A mesh with one node and no jobs: a test feeds it, and reads at the aggregator what came of it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_schemas::summary::{Presence, Summary};

use crate::lone::{Lone, node, summary_when};

/// The node's name.
pub const NODE: &str = "fed";
/// Longest wait for the node to hand over what it holds and leave.
const DRAIN_WAIT: Duration = Duration::from_secs(20);

/// A broker, an aggregator and a node, ended when dropped.
pub struct Fed {
    /// Broker and aggregator.
    pub stack: Stack,
    /// The node.
    pub node: Lone,
}

impl Fed {
    /// Starts all three in `dir`.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn start(dir: &Path) -> Result<Self> {
        Self::start_with(dir, String::new()).await
    }

    /// The same with settings of the aggregator, as TOML.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn start_with(dir: &Path, aggregator_settings: String) -> Result<Self> {
        Self::start_both(dir, aggregator_settings, &[]).await
    }

    /// The same with further flags of the node.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn start_node_with(dir: &Path, flags: &[&str]) -> Result<Self> {
        Self::start_both(dir, String::new(), flags).await
    }

    async fn start_both(dir: &Path, aggregator_settings: String, flags: &[&str]) -> Result<Self> {
        let options = StackOptions { nodes: 0, aggregator_settings, ..StackOptions::new(dir) };
        let mut stack = Stack::start(options).await?;
        let broker = stack.broker().url();
        let node = Lone::node_with(NODE, dir, &broker, flags).await?;
        Ok(Self { stack, node })
    }

    /// Lets the node leave, and gives what the aggregator then shows: every sample accounted for.
    ///
    /// # Errors
    /// When the node does not end well, or its ledger is not settled.
    pub async fn drained(&mut self) -> Result<Summary> {
        self.node.signal(Signal::SIGTERM);
        self.left().await
    }

    /// The same, once the node was asked to leave.
    ///
    /// # Errors
    /// When the node does not end well, or its ledger is not settled.
    pub async fn left(&mut self) -> Result<Summary> {
        let status = self.node.end(DRAIN_WAIT).await?;
        ensure!(status.success(), "the node ended with {status}: {}", self.node.log());
        let left =
            |summary: &Summary| node(summary, NODE).is_ok_and(|row| row.presence == Presence::Left);
        let summary = summary_when(self.stack.api(), "the node has left", left).await?;
        let ledger = &node(&summary, NODE)?.ledger;
        ensure!(ledger.is_settled(), "not settled: {ledger:?}");
        Ok(summary)
    }
}
