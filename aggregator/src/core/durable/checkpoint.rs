//! A state, put together from records as they are read one after the other. None of them is used
//! before it is checked. One that cannot be used costs its own part of the state:
//!
//! | record | without it |
//! |---|---|
//! | a ring of a pool | the pool lacks the samples of that ring's slots |
//! | a pool | the pool begins empty; what is merged already is not merged into it again |
//! | a node | it begins anew; what it sends again may be in pools twice |
//! | the rest | the streams are read from their beginning, of which ledger entries of nodes admit |
//! | | nothing twice; alerts come from the alerts record; roll-ups and runs begin empty |
//!
//! Without the rest and without any node there is no state: pools alone would count twice all that
//! the streams hold.
//!
//! DESIGN A21.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::limits::{ALERT_HISTORY_MAX, NODES_MAX};
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::time::Wall;

use super::changes::Changes;
use super::record::{Part, Record, Rest, Unusable, damaged, unpack};
use crate::core::durable::shard::StoredShard;
use crate::core::fleet::{Node, Operations, Pool, Pools, Rollups, Windows};

/// A state, read and checked.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    nodes: BTreeMap<NodeName, Arc<Node>>,
    pools: Pools,
    rest: Option<Rest>,
    is_whole: bool,
}

/// A state of which some records have been read.
#[derive(Debug, Default)]
pub struct Partial {
    nodes: BTreeMap<NodeName, Arc<Node>>,
    pools: BTreeMap<Pool, Windows>,
    /// Rings of pools that have not been read yet.
    missing: BTreeSet<Part>,
    rest: Option<Rest>,
    unusable: Vec<Unusable>,
}

/// What records come to.
#[derive(Clone, Debug)]
pub struct Readout {
    /// The state; `None` if too little can be used.
    pub checkpoint: Option<Checkpoint>,
    /// Records that cannot be used, and those that are missing.
    pub unusable: Vec<Unusable>,
}

impl Partial {
    /// Reads one more record, kept under `name`.
    pub fn add(&mut self, name: &str, bytes: &[u8]) {
        if let Err(unusable) = self.try_add(name, bytes) {
            self.unusable.push(unusable);
        }
    }

    fn try_add(&mut self, name: &str, bytes: &[u8]) -> Result<(), Unusable> {
        let part = Part::named(name)?;
        match &part {
            Part::Pool(pool) => {
                let windows: Windows = unpack(&part, bytes)?;
                let rings = (0..windows.rings()).map(|n| Part::PoolRing(pool.clone(), n));
                // Each ring has a record of its own, and a pool lacks those that were not read.
                self.missing.extend(rings);
                self.pools.insert(pool.clone(), windows);
            }
            Part::PoolRing(pool, number) => {
                // Records come in the order of their names, a pool before
                // its rings; a ring twice is as damaged as one too many.
                let windows = self.pools.get_mut(pool).filter(|_| self.missing.remove(&part));
                let windows = windows.ok_or_else(|| damaged(&part, "there is no such ring"))?;
                windows.restore_ring(*number, unpack(&part, bytes)?);
            }
            Part::Node(node) => {
                if self.nodes.len() >= NODES_MAX {
                    return Err(damaged(&part, "there are more nodes than there can be"));
                }
                self.nodes.insert(node.clone(), Arc::new(unpack(&part, bytes)?));
            }
            Part::Rest => {
                let rest: Rest = unpack(&part, bytes)?;
                if rest.alerting.changes.len() > ALERT_HISTORY_MAX {
                    return Err(damaged(&part, "more changes than there can be"));
                }
                self.rest = Some(rest);
            }
        }

        Ok(())
    }

    /// The state, once all records have been read.
    pub fn finish(self) -> Readout {
        let Self { nodes, pools, missing, rest, mut unusable } = self;
        let missing = missing.iter().map(|part| damaged(part, "it is missing"));
        unusable.extend(missing);

        match &rest {
            Some(rest) => {
                // A node whose record cannot be used is reported by its own name already.
                let unread = unusable.iter().filter(|of| of.record().starts_with("node ")).count();
                if nodes.len() + unread < rest.fleet.nodes {
                    unusable.push(damaged(&"node", "some are missing"));
                }
            }
            None if unusable.iter().any(|of| of.record() == "rest") => {}
            None => unusable.push(damaged(&Part::Rest, "it is missing")),
        }

        let pools = united(pools, rest.as_ref(), &mut unusable);
        let is_whole = unusable.is_empty();
        let is_usable = rest.is_some() || !nodes.is_empty();
        let checkpoint = is_usable.then_some(Checkpoint { nodes, pools, rest, is_whole });
        Readout { checkpoint, unusable }
    }
}

/// Fleet and roll-ups. Only the rest holds the definitions of roll-ups.
fn united(
    read: BTreeMap<Pool, Windows>,
    rest: Option<&Rest>,
    unusable: &mut Vec<Unusable>,
) -> Pools {
    let mut fleet = Operations::default();
    let definitions = rest.into_iter().flat_map(|rest| &rest.fleet.rollups);
    let definitions: Vec<_> = definitions.map(|(definition, _)| definition.clone()).collect();
    let mut rollups = Rollups::default().redefined(&definitions);
    let mut is_undefined = false;

    for (pool, windows) in read {
        match pool {
            Pool::Fleet(operation) => fleet.restore(operation, windows),
            Pool::Selected(budget) => fleet.restore_selected(budget, windows),
            Pool::Group(rollup, group) => {
                is_undefined |= !rollups.restore(&rollup, group, windows);
            }
        }
    }

    if is_undefined {
        unusable.push(damaged(&"rollup", "the definition of its roll-up cannot be read"));
    }
    let of_fleet = (fleet.iter().count(), fleet.selected().count());

    let is_complete = |rest: &Rest| {
        of_fleet == (rest.fleet.operations, rest.fleet.selected_operations)
            && rollups.sizes() == rest.fleet.rollups
    };

    // Missing ones beside unusable ones would change nothing about what is done.
    if unusable.is_empty() && !rest.is_some_and(is_complete) {
        unusable.push(damaged(&"fleet", "some operations or groups are missing"));
    }

    Pools { operations: Arc::new(fleet), rollups }
}

impl Checkpoint {
    /// The mesh it is about, if the rest could be read.
    pub fn mesh(&self) -> Option<&MeshName> {
        Some(&self.rest.as_ref()?.mesh)
    }

    /// When it was taken, if the rest could be read.
    pub fn at(&self) -> Option<Wall> {
        Some(self.rest.as_ref()?.at)
    }

    /// The history's latest batch when it was taken, if the rest could be read.
    pub fn history_generation(&self) -> Option<u64> {
        Some(self.rest.as_ref()?.history_generation)
    }

    /// What was reported to an aggregator above.
    pub fn shard(&self) -> Option<&StoredShard> {
        self.rest.as_ref()?.shard.as_ref()
    }

    pub fn has_alerts(&self) -> bool {
        self.rest.is_some()
    }

    /// Whether every record could be read.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// What each room is restored from.
    pub fn into_parts(self) -> (BTreeMap<NodeName, Arc<Node>>, Pools, Option<Rest>) {
        (self.nodes, self.pools, self.rest)
    }

    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }
}

/// Records in memory: a store for simulations and tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredRecords(pub BTreeMap<String, Vec<u8>>);

impl StoredRecords {
    /// Takes all that has changed, as a store does.
    pub fn write(&mut self, changes: Changes) {
        if changes.everything {
            self.0.clear();
        }
        for record in changes.into_records() {
            self.put(&record);
        }
    }

    pub fn put(&mut self, record: &Record) {
        let (name, mut bytes) = (record.part().to_string(), Vec::new());
        match record.bytes(&mut bytes).is_some() {
            true => drop(self.0.insert(name, bytes)),
            false => drop(self.0.remove(&name)),
        }
    }

    /// Reads them back.
    pub fn read(&self) -> Result<Checkpoint, Unusable> {
        let Readout { checkpoint, unusable } = self.read_usable();
        match unusable.into_iter().next() {
            None => checkpoint.ok_or_else(|| damaged(&"rest", "it is missing")),
            Some(unusable) => Err(unusable),
        }
    }

    /// Reads back what can be used.
    pub fn read_usable(&self) -> Readout {
        let mut partial = Partial::default();
        self.0.iter().for_each(|(name, bytes)| partial.add(name, bytes));
        partial.finish()
    }
}
