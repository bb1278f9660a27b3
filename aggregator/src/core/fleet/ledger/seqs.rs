//! Which sequence numbers of one incarnation have been merged: spans, with holes between them.

use std::collections::BTreeMap;

use crate::limits::{SEQ_HOLES_MAX, SEQ_SPANS_MANY};
use serde::{Deserialize, Serialize};

/// A set of sequence numbers, small while they arrive roughly in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Seqs {
    /// First to last number of each span; spans neither touch nor overlap.
    spans: BTreeMap<u64, u64>,
}

impl Seqs {
    /// Adds a number; false when it was there already.
    pub fn insert(&mut self, seq: u64) -> bool {
        let below = self.spans.range(..=seq).next_back().map(|(first, last)| (*first, *last));
        if below.is_some_and(|(_, last)| last >= seq) {
            return false;
        }
        // A number that continues a span makes it longer: a node whose
        // messages come in order has one span, however long it runs.
        let first = match below {
            Some((first, last)) if last + 1 == seq => first,
            _ => seq,
        };
        let last = seq.checked_add(1).and_then(|next| self.spans.remove(&next)).unwrap_or(seq);
        self.spans.insert(first, last);
        self.drop_oldest_hole();
        true
    }

    /// Past the bound the oldest hole closes: what would still come for it counts as a
    /// repetition and is not merged. The ledger shows it as held or unaccounted from then on, never
    /// as double.
    fn drop_oldest_hole(&mut self) {
        if self.spans.len() <= SEQ_HOLES_MAX {
            return;
        }
        let mut spans = self.spans.iter();
        if let (Some((first, _)), Some((second, last))) = (spans.next(), spans.next()) {
            let (first, second, last) = (*first, *second, *last);
            self.spans.remove(&second);
            self.spans.insert(first, last);
        }
    }

    /// Whether there are too many spans: some gaps should be filled before more come.
    pub fn is_fragmented(&self) -> bool {
        self.spans.len() > SEQ_SPANS_MANY
    }

    /// All spans, first to last number, ascending.
    pub fn spans(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.spans.iter().map(|(first, last)| (*first, *last))
    }

    /// The latest spans, at most `max`, ascending.
    pub fn latest(&self, max: usize) -> Vec<(u64, u64)> {
        let mut latest: Vec<_> = self.spans().rev().take(max).collect();
        latest.reverse();
        latest
    }

    /// The numbers missing between two spans, first to last of each hole, ascending. What lies
    /// before the first span may never have been meant for us and is no hole.
    pub fn gaps(&self) -> impl Iterator<Item = (u64, u64)> {
        let later = self.spans().skip(1);
        self.spans().zip(later).map(|((_, last), (next, _))| (last + 1, next - 1))
    }

    /// Numbers missing below the highest one.
    pub fn holes(&self) -> u64 {
        self.spans.last_key_value().map_or(0, |(_, last)| last.saturating_sub(self.count()))
    }

    pub fn count(&self) -> u64 {
        let length = |(first, last): (&u64, &u64)| last.saturating_sub(*first).saturating_add(1);
        self.spans.iter().map(length).fold(0, u64::saturating_add)
    }
}

impl From<Seqs> for Vec<(u64, u64)> {
    fn from(seqs: Seqs) -> Self {
        seqs.spans.into_iter().collect()
    }
}

impl TryFrom<Vec<(u64, u64)>> for Seqs {
    type Error = &'static str;

    fn try_from(spans: Vec<(u64, u64)>) -> Result<Self, Self::Error> {
        // A record may be damaged, and with spans that overlap a number could be merged twice.
        let forward = spans.iter().all(|(first, last)| first <= last);
        let apart =
            spans.windows(2).all(|pair| pair[0].1.checked_add(1).is_some_and(|n| n < pair[1].0));
        let bounded = spans.len() <= SEQ_HOLES_MAX && spans.first().is_none_or(|span| span.0 > 0);
        if !(forward && apart && bounded) {
            return Err("spans of sequence numbers are out of order");
        }
        Ok(Self { spans: spans.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn spans_behave_like_a_plain_set(numbers in prop::collection::vec(1..60_u64, 0..200)) {
            let (mut seqs, mut model) = (Seqs::default(), BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(seqs.insert(number), model.insert(number));
            }
            let highest = model.last().copied().unwrap_or(0);
            prop_assert_eq!(seqs.holes(), highest - model.len() as u64);
            let inner: u64 = seqs.gaps().map(|(first, last)| last - first + 1).sum();
            let below_the_first = model.first().map_or(0, |first| first - 1);
            prop_assert_eq!(inner + below_the_first, seqs.holes());
        }
    }

    #[test]
    fn holes_are_bounded_and_closing_one_never_admits_a_number_twice() {
        let mut seqs = Seqs::default();
        for number in 1..=SEQ_HOLES_MAX as u64 + 10 {
            assert!(seqs.insert(number * 2));
        }
        assert_eq!(seqs.spans.len(), SEQ_HOLES_MAX);
        assert!(!seqs.insert(2));
        assert!(!seqs.insert(3), "the oldest hole is closed");
    }

    #[test]
    fn spans_that_overlap_touch_or_go_backwards_are_refused() {
        for spans in [vec![(2, 1)], vec![(1, 2), (3, 4)], vec![(1, 5), (4, 9)], vec![(0, 1)]] {
            assert!(Seqs::try_from(spans.clone()).is_err(), "{spans:?}");
        }
        let good = vec![(1, 2), (4, u64::MAX)];
        assert_eq!(Vec::from(Seqs::try_from(good.clone()).unwrap()), good);
    }

    #[test]
    fn the_greatest_number_is_no_special_case() {
        let mut seqs = Seqs::default();
        assert!(seqs.insert(u64::MAX));
        assert!(!seqs.insert(u64::MAX));
    }
}
