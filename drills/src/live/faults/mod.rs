//! Processes are stopped, killed and wiped under load, and every sample must turn up again:
//! merged once, or lost for a named reason.
//!
//! Each [`Scenario`] runs on a mesh of its own. The jobs' raw files list the recorded samples, the
//! aggregator's summary the merged and lost ones; [`super::account`] compares the two as sets. A
//! difference that no ledger names is unexplained, and fails the drill.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::expectation::Drill;
use super::report::Report;

mod absent;
mod backlog;
mod breaker;
mod broker;
mod cluster;
mod counters;
mod delivery;
mod disk;
mod feeder;
mod fetches;
mod kill_loop;
mod late;
mod memory;
mod processes;
mod storm;
mod workers;

/// Options of the fault drill.
#[derive(Args, Clone, Debug, Default)]
pub struct FaultsArgs {
    /// Run this one only; may be given several times [default: all but queue-depth, byte-bound,
    /// fresh-breach, long-link and cluster-storm, one after the other]
    #[arg(long, value_name = "NAME", value_enum)]
    pub only: Vec<Scenario>,
    /// Seed of the faults in a storm, of one broker or of a cluster
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How long the node of `kill-loop` and `kill-loop-full` is killed again and again
    #[arg(long, value_name = "SECONDS", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(5..=900))]
    pub kill_seconds: u16,
    /// Time in which the breach of `fresh-breach` must be alerted; more on a busy machine
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(1..=60))]
    pub fresh_seconds: u16,
    /// How long the link of `fresh-breach` is stalled before its backlog drains
    #[arg(long, value_name = "SECONDS", default_value_t = 90,
          value_parser = clap::value_parser!(u16).range(60..=900))]
    pub backlog_seconds: u16,
    /// For how long faults begin in `cluster-storm`
    #[arg(long, value_name = "SECONDS", default_value_t = 300,
          value_parser = clap::value_parser!(u32).range(1..=604_800))]
    pub cluster_seconds: u32,
    /// Make each scenario miss an expectation, to see it fail with exit code 6
    #[arg(long)]
    pub plant_miss: bool,
    /// List the scenarios and end
    #[arg(long)]
    pub list: bool,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// The broker is stopped for 30 s and resumed
    BrokerStopped,
    /// The broker is killed and started again
    BrokerKilled,
    /// The broker is killed, loses its store, and is started again
    BrokerWiped,
    /// The broker is down for 600 intervals; the node's memory stays within its bound
    BrokerAbsent,
    /// A node is killed while the broker is down, and both are started again
    NodeKilled,
    /// The aggregator is killed and started again
    AggregatorKilled,
    /// Broker, aggregator and a node are killed at once and started again
    AllKilled,
    /// The same, and the broker loses its store
    AllWiped,
    /// A node receives no confirmation, and sends all that was merged once more
    Deaf,
    /// The disk under a node's spool is full
    DiskFull,
    /// A breach begins and ends while the aggregator is down
    LateBreach,
    /// A stream refuses every message for a while; breakers open, are probed and close
    Breaker,
    /// Fetches of kernels are slow on one node
    SlowFetches,
    /// A job breaks its isolation and compiles anew, beyond the limits of both rules
    JobCounters,
    /// A node is killed at random moments; each answered sample is merged once or named
    KillLoop,
    /// The same while the disk under its spool is full
    KillLoopFull,
    /// Pools of Python workers that live for a moment: they lose next to nothing
    ShortWorkers,
    /// A slow link: depth passes 4000 messages and comes back
    QueueDepth,
    /// A stalled link: what is beyond the byte bound is dropped by name
    ByteBound,
    /// A breach begins while a backlog drains through a slow link
    FreshBreach,
    /// A link with a round trip of 3 s, and a break
    LongLink,
    /// One fault after the other, drawn by a seed, with no time to recover from each
    Storm,
    /// A broker of three servers: one, its leader or two are killed, a stream is deleted, a store
    /// lost
    ClusterStorm,
}

impl Scenario {
    /// The name on the command line.
    pub fn name(self) -> String {
        let value = self.to_possible_value().expect("no scenario is hidden");
        value.get_name().to_owned()
    }

    /// Whether it takes minutes and runs only when it is named.
    const fn is_long(self) -> bool {
        matches!(
            self,
            Self::QueueDepth
                | Self::ByteBound
                | Self::FreshBreach
                | Self::LongLink
                | Self::ClusterStorm
        )
    }

    async fn run(self, dir: &Path, args: &FaultsArgs) -> Result<Report> {
        let FaultsArgs { seed, plant_miss, kill_seconds, .. } = *args;
        let drill = Drill::begin(self.name()).planting(plant_miss);
        let killing = Duration::from_secs(kill_seconds.into());

        match self {
            Self::BrokerStopped => broker::stopped(drill, dir).await,
            Self::BrokerKilled => broker::killed(drill, dir).await,
            Self::BrokerWiped => broker::wiped(drill, dir).await,
            Self::BrokerAbsent => absent::absent(drill, dir).await,
            Self::NodeKilled => processes::node_killed(drill, dir).await,
            Self::AggregatorKilled => processes::aggregator_killed(drill, dir).await,
            Self::AllKilled => processes::all_killed(drill, dir, false).await,
            Self::AllWiped => processes::all_killed(drill, dir, true).await,
            Self::Deaf => processes::deaf(drill, dir).await,
            Self::DiskFull => disk::full(drill, dir).await,
            Self::LateBreach => late::breach(drill, dir).await,
            Self::Breaker => breaker::refused(drill, dir).await,
            Self::SlowFetches => fetches::slow(drill, dir).await,
            Self::JobCounters => counters::counters(drill, dir).await,
            Self::KillLoop => kill_loop::kill_loop(drill, dir, killing, seed).await,
            Self::KillLoopFull => kill_loop::kill_loop_full(drill, dir, killing, seed).await,
            Self::ShortWorkers => workers::short(drill, dir).await,
            Self::QueueDepth => backlog::queue_depth(drill, dir).await,
            Self::ByteBound => backlog::byte_bound(drill, dir).await,
            Self::FreshBreach => {
                let [stall, within] = [args.backlog_seconds, args.fresh_seconds]
                    .map(|seconds| Duration::from_secs(seconds.into()));
                backlog::fresh_breach(drill, dir, stall, within).await
            }
            Self::LongLink => backlog::long_link(drill, dir).await,
            Self::Storm => storm::storm(drill, dir, seed).await,
            Self::ClusterStorm => {
                let lasting = Duration::from_secs(args.cluster_seconds.into());
                cluster::storm(drill, dir, lasting, seed).await
            }
        }
    }
}

/// The scenarios with a line on each.
pub fn list() -> String {
    let line = |scenario: &Scenario| {
        let help = scenario.to_possible_value().and_then(|value| value.get_help().cloned());
        format!("{:<18} {}", scenario.name(), help.unwrap_or_default())
    };
    Scenario::value_variants().iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Runs the drill, each scenario in a directory of its own below `dir`.
///
/// # Errors
/// When a mesh does not start.
pub async fn faults(args: &FaultsArgs, dir: &Path) -> Result<Report> {
    let drill = Drill::begin("drill-faults");
    let usual = Scenario::value_variants().iter().copied().filter(|one| !one.is_long());
    let wanted = if args.only.is_empty() { usual.collect() } else { args.only.clone() };
    let mut reports = Vec::new();
    for scenario in wanted {
        eprintln!("--- {}", scenario.name());
        reports.push(scenario.run(&dir.join(scenario.name()), args).await?);
    }
    Ok(Report::joined(&drill, reports))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_listed_with_what_it_does() {
        for scenario in Scenario::value_variants() {
            let value = scenario.to_possible_value().unwrap();
            let line = format!("{:<18} {}", scenario.name(), value.get_help().unwrap());
            assert!(list().lines().any(|listed| listed == line), "{line}: {}", list());
        }
    }
}
