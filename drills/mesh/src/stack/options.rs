//! What a local mesh consists of.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plimsoll_schemas::ids::MeshName;

/// The program that runs beside each node and sends it samples.
///
/// It is started with `--statsd unix://SOCKET --raw FILE --commands FILE --dir DIR --seed N`: it
/// sends to the socket, writes every latency it sends to the raw file (operation and nanoseconds
/// a line), reads commands from lines that are appended to the commands file, keeps its own files
/// in the directory, and on SIGTERM exits with status 0 once everything is sent.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Path of the program.
    pub program: PathBuf,
    /// Further arguments.
    pub arguments: Vec<OsString>,
}

impl Workload {
    /// The program at a path, without further arguments.
    #[must_use]
    pub fn at(program: PathBuf) -> Self {
        Self { program, arguments: Vec::new() }
    }
}

/// What to start.
#[derive(Clone, Debug)]
pub struct StackOptions {
    /// Every file is written below this directory.
    pub dir: PathBuf,
    /// The mesh's name.
    pub mesh: MeshName,
    /// Number of nodes.
    pub nodes: usize,
    /// Address of the aggregator's HTTP pages; a free port of loopback if `None` or port 0.
    pub http: Option<String>,
    /// Settings of the aggregator, as TOML.
    pub aggregator_settings: String,
    /// Settings of every node, as TOML; `{node}` is replaced by the node's name.
    pub node_settings: String,
    /// What runs beside each node; nothing if `None`.
    pub workload: Option<Workload>,
    /// Whether the broker has JetStream.
    pub jetstream: bool,
    /// Servers of the broker. More than one form a cluster, each of which stores every stream.
    pub servers: usize,
    /// Further lines of each server's configuration file.
    pub broker_settings: String,
    /// Parent of the nodes' spool directories; without spools if `None`.
    pub spools: Option<PathBuf>,
    /// Whether the aggregator keeps its state and its history in files across restarts.
    pub keep_state: bool,
    /// A second aggregator at the same broker: its files are apart, its settings are these.
    pub second_settings: Option<String>,
    /// Begins the name of each node; its number follows.
    pub node_prefix: String,
    /// Whether nodes reach the broker through a proxy, see [`crate::proxy`].
    pub through_proxy: bool,
    /// Whether nodes receive datagrams over UDP too, see [`super::Station::udp`].
    pub udp: bool,
}

impl StackOptions {
    /// Three nodes without a workload, with all files below `dir`.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            mesh: MeshName::new("local").expect("a constant name of plain letters"),
            nodes: 3,
            http: None,
            aggregator_settings: String::new(),
            node_settings: String::new(),
            workload: None,
            jetstream: true,
            servers: 1,
            broker_settings: String::new(),
            spools: Some(dir.join("spool")),
            keep_state: true,
            second_settings: None,
            node_prefix: "node-".to_owned(),
            through_proxy: false,
            udp: false,
        }
    }

    /// The flags of both programs about replicas; nothing of a single server.
    pub(super) fn replicas_flag(&self) -> Vec<String> {
        let flag = || vec!["--set".to_owned(), format!("bus.replicas={}", self.servers)];
        if self.servers > 1 { flag() } else { Vec::new() }
    }

    /// The same with a workload beside each node.
    #[must_use]
    pub fn with_workload(self, workload: Workload) -> Self {
        Self { workload: Some(workload), ..self }
    }
}
