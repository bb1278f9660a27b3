//! The groups of one roll-up: those with values of their own, and those that take what finds no
//! room. Both are bounded. While the first are crowded, idle ones are evicted, and a node that
//! brings a new one gets the place of one that the node with most groups brings alone.
//!
//! DESIGN A62, A150, A175.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::ROLLUP_GROUPS_MAX;
use plimsoll_schemas::ids::{NodeName, Operation};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::unit::Unit;

use crate::core::fleet::bounded::{is_crowded, longest_idle};
use crate::core::fleet::operations::OVERFLOW;
use crate::core::fleet::shares::Shares;
use crate::core::fleet::window::{Phase, Retention, Windows};

/// Whose samples are together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    pub operation: Operation,
    /// The values of the definition's labels in their order; nothing where a label is missing.
    pub values: Vec<Box<str>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    own: BTreeMap<Group, Windows>,
    /// Groups whose values are all [`OVERFLOW`].
    others: BTreeMap<Group, Windows>,
}

pub(super) struct Place<'g> {
    pub(super) windows: &'g mut Windows,
    pub(super) is_own: bool,
    /// Groups of another node that were evicted for it.
    pub(super) evicted: u64,
}

impl Group {
    /// Whether it takes what finds no room in a group of its own.
    pub fn is_overflow(&self) -> bool {
        self.values.iter().all(|value| &**value == OVERFLOW)
    }

    fn overflow(self) -> Self {
        Self { values: vec![OVERFLOW.into(); self.values.len()], ..self }
    }
}

impl Groups {
    /// Where samples of a group that a node brings go. Who brings groups is followed from the first
    /// sample of each, and for others that bring it too while there are many.
    pub(super) fn place(
        &mut self,
        group: Group,
        retention: &Retention,
        node: &NodeName,
        shares: &mut Shares<Group>,
    ) -> Place<'_> {
        if group.is_overflow() {
            let windows = self.overflow_of(group, retention);
            return Place { windows, is_own: true, evicted: 0 };
        }

        let is_new = !self.own.contains_key(&group);
        let is_full = self.own.len() >= ROLLUP_GROUPS_MAX;
        let evicted = u64::from(is_new && is_full && self.evict_of_largest(node, shares));

        if is_new && is_full && evicted == 0 {
            let windows = self.overflow_of(group.overflow(), retention);
            return Place { windows, is_own: false, evicted };
        }

        // With room left it does not matter who else brings a group: known ones cost no search.
        if is_new || is_crowded(self.own.len(), ROLLUP_GROUPS_MAX) {
            shares.on_brought(node, &group);
        }
        let windows = self.own.entry(group).or_insert_with(|| Windows::new(retention));
        Place { windows, is_own: true, evicted }
    }

    /// The windows of an overflow group: one for each operation, of which there are few; otherwise
    /// one for all.
    fn overflow_of(&mut self, group: Group, retention: &Retention) -> &mut Windows {
        let has_room = self.others.len() < ROLLUP_GROUPS_MAX || self.others.contains_key(&group);
        let operation = Unit::of(group.operation.as_str()).overflow();
        let group = if has_room { group } else { Group { operation, ..group } };
        self.others.entry(group).or_insert_with(|| Windows::new(retention))
    }

    /// Makes room for a node's new group: of those of the node with the largest share, the one
    /// without samples for longest is evicted. Returns whether there was one.
    fn evict_of_largest(&mut self, node: &NodeName, shares: &mut Shares<Group>) -> bool {
        let of_largest = shares.largest_beside(node);
        let known = of_largest.filter_map(|group| Some((group, self.own.get(group)?)));
        let longest = known.min_by_key(|(_, windows)| windows.touched());
        let Some(longest) = longest.map(|(group, _)| group.clone()) else { return false };
        self.own.remove(&longest);
        shares.on_evicted(&longest);
        true
    }

    /// Evicts idle groups while there are many. Returns how many.
    fn evict_idle(&mut self, as_of: Wall, shares: &mut Shares<Group>) -> u64 {
        let mut evicted = 0;
        while is_crowded(self.own.len(), ROLLUP_GROUPS_MAX) {
            let Some(longest) = longest_idle(as_of, self.own.iter()).cloned() else { break };
            self.own.remove(&longest);
            shares.on_evicted(&longest);
            evicted += 1;
        }
        evicted
    }

    /// The group that samples of `group` went to when they were placed.
    pub(super) fn placed_in(&self, group: Group) -> Group {
        if !group.is_overflow() && self.own.contains_key(&group) {
            return group;
        }
        let overflow = group.overflow();
        if self.others.contains_key(&overflow) {
            return overflow;
        }
        let operation = Unit::of(overflow.operation.as_str()).overflow();
        Group { operation, ..overflow }
    }

    /// Takes a group's windows as they were stored.
    pub(super) fn restore(&mut self, group: Group, windows: Windows) {
        let map = if group.is_overflow() { &mut self.others } else { &mut self.own };
        map.insert(group, windows);
    }

    pub(super) fn get(&self, group: &Group) -> Option<&Windows> {
        let map = if group.is_overflow() { &self.others } else { &self.own };
        map.get(group)
    }

    /// Those of their own in order, then the others.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Group, &Windows)> {
        self.own.iter().chain(&self.others)
    }

    pub(super) fn len(&self) -> usize {
        self.own.len() + self.others.len()
    }

    pub(super) fn own_len(&self) -> usize {
        self.own.len()
    }

    /// Advances windows, drops groups without samples for as long as any window shows, and evicts
    /// idle ones while there are many; any node was last seen at `seen`. Returns how many were
    /// evicted.
    pub(super) fn expire(&mut self, now: Wall, seen: Wall, shares: &mut Shares<Group>) -> u64 {
        for map in [&mut self.own, &mut self.others] {
            let passed = map.extract_if(.., |_, windows| windows.is_passed(now));
            passed.for_each(|(group, _)| shares.on_evicted(&group));
            map.values_mut().for_each(|windows| windows.expire(now, Phase::NONE));
        }
        self.evict_idle(seen, shares)
    }

    pub(super) fn turn_back(&mut self, now: Wall) {
        self.windows_mut().for_each(|windows| windows.turn_back(now));
    }

    /// The clock was set forward.
    pub(super) fn pass_over(&mut self, span: Duration) {
        self.windows_mut().for_each(|windows| windows.pass_over(span));
    }

    fn windows_mut(&mut self) -> impl Iterator<Item = &mut Windows> {
        self.own.values_mut().chain(self.others.values_mut())
    }
}
