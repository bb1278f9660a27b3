//! The oracle's record of one aggregator: what it has read, what it has confirmed, and what its
//! store must therefore hold.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::wire::confirmation::{self, ConfirmedIncarnation};

use super::fold::Fold;
use super::history::Name;
use super::node::NodeOracle;
use crate::sim::act::Who;
use crate::sim::cores::aggregator::{Merged, ReaderCore};
use crate::sim::kernel::Kernel;

/// One message read, and its position.
#[derive(Clone, Debug)]
pub struct Reading {
    pub lane: Lane,
    pub stream: u64,
    /// The message's number in it.
    pub number: u64,
    /// The node that sent it.
    pub from: usize,
    /// Its incarnation and sequence number.
    pub name: Name,
}

/// How far reading had come when a checkpoint was taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    readings: usize,
    resets: u64,
}

/// See the module.
pub struct ReaderOracle {
    who: Who,
    /// What led to the present state, each with the streams lost before it.
    readings: Vec<(Reading, u64)>,
    /// Streams that were lost so far.
    resets: u64,
    /// What the checkpoint in the store covers.
    mark: Mark,
    /// What each node was last sent as confirmed: incarnation, first and last number.
    confirmed: BTreeMap<usize, Vec<(u64, u64, u64)>>,
    /// Whether the aggregator reports a gap in a node's ledger.
    gaps: Vec<bool>,
    /// Each node's share of the state.
    folds: Vec<Fold>,
}

impl ReaderOracle {
    /// An aggregator that has read nothing.
    pub fn new(which: usize, nodes: usize) -> Self {
        Self {
            who: Who::Aggregator(which),
            readings: Vec::new(),
            resets: 0,
            mark: Mark::default(),
            confirmed: BTreeMap::new(),
            gaps: vec![false; nodes],
            folds: vec![Fold::default(); nodes],
        }
    }

    /// How far reading has come.
    pub fn mark(&self) -> Mark {
        Mark { readings: self.readings.len(), resets: self.resets }
    }

    /// What the checkpoint in the store covers.
    pub fn stored(&self) -> Mark {
        self.mark
    }

    /// A checkpoint is in the store.
    pub fn on_stored(&mut self, mark: Mark) {
        self.mark = mark;
    }

    /// A stream that was read is another one now.
    pub fn on_reset(&mut self) {
        self.resets += 1;
    }

    /// What was confirmed is not in any store: an aggregator without a store starts again, or a
    /// store was replaced by an older one.
    pub fn clear_confirmed(&mut self) {
        self.confirmed.clear();
    }

    /// A message was read: the state must have grown by its samples, or not at all when it had
    /// been read before.
    pub fn on_read(
        &mut self,
        k: &mut Kernel,
        core: &ReaderCore,
        node: &NodeOracle,
        reading: Reading,
    ) {
        let from = reading.from;
        let reported = self.folds[from].add(node.history(), reading.name);
        self.check_fold(k, core, from, node, reported > 0);
        self.readings.push((reading, self.resets));
    }

    /// A confirmation is sent: it names nothing that was never sent.
    pub fn on_confirmation(
        &mut self,
        k: &mut Kernel,
        number: usize,
        node: &NodeName,
        payload: &[u8],
    ) {
        let confirmation = match confirmation::decode(node, payload) {
            Ok(confirmation) => confirmation,
            Err(error) => {
                let what = || format!("n{number}: {error}");
                return k.fail("a confirmation can be read", what);
            }
        };

        let spans = |confirmed: &ConfirmedIncarnation| {
            let incarnation = confirmed.incarnation.0;
            confirmed.spans.clone().into_iter().map(move |(a, b)| (incarnation, a.0, b.0))
        };

        let confirmed: Vec<_> = confirmation.incarnations.iter().flat_map(spans).collect();
        let behind = if confirmation.behind { ", behind" } else { "" };
        let who = self.who;
        k.trace(|| format!("{who}: confirms to n{number} {confirmed:?}{behind}"));
        self.confirmed.insert(number, confirmed);
    }

    /// A restored state holds all that was read up to its positions and all that was confirmed,
    /// and no position is ahead of the state.
    pub fn check_restored(
        &mut self,
        k: &mut Kernel,
        core: &ReaderCore,
        merged: &BTreeMap<String, Merged>,
        nodes: &[NodeOracle],
    ) {
        for (number, node) in nodes.iter().enumerate() {
            let Some(merged) = merged.get(node.name().as_str()) else { continue };
            if let Err(what) = node.history().check_merged(merged) {
                k.fail("no sample is merged twice", || format!("n{number}: {what}"));
            }
        }

        let ahead = self.reading_missing(core, merged, nodes);
        self.readings.truncate(self.mark.readings);
        if let Some(what) = ahead {
            k.fail("a checkpoint's position is never ahead of its state", || what);
        }
        if let Some(what) = self.confirmed_missing(merged, nodes) {
            k.fail("what is confirmed is stored", || what);
        }
        self.fold_again(k, core, nodes);
    }

    /// The state must be a fold over what led to the checkpoint.
    fn fold_again(&mut self, k: &mut Kernel, core: &ReaderCore, nodes: &[NodeOracle]) {
        self.folds = self.folds.iter().map(Fold::restarted).collect();
        for (reading, _) in &self.readings {
            self.folds[reading.from].add(nodes[reading.from].history(), reading.name);
        }
        for (fold, node) in self.folds.iter_mut().zip(nodes) {
            if fold.was_expired() {
                fold.adopt_shown(&core.held(node.name(), false));
            }
        }
        for (number, node) in nodes.iter().enumerate() {
            self.check_fold(k, core, number, node, true);
        }
    }

    fn check_fold(
        &self,
        k: &mut Kernel,
        core: &ReaderCore,
        number: usize,
        node: &NodeOracle,
        checks_doubled: bool,
    ) {
        let (fold, held) = (&self.folds[number], core.held(node.name(), checks_doubled));
        if let Some(invariant) = fold.broken_by(&held) {
            k.fail(invariant, || format!("{}: {held:?} of {fold:?}", node.name()));
        }
    }

    /// Notifications which nodes the aggregator has expired.
    pub fn watch_expired(&mut self, k: &mut Kernel, core: &ReaderCore, nodes: &[NodeOracle]) {
        for (node, fold) in nodes.iter().zip(&mut self.folds) {
            if fold.set_expired(core.hides(node.name())) {
                k.reach("node expired");
            }
        }
    }

    /// Counts the gaps that the aggregator reports, and those that have closed.
    pub fn watch_gaps(&mut self, k: &mut Kernel, core: &ReaderCore, nodes: &[NodeOracle]) {
        for (node, reports) in nodes.iter().zip(&mut self.gaps) {
            let reported = std::mem::replace(reports, core.reports_gap(node.name()));
            k.reach_n("ledger gap reported", u64::from(!reported && *reports));
            k.reach_n("ledger gap closed", u64::from(reported && !*reports));
        }
    }

    /// What was merged of a node that was expired once, as far as its ledger agrees.
    pub fn merged_of_expired(&self, number: usize, node: &NodeOracle) -> Option<Merged> {
        let fold = &self.folds[number];
        fold.was_expired().then(|| fold.merged(node.history()))
    }

    /// Whether all of a message is in a store, as far as can be seen: not of expired nodes.
    fn holds(
        &self,
        merged: &BTreeMap<String, Merged>,
        number: usize,
        node: &NodeOracle,
        name: Name,
    ) -> bool {
        if self.folds[number].was_expired() {
            return true;
        }
        let merged = merged.get(node.name().as_str());
        let has = |sample: &usize| {
            let merged = merged.map(|merged| merged.reported.as_slice());
            merged.is_some_and(|m| m.binary_search_by_key(sample, |(b, _)| *b).is_ok())
        };
        let sent = node.history().messages.get(&name);
        sent.is_some_and(|sent| sent.samples.iter().all(has))
    }

    fn reading_missing(
        &self,
        core: &ReaderCore,
        merged: &BTreeMap<String, Merged>,
        nodes: &[NodeOracle],
    ) -> Option<String> {
        let mark = self.mark;
        let is_covered = |(at, (reading, resets)): &(usize, &(Reading, u64))| {
            let (position, stream) = core.position(reading.lane);
            let covers = stream == Some(reading.stream) && reading.number <= position;
            *at < mark.readings || (covers && *resets == mark.resets)
        };
        let mut covered = self.readings.iter().enumerate().filter(is_covered);
        let missing =
            covered.find(|(_, (r, _))| !self.holds(merged, r.from, &nodes[r.from], r.name));
        missing.map(|(_, (r, _))| format!("n{}: message {:?} at {}", r.from, r.name, r.number))
    }

    fn confirmed_missing(
        &self,
        merged: &BTreeMap<String, Merged>,
        nodes: &[NodeOracle],
    ) -> Option<String> {
        for (number, confirmed) in &self.confirmed {
            let node = &nodes[*number];
            for (incarnation, first, last) in confirmed {
                let names = (*incarnation, *first)..=(*incarnation, *last);
                let mut sent = node.history().messages.range(names).map(|(name, _)| *name);
                if let Some(name) = sent.find(|name| !self.holds(merged, *number, node, *name)) {
                    return Some(format!("n{number}: message {name:?}"));
                }
            }
        }
        None
    }
}
