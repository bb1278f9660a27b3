//! Processes are stopped, killed and wiped under load, and every sample must turn up again:
//! merged once, or lost for a named reason.
//!
//! Each [`Scenario`] runs on a mesh of its own. The jobs' raw files list the recorded samples, the
//! aggregator's summary the merged and lost ones; [`account`] compares the two as sets. A
//! difference that no ledger names is unexplained, and fails the drill.

use std::path::Path;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::expectation::Drill;
use super::report::Report;

mod absent;
pub mod account;
mod broker;
mod disk;
mod feeder;
mod late;
mod memory;
mod processes;
mod rig;
mod storm;

/// Options of the fault drill.
#[derive(Args, Clone, Debug, Default)]
pub struct FaultsArgs {
    /// Run this one only; may be given several times [default: all, one after the other]
    #[arg(long, value_name = "NAME", value_enum)]
    pub only: Vec<Scenario>,
    /// Seed of the faults in a storm
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
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
    /// One fault after the other, drawn by a seed, with no time to recover from each
    Storm,
}

impl Scenario {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BrokerStopped => "broker-stopped",
            Self::BrokerKilled => "broker-killed",
            Self::BrokerWiped => "broker-wiped",
            Self::BrokerAbsent => "broker-absent",
            Self::NodeKilled => "node-killed",
            Self::AggregatorKilled => "aggregator-killed",
            Self::AllKilled => "all-killed",
            Self::AllWiped => "all-wiped",
            Self::Deaf => "deaf",
            Self::DiskFull => "disk-full",
            Self::LateBreach => "late-breach",
            Self::Storm => "storm",
        }
    }

    async fn run(self, dir: &Path, seed: u64) -> Result<Report> {
        let drill = Drill::begin(self.name());
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
            Self::Storm => storm::storm(drill, dir, seed).await,
        }
    }
}

/// The scenarios with a line on each.
#[must_use]
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
    let all = Scenario::value_variants();
    let wanted = if args.only.is_empty() { all } else { &args.only };
    let mut reports = Vec::new();
    for scenario in wanted {
        eprintln!("--- {}", scenario.name());
        reports.push(scenario.run(&dir.join(scenario.name()), args.seed).await?);
    }
    Ok(Report::joined(&drill, reports))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_listed_by_its_command_name() {
        for scenario in Scenario::value_variants() {
            let value = scenario.to_possible_value().unwrap();
            assert_eq!(value.get_name(), scenario.name());
            assert!(list().contains(&format!("{:<18} ", scenario.name())), "{}", list());
        }
    }
}
