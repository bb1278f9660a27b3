//! Roll-ups: samples of all nodes grouped by labels, of the series and of the node, as the
//! configuration defines. Each group has windows like the fleet's. Groups are bounded; what finds
//! no room goes to one whose values are all `other`, and is counted. Nothing is judged by them.

mod definition;
mod groups;

use std::sync::Arc;
use std::time::Duration;

use crate::limits::ROLLUPS_BYTES_MAX;
use plimsoll_schemas::ids::{Labels, Series};
use plimsoll_schemas::time::Wall;

pub use definition::{Definition, DefinitionError};
pub use groups::Group;

use crate::core::fleet::window::{Batch, Retention, Times, Windows};
use groups::Groups;

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
    groups: Groups,
}

impl Rollups {
    /// Keeps the groups of unchanged definitions; a new or changed definition begins empty.
    #[must_use]
    pub fn redefined(self, definitions: &[Definition]) -> Self {
        let go_on = |definition: &Definition| {
            let before = self.all.iter().find(|rollup| rollup.definition == *definition);
            let empty = || Rollup { definition: definition.clone(), groups: Groups::default() };
            before.cloned().unwrap_or_else(|| Arc::new(empty()))
        };
        let mut redefined =
            Self { all: definitions.iter().map(go_on).collect(), is_full: self.is_full };
        redefined.look_for_room(ROLLUPS_BYTES_MAX);
        redefined
    }

    /// Whether these are the definitions, in this order.
    #[must_use]
    pub fn are_defined(&self, definitions: &[Definition]) -> bool {
        self.iter().map(Rollup::definition).eq(definitions)
    }

    /// Adds samples of a series of a node to every roll-up that they belong to. A roll-up that
    /// they do not belong to is not touched, so a copy that is still held stays shared. Returns how
    /// many found no room in a group of their own, over all roll-ups.
    pub(in crate::core::fleet) fn add(
        &mut self,
        series: &Series,
        of_node: &Labels,
        (retention, times): (&Retention, Times),
        batch: &Batch,
    ) -> u64 {
        let mut without_room = 0;
        for rollup in &mut self.all {
            if !rollup.definition.takes(&series.operation) {
                continue;
            }
            let Some(values) = rollup.definition.values(&series.labels, of_node) else { continue };
            let group = Group { operation: series.operation.clone(), values };
            let groups = &mut Arc::make_mut(rollup).groups;
            let (windows, is_own) = groups.place(group, retention);
            if self.is_full {
                windows.add_figures(times, batch);
            } else {
                windows.add(times, batch);
            }
            if self.is_full || !is_own {
                without_room += batch.exact().count;
            }
        }
        without_room
    }

    /// The groups that samples of a series of a node are in, each under its roll-up's name.
    pub fn groups_of(
        &self,
        series: &Series,
        of_node: &Labels,
    ) -> impl Iterator<Item = (&str, Group)> {
        let takes = |rollup: &&Rollup| rollup.definition.takes(&series.operation);
        self.iter().filter(takes).filter_map(|rollup| {
            let values = rollup.definition.values(&series.labels, of_node)?;
            let group = Group { operation: series.operation.clone(), values };
            Some((rollup.definition.name.as_str(), rollup.groups.placed_in(group)))
        })
    }

    /// Advances windows, drops groups without samples for as long as any window shows, and evicts
    /// idle ones from roll-ups that are crowded; any node was last seen at `seen`. Returns how many
    /// were evicted.
    pub(in crate::core::fleet) fn expire(&mut self, now: Wall, seen: Wall) -> u64 {
        let mut evicted = 0;
        for rollup in self.all.iter_mut().filter(|rollup| rollup.groups.len() > 0) {
            evicted += Arc::make_mut(rollup).groups.expire(now, seen);
        }
        self.look_for_room(ROLLUPS_BYTES_MAX);
        evicted
    }

    pub(in crate::core) fn look_for_room(&mut self, bytes_max: u64) {
        let groups = self.all.iter().flat_map(|rollup| rollup.groups.iter());
        self.is_full =
            groups.map(|(_, windows)| windows.heap_bytes() as u64).sum::<u64>() >= bytes_max;
    }

    /// Takes a group's windows as they were stored; false when there is no such roll-up.
    pub fn restore(&mut self, rollup: &str, group: Group, windows: Windows) -> bool {
        let rollup = self.all.iter_mut().find(|other| other.definition.name == rollup);
        rollup.map(|rollup| Arc::make_mut(rollup).groups.restore(group, windows)).is_some()
    }

    /// The definition of each, and how many groups it has.
    #[must_use]
    pub fn sizes(&self) -> Vec<(Definition, usize)> {
        self.iter().map(|rollup| (rollup.definition.clone(), rollup.groups.len())).collect()
    }

    /// The clock was set back.
    pub(in crate::core::fleet) fn turn_back(&mut self, now: Wall) {
        self.all.iter_mut().for_each(|rollup| Arc::make_mut(rollup).groups.turn_back(now));
    }

    /// The clock was set forward.
    pub(in crate::core::fleet) fn pass_over(&mut self, span: Duration) {
        self.all.iter_mut().for_each(|rollup| Arc::make_mut(rollup).groups.pass_over(span));
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

    /// Groups with values of their own.
    #[must_use]
    pub(in crate::core::fleet) fn own_groups(&self) -> usize {
        self.groups.own_len()
    }

    /// Its groups: those of their own in order, then those of others.
    pub fn groups(&self) -> impl Iterator<Item = (&Group, &Windows)> {
        self.groups.iter()
    }
}

#[cfg(test)]
mod tests;
