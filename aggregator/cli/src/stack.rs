//! A whole mesh on this machine: broker, aggregator, nodes, and a job beside each node.
//!
//! Everything listens on loopback, on free ports, and writes below one directory. Ending runs
//! along a sample's way: jobs first, then nodes, then the aggregator, then the broker, each
//! only when the one before has nothing left.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::summary::{Presence, Summary};

use crate::api::Api;
use crate::broker::Broker;
use crate::child::{Child, free_port, until};

pub use crate::station::Station;

const READY_WAIT: Duration = Duration::from_secs(30);
const JOB_END_WAIT: Duration = Duration::from_secs(20);
/// Longer than a node's own drain wait, so that its exit code tells what happened.
const NODE_END_WAIT: Duration = Duration::from_secs(20);
const SETTLE_WAIT: Duration = Duration::from_secs(20);

/// Names the directory of the mesh's programs when it is not this program's own.
pub const BIN_VARIABLE: &str = "PLIMSOLL_BIN_DIR";

/// What to start.
#[derive(Clone, Debug)]
pub struct StackOptions {
    /// Everything is written below this directory.
    pub dir: PathBuf,
    /// What the mesh is called; a drill's own name keeps its traffic apart.
    pub mesh: MeshName,
    /// Number of nodes, each with a job.
    pub nodes: usize,
    /// Address of the aggregator's pages; a free port of loopback when `None` or port 0.
    pub http: Option<String>,
    /// Settings of the aggregator, as TOML.
    pub aggregator_settings: String,
    /// Settings of every node, as TOML; `{node}` in it is the node's name.
    pub node_settings: String,
    /// Whether a job runs beside each node.
    pub jobs: bool,
    /// Epochs that each job begins in a second.
    pub epochs_per_second: f64,
    /// Whether the broker keeps streams.
    pub jetstream: bool,
    /// Further lines of the broker's configuration file.
    pub broker_settings: String,
    /// Where nodes keep what they hold, each in a directory of its own; nowhere when `None`.
    pub spools: Option<PathBuf>,
    /// Whether the aggregator's state outlives it.
    pub keep_state: bool,
}

impl StackOptions {
    /// Three nodes with jobs under `dir`.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            mesh: MeshName::new("local").expect("a constant name of plain letters"),
            nodes: 3,
            http: None,
            aggregator_settings: String::new(),
            node_settings: String::new(),
            jobs: true,
            epochs_per_second: 20.0,
            jetstream: true,
            broker_settings: String::new(),
            spools: Some(dir.join("spool")),
            keep_state: true,
        }
    }
}

/// A running mesh.
pub struct Stack {
    options: StackOptions,
    bin: PathBuf,
    broker: Broker,
    aggregator: Child,
    api: Api,
    stations: Vec<Station>,
}

impl Stack {
    /// Starts everything and waits until the aggregator and every node are ready.
    ///
    /// # Errors
    /// When something does not start; the text holds the end of its log.
    pub async fn start(mut options: StackOptions) -> Result<Self> {
        // Processes started from here have another idea of a relative path.
        options.dir = std::path::absolute(&options.dir)?;
        std::fs::create_dir_all(&options.dir)
            .with_context(|| format!("cannot make {}", options.dir.display()))?;
        let bin = bin_dir()?;
        let settings = options.broker_settings.clone();
        let broker = Broker::start_with(&options.dir, options.jetstream, settings).await?;
        let http = match &options.http {
            Some(address) if !address.ends_with(":0") => address.clone(),
            _ => format!("127.0.0.1:{}", free_port()?),
        };
        let api = Api::at(&http)?;
        let aggregator = start_aggregator(&options, &bin, &broker.url(), &http)?;
        let stations = (1..=options.nodes)
            .map(|number| Station::start(&options, &bin, &broker.url(), number))
            .collect::<Result<Vec<_>>>()?;
        let mut stack = Self { options, bin, broker, aggregator, api, stations };
        stack.await_readiness().await?;
        stack.start_jobs()?;
        Ok(stack)
    }

    /// Waits until the aggregator and every node are ready.
    ///
    /// # Errors
    /// When they are not in time, or one has ended.
    pub async fn await_readiness(&mut self) -> Result<()> {
        let deadline = plimsoll_clock::Deadline::within(READY_WAIT);
        loop {
            let mut ready = self.api.is_ready().await;
            self.check_alive()?;
            for station in &self.stations {
                ready = ready && station.api.is_ready().await;
            }
            if ready {
                return Ok(());
            }
            if deadline.has_passed() {
                bail!("the mesh is not ready after {READY_WAIT:?}\n{}", self.aggregator.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Checks that neither the aggregator nor a node has ended on its own.
    ///
    /// # Errors
    /// Names the one that has, with the end of its log.
    pub fn check_alive(&mut self) -> Result<()> {
        self.aggregator.check_alive()?;
        self.stations.iter_mut().try_for_each(|station| station.node.check_alive())
    }

    /// Checks that no process at all has ended: broker and jobs too, which a drill may end.
    ///
    /// # Errors
    /// Names the one that has, with the end of its log.
    pub fn check_all_alive(&mut self) -> Result<()> {
        self.broker.child().check_alive()?;
        self.check_alive()?;
        self.stations
            .iter_mut()
            .filter_map(|station| station.job.as_mut())
            .try_for_each(Child::check_alive)
    }

    fn start_jobs(&mut self) -> Result<()> {
        if !self.options.jobs {
            return Ok(());
        }
        for (seed, station) in (1..).zip(&mut self.stations) {
            station.start_job(&self.options, &self.bin, seed)?;
        }
        Ok(())
    }

    /// The broker, for faults.
    pub fn broker(&mut self) -> &mut Broker {
        &mut self.broker
    }

    /// The aggregator's pages.
    #[must_use]
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The nodes with their jobs.
    #[must_use]
    pub fn stations(&self) -> &[Station] {
        &self.stations
    }

    /// The id of the aggregator's process.
    #[must_use]
    pub fn aggregator_id(&self) -> u32 {
        self.aggregator.id()
    }

    /// The aggregator's log so far.
    #[must_use]
    pub fn aggregator_log(&self) -> String {
        self.aggregator.log()
    }

    /// Kills the aggregator without asking.
    pub fn kill_aggregator(&mut self) {
        self.aggregator.kill();
    }

    /// Starts the aggregator again and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn restart_aggregator(&mut self) -> Result<()> {
        self.launch_aggregator()?;
        self.await_readiness().await
    }

    /// Starts the aggregator again after it was killed, and waits for nothing.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn launch_aggregator(&mut self) -> Result<()> {
        let http = self.api.url().trim_start_matches("http://").to_owned();
        self.aggregator = start_aggregator(&self.options, &self.bin, &self.broker.url(), &http)?;
        Ok(())
    }

    /// Kills a node, by its place among the stations, without asking. Its job goes on.
    pub fn kill_node(&mut self, place: usize) {
        self.stations[place].node.kill();
    }

    /// Starts a node again after it was killed, and waits for nothing.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn launch_node(&mut self, place: usize) -> Result<()> {
        let url = self.broker.url();
        self.stations[place].start_node(&self.options, &self.bin, &url)
    }

    /// Starts a node again and waits until everything is ready.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn restart_node(&mut self, place: usize) -> Result<()> {
        self.launch_node(place)?;
        self.await_readiness().await
    }

    /// Ends all jobs and waits until they have sent what they had.
    ///
    /// # Errors
    /// When one does not end, or not well.
    pub async fn end_jobs(&mut self) -> Result<()> {
        for station in &mut self.stations {
            if let Some(job) = &station.job {
                job.signal(Signal::SIGTERM);
            }
        }
        for station in &mut self.stations {
            let Some(job) = &mut station.job else { continue };
            let status = job.wait(JOB_END_WAIT).await?;
            if !status.success() {
                bail!("the job of {} ended with {status}\n{}", station.name, job.log_tail());
            }
        }
        Ok(())
    }

    /// Ends jobs and nodes and waits until the aggregator has heard every farewell. The summary
    /// is the last word: every sample is in it or missing for good.
    ///
    /// # Errors
    /// When a process does not end, or not well, or a farewell does not arrive.
    pub async fn drain(&mut self) -> Result<Summary> {
        self.end_jobs().await?;
        for station in &self.stations {
            station.node.signal(Signal::SIGTERM);
        }
        for station in &mut self.stations {
            let status = station.node.wait(NODE_END_WAIT).await?;
            if !status.success() {
                let log = station.node.log_tail();
                bail!("{} ended with {status}\n{log}", station.name);
            }
        }
        let (api, expected) = (self.api.clone(), self.stations.len());
        until("every node's farewell is heard", SETTLE_WAIT, async || {
            let summary = api.summary().await.ok()?;
            let left = |summary: &Summary| {
                summary.nodes.iter().filter(|node| node.presence == Presence::Left).count()
            };
            (left(&summary) >= expected).then_some(summary)
        })
        .await
    }

    /// Ends the aggregator and the broker.
    ///
    /// # Errors
    /// When one does not end.
    pub async fn end(mut self) -> Result<()> {
        self.aggregator.terminate(NODE_END_WAIT).await?;
        self.broker.end().await.map(drop)
    }
}

fn start_aggregator(options: &StackOptions, bin: &Path, url: &str, http: &str) -> Result<Child> {
    let settings = options.dir.join("aggregator.toml");
    std::fs::write(&settings, &options.aggregator_settings)?;
    let mut command = Command::new(bin.join("plimsoll-aggregator"));
    let mesh = options.mesh.as_str();
    command.arg("--config").arg(settings).args(["--mesh", mesh, "--nats", url, "--http", http]);
    if options.keep_state {
        command.arg("--state").arg(options.dir.join("state.redb"));
    }
    Child::start("aggregator", &options.dir, command)
}

/// Where the mesh's programs are: beside this one, or one up when this one is a test.
///
/// # Errors
/// When they are in neither place; the text tells how to build them.
pub fn bin_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os(BIN_VARIABLE) {
        return Ok(dir.into());
    }
    let own = std::env::current_exe().context("this program does not know where it is")?;
    let dirs = own.ancestors().skip(1).take(2);
    for dir in dirs {
        if dir.join("plimsoll-node").is_file() && dir.join("plimsoll-aggregator").is_file() {
            return Ok(dir.to_owned());
        }
    }
    bail!(
        "plimsoll-node and plimsoll-aggregator are not beside {}; build them with \
         `cargo build --workspace --bins` or name their directory with {BIN_VARIABLE}",
        own.display()
    )
}
