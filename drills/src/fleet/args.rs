//! The options of the fleet drill.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::limits::{CONNECTIONS_MAX, FAST_NODES_MAX, NODES_MAX, SCRAPERS_MAX};

/// Options of the fleet drill.
#[derive(Args, Clone, Debug, Default)]
pub struct FleetArgs {
    /// Simulated nodes; one more measures freshness
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    pub nodes: u32,
    /// How long the nodes send
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: u32,
    /// Connections that they share; as many as nodes give each node its own (`ulimit -n` must
    /// allow it)
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MAX)))]
    pub connections: u32,
    /// Start the broker as deploy/nats ships it: TLS, and a key with the permissions of
    /// `plimsoll nats-config` for each node, so `--connections` must be as many as nodes
    #[arg(long, conflicts_with = "url")]
    pub secured: bool,
    /// Samples of each of three operations in an interval
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub samples: u32,
    /// Samples of each operation in a node's first interval, as of one that has run for hours
    /// [default: those of any interval]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub first_samples: Option<u32>,
    /// Length of an interval
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = span)]
    pub interval: Duration,
    /// Time within which all nodes start, each at its own time
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = span)]
    pub join_within: Duration,
    /// Kill the broker after this time, and restart it with the same store: all connections
    /// must be back within 60 s, at most 500 a second, and no sample may be lost
    #[arg(long, value_name = "AFTER", conflicts_with = "url", value_parser = span)]
    pub restart_broker: Option<Duration>,
    /// How long the broker is down
    #[arg(long, value_name = "SPAN", default_value = "3s", value_parser = span)]
    pub broker_down: Duration,
    /// Let every node send a final message at the end
    #[arg(long)]
    pub leave: bool,
    /// Number of hostile nodes: every other one floods series, the rest send histograms as wide as
    /// possible
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub hostile: u32,
    /// Number of nodes with a wrong clock: 20 hours ahead, every other one at 1970
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skewed: u32,
    /// Number of nodes with intervals of 10 ms, so that each sends 100 times a second
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(FAST_NODES_MAX)))]
    pub fast: u32,
    /// After this time every node sends one message of the largest size, all in one interval
    #[arg(long, value_name = "AFTER", value_parser = span)]
    pub largest: Option<Duration>,
    /// After this time half of the nodes end without a final message and restart, all in one
    /// interval: a new incarnation, a full set of readings, and counts from zero
    #[arg(long, value_name = "AFTER", value_parser = span)]
    pub restart_nodes: Option<Duration>,
    /// Scrapers that each request the page of all nodes ten times a second
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(SCRAPERS_MAX)))]
    pub scrapers: u32,
    /// Start a second aggregator at the same broker; both must give the same answers
    #[arg(long, conflicts_with = "url")]
    pub pair: bool,
    /// Settings of the second aggregator, if they are not those of the first, as TOML
    #[arg(long, value_name = "FILE", requires = "pair")]
    pub second_settings: Option<PathBuf>,
    /// Kill, stall and restart broker and aggregators in turn, drawn by the seed, after pauses of
    /// half of this time to one and a half; a tenth of the nodes restart meanwhile
    #[arg(long, value_name = "SPAN", value_parser = span,
          conflicts_with_all = ["url", "restart_broker", "restart_nodes"])]
    pub faults_every: Option<Duration>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// URL of a running broker [default: start a broker and an aggregator]
    #[arg(long, value_name = "URL", requires = "aggregator")]
    pub url: Option<String>,
    /// The HTTP address of the aggregator beside it
    #[arg(long, value_name = "ADDRESS", requires = "url")]
    pub aggregator: Option<String>,
    /// The mesh's name [default: drill]
    #[arg(long, value_name = "NAME")]
    pub mesh: Option<String>,
    /// Settings of the aggregator that is started, as TOML
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    pub settings: Option<PathBuf>,
}

impl FleetArgs {
    /// How long the nodes send.
    pub fn length(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// Whether each node has a connection of its own.
    pub fn has_own_connections(&self) -> bool {
        self.connections >= self.nodes
    }
}

/// A span of at least ten milliseconds and at most an hour.
fn span(text: &str) -> Result<Duration, String> {
    let span = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let bounds = Duration::from_millis(10)..=Duration::from_secs(3_600);
    bounds.contains(&span).then_some(span).ok_or_else(|| "give 10ms to 1h".to_owned())
}
