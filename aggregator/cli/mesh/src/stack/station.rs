//! One node of a local mesh, and the workload beside it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use plimsoll_clock::Deadline;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::summary::{NodeRow, Presence, Summary};

use super::options::{StackOptions, Workload};
use crate::child::{Child, free_port, log_field, until};

/// Longer than a node's own drain wait: its exit code then states why it ended.
const NODE_END_WAIT: Duration = Duration::from_secs(20);
const LEFT_WAIT: Duration = Duration::from_secs(20);
/// Time for messages that a broker lost and that were sent again at the end. Ledgers that stay open
/// for good cost tests this time.
const SETTLE_WAIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// One node and the workload beside it.
pub struct Station {
    pub name: String,
    /// The node's HTTP pages.
    pub api: Api,
    /// The socket on which the node receives samples.
    pub socket: PathBuf,
    /// File with every latency that the workload sent, one a line.
    pub raw: PathBuf,
    commands: PathBuf,
    pub(super) node: Child,
    pub(super) job: Option<Child>,
}

impl Station {
    pub(super) fn start(
        options: &StackOptions,
        bin: &Path,
        url: &str,
        number: usize,
    ) -> Result<Self> {
        let name = format!("{}{number}", options.node_prefix);
        let file = |ending: &str| options.dir.join(format!("{name}.{ending}"));
        let http = format!("127.0.0.1:{}", free_port()?);
        std::fs::write(file("toml"), options.node_settings.replace("{node}", &name))?;

        let (mesh, udp) = (options.mesh.as_str(), if options.udp { "127.0.0.1:0" } else { "" });
        let mut command = Command::new(bin.join("plimsoll-node"));

        command
            .arg("--config")
            .arg(file("toml"))
            .args(["--name", &name, "--mesh", mesh, "--nats", url, "--udp", udp, "--http", &http])
            .arg("--unix")
            .arg(file("sock"))
            .args(options.replicas_flag());

        if options.keep_state {
            command.arg("--history").arg(options.dir.join("history"));
        }

        if let Some(spools) = &options.spools {
            let spool = spools.join(&name);
            command.arg("--set").arg(format!("spool.path={}", spool.display()));
        }

        Ok(Self {
            api: Api::at(&http)?,
            socket: file("sock"),
            raw: file("raw"),
            commands: file("commands"),
            node: Child::start(&name, &options.dir, command)?,
            job: None,
            name,
        })
    }

    pub(super) fn start_job(&mut self, workload: &Workload, dir: &Path, seed: u32) -> Result<()> {
        let mut command = Command::new(&workload.program);
        command
            .arg("--statsd")
            .arg(format!("unix://{}", self.socket.display()))
            .arg("--raw")
            .arg(&self.raw)
            .arg("--commands")
            .arg(&self.commands)
            .arg("--dir")
            .arg(dir.join(format!("{}.job", self.name)))
            .args(["--seed", &seed.to_string()])
            .args(&workload.arguments);

        self.job = Some(Child::start(&format!("{}-job", self.name), dir, command)?);
        Ok(())
    }

    /// Process id of the node.
    pub fn node_id(&self) -> u32 {
        self.node.id()
    }

    /// The node's log, across restarts.
    pub fn node_log(&self) -> String {
        self.node.log()
    }

    /// The loopback address at which the node receives datagrams over UDP. A node chooses its port
    /// at each start.
    ///
    /// # Errors
    /// When the node has none, or has not started yet.
    pub fn udp(&self) -> Result<SocketAddr> {
        // The node chose a free port, and only its log has it.
        let address = log_field(&self.node_log(), "udp");
        let address =
            address.with_context(|| format!("no UDP address in the log of {}", self.name))?;
        address.parse().with_context(|| format!("{} receives nothing over UDP", self.name))
    }

    /// Stops the workload's process (SIGSTOP).
    pub fn pause_job(&self) {
        self.job.iter().for_each(Child::pause);
    }

    /// Resumes the workload's process (SIGCONT).
    pub fn resume_job(&self) {
        self.job.iter().for_each(Child::resume);
    }

    /// Appends a line to the workload's commands file.
    ///
    /// # Errors
    /// When the commands file cannot be written.
    pub fn command(&self, command: &str) -> Result<()> {
        use std::io::Write;
        let mut file = std::fs::File::options().create(true).append(true).open(&self.commands)?;
        writeln!(file, "{command}").context("cannot write the workload's commands file")
    }

    /// Latencies that the workload sent: operation and nanoseconds. Complete once it has ended.
    ///
    /// # Errors
    /// When the file cannot be read or a line has another form.
    pub fn raw_samples(&self) -> Result<Vec<(String, u64)>> {
        let text = std::fs::read_to_string(&self.raw)
            .with_context(|| format!("cannot read {}", self.raw.display()))?;
        let sample = |line: &str| {
            let mut words = line.split_whitespace();
            let (operation, ns) = (words.next()?, words.next()?.parse().ok()?);
            Some((operation.to_owned(), ns))
        };
        let samples = text.lines().map(sample).collect::<Option<Vec<_>>>();
        samples.with_context(|| format!("{} has a line of another form", self.raw.display()))
    }
}

/// Starts all nodes of `options` at the broker `url`.
pub(super) fn start_all(options: &StackOptions, bin: &Path, url: &str) -> Result<Vec<Station>> {
    (1..=options.nodes).map(|number| Station::start(options, bin, url, number)).collect()
}

/// Ends all nodes, and waits until the aggregator has received their final messages and, within a
/// bound, every sample that is still held.
pub(super) async fn drain_all(stations: &mut [Station], api: &Api) -> Result<Summary> {
    // All are asked before one is waited for: nodes drain side by side.
    for station in &*stations {
        station.node.request_end();
    }

    for station in &mut *stations {
        let status = station.node.wait(NODE_END_WAIT).await?;
        if !status.success() {
            let log = station.node.log_tail();
            bail!("{} ended with {status}\n{log}", station.name);
        }
    }

    let left = until("the final message of every node", LEFT_WAIT, async || {
        let summary = api.summary().await.ok()?;
        every(stations, &summary, |row| row.presence == Presence::Left).then_some(summary)
    });

    let (mut summary, deadline) = (left.await?, Deadline::within(SETTLE_WAIT));

    // The last messages may still be held by the broker when the
    // node has left: its ledger is settled once they are merged.
    while !every(stations, &summary, |row| row.ledger.is_settled()) && !deadline.has_passed() {
        tokio::time::sleep(POLL).await;
        summary = api.summary().await?;
    }

    Ok(summary)
}

fn every(stations: &[Station], summary: &Summary, holds: impl Fn(&NodeRow) -> bool) -> bool {
    let row = |station: &Station| summary.nodes.iter().find(|row| row.node == station.name);
    stations.iter().all(|station| row(station).is_some_and(&holds))
}
