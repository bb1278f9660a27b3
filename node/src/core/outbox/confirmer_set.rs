//! Which aggregators have confirmed a message, in two bytes a message.
//!
//! DESIGN N82.

use plimsoll_schemas::ids::AggregatorName;
use plimsoll_schemas::time::Mono;

use crate::limits::CONFIRMERS_MAX;

/// A place in the table of aggregators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Confirmer(usize);

/// Some places of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConfirmerSet(u16);

/// A set has a bit for each place.
const _: () = assert!(CONFIRMERS_MAX <= 16);

impl ConfirmerSet {
    pub(super) fn add(&mut self, of: Confirmer) {
        self.0 |= 1 << of.0;
    }

    pub(super) fn remove(&mut self, of: Confirmer) {
        self.0 &= !(1 << of.0);
    }

    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }
}

/// The aggregators that have confirmed something, and when each last did. Those of versions that
/// state no name count as one.
#[derive(Debug, Default)]
pub(super) struct ConfirmerTable(Vec<(Option<AggregatorName>, Mono)>);

impl ConfirmerTable {
    /// The place of an aggregator that confirms now. The flag is true if it was another one's
    /// before, so that no set may have it any more.
    pub(super) fn place(&mut self, name: Option<&AggregatorName>, now: Mono) -> (Confirmer, bool) {
        let is_full = self.0.len() >= CONFIRMERS_MAX;
        let known = self.0.iter().position(|(known, _)| known.as_ref() == name);
        let silent = || (0..self.0.len()).min_by_key(|place| self.0[*place].1);
        let entry = (name.cloned(), now);

        match known.or_else(|| silent().filter(|_| is_full)) {
            Some(place) => {
                self.0[place] = entry;
                (Confirmer(place), known.is_none())
            }
            None => {
                self.0.push(entry);
                (Confirmer(self.0.len() - 1), false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: usize) -> Option<AggregatorName> {
        (n > 0).then(|| AggregatorName::new(format!("a{n}")).unwrap())
    }

    #[test]
    fn each_name_has_a_place_of_its_own_and_the_one_silent_for_longest_makes_room() {
        let mut table = ConfirmerTable::default();
        let mut place = |n: usize, now| {
            let (Confirmer(place), is_replaced) = table.place(name(n).as_ref(), Mono(now));
            (place, is_replaced)
        };
        for n in 0..CONFIRMERS_MAX {
            assert_eq!(place(n, 7 + n as u64), (n, false));
        }
        assert_eq!(place(0, 99), (0, false), "it is known");
        assert_eq!(place(CONFIRMERS_MAX, 100), (1, true));
        assert_eq!(place(1, 101), (2, true));
    }

    #[test]
    fn a_set_counts_different_places() {
        let mut set = ConfirmerSet::default();
        for place in [3, 3, 15] {
            set.add(Confirmer(place));
        }
        assert_eq!(set.len(), 2);
        set.remove(Confirmer(3));
        assert_eq!(set.len(), 1);
    }
}
