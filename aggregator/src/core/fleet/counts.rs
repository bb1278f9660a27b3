//! Counts of what was merged and what was not, for the aggregator's own metrics.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_schemas::subject::SnapshotKind;
use plimsoll_schemas::summary::Ledger;
use serde::{Deserialize, Serialize};

use super::ledger::Decision;
use super::node::Node;
use crate::core::ingest::Timeliness;

/// Counts of snapshots and samples. They only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeCounts {
    pub merged: BTreeMap<Cow<'static, str>, u64>,
    /// Snapshots that had been merged before.
    pub duplicates: u64,
    /// Snapshots of incarnations too old to be remembered.
    #[serde(rename = "of_evicted_runs")]
    pub of_evicted_incarnations: u64,
    /// Samples too old for the shortest window.
    pub late_samples: u64,
    /// Snapshots from a clock too far ahead.
    pub clock_ahead: u64,
    /// What a limit rejected, by kind: samples folded into `other`, numbers, readings, messages of
    /// nodes, and what was evicted.
    pub limited: BTreeMap<Cow<'static, str>, u64>,
    /// The ledger entries of evicted nodes, so that sums over the fleet never fall.
    #[serde(default)]
    pub gone: Ledger,
}

impl MergeCounts {
    /// Counts a snapshot that is not merged; false if it is.
    pub(super) fn is_refused(&mut self, decision: Decision) -> bool {
        match decision {
            Decision::Merge => return false,
            Decision::Duplicate => self.duplicates += 1,
            Decision::Evicted => self.of_evicted_incarnations += 1,
        }
        true
    }

    pub(super) fn merge(&mut self, kind: SnapshotKind, timeliness: Timeliness, samples: u64) {
        *self.merged.entry(kind.as_str().into()).or_default() += 1;
        match timeliness {
            Timeliness::InTime => {}
            Timeliness::Late => self.late_samples = self.late_samples.saturating_add(samples),
            Timeliness::Ahead => self.clock_ahead += 1,
        }
    }

    pub(super) fn reject_of(&mut self, node: &mut Node, kind: &'static str, n: u64) {
        self.reject(kind, n);
        if n > 0 {
            let count = Arc::make_mut(&mut node.limited).entry(kind.into()).or_default();
            *count = count.saturating_add(n);
        }
    }

    pub(super) fn reject(&mut self, kind: &'static str, n: u64) {
        if n > 0 {
            let count = self.limited.entry(kind.into()).or_default();
            *count = count.saturating_add(n);
        }
    }
}
