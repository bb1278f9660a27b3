//! The nodes of a load: with a broker and an aggregator of their own, or beside running ones.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use plimsoll_mesh::stack::{JoinedNodes, Stack, StackOptions, Station};
use plimsoll_mesh::statsd::StatsdSender;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::figure::counted;
use plimsoll_schemas::ids::MeshName;

use super::args::LoadArgs;
use crate::live::mesh_name::MESH;

/// The limit of the operations' budgets in a mesh of their own.
const LIMIT_MS: u64 = 50;

/// Nodes with the aggregator that merges their samples.
pub(super) struct LoadNodes {
    nodes: JoinedNodes,
    /// The broker and the aggregator, if they were started for the load.
    stack: Option<Stack>,
    pub(super) api: Api,
    pub(super) mesh: MeshName,
}

impl LoadNodes {
    /// Starts the nodes, and broker and aggregator unless the options name them.
    ///
    /// # Errors
    /// When a process does not start or a named address does not answer.
    pub(super) async fn start(args: &LoadArgs, dir: &Path) -> Result<Self> {
        let mesh = MeshName::new(args.mesh.as_deref().unwrap_or(MESH))?;
        let mut options = StackOptions {
            mesh: mesh.clone(),
            nodes: 0,
            spools: None,
            udp: args.udp,
            aggregator_settings: budgets(args.operations),
            ..StackOptions::new(dir)
        };

        let nodes = counted(args.nodes.into(), "node");
        let (stack, api, url) = match &args.broker {
            None => {
                eprintln!("starting a broker, an aggregator and {nodes}");
                let stack = Stack::start(options.clone()).await?;
                let (api, url) = (stack.api().clone(), stack.broker_url());
                (Some(stack), api, url)
            }
            Some(url) => {
                let address = args.aggregator.as_deref().context("--broker needs --aggregator")?;
                let api = Api::at(address.trim_start_matches("http://"))?;
                if !api.is_ready().await {
                    bail!("the aggregator at {address} is not ready");
                }
                eprintln!("starting {nodes} at {url}");
                // Names that no earlier run has used.
                options.node_prefix = format!("load-{}-", std::process::id());
                (None, api, url.clone())
            }
        };

        options.nodes = args.nodes as usize;
        Ok(Self { nodes: JoinedNodes::start(&options, &url).await?, stack, api, mesh })
    }

    /// The names of the nodes.
    pub(super) fn names(&self) -> Vec<String> {
        self.nodes.stations().iter().map(|station| station.name.clone()).collect()
    }

    /// The nodes' own pages.
    pub(super) fn pages(&self) -> Vec<Api> {
        self.nodes.stations().iter().map(|station| station.api.clone()).collect()
    }

    /// A socket to each node, over UDP or through its Unix socket.
    ///
    /// # Errors
    /// When one does not listen there.
    pub(super) fn links(&self, udp: bool) -> Result<Vec<StatsdSender>> {
        let link = |station: &Station| match udp {
            true => StatsdSender::udp(station.udp()?),
            false => StatsdSender::unix(&station.socket),
        };
        self.nodes.stations().iter().map(link).collect()
    }

    /// Ends the nodes, which send what they hold.
    ///
    /// # Errors
    /// When one does not end in order, or its final message is missing.
    pub(super) async fn drain(&mut self) -> Result<()> {
        self.nodes.drain(&self.api).await.map(drop)
    }

    /// Ends the aggregator and the broker, if they were started.
    ///
    /// # Errors
    /// When one does not end.
    pub(super) async fn end(self) -> Result<()> {
        match self.stack {
            Some(stack) => stack.end().await,
            None => Ok(()),
        }
    }
}

/// A budget for each operation, so that nodes recognize samples over its limit.
fn budgets(operations: u32) -> String {
    let mut text = String::new();
    for operation in 0..operations {
        // Writing to a string cannot fail.
        let _written = writeln!(
            text,
            "[[budget]]\nname = \"load_{operation}\"\noperation = \"load.{operation}\"\n\
             quantile = 0.99\nlimit = \"{LIMIT_MS}ms\"\nwindow = \"10s\""
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::rule::file::{effective, shipped};

    use super::super::args::Priority;
    use super::*;

    #[test]
    fn every_operation_has_a_budget_that_critical_samples_exceed() {
        let budgets = effective(&[&budgets(3)]).unwrap();
        let of_load = budgets.iter().filter(|budget| budget.name.as_str().starts_with("load_"));
        assert!(of_load.clone().all(|budget| budget.limit_ns == LIMIT_MS * 1_000_000));
        assert_eq!((of_load.count(), budgets.len()), (3, 3 + shipped().budgets.len()));
        assert!(Priority::Normal.ms() < LIMIT_MS && Priority::Critical.ms() > LIMIT_MS);
    }
}
