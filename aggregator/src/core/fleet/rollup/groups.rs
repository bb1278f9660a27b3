//! The groups of one roll-up: those with values of their own, and those that take what finds no
//! room. Both are bounded. When the first are full, the one that has been idle for longest makes
//! room, once it has been so for [`ROLLUP_GROUP_IDLE`].
//!
//! DESIGN A62.

use std::collections::BTreeMap;

use crate::limits::{ROLLUP_GROUP_IDLE, ROLLUP_GROUPS_MAX};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::time::Wall;

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
    own: BTreeMap<Group, Kept>,
    /// Groups whose values are all [`OVERFLOW`].
    others: BTreeMap<Group, Kept>,
    /// No group of `own` has been idle for long enough before this; 0 when that is not known.
    full_until: Wall,
}

#[derive(Clone, Debug)]
struct Kept {
    windows: Windows,
    /// When samples last arrived. Not stored: after a restart, when the newest one was taken.
    touched: Wall,
}

/// Where samples went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// To a group of their own.
    Own,
    /// To a group of their own, for which another one was evicted.
    AfterEviction,
    /// To a group of others.
    WithOthers,
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
    /// The windows to which samples of a group go that arrive at `now`.
    pub(super) fn place(
        &mut self,
        group: Group,
        now: Wall,
        retention: &Retention,
    ) -> (&mut Windows, Placed) {
        let placed = self.placed(&group, now);
        let group = if placed == Placed::WithOthers { group.overflow() } else { group };
        let kept = if group.is_overflow() {
            // One for each operation, of which there are few; otherwise one for all.
            let has_room =
                self.others.len() < ROLLUP_GROUPS_MAX || self.others.contains_key(&group);
            let operation = || Operation::new(OVERFLOW).expect("a constant name of plain letters");
            let group = if has_room { group } else { Group { operation: operation(), ..group } };
            self.others.entry(group)
        } else {
            self.own.entry(group)
        };
        let kept = kept.or_insert_with(|| Kept { windows: Windows::new(retention), touched: now });
        kept.touched = kept.touched.max(now);
        (&mut kept.windows, placed)
    }

    fn placed(&mut self, group: &Group, now: Wall) -> Placed {
        if group.is_overflow() || self.own.contains_key(group) {
            return Placed::Own;
        }
        if self.own.len() < ROLLUP_GROUPS_MAX {
            self.full_until = Wall(0);
            return Placed::Own;
        }
        if self.evict_idle(now) { Placed::AfterEviction } else { Placed::WithOthers }
    }

    /// Evicts the group that has been idle for longest, if that is long enough. Any number of
    /// values may come: all groups are searched only when that may help.
    fn evict_idle(&mut self, now: Wall) -> bool {
        if now < self.full_until {
            return false;
        }
        let Some((longest, kept)) = self.own.iter().min_by_key(|(_, kept)| kept.touched) else {
            return false;
        };
        let idle_from = kept.touched.plus(ROLLUP_GROUP_IDLE);
        if now < idle_from {
            self.full_until = idle_from;
            return false;
        }
        let longest = longest.clone();
        self.own.remove(&longest);
        true
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
        map.insert(group, Kept { touched: windows.newest(), windows });
    }

    pub(super) fn get(&self, group: &Group) -> Option<&Windows> {
        let map = if group.is_overflow() { &self.others } else { &self.own };
        map.get(group).map(|kept| &kept.windows)
    }

    /// Those of their own in order, then the others.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Group, &Windows)> {
        self.own.iter().chain(&self.others).map(|(group, kept)| (group, &kept.windows))
    }

    pub(super) fn len(&self) -> usize {
        self.own.len() + self.others.len()
    }

    /// Advances windows, and drops groups without samples for as long as any window shows.
    pub(super) fn expire(&mut self, now: Wall) {
        for map in [&mut self.own, &mut self.others] {
            map.retain(|_, kept| !kept.windows.is_passed(now));
            map.values_mut().for_each(|kept| kept.windows.expire(now, Phase::NONE));
        }
    }

    /// The clock was set back: nothing has arrived in the future.
    pub(super) fn turn_back(&mut self, now: Wall) {
        self.full_until = Wall(0);
        for kept in self.own.values_mut().chain(self.others.values_mut()) {
            kept.touched = kept.touched.min(now);
            kept.windows.turn_back(now);
        }
    }
}
