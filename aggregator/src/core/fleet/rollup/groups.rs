//! The groups of one roll-up: those with values of their own, and those that take what finds no
//! room. Both are bounded. While the first are crowded, idle ones are evicted.
//!
//! DESIGN A62, A150.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::ROLLUP_GROUPS_MAX;
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::time::Wall;

use crate::core::fleet::bounded::{is_crowded, longest_idle};
use crate::core::fleet::operations::OVERFLOW;
use crate::core::fleet::window::{Phase, Retention, Windows};

/// Whose samples are together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The operation.
    pub operation: Operation,
    /// The values of the definition's labels in their order; nothing where a label is missing.
    pub values: Vec<Box<str>>,
}

/// Groups with their windows.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    own: BTreeMap<Group, Windows>,
    /// Groups whose values are all [`OVERFLOW`].
    others: BTreeMap<Group, Windows>,
}

impl Group {
    fn is_overflow(&self) -> bool {
        self.values.iter().all(|value| &**value == OVERFLOW)
    }

    fn overflow(self) -> Self {
        Self { values: vec![OVERFLOW.into(); self.values.len()], ..self }
    }
}

impl Groups {
    /// The windows to which samples of a group go, and whether they are the group's own.
    pub(super) fn place(&mut self, group: Group, retention: &Retention) -> (&mut Windows, bool) {
        let is_own = group.is_overflow()
            || self.own.contains_key(&group)
            || self.own.len() < ROLLUP_GROUPS_MAX;
        let group = if is_own { group } else { group.overflow() };
        let windows = if group.is_overflow() {
            // One for each operation, of which there are few; otherwise one for all.
            let has_room =
                self.others.len() < ROLLUP_GROUPS_MAX || self.others.contains_key(&group);
            let operation = || Operation::new(OVERFLOW).expect("a constant name of plain letters");
            let group = if has_room { group } else { Group { operation: operation(), ..group } };
            self.others.entry(group)
        } else {
            self.own.entry(group)
        };
        (windows.or_insert_with(|| Windows::new(retention)), is_own)
    }

    /// Evicts idle groups while there are many. Returns how many.
    fn evict_idle(&mut self, as_of: Wall) -> u64 {
        let mut evicted = 0;
        while is_crowded(self.own.len(), ROLLUP_GROUPS_MAX) {
            let Some(longest) = longest_idle(as_of, self.own.iter()).cloned() else { break };
            self.own.remove(&longest);
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
        let operation = Operation::new(OVERFLOW).expect("a constant name of plain letters");
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

    /// Groups with values of their own.
    pub(super) fn own_len(&self) -> usize {
        self.own.len()
    }

    /// Advances windows, drops groups without samples for as long as any window shows, and evicts
    /// idle ones while there are many; any node was last seen at `seen`. Returns how many were
    /// evicted.
    pub(super) fn expire(&mut self, now: Wall, seen: Wall) -> u64 {
        for map in [&mut self.own, &mut self.others] {
            map.retain(|_, windows| !windows.is_passed(now));
            map.values_mut().for_each(|windows| windows.expire(now, Phase::NONE));
        }
        self.evict_idle(seen)
    }

    /// The clock was set back.
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
