//! The command line of `plimsoll`.

use clap::{Parser, Subcommand};
use plimsoll_runtime::exit::TABLE;

use crate::alerts::{AcknowledgeArgs, AlertsArgs, SilenceArgs};
use crate::up::UpArgs;

/// Keeps latency budgets honest across a fleet: the operator's command
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_help = format!("{EXAMPLES}\n\n{TABLE}"))]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a broker, an aggregator and nodes with real jobs on this machine, and watch them
    Up(UpArgs),
    /// List the alerts that stand
    Alerts(AlertsArgs),
    /// Keep receivers from hearing of some alerts for a while
    Silence(SilenceArgs),
    /// Say that somebody looks after an alert
    Acknowledge(AcknowledgeArgs),
}

const EXAMPLES: &str = "Examples:
  plimsoll up                             watch three nodes; Ctrl-C drains and ends
  plimsoll up --seconds 30 --json         end by itself, report as JSON
  plimsoll up --nodes 5 --dir ./run       keep logs, raw samples and streams
  plimsoll alerts --state firing          what fires now, with why
  plimsoll silence --node n7 --for 2h     tell nobody of its alerts for a while
  plimsoll acknowledge --rule epoch_hook  I look after it";
