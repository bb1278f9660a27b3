//! The options of the load drill.

use clap::{Args, ValueEnum};

use super::schedule::{NODES_MAX, OPERATIONS_MAX, SAMPLES_MAX};

/// Options of the load drill.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// Samples in all
    #[arg(long, value_name = "N", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=SAMPLES_MAX))]
    pub count: u64,
    /// Samples a second over all nodes; 0 for as fast as possible: then all are due at the start
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub rate: u32,
    /// Start a burst after this many seconds: ten times the rate for ten seconds
    #[arg(long, value_name = "SECONDS", requires = "rate",
          value_parser = clap::value_parser!(u32).range(0..=3_600))]
    pub burst_after: Option<u32>,
    /// Operations: load.0, load.1 and so on
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(OPERATIONS_MAX)))]
    pub operations: u32,
    /// Nodes to start, which send the samples
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    pub nodes: u32,
    /// Send over UDP, as StatsD clients do by default, and not over the Unix socket. Of the samples
    /// of the burst, or of all without one, 5 % may then be lost in the sockets' buffers
    #[arg(long)]
    pub udp: bool,
    /// Most samples in one datagram, of those that are due [default: what 4096 bytes hold; over UDP
    /// 1432]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub per_datagram: Option<u32>,
    /// Whether the samples are within the limit of a budget, or over it
    #[arg(long, value_name = "PRIORITY", value_enum, default_value_t)]
    pub priority: Priority,
    /// URL of a running broker, nats:// [default: start a broker and an aggregator]
    #[arg(long, value_name = "URL", requires = "aggregator")]
    pub broker: Option<String>,
    /// The HTTP address of the aggregator beside it
    #[arg(long, value_name = "ADDRESS", requires = "broker")]
    pub aggregator: Option<String>,
    /// The mesh's name [default: drill]
    #[arg(long, value_name = "NAME")]
    pub mesh: Option<String>,
    /// Count one sample more as sent than was, to see this drill fail with exit code 6
    #[arg(long)]
    pub plant_miss: bool,
}

/// What the samples are to their node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Priority {
    /// 5 ms, within the limit of 50 ms
    #[default]
    Normal,
    /// 80 ms, over it: intervals with such a sample are critical. A mesh that was running before
    /// needs a budget of its own for load.0 and so on
    Critical,
}

impl Priority {
    /// The latency of its samples, in milliseconds.
    pub(super) const fn ms(self) -> u64 {
        match self {
            Self::Normal => 5,
            Self::Critical => 80,
        }
    }

    /// The value as it is printed.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Critical => "critical",
        }
    }
}
