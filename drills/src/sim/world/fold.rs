//! Safety of the aggregator: its state is a fold over what it has read, each message once. Held
//! against the books after every message, not only where a run ends.

use std::collections::BTreeSet;

use super::World;
use super::readers::{ReaderProcess, Reading};
use crate::sim::book::Name;
use crate::sim::reader::Merged;

/// What an aggregator's state was made of, as far as one node is concerned.
#[derive(Clone, Debug, Default)]
pub(super) struct Fold {
    /// Messages, each once.
    names: BTreeSet<Name>,
    /// Samples in them.
    samples: u64,
    /// Samples in its histograms, and of those the ones that jobs reported.
    shown: (u64, u64),
    /// Events that it has counted.
    events: u64,
    /// True while it is hidden.
    is_hidden: bool,
    /// Whether it ever was: then histograms are not all there is.
    pub(super) was_hidden: bool,
}

impl World {
    /// A message was read: the state must have grown by its samples, or not at all when it had
    /// been read before.
    pub(super) fn fold(&mut self, which: usize, reading: &Reading) {
        let reported = self.add_to_fold(which, reading);
        self.check_fold(which, reading.from, reported > 0);
    }

    /// An aggregator begins again with what led to its checkpoint.
    pub(super) fn fold_anew(&mut self, which: usize) {
        let before = std::mem::take(&mut self.readers[which].folds);
        let was_hidden = |number: usize| before.get(number).is_some_and(|fold| fold.was_hidden);
        let fresh = |number| Fold { was_hidden: was_hidden(number), ..Fold::default() };
        self.readers[which].folds = (0..self.nodes.len()).map(fresh).collect();
        let readings = std::mem::take(&mut self.readers[which].readings);
        for reading in &readings {
            self.add_to_fold(which, reading);
        }
        let ReaderProcess { core, folds, .. } = &mut self.readers[which];
        for (node, fold) in self.nodes.iter().zip(folds).filter(|(_, fold)| fold.was_hidden) {
            // When exactly it was hidden last is not told by what was read.
            let held = core.as_ref().map(|core| core.held(&node.name, false)).unwrap_or_default();
            (fold.shown, fold.events) = ((held.samples, held.reported), held.events);
        }
        self.readers[which].readings = readings;
        (0..self.nodes.len()).for_each(|number| self.check_fold(which, number, true));
    }

    /// A hidden node has no histograms; when it is heard again they begin anew.
    pub(super) fn watch_hidden(&mut self, which: usize) {
        let ReaderProcess { core: Some(core), folds, .. } = &mut self.readers[which] else {
            return;
        };
        for (node, fold) in self.nodes.iter().zip(folds) {
            let was_hidden = std::mem::replace(&mut fold.is_hidden, core.hides(&node.name));
            if fold.is_hidden && !was_hidden {
                self.reached.reach("node hidden");
                (fold.was_hidden, fold.shown, fold.events) = (true, (0, 0), 0);
            }
        }
    }

    /// What was merged of a node that was hidden, as far as its ledger agrees.
    pub(super) fn merged_of_hidden(&self, which: usize, number: usize) -> Option<Merged> {
        let fold = self.readers[which].folds.get(number).filter(|fold| fold.was_hidden)?;
        let booked = fold.names.iter().filter_map(|name| self.books[number].messages.get(name));
        let mut merged = Merged::default();
        for booked in booked {
            merged.reported.extend(booked.samples.iter().map(|sample| (*sample, 1)));
            merged.others += booked.others;
        }
        merged.reported.sort_unstable();
        Some(merged)
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

    /// Tells how many samples of jobs the message carries.
    fn add_to_fold(&mut self, which: usize, reading: &Reading) -> u64 {
        let fold = &mut self.readers[which].folds[reading.from];
        let Some(booked) = self.books[reading.from].messages.get(&reading.name) else { return 0 };
        let reported = booked.samples.len() as u64;
        if fold.names.insert(reading.name) {
            fold.samples += reported + booked.others;
            fold.shown.0 += reported + booked.others;
            fold.shown.1 += reported;
            fold.events += booked.events;
        }
        reported
    }

    fn check_fold(&mut self, which: usize, number: usize, looks_for_doubled: bool) {
        let Some(core) = &self.readers[which].core else { return };
        let (fold, name) = (&self.readers[which].folds[number], &self.nodes[number].name);
        let held = core.held(name, looks_for_doubled);
        let expected = (fold.samples, fold.shown.0, fold.shown.1, fold.events);
        let invariant = if held.doubled.is_some() {
            "no sample is merged twice"
        } else if (held.merged, held.samples, held.reported, held.events) != expected {
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
