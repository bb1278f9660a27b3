//! The latest readings of a node's sensors, from messages with all of them and messages with
//! changed values alone, in whatever order they come.
//!
//! Owns the newest set of readings with the newest changes of it, and the newest changes of a set
//! that has not come yet. Changes count from their set, so that those between do not matter. Within
//! an incarnation sets are in the order of their numbers: a critical one passes by the emergency
//! lane, so a set before it may be sent later.
//!
//! DESIGN A68.

use std::sync::Arc;

use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::Hardware;
use serde::{Deserialize, Serialize};

use super::latest::{Latest, MessageKey, Reception};
use super::reading_table::ReadingTable;
use crate::core::fleet::ledger::LedgerEntry;

/// A set of readings: its incarnation and its number there.
type SetId = (Incarnation, u64);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Readings {
    latest: Latest<Arc<ReadingTable>>,
    /// Of which set they are; `None` before there is one.
    set: Option<SetId>,
    waiting: Option<Changes>,
}

/// What a message changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Whether the readings are newer than before. They are not where a set is missing.
    pub(super) is_newer: bool,
    /// How many readings were of sensors that are not in the catalogue.
    pub(super) unknown: u64,
}

/// Changes of a set that has not come.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Changes {
    set: SetId,
    seq: Seq,
    changed: Vec<(u32, f64)>,
}

impl Readings {
    pub fn get(&self) -> &ReadingTable {
        &self.latest.value
    }

    /// When the newest message with them was received; `None` before there was one.
    pub fn received_at(&self) -> Option<Wall> {
        self.latest.is_known().then_some(self.latest.at)
    }

    /// Whether newer ones than these are known to exist: their set is missing.
    pub fn are_missing(&self) -> bool {
        self.waiting.is_some()
    }

    pub(super) fn take(
        &mut self,
        now: Reception<'_>,
        from: MessageKey,
        Hardware { readings, set, changed }: Hardware,
    ) -> Taken {
        let MessageKey { incarnation, seq } = from;
        let id = (incarnation, set);

        // Values alone, which mean nothing without the sensors of their set.
        if readings.is_empty() && set > 0 {
            let is_newer = self.apply_or_keep(now, Changes { set: id, seq, changed });
            return Taken { is_newer, unknown: 0 };
        }

        let table = ReadingTable::from(readings);
        let unknown = table.unknown();
        let is_newer = self.is_older(now.account, id, seq);

        if is_newer {
            // Any change of a set is newer than the set.
            let seq = if set > 0 { Seq(0) } else { seq };
            self.latest.replace(now, MessageKey { incarnation, seq }, table.into());
            self.set = Some(id);
            if let Some(changes) = self.waiting.take() {
                self.apply_or_keep(now, changes);
            }
        }

        Taken { is_newer, unknown }
    }

    /// Whether what is known is older than a set, or than readings without one.
    fn is_older(&self, account: &LedgerEntry, (incarnation, set): SetId, seq: Seq) -> bool {
        match self.set {
            Some((of, known)) if of == incarnation && known > 0 && set > 0 => known < set,
            _ => self.latest.is_older(account, MessageKey { incarnation, seq }),
        }
    }

    /// Returns whether the readings changed.
    fn apply_or_keep(&mut self, now: Reception<'_>, changes: Changes) -> bool {
        if self.set == Some(changes.set) {
            return self.apply(now, &changes);
        }
        self.keep(now.account, changes);
        false
    }

    fn apply(&mut self, now: Reception<'_>, changes: &Changes) -> bool {
        let from = MessageKey { incarnation: changes.set.0, seq: changes.seq };
        self.latest.amend(now, from, |readings| {
            // Readings without a change are not copied, although a page may show them.
            if !changes.changed.is_empty() {
                Arc::make_mut(readings).change(&changes.changed);
            }
        })
    }

    /// Keeps changes until their set comes, unless newer ones or a newer set are here.
    fn keep(&mut self, account: &LedgerEntry, changes: Changes) {
        let place = |Changes { set: (incarnation, set), seq, .. }: &Changes| {
            (account.order(*incarnation), *set, *seq)
        };
        let is_newest = self.waiting.as_ref().is_none_or(|known| place(known) < place(&changes));
        if is_newest && self.is_older(account, changes.set, changes.seq) {
            self.waiting = Some(changes);
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::{CPU_CORE_USAGE_RATIO, LOAD1, Reading};
    use plimsoll_schemas::ids::Labels;
    use proptest::prelude::*;

    use super::*;

    const RUN: Incarnation = Incarnation(7);

    fn core(n: usize, value: f64) -> Reading {
        let labels = Labels::new([("core", n.to_string())]).unwrap();
        Reading::ok(&CPU_CORE_USAGE_RATIO, labels, value)
    }

    fn all(set: u64, values: &[f64]) -> Hardware {
        let readings = values.iter().enumerate().map(|(n, value)| core(n, *value)).collect();
        Hardware { readings, set, ..Hardware::default() }
    }

    fn changes(set: u64, changed: &[(u32, f64)]) -> Hardware {
        Hardware { set, changed: changed.to_vec(), ..Hardware::default() }
    }

    fn take(readings: &mut Readings, seq: u64, hardware: Hardware) -> Taken {
        let now = Reception { account: &LedgerEntry::default(), at: Wall(seq) };
        readings.take(now, MessageKey { incarnation: RUN, seq: Seq(seq) }, hardware)
    }

    fn values(readings: &Readings) -> Vec<f64> {
        readings.get().iter().filter_map(|reading| reading.value).collect()
    }

    #[test]
    fn changes_replace_values_of_their_set_and_wait_for_one_that_is_missing() {
        let mut readings = Readings::default();
        take(&mut readings, 1, all(1, &[1.0, 2.0]));
        take(&mut readings, 2, changes(1, &[(1, 2.5)]));
        assert_eq!(values(&readings), [1.0, 2.5]);
        take(&mut readings, 4, changes(2, &[(0, 9.0)]));
        assert_eq!((values(&readings), readings.are_missing()), (vec![1.0, 2.5], true));
        take(&mut readings, 3, all(2, &[5.0, 6.0]));
        assert_eq!((values(&readings), readings.are_missing()), (vec![9.0, 6.0], false));
        take(&mut readings, 2, changes(1, &[(1, 0.0)]));
        assert_eq!(values(&readings), [9.0, 6.0], "an old one comes again");
    }

    #[test]
    fn a_set_newer_than_waiting_changes_ends_their_wait() {
        let mut readings = Readings::default();
        take(&mut readings, 1, changes(1, &[(0, 9.0)]));
        assert!(readings.are_missing());
        take(&mut readings, 5, all(3, &[1.0]));
        assert_eq!((values(&readings), readings.are_missing()), (vec![1.0], false));
    }

    #[test]
    fn places_are_those_in_the_message_with_sensors_that_are_unknown_here() {
        let mut readings = Readings::default();
        let mut set = all(1, &[1.0, 2.0, 3.0]);
        set.readings[1].sensor = "later_version".to_owned();
        assert_eq!(take(&mut readings, 1, set), Taken { is_newer: true, unknown: 1 });
        take(&mut readings, 2, changes(1, &[(0, 1.5), (1, 8.0), (2, 3.5), (9, 1.0)]));
        assert_eq!(values(&readings), [1.5, 3.5]);
    }

    /// A critical set went by the emergency lane while the set before it waited in the normal one.
    #[test]
    fn a_set_that_is_sent_after_its_successor_is_the_older_one() {
        let mut readings = Readings::default();
        assert!(take(&mut readings, 10, all(2, &[5.0])).is_newer);
        assert!(!take(&mut readings, 11, all(1, &[1.0])).is_newer);
        assert_eq!((values(&readings), readings.are_missing()), (vec![5.0], false));
        assert!(!take(&mut readings, 12, changes(1, &[(0, 1.5)])).is_newer);
        assert_eq!((values(&readings), readings.are_missing()), (vec![5.0], false));
        // So may a change pass by its set.
        assert!(take(&mut readings, 13, changes(2, &[(0, 6.0)])).is_newer);
        take(&mut readings, 14, changes(3, &[(0, 7.5)]));
        take(&mut readings, 15, all(3, &[7.0]));
        assert_eq!((values(&readings), readings.are_missing()), (vec![7.5], false));
        assert!(!take(&mut readings, 16, all(3, &[7.0])).is_newer, "it comes again");
    }

    #[test]
    fn changes_without_their_set_make_no_reading_newer() {
        let mut readings = Readings::default();
        take(&mut readings, 1, all(1, &[1.0]));
        let waits = take(&mut readings, 3, changes(2, &[(0, 9.0)]));
        assert_eq!(waits, Taken { is_newer: false, unknown: 0 });
        assert!(take(&mut readings, 4, all(2, &[8.0])).is_newer);
    }

    #[test]
    fn a_node_that_sends_no_changes_is_read_as_before() {
        let mut readings = Readings::default();
        let load = |value| Hardware {
            readings: vec![Reading::ok(&LOAD1, Labels::default(), value)],
            ..Hardware::default()
        };
        take(&mut readings, 2, load(2.0));
        take(&mut readings, 1, load(1.0));
        assert_eq!(values(&readings), [2.0]);
        take(&mut readings, 3, Hardware::default());
        assert!(values(&readings).is_empty(), "it has no sensors any more");
    }

    proptest! {
        #[test]
        fn the_order_of_arrival_never_changes_the_readings(
            samples in proptest::collection::vec((any::<bool>(), 0..3_u8, 0..9_u8), 1..12),
            order in Just((0..12_usize).collect::<Vec<_>>()).prop_shuffle(),
            sealed in Just((1..13_u64).collect::<Vec<_>>()).prop_shuffle(),
            by_two_lanes in any::<bool>(),
        ) {
            let (mut sent, mut set, mut messages) = (vec![0.0; 3], 0, Vec::new());
            let mut changed = std::collections::BTreeMap::new();
            for (index, (is_set, place, value)) in samples.iter().enumerate() {
                sent[usize::from(*place)] = f64::from(*value);
                if index == 0 || *is_set {
                    (set, changed) = (set + 1, Default::default());
                    messages.push(all(set, &sent));
                } else {
                    changed.insert(u32::from(*place), f64::from(*value));
                    let changed: Vec<_> = changed.clone().into_iter().collect();
                    messages.push(changes(set, &changed));
                }
            }
            let mut readings = Readings::default();
            for index in order.into_iter().filter(|index| *index < messages.len()) {
                // Changes of one set keep their order: of one lane, they are replaced by the next.
                let seq = match by_two_lanes && !messages[index].readings.is_empty() {
                    true => sealed[index] * 100,
                    false => index as u64 + 1,
                };
                take(&mut readings, seq, messages[index].clone());
            }
            prop_assert_eq!((values(&readings), readings.are_missing()), (sent, false));
        }
    }
}
