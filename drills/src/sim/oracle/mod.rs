//! The oracle: what the mesh must hold, computed without the cores' arithmetic.
//!
//! Owns a record of every sample, every message and every reading, and compares the cores' state
//! with it: during a run after each event, and at its end as sets. It changes nothing in the
//! mesh. [`NodeOracle`] follows one node, [`ReaderOracle`] one aggregator.
//!
//! DESIGN D5.

mod balance;
mod fold;
mod history;
mod incarnation;
mod meter;
mod node;
mod reader;

use plimsoll_schemas::ids::NodeName;

use super::cores::aggregator::{Merged, ReaderCore};
use super::kernel::Kernel;
use super::plan::{Depths, Readers};
use balance::balance;

pub use history::{Name, Sets};
pub use incarnation::Overtaking;
pub use node::NodeOracle;
pub use reader::{Mark, ReaderOracle, Reading};

/// See the module.
pub struct Oracle {
    nodes: Vec<NodeOracle>,
    readers: Vec<ReaderOracle>,
    /// Whether streams have lost messages.
    lost_messages: bool,
    /// Whether an aggregator started with an older store.
    older_store: bool,
    sets: Sets,
}

impl Oracle {
    /// The oracle of a mesh that has not started.
    pub fn new(names: &[NodeName], aggregators: usize, depths: Depths) -> Self {
        let node =
            |(number, name): (usize, &NodeName)| NodeOracle::new(number, name.clone(), depths);
        Self {
            nodes: names.iter().enumerate().map(node).collect(),
            readers: (0..aggregators).map(|which| ReaderOracle::new(which, names.len())).collect(),
            lost_messages: false,
            older_store: false,
            sets: Sets::default(),
        }
    }

    /// The record of one node.
    pub fn node(&mut self, number: usize) -> &mut NodeOracle {
        &mut self.nodes[number]
    }

    /// The records of all nodes.
    pub fn nodes(&self) -> &[NodeOracle] {
        &self.nodes
    }

    /// The record of an aggregator, and the records of all nodes.
    pub fn reader(&mut self, which: usize) -> (&mut ReaderOracle, &[NodeOracle]) {
        (&mut self.readers[which], &self.nodes)
    }

    /// Samples of all nodes as sets, as far as they were compared.
    pub fn sets(&self) -> Sets {
        self.sets
    }

    /// Whether samples were compared as sets.
    pub fn is_compared(&self) -> bool {
        self.sets != Sets::default()
    }

    /// Streams have lost this many messages.
    pub fn on_messages_lost(&mut self, messages: usize) {
        self.lost_messages |= messages > 0;
        self.excuse_losses();
    }

    /// A store was replaced by an older one: until the streams are read again, nodes alone have
    /// what was confirmed since.
    pub fn on_older_store(&mut self, which: usize, mark: Mark) {
        self.readers[which].on_stored(mark);
        self.readers[which].clear_confirmed();
        self.older_store = true;
        self.excuse_losses();
    }

    fn excuse_losses(&mut self) {
        if self.lost_messages && self.older_store {
            let excuse = "streams lost what only a newer store had";
            self.nodes.iter_mut().for_each(|node| node.history_mut().excuse = Some(excuse));
        }
    }

    /// Counts what a broken run has too often. Missing samples are not counted: the run did not
    /// come to rest, so they may still be under way.
    pub fn count_duplicates(&mut self, stored: &[Merged]) {
        for (node, merged) in self.nodes.iter().zip(stored) {
            let Sets { duplicated, invented, .. } = node.history().sets(merged);
            self.sets.add(&Sets { duplicated, invented, ..Sets::default() });
        }
    }

    /// Each aggregator has everything. If streams have lost messages, one may lack what a node
    /// evicted on the other's confirmation; then both together must have everything, unless one of
    /// them stores nothing.
    pub fn compare(&mut self, k: &mut Kernel, cores: &[&ReaderCore], stored: Vec<Vec<Merged>>) {
        let mut together = vec![Merged::default(); self.nodes.len()];
        let is_pair = stored.len() > 1;

        if is_pair && self.lost_messages {
            let excuse = "a copy was evicted on one aggregator's confirmation";
            self.nodes.iter_mut().for_each(|node| node.history_mut().excuse_one(excuse));
        }

        for (which, (mut stored, core)) in stored.into_iter().zip(cores).enumerate() {
            for (number, (merged, node)) in stored.iter_mut().zip(&self.nodes).enumerate() {
                if let Some(known) = self.readers[which].merged_of_expired(number, node) {
                    *merged = known;
                }
            }
            self.compare_one(k, which, core, &stored);
            together.iter_mut().zip(&stored).for_each(|(all, one)| all.unite(one));
        }

        for (number, all) in together.iter().enumerate().filter(|_| is_pair) {
            let history = self.nodes[number].history_mut();
            history.excuse_two(k.knobs().readers == Readers::OneAndStateless);
            if let Err(what) = history.compare(all) {
                let words = || format!("n{number}: {what}");
                return k.fail("together aggregators have everything", words);
            }
        }
    }

    fn compare_one(&mut self, k: &mut Kernel, which: usize, core: &ReaderCore, stored: &[Merged]) {
        for (merged, node) in stored.iter().zip(&self.nodes) {
            let (name, history) = (node.name(), node.history());
            if which == 0 {
                self.sets.add(&history.sets(merged));
            }
            if let Err(what) = history.compare(merged) {
                return k.fail("merged = recorded - lost", || format!("{name}: {what}"));
            }
            if let Err(what) = history.check_answered() {
                return k.fail("what was answered is in the ledger", || format!("{name}: {what}"));
            }
            let sum = merged.others + merged.reported.iter().map(|(_, n)| n).sum::<u64>();
            if let Err(what) = balance(history, sum, core.ledger(name).as_ref()) {
                return k.fail("the ledger is exact", || format!("{name}: {what}"));
            }
        }
    }
}
