//! Runs: which there are, when they began and ended, and which nodes they touched.
//!
//! Owns every run by its name. A run begins and ends by a client's command or by what `plimsoll
//! run` reports through a node; of several commands of one name, the first begin and the last end
//! count. Its samples are in roll-ups and in the history; how many of them are not in a group of
//! their own is here. The number of runs is bounded: of those of the holder with most runs, the one
//! that ended first makes room, and what finds none is counted.
//!
//! Interface: [`RunRegistry::on_command`] for clients, [`RunRegistry::on_merged`] for what nodes
//! send, [`RunRegistry::rows`] for pages, [`RunRegistry::checkpoint`] for the store.
//!
//! DESIGN A81, A175.

mod command;
mod named_run;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_schemas::ids::{NodeName, Operation, RunName};
use plimsoll_schemas::run::{RUN_LABEL, RunReport};
use plimsoll_schemas::summary::{RunRow, RunState};
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

pub use command::{RunCommand, RunError, RunsQuery};

use self::named_run::{Holder, NamedRun};
use super::fleet::{MergedSnapshot, Rollups};
use crate::limits::runs::RUNS_MAX;

#[derive(Debug, Default)]
pub struct RunRegistry {
    pub(super) stored: StoredRuns,
    /// Since the last checkpoint.
    pub(super) has_changed: bool,
}

/// What a checkpoint stores of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredRuns {
    /// Shared with a checkpoint while that is written.
    runs: BTreeMap<RunName, Arc<NamedRun>>,
    /// Runs that were evicted, and begins for which there was no room.
    pub(super) limited: u64,
}

impl RunRegistry {
    /// The runs that a checkpoint holds.
    pub fn restore(stored: StoredRuns) -> Self {
        Self { stored, has_changed: false }
    }

    /// Begins or stops a run for a client.
    pub fn on_command(&mut self, now: Wall, command: RunCommand) -> Result<RunRow, RunError> {
        command.check()?;

        let (name, run) = match command {
            RunCommand::Begin { name, labels, by } => {
                if let Some(run) = self.stored.runs.get(&name) {
                    return Err(RunError::Exists { name, state: run.state(now) });
                }
                if !self.make_room(now, &Holder::Clients) {
                    return Err(RunError::Full);
                }
                let run = Arc::new(NamedRun::begun_by_client(now, labels, by));
                (name.clone(), &*self.stored.runs.entry(name).or_insert(run))
            }
            RunCommand::Stop { name, exit_code } => {
                let Some(run) = self.stored.runs.get_mut(&name) else {
                    return Err(RunError::Unknown(name));
                };
                if run.state(now) == RunState::Ended {
                    return Err(RunError::Ended(name));
                }
                Arc::make_mut(run).stop(now, exit_code);
                (name, &*run)
            }
        };

        self.has_changed = true;
        Ok(run.row(&name, now))
    }

    /// A snapshot was merged into `rollups`: its reports begin and end runs, and its samples show
    /// which runs its node has.
    pub fn on_merged(&mut self, now: Wall, merged: &MergedSnapshot, rollups: &Rollups) {
        for (at, report) in &merged.run_reports {
            self.on_report(now, *at, &merged.node, report);
            self.touch(report.run.as_str(), merged);
        }

        // Most meshes have no run, and labels of each series would be searched for all the same.
        if self.stored.runs.is_empty() {
            return;
        }

        for samples in &merged.samples {
            let of_node = samples.node_labels.get(RUN_LABEL);
            for (series, packed) in &samples.latency.histograms {
                let of_series = series.labels.get(RUN_LABEL).filter(|name| !name.is_empty());
                let Some(name) = of_series.or(of_node) else { continue };
                self.touch(name, merged);
                if self.stored.runs.contains_key(name)
                    && rollups.is_folded(RUN_LABEL, series, &samples.node_labels)
                {
                    self.on_folded(name, &series.operation, packed.exact().count);
                }
            }
        }
    }

    /// Samples of a run found no room in a group of their own.
    fn on_folded(&mut self, name: &str, operation: &Operation, samples: u64) {
        let Some(run) = self.stored.runs.get_mut(name).filter(|_| samples > 0) else { return };
        Arc::make_mut(run).on_folded(operation, samples);
        self.has_changed = true;
    }

    fn on_report(&mut self, now: Wall, at: Wall, node: &NodeName, report: &RunReport) {
        self.has_changed = true;
        if let Some(run) = self.stored.runs.get_mut(&report.run) {
            return Arc::make_mut(run).on_report(at, report);
        }
        if self.make_room(now, &Holder::Node(node.clone())) {
            let run = Arc::new(NamedRun::reported(at, report));
            self.stored.runs.insert(report.run.clone(), run);
        }
    }

    fn touch(&mut self, name: &str, MergedSnapshot { node, taken, .. }: &MergedSnapshot) {
        let run = self.stored.runs.get_mut(name).filter(|run| !run.is_touched(node, *taken));
        if let Some(run) = run {
            Arc::make_mut(run).touch(node, *taken);
            self.has_changed = true;
        }
    }

    /// Where there is no room for one run more, evicts one of the holder with most runs, a further
    /// one of `holder` among them. Returns whether there is room.
    fn make_room(&mut self, now: Wall, holder: &Holder) -> bool {
        if self.stored.runs.len() < RUNS_MAX {
            return true;
        }
        self.stored.limited = self.stored.limited.saturating_add(1);
        self.has_changed = true;
        let Some(name) = self.to_evict(now, holder) else { return false };
        self.stored.runs.remove(&name).is_some()
    }

    /// The run that makes room for one more of `holder`.
    fn to_evict(&self, now: Wall, holder: &Holder) -> Option<RunName> {
        let mut held = BTreeMap::from([(holder.clone(), 1)]);
        for run in self.stored.runs.values() {
            *held.entry(run.holder()).or_insert(0) += 1;
        }
        // Of holders with as many the one that wants one more
        // gives one up, so none pushes out another's (A175).
        let most = held.iter().max_by_key(|(of, runs)| (**runs, *of == holder))?.0;

        let first = |fits: &dyn Fn(&NamedRun) -> bool| {
            let runs = self.stored.runs.iter().filter(|(_, run)| fits(run));
            runs.min_by_key(|(_, run)| run.last_active()).map(|(name, _)| name.clone())
        };

        let is_over = |run: &NamedRun| run.state(now) != RunState::Running;
        let of_most = first(&|run| is_over(run) && run.holder() == *most);

        of_most.or_else(|| match most {
            // A node that has all the room with runs that go on keeps no other from it.
            Holder::Node(_) if most == holder => None,
            Holder::Node(_) => first(&|run| run.holder() == *most),
            Holder::Clients | Holder::Several => first(&is_over),
        })
    }

    /// The runs that a query matches, newest first.
    pub fn rows(&self, now: Wall, query: &RunsQuery) -> Vec<RunRow> {
        let runs = self.stored.runs.iter();
        let mut matching: Vec<_> =
            runs.filter(|(name, run)| query.matches(name, run.state(now))).collect();
        matching.sort_by_key(|(_, run)| Reverse(run.begun));
        matching.into_iter().take(query.limit).map(|(name, run)| run.row(name, now)).collect()
    }

    /// From here on nothing has changed.
    pub fn clear_changes(&mut self) {
        self.has_changed = false;
    }

    /// What a checkpoint stores; from here on nothing has changed.
    pub fn checkpoint(&mut self) -> StoredRuns {
        self.clear_changes();
        self.stored.clone()
    }
}
