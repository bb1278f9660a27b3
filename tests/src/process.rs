//! A single process of the mesh, on ports that it chooses itself; rows of a summary.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use plimsoll_mesh::child::{Child, log_field, until};
use plimsoll_mesh::stack::Station;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::alert::{AlertState, AlertsPage};
use plimsoll_schemas::summary::{NodeRow, OperationRow, Summary};

use crate::program::program;

const START_WAIT: Duration = Duration::from_secs(60);

/// A node or an aggregator; killed when dropped.
pub struct MeshProcess {
    pub api: Api,
    child: Child,
    socket: PathBuf,
}

impl MeshProcess {
    /// A node of the mesh `local` with a UDP port and a Unix socket.
    ///
    /// # Errors
    /// When it does not start; the text holds its log.
    pub async fn node(name: &str, dir: &Path, broker: &str) -> Result<Self> {
        Self::node_with(name, dir, broker, &[]).await
    }

    /// The same with additional flags.
    ///
    /// # Errors
    /// When it does not start; the text holds its log.
    pub async fn node_with(name: &str, dir: &Path, broker: &str, flags: &[&str]) -> Result<Self> {
        let (socket, stream) =
            (dir.join(format!("{name}.sock")), dir.join(format!("{name}.stream")));
        let mut command = program("plimsoll-node")?;
        command
            .args(["--name", name, "--mesh", "local", "--nats", broker])
            .args(["--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--unix"])
            .arg(&socket)
            .arg("--stream")
            .arg(&stream)
            .args(flags);
        Self::started(Child::start(name, dir, command)?, socket).await
    }

    /// An aggregator of the mesh `local` that confirms what it has in memory.
    ///
    /// # Errors
    /// When it does not start; the text holds its log.
    pub async fn aggregator(dir: &Path, broker: &str) -> Result<Self> {
        let mut command = program("plimsoll-aggregator")?;
        command.args(["--mesh", "local", "--nats", broker, "--http", "127.0.0.1:0"]);
        command.args(["--set", "confirm.without_state=true"]);
        Self::started(Child::start("second-aggregator", dir, command)?, PathBuf::new()).await
    }

    /// The same with a file of settings.
    ///
    /// # Errors
    /// When it does not start; the text holds its log.
    pub async fn aggregator_with(dir: &Path, broker: &str, settings: &Path) -> Result<Self> {
        let mut command = program("plimsoll-aggregator")?;
        command.args(["--mesh", "local", "--nats", broker, "--http", "127.0.0.1:0", "--config"]);
        command.arg(settings);
        Self::started(Child::start("second-aggregator", dir, command)?, PathBuf::new()).await
    }

    async fn started(child: Child, socket: PathBuf) -> Result<Self> {
        let http = until("a process logs its HTTP address", START_WAIT, async || {
            log_field(&child.log(), "http")
        });
        let http = http.await.with_context(|| child.log())?;
        Ok(Self { api: Api::at(&http)?, child, socket })
    }

    /// The node's Unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The node's stream socket.
    pub fn stream(&self) -> PathBuf {
        self.socket.with_extension("stream")
    }

    /// The node's UDP port.
    ///
    /// # Errors
    /// When it has none.
    pub fn udp(&self) -> Result<SocketAddr> {
        let address = log_field(&self.log(), "udp").context("no UDP address in the log")?;
        Ok(address.parse()?)
    }

    /// The address at which the node receives OTLP over `http` or `grpc`.
    ///
    /// # Errors
    /// When it has none.
    pub fn otlp(&self, protocol: &str) -> Result<SocketAddr> {
        let address = log_field(&self.log(), &format!("otlp_{protocol}"));
        Ok(address.context("no OTLP address in the log")?.parse()?)
    }

    /// Standard output and error so far.
    pub fn log(&self) -> String {
        self.child.log()
    }

    /// True while the process runs.
    ///
    /// # Errors
    /// When the system does not report it.
    pub fn is_alive(&mut self) -> Result<bool> {
        Ok(self.child.ended()?.is_none())
    }

    pub fn signal(&self, signal: Signal) {
        self.child.signal(signal);
    }

    /// Waits until it exits.
    ///
    /// # Errors
    /// When it does not exit in time.
    pub async fn end(&mut self, wait: Duration) -> Result<ExitStatus> {
        self.child.wait(wait).await
    }

    /// Sends SIGTERM and waits until it exits.
    ///
    /// # Errors
    /// When it does not exit in time.
    pub async fn terminate(&mut self, wait: Duration) -> Result<ExitStatus> {
        self.child.terminate(wait).await
    }
}

/// A node's row.
///
/// # Errors
/// When there is none.
pub fn node_row<'a>(summary: &'a Summary, name: &str) -> Result<&'a NodeRow> {
    let row = summary.nodes.iter().find(|row| row.node == name);
    row.with_context(|| format!("{name} is not in the summary"))
}

/// An operation's row of one node, or of the fleet when `scope` is empty.
pub fn operation_row<'a>(
    summary: &'a Summary,
    scope: &str,
    operation: &str,
) -> Option<&'a OperationRow> {
    let fits = |row: &&OperationRow| row.operation == operation && row.scope.node() == scope;
    summary.operations.iter().find(fits)
}

/// Samples of an operation over the fleet.
pub fn fleet_samples(summary: &Summary, name: &str) -> u64 {
    operation_row(summary, "", name).map_or(0, |row| row.total.count)
}

/// Waits until every node holds this many messages.
///
/// # Errors
/// When one does not in time.
pub async fn await_held(stations: &[Station], messages: f64) -> Result<()> {
    for station in stations {
        let what = format!("{} holds {messages} messages", station.name);
        let held = async || {
            let depth = station.api.metric("plimsoll_agent_outbox_depth").await;
            depth.ok().flatten().filter(|depth| *depth >= messages)
        };
        until(&what, START_WAIT, held).await?;
    }
    Ok(())
}

/// Waits until a checkpoint is written that started after this call.
///
/// # Errors
/// When none is written for a minute.
pub async fn await_checkpoint(aggregator: &Api) -> Result<()> {
    let written =
        async || aggregator.metric("plimsoll_aggregator_checkpoints_total").await.ok().flatten();
    let before = until("a first checkpoint", START_WAIT, written).await?;

    // One may have been on its way.
    let twice = async || written().await.filter(|count| *count >= before + 2.0);
    until("two more checkpoints", START_WAIT, twice).await.map(drop)
}

/// Polls an aggregator until its summary `fits`.
///
/// # Errors
/// When none does in time.
pub async fn await_summary(
    api: &Api,
    what: &str,
    fits: impl Fn(&Summary) -> bool,
) -> Result<Summary> {
    until(what, START_WAIT, async || api.summary().await.ok().filter(|summary| fits(summary))).await
}

/// Waits until an alert of each of these rules fires.
///
/// # Errors
/// When they do not fire in time.
pub async fn await_firing(api: &Api, rules: &[&str]) -> Result<()> {
    let are_firing = async || {
        let page: AlertsPage = serde_json::from_str(&api.get("/api/v1/alerts").await.ok()?).ok()?;
        let rows = page.alerts.iter().filter(|row| row.state == AlertState::Firing);
        let firing: BTreeSet<&str> = rows.map(|row| row.key.rule.as_str()).collect();
        rules.iter().all(|rule| firing.contains(rule)).then_some(())
    };
    until(&format!("alerts of {rules:?} fire"), START_WAIT, are_firing).await
}
