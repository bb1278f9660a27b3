//! The command line of `plimsoll`.

use clap::{Parser, Subcommand};
use plimsoll_runtime::build::version;
use plimsoll_runtime::exit::TABLE;

use crate::advise::AdviseArgs;
use crate::alerts::{AcknowledgeArgs, AlertsArgs, SilenceArgs};
use crate::baseline::BaselineArgs;
use crate::blame::BlameArgs;
use crate::bottlenecks::BottlenecksArgs;
use crate::compare::CompareArgs;
use crate::doctor::DoctorArgs;
use crate::hlog::HlogArgs;
use crate::ledger::LedgerArgs;
use crate::manual::{CompletionsArgs, ManArgs};
use crate::metrics::MetricsArgs;
use crate::nats_config::NatsConfigArgs;
use crate::nodes::NodesArgs;
use crate::profile::ProfileArgs;
use crate::query::QueryArgs;
use crate::report::ReportArgs;
use crate::run::RunArgs;
use crate::runs::RunsArgs;
use crate::statistics::StatisticsArgs;
use crate::top::TopArgs;
use crate::up::UpArgs;

/// Run a local mesh; query statistics and the past; compare runs; show, silence and acknowledge
/// alerts
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll",
    version = version(),
    after_help = format!("{EXAMPLES}\n\n{TABLE}")
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a broker, an aggregator and nodes with jobs on this machine
    Up(UpArgs),
    /// Watch budgets, nodes and alerts in the terminal
    Top(TopArgs),
    /// Check the mesh and this machine: what is wrong, and how to fix it
    Doctor(DoctorArgs),
    /// Run a command as a named run: its samples have the label `run`
    Run(RunArgs),
    /// List the runs that an aggregator keeps
    Runs(RunsArgs),
    /// List alerts
    Alerts(AlertsArgs),
    /// Show which rank of a job holds up the others
    Blame(BlameArgs),
    /// Show count, mean, deviation and percentiles of an operation
    Statistics(StatisticsArgs),
    /// Show quantiles of an operation at any past time
    Query(QueryArgs),
    /// Show counters and gauges of jobs: rates, ratios and values, now and in the past
    Metrics(MetricsArgs),
    /// Show where the time of a run or a range goes, and what is too much of it
    Bottlenecks(BottlenecksArgs),
    /// Recommend what to do about the bottlenecks of a run, a range or a report
    Advise(AdviseArgs),
    /// Compare latencies and rates of two runs: shifts with intervals, noise floor, verdict
    Compare(CompareArgs),
    /// List, show and check baselines: targets of platforms
    Baseline(BaselineArgs),
    /// Write a baseline or an interval log as an interval log for HdrHistogram tools
    Hlog(HlogArgs),
    /// Write a report of a run or a range: HTML, Markdown or JSON
    Report(ReportArgs),
    /// Sample the stacks of a process on this machine or on a node
    Profile(ProfileArgs),
    /// Show the state of each node
    Nodes(NodesArgs),
    /// Show the ledger: where every sample is, by node
    Ledger(LedgerArgs),
    /// Silence alerts: receivers are not notified until the silence ends
    Silence(SilenceArgs),
    /// Acknowledge an alert: receivers are notified only of its end
    Acknowledge(AcknowledgeArgs),
    /// Generate nats-server users and keys for a mesh
    NatsConfig(NatsConfigArgs),
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Print the manual page, or write those of all programs and subcommands
    Man(ManArgs),
}

const EXAMPLES: &str = "Examples:
  plimsoll up                             run three nodes; Ctrl-C drains and stops
  plimsoll up --seconds 30 --json         run for 30 s, report as JSON
  plimsoll up --nodes 5 --dir ./run       keep logs, raw samples and streams
  plimsoll top                            budgets, worst nodes and alerts, live
  plimsoll doctor                         what is wrong, and how to fix it
  plimsoll run --name v42 -- ./train      samples with the label run=v42
  plimsoll alerts --state firing          firing alerts with their summaries
  plimsoll alerts --history               what fired and resolved, newest first
  plimsoll blame                          which rank of a job holds up the others
  plimsoll statistics fetch               mean and percentiles of the fleet
  plimsoll query fetch --from 10:05       the same at any past time
  plimsoll bottlenecks run:v42            where the time goes, and what is too much
  plimsoll compare a.hlog b.hlog          shifts of all quantiles from a to b
  plimsoll baseline check x86             whether nodes meet the targets of a platform
  plimsoll report --last 1h -o r.html     budgets, heatmaps, alerts, time over budget
  plimsoll profile cpu --pid 4711         functions that a process spends its time in
  plimsoll nodes --presence silent        nodes that send no messages
  plimsoll ledger --open                  nodes whose samples are not all merged
  plimsoll silence --node n7 --for 2h     silence the alerts of a node
  plimsoll acknowledge --rule epoch_hook  acknowledge the alert of a rule
  plimsoll nats-config --keys ./keys n1   users and permissions for nats-server";
