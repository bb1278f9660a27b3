//! Roll-ups: samples of all nodes grouped by labels, of the series and of the node, as the
//! configuration defines. Each group has windows like the fleet's. Groups are bounded; what finds
//! no room goes to one whose values are all [`OVERFLOW`], and is counted. Nothing is judged by
//! them.

mod definition;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::limits::{ROLLUP_GROUPS_MAX, ROLLUPS_BYTES_MAX};
use plimsoll_schemas::ids::{Labels, Operation, Series};
use plimsoll_schemas::time::Wall;

pub use definition::{Definition, DefinitionError};

use crate::core::fleet::operations::OVERFLOW;
use crate::core::fleet::window::{Batch, Retention, Times, Windows};

/// All roll-ups, in the order of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Rollups {
    all: Vec<Arc<Rollup>>,
    /// Whether their samples had reached their limit at the last check.
    is_full: bool,
}

/// One roll-up.
#[derive(Clone, Debug)]
pub struct Rollup {
    definition: Definition,
    groups: BTreeMap<Group, Windows>,
}

/// Whose samples are together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The operation.
    pub operation: Operation,
    /// The values of the definition's labels in their order, those of the series first; nothing
    /// where a label is missing.
    pub values: Vec<Box<str>>,
}

impl Rollups {
    /// Keeps the groups of unchanged definitions; a new or changed definition begins empty.
    #[must_use]
    pub fn redefined(self, definitions: &[Definition]) -> Self {
        let go_on = |definition: &Definition| {
            let before = self.all.iter().find(|rollup| rollup.definition == *definition);
            let empty = || Rollup { definition: definition.clone(), groups: BTreeMap::new() };
            before.cloned().unwrap_or_else(|| Arc::new(empty()))
        };
        let mut redefined =
            Self { all: definitions.iter().map(go_on).collect(), is_full: self.is_full };
        redefined.look_for_room(ROLLUPS_BYTES_MAX);
        redefined
    }

    /// Adds samples of a series of a node to every roll-up that they belong to; returns how many
    /// found no room in a group of their own, over all roll-ups.
    pub(in crate::core::fleet) fn add(
        &mut self,
        series: &Series,
        of_node: &Labels,
        (retention, times): (&Retention, Times),
        batch: &Batch,
    ) -> u64 {
        let mut without_room = 0;
        for rollup in &mut self.all {
            if rollup.definition.takes(&series.operation) {
                let values = rollup.definition.values(&series.labels, of_node);
                let group = Group { operation: series.operation.clone(), values };
                let (windows, is_own) = Arc::make_mut(rollup).windows(group, retention);
                if self.is_full {
                    windows.add_figures(times, batch);
                } else {
                    windows.add(times, batch);
                }
                without_room += if is_own && !self.is_full { 0 } else { batch.exact().count };
            }
        }
        without_room
    }

    /// Advances windows, and drops groups without samples for as long as any window shows.
    pub(in crate::core::fleet) fn expire(&mut self, now: Wall) {
        for rollup in &mut self.all {
            let groups = &mut Arc::make_mut(rollup).groups;
            groups.retain(|_, windows| !windows.is_passed(now));
            groups.values_mut().for_each(|windows| windows.expire(now));
        }
        self.look_for_room(ROLLUPS_BYTES_MAX);
    }

    pub(in crate::core) fn look_for_room(&mut self, bytes_max: u64) {
        let groups = self.all.iter().flat_map(|rollup| rollup.groups.values());
        self.is_full = groups.map(|windows| windows.heap_bytes() as u64).sum::<u64>() >= bytes_max;
    }

    /// Takes a group's windows as they were stored; false when there is no such roll-up.
    pub fn restore(&mut self, rollup: &str, group: Group, windows: Windows) -> bool {
        let rollup = self.all.iter_mut().find(|other| other.definition.name == rollup);
        rollup.map(|rollup| Arc::make_mut(rollup).groups.insert(group, windows)).is_some()
    }

    /// The definition of each, and how many groups it has.
    #[must_use]
    pub fn sizes(&self) -> Vec<(Definition, usize)> {
        self.iter().map(|rollup| (rollup.definition.clone(), rollup.groups.len())).collect()
    }

    /// The clock was set back.
    pub(in crate::core::fleet) fn turn_back(&mut self, now: Wall) {
        let groups =
            self.all.iter_mut().flat_map(|rollup| Arc::make_mut(rollup).groups.values_mut());
        groups.for_each(|windows| windows.turn_back(now));
    }

    /// Each, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &Rollup> {
        self.all.iter().map(Arc::as_ref)
    }
}

impl Rollup {
    /// What it is.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The windows of one group.
    #[must_use]
    pub fn group(&self, group: &Group) -> Option<&Windows> {
        self.groups.get(group)
    }

    /// Its groups in order.
    pub fn groups(&self) -> impl Iterator<Item = (&Group, &Windows)> {
        self.groups.iter()
    }

    /// Where samples of a group go, and whether that is a group of their own.
    fn windows(&mut self, group: Group, retention: &Retention) -> (&mut Windows, bool) {
        let has_room =
            |group: &Group, max: usize| self.groups.len() < max || self.groups.contains_key(group);
        let is_own = has_room(&group, ROLLUP_GROUPS_MAX);
        let group = if is_own {
            group
        } else {
            // One for each operation, of which there are few; otherwise one for all.
            let values = vec![OVERFLOW.into(); group.values.len()];
            let others = Group { values, ..group };
            let operation = Operation::new(OVERFLOW).expect("a constant name of plain letters");
            match has_room(&others, 2 * ROLLUP_GROUPS_MAX) {
                true => others,
                false => Group { operation, ..others },
            }
        };
        (self.groups.entry(group).or_insert_with(|| Windows::new(retention)), is_own)
    }
}
