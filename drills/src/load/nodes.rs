//! The nodes of a load: with a broker and an aggregator of their own, or beside running ones.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use plimsoll_mesh::stack::{JoinedNodes, Stack, StackOptions, Station};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::figure::counted;
use plimsoll_schemas::ids::MeshName;

use super::args::LoadArgs;
use super::sender::Target;
use crate::live::mesh_name::MESH;

/// The limit of the operations' budgets in a mesh of their own.
const LIMIT_MS: u64 = 50;

/// Nodes with the aggregator that merges their samples.
pub(super) struct LoadNodes {
    parts: Parts,
    pub(super) api: Api,
    pub(super) mesh: MeshName,
}

enum Parts {
    Own(Box<Stack>),
    Joined(JoinedNodes),
}

impl LoadNodes {
    /// Starts the nodes, and broker and aggregator unless the options name them.
    ///
    /// # Errors
    /// When a process does not start or a named address does not answer.
    pub(super) async fn start(args: &LoadArgs, dir: &Path) -> Result<Self> {
        let mesh = MeshName::new(args.mesh.as_deref().unwrap_or(MESH))?;
        let options = StackOptions {
            mesh: mesh.clone(),
            nodes: args.nodes as usize,
            spools: None,
            udp: args.udp,
            aggregator_settings: budgets(args.operations),
            ..StackOptions::new(dir)
        };
        let Some(url) = &args.broker else {
            eprintln!(
                "starting a broker, an aggregator and {}",
                counted(args.nodes.into(), "node")
            );
            let stack = Box::new(Stack::start(options).await?);
            let api = stack.api().clone();
            return Ok(Self { parts: Parts::Own(stack), api, mesh });
        };
        let address = args.aggregator.as_deref().context("--broker needs --aggregator")?;
        let api = Api::at(address.trim_start_matches("http://"))?;
        if !api.is_ready().await {
            bail!("the aggregator at {address} is not ready");
        }
        eprintln!("starting {} at {url}", counted(args.nodes.into(), "node"));
        // Names that no earlier run has used.
        let node_prefix = format!("load-{}-", std::process::id());
        let options = StackOptions { node_prefix, ..options };
        let nodes = JoinedNodes::start(&options, url).await?;
        Ok(Self { parts: Parts::Joined(nodes), api, mesh })
    }

    /// The names of the nodes.
    pub(super) fn names(&self) -> Vec<String> {
        self.stations().iter().map(|station| station.name.clone()).collect()
    }

    /// The nodes' own pages.
    pub(super) fn pages(&self) -> Vec<Api> {
        self.stations().iter().map(|station| station.api.clone()).collect()
    }

    /// Where the nodes receive samples, over UDP or through Unix sockets.
    ///
    /// # Errors
    /// When one does not listen there.
    pub(super) fn targets(&self, udp: bool) -> Result<Vec<Target>> {
        let target = |station: &Station| match udp {
            true => station.udp().map(Target::Udp),
            false => Ok(Target::Unix(station.socket.clone())),
        };
        self.stations().iter().map(target).collect()
    }

    fn stations(&self) -> &[Station] {
        match &self.parts {
            Parts::Own(stack) => stack.stations(),
            Parts::Joined(nodes) => nodes.stations(),
        }
    }

    /// Ends the nodes, which send what they hold.
    ///
    /// # Errors
    /// When one does not end in order, or its final message is missing.
    pub(super) async fn drain(&mut self) -> Result<()> {
        match &mut self.parts {
            Parts::Own(stack) => stack.drain().await.map(drop),
            Parts::Joined(nodes) => nodes.drain(&self.api).await.map(drop),
        }
    }

    /// Ends the aggregator and the broker, if they were started.
    ///
    /// # Errors
    /// When one does not end.
    pub(super) async fn end(self) -> Result<()> {
        match self.parts {
            Parts::Own(stack) => stack.end().await,
            Parts::Joined(_) => Ok(()),
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
