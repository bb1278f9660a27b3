//! Roll-ups: samples of all nodes grouped by labels, of the series and of the node, as the
//! configuration defines. Each group has windows like the fleet's. Groups are bounded, and no node
//! keeps others from theirs; what finds no room goes to one whose values are all `other`, and is
//! counted. Nothing is judged by them.

mod definition;
mod groups;

use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::ROLLUPS_BYTES_MAX;
use plimsoll_schemas::ids::{Labels, NodeName, Series};
use plimsoll_schemas::time::Wall;

pub use definition::{Definition, DefinitionError};
pub use groups::Group;

use crate::core::fleet::shares::Shares;
use crate::core::fleet::window::{Batch, Retention, Times, Windows};
use groups::{Groups, Place};

/// All roll-ups, in the order of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Rollups {
    all: Vec<Arc<Rollup>>,
    /// Whether their samples had reached their limit at the last check.
    is_full: bool,
}

#[derive(Clone, Debug)]
pub struct Rollup {
    pub definition: Definition,
    groups: Groups,
}

/// Which nodes bring the groups of each roll-up, in the order of the configuration. Only merging
/// needs it, so it is in no copy of the roll-ups.
#[derive(Debug, Default)]
pub(in crate::core::fleet) struct GroupShares(Vec<Shares<Group>>);

/// The node that brings samples.
#[derive(Clone, Copy, Debug)]
pub(in crate::core::fleet) struct Bringer<'m> {
    pub(in crate::core::fleet) node: &'m NodeName,
    pub(in crate::core::fleet) labels: &'m Labels,
}

/// What the bounds of roll-ups cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::core::fleet) struct RollupLimits {
    /// Samples without room in a group of their own, over all roll-ups.
    pub(in crate::core::fleet) samples: u64,
    /// Groups that were evicted for others.
    pub(in crate::core::fleet) evicted: u64,
}

impl AddAssign for RollupLimits {
    fn add_assign(&mut self, Self { samples, evicted }: Self) {
        self.samples += samples;
        self.evicted += evicted;
    }
}

impl Rollups {
    /// Keeps the groups of unchanged definitions; a new or changed definition begins empty.
    pub fn redefined(self, definitions: &[Definition]) -> Self {
        let go_on = |definition: &Definition| {
            // By the whole definition: under a name with other
            // labels, the groups of before would mean something else.
            let before = self.all.iter().find(|rollup| rollup.definition == *definition);
            let empty = || Rollup { definition: definition.clone(), groups: Groups::default() };
            before.cloned().unwrap_or_else(|| Arc::new(empty()))
        };
        let mut redefined =
            Self { all: definitions.iter().map(go_on).collect(), is_full: self.is_full };
        redefined.look_for_room(ROLLUPS_BYTES_MAX);
        redefined
    }

    pub fn are_defined(&self, definitions: &[Definition]) -> bool {
        self.iter().map(|rollup| &rollup.definition).eq(definitions)
    }

    /// Adds samples of a series of a node to every roll-up that they belong to. A roll-up that
    /// they do not belong to is not touched, so a copy that is still held stays shared.
    pub(in crate::core::fleet) fn add(
        &mut self,
        series: &Series,
        from: Bringer<'_>,
        GroupShares(shares): &mut GroupShares,
        retention: &Retention,
        times: Times,
        batch: &Batch,
    ) -> RollupLimits {
        let mut limits = RollupLimits::default();
        shares.resize_with(self.all.len(), Shares::default);

        for (rollup, shares) in self.all.iter_mut().zip(shares) {
            let Some(group) = rollup.group_of(series, from.labels) else { continue };
            let groups = &mut Arc::make_mut(rollup).groups;
            let Place { windows, is_own, evicted } =
                groups.place(group, retention, from.node, shares);
            limits.evicted += evicted;

            if self.is_full {
                // Without room for buckets the exact figures
                // go on, so that counts and sums stay right.
                windows.add_figures(times, batch);
            } else {
                windows.add(times, batch);
            }

            if self.is_full || !is_own {
                limits.samples += batch.exact().count;
            }
        }

        limits
    }

    /// The groups that samples of a series of a node are in, each under its roll-up's name.
    pub fn groups_of(
        &self,
        series: &Series,
        of_node: &Labels,
    ) -> impl Iterator<Item = (&str, Group)> {
        self.iter().filter_map(|rollup| {
            let group = rollup.group_of(series, of_node)?;
            Some((rollup.definition.name.as_str(), rollup.groups.placed_in(group)))
        })
    }

    /// Whether samples of a series of a node are not in a group of their own of a roll-up, but with
    /// those of others.
    pub fn is_folded(&self, rollup: &str, series: &Series, of_node: &Labels) -> bool {
        let named = |of: &&Rollup| of.definition.name == rollup;
        self.iter().filter(named).any(|of| {
            let group = of.group_of(series, of_node);
            group.is_some_and(|group| of.groups.placed_in(group).is_overflow())
        })
    }

    /// Advances windows, drops groups without samples for as long as any window shows, and evicts
    /// idle ones from roll-ups that are crowded; any node was last seen at `seen`. Returns how many
    /// were evicted.
    pub(in crate::core::fleet) fn expire(
        &mut self,
        now: Wall,
        seen: Wall,
        GroupShares(shares): &mut GroupShares,
    ) -> u64 {
        let mut evicted = 0;
        shares.resize_with(self.all.len(), Shares::default);
        for (rollup, shares) in self.all.iter_mut().zip(shares) {
            // To touch an empty one would copy it each second that a view holds it (A62).
            if rollup.groups.len() > 0 {
                evicted += Arc::make_mut(rollup).groups.expire(now, seen, shares);
            }
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
    pub fn sizes(&self) -> Vec<(Definition, usize)> {
        self.iter().map(|rollup| (rollup.definition.clone(), rollup.groups.len())).collect()
    }

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
    /// The group that samples of a series of a node belong to, whether or not there is room for
    /// it; `None` if they belong to none.
    pub fn group_of(&self, series: &Series, of_node: &Labels) -> Option<Group> {
        let takes = self.definition.takes(&series.operation);
        let values = takes.then(|| self.definition.values(&series.labels, of_node))??;
        Some(Group { operation: series.operation.clone(), values })
    }

    pub fn group(&self, group: &Group) -> Option<&Windows> {
        self.groups.get(group)
    }

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
