//! The broker and aggregator of a fleet run: started for the run, or already running elsewhere.

use std::path::Path;

use anyhow::{Context, Result, bail};
use plimsoll_bus::{Bus, BusConfig, BusEvents, ConnectionRole, Credentials, Secret, TlsFiles};
use plimsoll_clock::Clock;
use plimsoll_mesh::child::free_port;
use plimsoll_mesh::site::Site;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::permissions::{BrokerUser, inbox_prefix};

use super::args::FleetArgs;
use super::broker_monitor::BrokerMonitor;
use super::faults::FaultKind;
use super::figures::Processes;
use super::load::Load;
use super::pages;
use super::pair::Pair;
use super::scrapers;
use crate::live::mesh_name::MESH;
use crate::processes::{Usage, thread_cpu_seconds, usage};

/// A broker and an aggregator.
pub struct Deployment {
    stack: Option<Stack>,
    pub api: Api,
    pub mesh: MeshName,
    url: String,
    /// Keys and certificates; none of a broker that anyone may use.
    site: Option<Site>,
    /// The broker's own pages; none of a broker that was started elsewhere.
    monitor: Option<BrokerMonitor>,
    /// CPU seconds of former lives of the broker and of the aggregator.
    former: (f64, f64),
}

impl Deployment {
    /// Starts a broker and an aggregator, or uses the ones that the options name.
    ///
    /// # Errors
    /// When one does not start or a named address is invalid.
    pub async fn open(args: &FleetArgs, load: Load, dir: &Path) -> Result<Self> {
        let mesh = MeshName::new(args.mesh.as_deref().unwrap_or(MESH))?;
        if let Some(url) = &args.url {
            let address = args.aggregator.as_deref().context("--url needs --aggregator")?;
            let api = Api::at(address)?;
            if !api.is_ready().await {
                bail!("the aggregator at {address} is not ready");
            }

            return Ok(Self {
                stack: None,
                api,
                mesh,
                url: url.clone(),
                site: None,
                monitor: None,
                former: (0.0, 0.0),
            });
        }

        eprintln!("starting a broker and an aggregator");

        let aggregator_settings = match &args.settings {
            Some(file) => std::fs::read_to_string(file)
                .with_context(|| format!("--settings {}", file.display()))?,
            None => String::new(),
        };

        let monitor = format!("127.0.0.1:{}", free_port()?);

        let site = match args.secured {
            true => Some(secured_site(args, load, dir, &mesh)?),
            false => None,
        };

        let (mut broker_settings, mut aggregator_settings) =
            (format!("http: \"{monitor}\"\n"), aggregator_settings);

        if let Some(site) = &site {
            broker_settings += &site.broker_settings()?;
            aggregator_settings += &format!("\n{}", site.bus_settings("aggregator"));
        }

        let second_settings = second_settings(args, site.as_ref(), &aggregator_settings)?;
        let options = StackOptions {
            mesh: mesh.clone(),
            nodes: 0,
            spools: None,
            aggregator_settings,
            second_settings,
            broker_settings,
            // The shipped configuration has it.
            jetstream: site.is_none(),
            ..StackOptions::new(dir)
        };

        let mut stack = Stack::start(options).await?;
        let (api, url) = (stack.api().clone(), stack.broker().url());
        let monitor = Some(BrokerMonitor::at(&monitor)?);
        Ok(Self { stack: Some(stack), api, mesh, url, site, monitor, former: (0.0, 0.0) })
    }

    /// One more connection of nodes, on a machine with this clock; `node` is its first, and the
    /// only one at a broker with users.
    ///
    /// # Errors
    /// When the address is none.
    pub fn connect(&self, clock: Clock, node: &NodeName) -> Result<(Bus, BusEvents)> {
        let mut config = BusConfig { role: ConnectionRole::Node, ..self.bus_config() };
        if let Some(site) = &self.site {
            let seed_file = site.seed_file(&format!("node-{node}"));
            config.credentials = Credentials::Nkey(Secret::File(seed_file));
            config.tls = TlsFiles { ca_file: Some(site.ca_file()), client: None };
            config.inbox_prefix = inbox_prefix(&self.mesh, BrokerUser::Node(node));
        }
        Ok(Bus::connect_at(config, clock)?)
    }

    /// For a connection of the drill itself.
    pub fn bus_config(&self) -> BusConfig {
        BusConfig::new(self.url.clone(), "plimsoll-fleet".to_owned(), self.mesh.clone())
    }

    /// Resources used by the processes so far; `None` for a mesh that was started elsewhere.
    pub fn usage(&mut self) -> Option<Processes<Usage>> {
        let stack = self.stack.as_mut()?;

        // Between its end and a restart a process uses nothing.
        let since_start = |id, former: f64| {
            let used = usage(id).unwrap_or_default();
            Usage { cpu_seconds: used.cpu_seconds + former, ..used }
        };

        let own = usage(std::process::id())?;
        let polling = thread_cpu_seconds(pages::THREAD) + thread_cpu_seconds(scrapers::THREAD);

        let mut used = Processes::from([
            ("broker", since_start(stack.broker().id(), self.former.0)),
            ("aggregator", since_start(stack.aggregator().id(), self.former.1)),
            ("generator", Usage { cpu_seconds: own.cpu_seconds - polling, ..own }),
            ("pages", Usage { cpu_seconds: polling, ..Usage::default() }),
        ]);

        used.extend(
            stack.second().map(|(_, child)| ("second_aggregator", since_start(child.id(), 0.0))),
        );
        Some(used)
    }

    /// The broker's own pages; none of a broker that was started elsewhere.
    pub fn monitor(&self) -> Option<BrokerMonitor> {
        self.monitor.clone()
    }

    /// Both aggregators of a pair.
    pub fn pair(&self) -> Option<Pair> {
        let (second, _) = self.stack.as_ref()?.second()?;
        Some(Pair { first: self.api.clone(), second: second.clone() })
    }

    pub fn begin_fault(&mut self, kind: FaultKind) {
        let Some(stack) = &mut self.stack else { return };
        let used = |id| usage(id).unwrap_or_default().cpu_seconds;

        match kind {
            FaultKind::BrokerKilled => {
                self.former.0 += used(stack.broker().id());
                stack.broker().kill();
            }
            FaultKind::BrokerStalled => stack.broker().pause(),
            FaultKind::AggregatorKilled => {
                self.former.1 += used(stack.aggregator().id());
                stack.kill_aggregator();
            }
            FaultKind::AggregatorEnded => {
                self.former.1 += used(stack.aggregator().id());
                stack.aggregator().request_end();
            }
            FaultKind::AggregatorStalled => stack.aggregator().pause(),
            FaultKind::SecondStalled => stack.second().into_iter().for_each(|(_, it)| it.pause()),
        }
    }

    /// Ends a fault; false when what was asked to end has not ended yet.
    ///
    /// # Errors
    /// When a process does not start again.
    pub async fn end_fault(&mut self, kind: FaultKind) -> Result<bool> {
        let Some(stack) = &mut self.stack else { return Ok(true) };
        match kind {
            FaultKind::BrokerKilled => stack.broker().restart().await?,
            FaultKind::BrokerStalled => stack.broker().resume(),
            FaultKind::AggregatorEnded if !stack.aggregator_has_ended()? => return Ok(false),
            FaultKind::AggregatorKilled | FaultKind::AggregatorEnded => {
                stack.launch_aggregator()?;
            }
            FaultKind::AggregatorStalled => stack.aggregator().resume(),
            FaultKind::SecondStalled => stack.second().into_iter().for_each(|(_, it)| it.resume()),
        }
        Ok(true)
    }

    /// Ends what it has started.
    ///
    /// # Errors
    /// When a process does not end.
    pub async fn end(self) -> Result<()> {
        match self.stack {
            Some(stack) => stack.end().await,
            None => Ok(()),
        }
    }
}

/// Settings of the second aggregator: those of the first unless the options name others.
fn second_settings(
    args: &FleetArgs,
    site: Option<&Site>,
    of_first: &str,
) -> Result<Option<String>> {
    let Some(file) = &args.second_settings else {
        return Ok(args.pair.then(|| of_first.to_owned()));
    };
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("--second-settings {}", file.display()))?;
    let bus = site.map_or_else(String::new, |site| site.bus_settings("aggregator"));
    Ok(Some(format!("{text}\n{bus}")))
}

/// Keys for all nodes and the probe.
fn secured_site(args: &FleetArgs, load: Load, dir: &Path, mesh: &MeshName) -> Result<Site> {
    if !args.has_own_connections() || args.skewed > 0 {
        bail!("--secured needs --connections {} and no --skewed", args.nodes);
    }
    eprintln!("making certificates and {} keys", args.nodes);
    let names: Result<Vec<String>> =
        (0..=u64::from(args.nodes)).map(|n| Ok(load.node_name(n)?.to_string())).collect();
    Site::make(&dir.join("site"), mesh, &names?)
}
