//! Which sequence numbers of one incarnation have been merged: runs, with holes between them.

use std::collections::BTreeMap;

use plimsoll_schemas::limits::aggregator::SEQ_HOLES_MAX;

/// A set of sequence numbers, small while they arrive roughly in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seqs {
    /// First to last number of each run; runs neither touch nor overlap.
    runs: BTreeMap<u64, u64>,
}

impl Seqs {
    /// Adds a number; false when it was there already.
    pub fn insert(&mut self, seq: u64) -> bool {
        let below = self.runs.range(..=seq).next_back().map(|(first, last)| (*first, *last));
        if below.is_some_and(|(_, last)| last >= seq) {
            return false;
        }
        let first = match below {
            Some((first, last)) if last + 1 == seq => first,
            _ => seq,
        };
        let last = seq.checked_add(1).and_then(|next| self.runs.remove(&next)).unwrap_or(seq);
        self.runs.insert(first, last);
        self.forget_the_oldest_hole();
        true
    }

    /// Past the bound the oldest hole closes: what would still come for it counts as a
    /// repetition and is not merged, which the ledger shows as held for ever, never as double.
    fn forget_the_oldest_hole(&mut self) {
        if self.runs.len() <= SEQ_HOLES_MAX {
            return;
        }
        let mut runs = self.runs.iter();
        if let (Some((first, _)), Some((second, last))) = (runs.next(), runs.next()) {
            let (first, second, last) = (*first, *second, *last);
            self.runs.remove(&second);
            self.runs.insert(first, last);
        }
    }

    /// Numbers missing below the highest one.
    #[must_use]
    pub fn holes(&self) -> u64 {
        let present: u64 = self.runs.iter().map(|(first, last)| last - first + 1).sum();
        self.runs.last_key_value().map_or(0, |(_, last)| last - present)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_behave_like_a_plain_set(numbers in prop::collection::vec(1..60_u64, 0..200)) {
            let (mut seqs, mut model) = (Seqs::default(), BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(seqs.insert(number), model.insert(number));
            }
            let highest = model.last().copied().unwrap_or(0);
            prop_assert_eq!(seqs.holes(), highest - model.len() as u64);
        }
    }

    #[test]
    fn holes_are_bounded_and_closing_one_never_admits_a_number_twice() {
        let mut seqs = Seqs::default();
        for number in 1..=SEQ_HOLES_MAX as u64 + 10 {
            assert!(seqs.insert(number * 2));
        }
        assert_eq!(seqs.runs.len(), SEQ_HOLES_MAX);
        assert!(!seqs.insert(2));
        assert!(!seqs.insert(3), "the oldest hole is closed");
    }

    #[test]
    fn the_greatest_number_is_no_special_case() {
        let mut seqs = Seqs::default();
        assert!(seqs.insert(u64::MAX));
        assert!(!seqs.insert(u64::MAX));
    }
}
