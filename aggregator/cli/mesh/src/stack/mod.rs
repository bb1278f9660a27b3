//! A whole mesh on this machine, and the order in which it starts and ends.
//!
//! Owns every process it starts: dropped, it kills them. Everything listens on loopback, on free
//! ports, and writes below one directory. Processes end along a sample's path: workloads first,
//! then nodes, then the aggregator, then the broker, each when the one before has sent
//! everything. It changes nothing inside a process: tests and drills stop, kill and restart them
//! through [`Stack`], [`Station`] and the [`Broker`].

mod aggregators;
mod joined;
mod options;
mod programs;
mod station;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::summary::Summary;

use crate::broker::Broker;
use crate::child::Child;
use crate::cluster::Cluster;
use crate::proxy::Proxy;

use aggregators::Aggregator;
pub use joined::JoinedNodes;
pub use options::{StackOptions, Workload};
pub use programs::{BIN_VARIABLE, bin_dir};
pub use station::Station;

const READY_WAIT: Duration = Duration::from_secs(30);
const WORKLOAD_END_WAIT: Duration = Duration::from_secs(20);
const AGGREGATOR_END_WAIT: Duration = Duration::from_secs(20);

pub struct Stack {
    /// The broker: one server, or several.
    servers: Cluster,
    /// The link between nodes and broker, if it is not a direct one.
    proxy: Option<Proxy>,
    aggregator: Aggregator,
    /// The other one of a pair.
    second: Option<Aggregator>,
    stations: Vec<Station>,
}

impl Stack {
    /// Starts everything and waits until the aggregator and every node are ready.
    ///
    /// # Errors
    /// When something does not start; the text holds the end of its log.
    pub async fn start(mut options: StackOptions) -> Result<Self> {
        // The processes do not share this one's working directory.
        options.dir = std::path::absolute(&options.dir)?;
        std::fs::create_dir_all(&options.dir)
            .with_context(|| format!("cannot create {}", options.dir.display()))?;
        let bin = bin_dir()?;

        let servers = match options.servers {
            0 | 1 => {
                let settings = options.broker_settings.clone();
                Cluster::of(Broker::start_with(&options.dir, options.jetstream, settings).await?)
            }
            // Clients learn the addresses of all servers and would pass by the proxy.
            _ if options.through_proxy => bail!("there is no proxy in front of a cluster"),
            servers => Cluster::start(&options.dir, servers, &options.broker_settings).await?,
        };

        let url = servers.url();

        // Not through the proxy, which stands for the link of nodes alone.
        let aggregator = Aggregator::start(&options, &bin, &url, None)?;

        let second = match &options.second_settings {
            Some(settings) => Some(Aggregator::start(&options, &bin, &url, Some(settings))?),
            None => None,
        };

        let proxy = match options.through_proxy {
            true => Some(Proxy::start(url.trim_start_matches("nats://")).await?),
            false => None,
        };

        let url = proxy.as_ref().map_or(url, |proxy| format!("nats://{}", proxy.address()));
        let stations = station::start_all(&options, &bin, &url)?;
        let mut stack = Self { servers, proxy, aggregator, second, stations };

        // Before the first job: samples before a node is ready
        // would be lost at its socket, which no ledger counts.
        stack.await_readiness().await?;

        if let Some(workload) = &options.workload {
            for (seed, station) in (1..).zip(&mut stack.stations) {
                station.start_job(workload, &options.dir, seed)?;
            }
        }

        Ok(stack)
    }

    /// Waits until the aggregator and every node are ready.
    ///
    /// # Errors
    /// When they are not ready in time, or one has ended.
    pub async fn await_readiness(&mut self) -> Result<()> {
        let deadline = plimsoll_clock::Deadline::within(READY_WAIT);
        loop {
            let mut ready = self.aggregator.api.is_ready().await;
            if let Some(second) = &self.second {
                ready = ready && second.api.is_ready().await;
            }
            self.check_alive()?;
            for station in &self.stations {
                ready = ready && station.api.is_ready().await;
            }
            if ready {
                return Ok(());
            }

            if deadline.has_passed() {
                let log = self.aggregator.child.log_tail();
                bail!("the mesh is not ready after {READY_WAIT:?}\n{log}");
            }

            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Checks that each aggregator and every node still run.
    ///
    /// # Errors
    /// When one has ended; names it, with the end of its log.
    pub fn check_alive(&mut self) -> Result<()> {
        self.aggregator.child.check_alive()?;
        self.second.as_mut().map_or(Ok(()), |second| second.child.check_alive())?;
        self.stations.iter_mut().try_for_each(|station| station.node.check_alive())
    }

    /// Checks that every process runs, including the broker and the workloads.
    ///
    /// # Errors
    /// When one has ended; names it, with the end of its log.
    pub fn check_all_alive(&mut self) -> Result<()> {
        self.servers.check_alive()?;
        self.check_alive()?;
        self.stations
            .iter_mut()
            .filter_map(|station| station.job.as_mut())
            .try_for_each(Child::check_alive)
    }

    /// The broker; of a cluster its first server.
    pub fn broker(&mut self) -> &mut Broker {
        self.servers.server(0)
    }

    /// The servers of the broker, if it is a cluster.
    pub fn cluster(&mut self) -> Option<&mut Cluster> {
        (self.servers.servers().len() > 1).then_some(&mut self.servers)
    }

    /// Where the broker is.
    pub fn broker_url(&self) -> String {
        self.servers.url()
    }

    /// The link between nodes and broker, if it is not a direct one.
    pub fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    /// The aggregator's HTTP pages.
    pub fn api(&self) -> &Api {
        &self.aggregator.api
    }

    /// The nodes with their workloads.
    pub fn stations(&self) -> &[Station] {
        &self.stations
    }

    /// The aggregator's process.
    pub fn aggregator(&self) -> &Child {
        &self.aggregator.child
    }

    pub fn kill_aggregator(&mut self) {
        self.aggregator.child.kill();
    }

    /// Starts the aggregator again and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn restart_aggregator(&mut self) -> Result<()> {
        self.launch_aggregator()?;
        self.await_readiness().await
    }

    /// Starts the aggregator again without waiting until it is ready.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn launch_aggregator(&mut self) -> Result<()> {
        self.aggregator.child.restart()
    }

    /// Whether the aggregator has ended.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn aggregator_has_ended(&mut self) -> Result<bool> {
        Ok(self.aggregator.child.ended()?.is_some())
    }

    /// The second aggregator of a pair: its pages and its process.
    pub fn second(&self) -> Option<(&Api, &Child)> {
        self.second.as_ref().map(|second| (&second.api, &second.child))
    }

    /// Kills the node of a station; its workload keeps running.
    pub fn kill_node(&mut self, station: usize) {
        self.stations[station].node.kill();
    }

    /// Starts the node of a station again without waiting until it is ready.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn launch_node(&mut self, station: usize) -> Result<()> {
        self.stations[station].node.restart()
    }

    /// Starts the node of a station again and waits until the mesh is ready.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn restart_node(&mut self, station: usize) -> Result<()> {
        self.launch_node(station)?;
        self.await_readiness().await
    }

    /// Ends all workloads; each sends what it has recorded first.
    ///
    /// # Errors
    /// When one does not end in time or reports a failure.
    pub async fn end_jobs(&mut self) -> Result<()> {
        for station in &mut self.stations {
            if let Some(job) = &station.job {
                job.request_end();
            }
        }

        // Waited for only after all were asked, so that they stop at the same time.
        for station in &mut self.stations {
            let Some(job) = &mut station.job else { continue };
            let status = job.wait(WORKLOAD_END_WAIT).await?;
            if !status.success() {
                bail!("the workload of {} ended with {status}\n{}", station.name, job.log_tail());
            }
        }
        Ok(())
    }

    /// Ends workloads and nodes and waits until the aggregator has received every node's final
    /// message, and what was sent again before it. The summary it returns is final: every sample is
    /// merged in it or lost for good.
    ///
    /// # Errors
    /// When a process does not end in time or reports a failure, or a final message is missing.
    pub async fn drain(&mut self) -> Result<Summary> {
        self.end_jobs().await?;
        station::drain_all(&mut self.stations, &self.aggregator.api).await
    }

    /// Ends each aggregator, then the broker.
    ///
    /// # Errors
    /// When one does not end.
    pub async fn end(mut self) -> Result<()> {
        for aggregator in std::iter::once(&mut self.aggregator).chain(&mut self.second) {
            aggregator.child.terminate(AGGREGATOR_END_WAIT).await?;
        }
        self.servers.end().await
    }
}
