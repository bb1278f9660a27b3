//! A whole state, put together from records as they are read one after the other. None of them is
//! used before it is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::limits::{ALERT_HISTORY_MAX, NODES_MAX};
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::time::Wall;

use super::changes::Changes;
use super::record::{Part, Record, Unusable, damaged, unpack};
use super::rest::Rest;
use crate::core::fleet::{Node, Operations, Pool, Pools, Rollups, Windows};

/// A whole state, read and checked.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    nodes: BTreeMap<NodeName, Arc<Node>>,
    pools: Pools,
    rest: Rest,
}

/// A state of which some records have been read.
#[derive(Debug, Default)]
pub struct Partial {
    nodes: BTreeMap<NodeName, Arc<Node>>,
    pools: BTreeMap<Pool, Windows>,
    /// Tiers of pools that have not been read yet.
    missing: BTreeSet<Part>,
    rest: Option<Rest>,
}

impl Partial {
    /// Reads one more record, kept under `name`.
    ///
    /// # Errors
    /// When it is damaged or of another version.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), Unusable> {
        let part = Part::named(name)?;
        match &part {
            Part::Pool(pool) => {
                let windows: Windows = unpack(&part, bytes)?;
                let tiers = (0..windows.tiers()).map(|n| Part::PoolTier(pool.clone(), n));
                self.missing.extend(tiers);
                self.pools.insert(pool.clone(), windows);
            }
            Part::PoolTier(pool, number) => {
                let windows = self.pools.get_mut(pool).filter(|_| self.missing.remove(&part));
                let windows = windows.ok_or_else(|| damaged(&part, "there is no such tier"))?;
                windows.restore_tier(*number, unpack(&part, bytes)?);
            }
            Part::Node(node) => {
                self.nodes.insert(node.clone(), Arc::new(unpack(&part, bytes)?));
            }
            Part::Rest => self.rest = Some(unpack(&part, bytes)?),
        }
        if self.nodes.len() > NODES_MAX {
            return Err(damaged(&"node", "more than there can be"));
        }
        Ok(())
    }

    /// The whole state, once all records have been read.
    ///
    /// # Errors
    /// When one is missing.
    pub fn whole(self) -> Result<Checkpoint, Unusable> {
        let Self { nodes, pools, missing, rest } = self;
        let rest = rest.ok_or_else(|| damaged(&Part::Rest, "it is missing"))?;
        if rest.alerting.changes.len() > ALERT_HISTORY_MAX {
            return Err(damaged(&Part::Rest, "more changes than there can be"));
        }
        if nodes.len() != rest.fleet.nodes {
            return Err(damaged(&"node", "some are missing"));
        }
        if let Some(part) = missing.into_iter().next() {
            return Err(damaged(&part, "it is missing"));
        }
        let pools = united(pools, &rest)?;
        Ok(Checkpoint { nodes, pools, rest })
    }
}

/// Fleet and roll-ups, of as many pools as there must be.
fn united(read: BTreeMap<Pool, Windows>, rest: &Rest) -> Result<Pools, Unusable> {
    let mut fleet = Operations::default();
    let definitions = rest.fleet.rollups.iter().map(|(definition, _)| definition.clone());
    let mut rollups = Rollups::default().redefined(&definitions.collect::<Vec<_>>());
    for (pool, windows) in read {
        match pool {
            Pool::Fleet(operation) => fleet.restore(operation, windows),
            Pool::Selected(budget) => fleet.restore_selected(budget, windows),
            Pool::Group(rollup, group) => {
                if !rollups.restore(&rollup, group, windows) {
                    return Err(damaged(&rollup, "there is no such roll-up"));
                }
            }
        }
    }
    let pools_of_fleet = (fleet.iter().count(), fleet.selected().count());
    if pools_of_fleet != (rest.fleet.operations, rest.fleet.selected_operations)
        || rollups.sizes() != rest.fleet.rollups
    {
        return Err(damaged(&"fleet", "some operations or groups are missing"));
    }
    Ok(Pools { operations: Arc::new(fleet), rollups })
}

impl Checkpoint {
    /// The mesh it is about.
    #[must_use]
    pub fn mesh(&self) -> &MeshName {
        &self.rest.mesh
    }

    /// When it was taken.
    #[must_use]
    pub fn at(&self) -> Wall {
        self.rest.at
    }

    /// The history's latest batch when it was taken.
    #[must_use]
    pub fn history_generation(&self) -> u64 {
        self.rest.history_generation
    }

    /// What each room is restored from.
    #[must_use]
    pub fn into_parts(self) -> (BTreeMap<NodeName, Arc<Node>>, Pools, Rest) {
        (self.nodes, self.pools, self.rest)
    }

    /// Number of nodes in it.
    #[must_use]
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
        if changes.everything() {
            self.0.clear();
        }
        for record in changes.into_records() {
            self.put(&record);
        }
    }

    /// Takes one record.
    pub fn put(&mut self, record: &Record) {
        let (name, mut bytes) = (record.part().to_string(), Vec::new());
        match record.bytes(&mut bytes).is_some() {
            true => drop(self.0.insert(name, bytes)),
            false => drop(self.0.remove(&name)),
        }
    }

    /// Reads them back.
    ///
    /// # Errors
    /// When one cannot be used.
    pub fn read(&self) -> Result<Checkpoint, Unusable> {
        let mut partial = Partial::default();
        for (name, bytes) in &self.0 {
            partial.add(name, bytes)?;
        }
        partial.whole()
    }
}
