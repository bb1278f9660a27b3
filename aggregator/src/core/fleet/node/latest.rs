//! Values of which only the newest counts, whatever the order in which messages arrive.

use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use crate::core::fleet::ledger::LedgerEntry;

/// A snapshot's position among those of its node: its incarnation's number in their order, its
/// sequence number.
type Position = (u64, Seq);

/// A value that a newer snapshot replaces and an older one that arrives after it does not.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latest<T> {
    pub value: T,
    /// When it was received.
    pub at: Wall,
    from: Position,
    /// Of which incarnation it is; `None` before there is a value.
    of: Option<Incarnation>,
}

/// A message of a node: its incarnation, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageKey {
    pub incarnation: Incarnation,
    pub seq: Seq,
}

/// When a message is taken, and the order of its node's incarnations by then. That order may have
/// changed since an earlier message was taken.
#[derive(Clone, Copy)]
pub(super) struct Reception<'a> {
    pub(super) account: &'a LedgerEntry,
    pub(super) at: Wall,
}

impl<T> Latest<T> {
    /// Stores the value of a message, unless a newer one is there.
    pub(super) fn offer(&mut self, now: Reception<'_>, from: MessageKey, value: T) {
        if self.is_older(now.account, from) {
            self.replace(now, from, value);
        }
    }

    pub(super) fn replace(&mut self, now: Reception<'_>, from: MessageKey, value: T) {
        self.value = value;
        self.stamp(now, from);
    }

    /// Changes the value as a message states it, unless a newer one is there; returns whether it
    /// did.
    pub(super) fn amend(
        &mut self,
        now: Reception<'_>,
        from: MessageKey,
        change: impl FnOnce(&mut T),
    ) -> bool {
        let is_older = self.is_older(now.account, from);
        if is_older {
            change(&mut self.value);
            self.stamp(now, from);
        }
        is_older
    }

    pub(super) fn is_older(&self, account: &LedgerEntry, than: MessageKey) -> bool {
        let place = |incarnation: Incarnation| account.order(incarnation);
        let order = self.of.and_then(place).unwrap_or(self.from.0);
        (place(than.incarnation).unwrap_or_default(), than.seq) > (order, self.from.1)
    }

    fn stamp(&mut self, now: Reception<'_>, from: MessageKey) {
        let order = now.account.order(from.incarnation).unwrap_or_default();
        (self.at, self.from, self.of) = (now.at, (order, from.seq), Some(from.incarnation));
    }

    /// Whether there ever was a value.
    pub(in crate::core::fleet) fn is_known(&self) -> bool {
        self.of.is_some()
    }
}
