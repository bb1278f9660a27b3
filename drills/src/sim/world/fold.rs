//! Safety of the aggregator: its state is a fold over what it has read, each message once. Held
//! against the books after every message, not only where a run ends.

use std::collections::BTreeSet;

use super::World;
use super::readers::Reading;
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
    pub(super) fn fold(&mut self, reading: &Reading) {
        self.add_to_fold(reading);
        self.check_fold(reading.from);
    }

    /// An aggregator begins again with what led to its checkpoint.
    pub(super) fn fold_anew(&mut self) {
        self.reader.folds = vec![Fold::default(); self.nodes.len()];
        let readings = std::mem::take(&mut self.reader.readings);
        readings.iter().for_each(|reading| self.add_to_fold(reading));
        self.reader.readings = readings;
        (0..self.nodes.len()).for_each(|number| self.check_fold(number));
    }

    /// Counts the gaps that people are told of, and those that have closed.
    pub(super) fn watch_gaps(&mut self) {
        let Some(core) = &self.reader.core else { return };
        for (node, tells) in self.nodes.iter().zip(&mut self.reader.gaps) {
            let told = std::mem::replace(tells, core.tells_gap(&node.name));
            self.reached.reach_n("ledger gap told", u64::from(!told && *tells));
            self.reached.reach_n("ledger gap closed", u64::from(told && !*tells));
        }
    }

    fn add_to_fold(&mut self, reading: &Reading) {
        let fold = &mut self.reader.folds[reading.from];
        let Some(booked) = self.books[reading.from].messages.get(&reading.name) else { return };
        if fold.names.insert(reading.name) {
            let reported = booked.samples.len() as u64;
            fold.samples += reported + booked.others;
            fold.reported += reported;
        }
    }

    fn check_fold(&mut self, number: usize) {
        let Some(core) = &self.reader.core else { return };
        let (fold, name) = (&self.reader.folds[number], &self.nodes[number].name);
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
