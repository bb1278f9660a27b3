//! Values of which only the newest counts, whatever the order in which messages arrive.

use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use crate::core::fleet::ledger::LedgerEntry;

/// A snapshot's position among those of its node: its incarnation's number in their order, its
/// sequence number.
type Position = (u64, Seq);

/// A value that a newer snapshot replaces and an older one, arriving late, does not.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latest<T> {
    pub value: T,
    /// When it was received.
    pub at: Wall,
    from: Position,
    /// Of which run it is; `None` before there is a value.
    of: Option<Incarnation>,
}

impl<T> Latest<T> {
    /// Stores `value`, of number `seq` of a run, unless a newer one is there. The order of runs may
    /// have changed since that one was stored: `account` has the present order.
    pub(super) fn offer(
        &mut self,
        (account, at): (&LedgerEntry, Wall),
        from: (Incarnation, Seq),
        value: T,
    ) {
        if self.is_older(account, from) {
            self.replace((account, at), from, value);
        }
    }

    /// Stores `value` as that of number `seq` of a run, whatever is there.
    pub(super) fn replace(
        &mut self,
        now: (&LedgerEntry, Wall),
        from: (Incarnation, Seq),
        value: T,
    ) {
        self.value = value;
        self.stamp(now, from);
    }

    /// Changes the value as number `seq` of a run states it, unless a newer one is there; returns
    /// whether it did.
    pub(super) fn amend(
        &mut self,
        now: (&LedgerEntry, Wall),
        from: (Incarnation, Seq),
        change: impl FnOnce(&mut T),
    ) -> bool {
        let is_older = self.is_older(now.0, from);
        if is_older {
            change(&mut self.value);
            self.stamp(now, from);
        }
        is_older
    }

    /// Whether the value is older than number `seq` of a run.
    pub(super) fn is_older(&self, account: &LedgerEntry, (of, seq): (Incarnation, Seq)) -> bool {
        let place = |run: Incarnation| account.order(run);
        let order = self.of.and_then(place).unwrap_or(self.from.0);
        (place(of).unwrap_or_default(), seq) > (order, self.from.1)
    }

    fn stamp(&mut self, (account, at): (&LedgerEntry, Wall), (of, seq): (Incarnation, Seq)) {
        let order = account.order(of).unwrap_or_default();
        (self.at, self.from, self.of) = (at, (order, seq), Some(of));
    }

    /// Whether there ever was a value.
    pub(in crate::core::fleet) fn is_known(&self) -> bool {
        self.of.is_some()
    }
}
