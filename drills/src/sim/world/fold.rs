//! Safety of the aggregator: its state is a fold over what it has read, each message once. Held
//! against the books after every message, not only where a run ends.

use std::collections::BTreeSet;

use super::World;
use super::readers::{ReaderProcess, Reading};
use crate::sim::book::Name;

/// What an aggregator's state was made of, as far as one node is concerned.
#[derive(Clone, Debug, Default)]
pub(super) struct Fold {
    /// Messages, each once.
    names: BTreeSet<Name>,
    /// Samples in them.
    samples: u64,
    /// Of those, samples that jobs reported.
    reported: u64,
}

impl World {
    /// A message was read: the state must have grown by its samples, or not at all when it had
    /// been read before.
    pub(super) fn fold(&mut self, which: usize, reading: &Reading) {
        self.add_to_fold(which, reading);
        self.check_fold(which, reading.from);
    }

    /// An aggregator begins again with what led to its checkpoint.
    pub(super) fn fold_anew(&mut self, which: usize) {
        self.readers[which].folds = vec![Fold::default(); self.nodes.len()];
        let readings = std::mem::take(&mut self.readers[which].readings);
        readings.iter().for_each(|reading| self.add_to_fold(which, reading));
        self.readers[which].readings = readings;
        (0..self.nodes.len()).for_each(|number| self.check_fold(which, number));
    }

    /// Counts the gaps that people are told of, and those that have closed.
    pub(super) fn watch_gaps(&mut self, which: usize) {
        let ReaderProcess { core: Some(core), gaps, .. } = &mut self.readers[which] else { return };
        for (node, tells) in self.nodes.iter().zip(gaps) {
            let told = std::mem::replace(tells, core.tells_gap(&node.name));
            self.reached.reach_n("ledger gap told", u64::from(!told && *tells));
            self.reached.reach_n("ledger gap closed", u64::from(told && !*tells));
        }
    }

    fn add_to_fold(&mut self, which: usize, reading: &Reading) {
        let fold = &mut self.readers[which].folds[reading.from];
        let Some(booked) = self.books[reading.from].messages.get(&reading.name) else { return };
        if fold.names.insert(reading.name) {
            let reported = booked.samples.len() as u64;
            fold.samples += reported + booked.others;
            fold.reported += reported;
        }
    }

    fn check_fold(&mut self, which: usize, number: usize) {
        let Some(core) = &self.readers[which].core else { return };
        let (fold, name) = (&self.readers[which].folds[number], &self.nodes[number].name);
        let held = core.held(name);
        let expected = (fold.samples, fold.samples, fold.reported);
        let invariant = if held.doubled.is_some() {
            "no sample is merged twice"
        } else if (held.merged, held.samples, held.reported) != expected {
            "what is merged is what was read, once"
        } else if held.recorded != held.known {
            "recorded = merged + held + unaccounted + unseen + lost"
        } else {
            return;
        };
        let words = format!("{name}: {held:?} of {fold:?}");
        self.break_with(invariant, || words);
    }
}
