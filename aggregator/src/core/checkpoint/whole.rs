//! A whole state, put together from records as they are read one after the other. Believes none
//! of them before it is checked, and knows nothing of where they come from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::limits::aggregator::{ALERT_HISTORY_MAX, NODES_MAX};
use plimsoll_schemas::time::Wall;

use super::record::{Part, Record, Unusable, damaged, unpack};
use super::{Changes, Rest};
use crate::core::node::{Node, Operations};
use crate::core::window::Windows;

/// A whole state, read and checked.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pub(super) nodes: BTreeMap<NodeName, Arc<Node>>,
    pub(super) fleet: Operations,
    pub(super) rest: Rest,
}

/// A state of which some records have been read.
#[derive(Debug, Default)]
pub struct Partial {
    nodes: BTreeMap<NodeName, Arc<Node>>,
    fleet: Operations,
    /// Tiers of the fleet that have not been read yet.
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
            Part::Fleet(operation) => {
                let windows: Windows = unpack(&part, bytes)?;
                let tiers = (0..windows.tiers()).map(|n| Part::FleetTier(operation.clone(), n));
                self.missing.extend(tiers);
                self.fleet.restore(operation.clone(), windows);
            }
            Part::FleetTier(operation, number) => {
                let tier = unpack(&part, bytes)?;
                if !self.missing.remove(&part) || !self.fleet.restore_tier(operation, *number, tier)
                {
                    return Err(damaged(&part, "there is no such tier"));
                }
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
        let Self { nodes, fleet, missing, rest } = self;
        let rest = rest.ok_or_else(|| damaged(&Part::Rest, "it is missing"))?;
        if rest.changes.len() > ALERT_HISTORY_MAX {
            return Err(damaged(&Part::Rest, "more changes than there can be"));
        }
        if nodes.len() != rest.nodes {
            return Err(damaged(&"node", "some are missing"));
        }
        let absent = rest.fleet.iter().find(|operation| fleet.get(operation).is_none());
        let absent = absent.map(|operation| Part::Fleet(operation.clone()));
        if let Some(part) = absent.or_else(|| missing.into_iter().next()) {
            return Err(damaged(&part, "it is missing"));
        }
        Ok(Checkpoint { nodes, fleet, rest })
    }
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

    /// Number of nodes in it.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }
}

/// Records in memory: what a store keeps, for whoever wants none on a disk.
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
