//! Samples merged to be shown and then thrown away. One of these serves for all rows of a page:
//! nothing is allocated for a row, every bucket has its place, and only those between the
//! smallest and the greatest sample are ever read. What is kept is never kept so.

use plimsoll_schemas::histogram::{
    BucketUncertainty, ExactFigures, Histogram, Packed, Quantile, layout,
};

/// Buckets that are skipped together in the search for a rank.
const BLOCK: usize = 64;

#[derive(Clone, Debug)]
pub struct Merged {
    exact: ExactFigures,
    /// Of each bucket of the layout.
    counts: Box<[u64]>,
    /// What is not known of where samples lie, if anything.
    uncertainty: Option<BucketUncertainty>,
}

impl Default for Merged {
    fn default() -> Self {
        Self {
            exact: ExactFigures::default(),
            counts: vec![0; layout::LEN].into(),
            uncertainty: None,
        }
    }
}

impl Merged {
    pub fn clear(&mut self) {
        self.used_mut().fill(0);
        self.exact = ExactFigures::default();
        self.uncertainty = None;
    }

    pub(super) fn add_packed(&mut self, samples: &Packed) {
        self.exact.merge(&samples.exact());
        samples.each_bucket(|index, n| self.add(index, n));
        self.add_uncertainty(samples.uncertainty().as_ref());
    }

    pub(super) fn add_histogram(&mut self, samples: &Histogram) {
        self.exact.merge(&samples.exact());
        samples.counts().iter().for_each(|(index, n)| self.add(index, n));
        self.add_uncertainty(samples.uncertainty());
    }

    pub(super) fn add_merged(&mut self, other: &Self) {
        self.exact.merge(&other.exact);
        let (first, theirs) = other.used();
        let ours = &mut self.counts[first..first + theirs.len()];
        ours.iter_mut().zip(theirs).for_each(|(ours, n)| *ours = ours.saturating_add(*n));
        self.add_uncertainty(other.uncertainty.as_ref());
    }

    fn add_uncertainty(&mut self, theirs: Option<&BucketUncertainty>) {
        if let Some(theirs) = theirs {
            self.uncertainty.get_or_insert_default().merge(theirs);
        }
    }

    /// Whether some samples are known by their producers' wide buckets alone.
    pub fn is_approximate(&self) -> bool {
        self.uncertainty.is_some()
    }

    #[inline]
    fn add(&mut self, index: usize, n: u64) {
        if let Some(count) = self.counts.get_mut(index) {
            *count = count.saturating_add(n);
        }
    }

    /// What is known exactly.
    pub fn exact(&self) -> ExactFigures {
        self.exact
    }

    /// The first bucket in use and the one after the last.
    fn edges(&self) -> (usize, usize) {
        if self.exact.count == 0 {
            return (0, 0);
        }
        let index = |ns: u64| layout::index_of(ns.min(layout::MAX_NS));
        (index(self.exact.min_ns), index(self.exact.max_ns) + 1)
    }

    fn used(&self) -> (usize, &[u64]) {
        let (first, end) = self.edges();
        (first, &self.counts[first..end])
    }

    fn used_mut(&mut self) -> &mut [u64] {
        let (first, end) = self.edges();
        &mut self.counts[first..end]
    }

    /// Buckets with samples, in ascending order: (index, samples).
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        let (first, used) = self.used();
        used.iter().zip(first..).filter(|(n, _)| **n > 0).map(|(n, index)| (index, *n))
    }

    /// Finds samples by rank; cheapest when each is near the one before.
    pub fn ranks(&self) -> Ranks<'_> {
        let (first, used) = self.used();
        Ranks {
            exact: self.exact,
            uncertainty: self.uncertainty.as_ref(),
            first,
            used,
            at: 0,
            below: 0,
        }
    }
}

/// Finds samples by rank, each search going on where the one before ended.
#[derive(Clone, Debug)]
pub struct Ranks<'m> {
    exact: ExactFigures,
    uncertainty: Option<&'m BucketUncertainty>,
    first: usize,
    used: &'m [u64],
    /// Where in `used` the next search begins, and how many samples lie below that.
    at: usize,
    below: u64,
}

impl Ranks<'_> {
    /// The sample of a rank, 1 being the smallest; `None` when there is no such sample.
    pub fn find(&mut self, rank: u64) -> Option<Quantile> {
        // Only with forged samples could the sum of some buckets overflow.
        let block = if self.exact.count == u64::MAX { 1 } else { BLOCK };
        if rank <= self.below && block == 1 {
            (self.at, self.below) = (0, 0);
        }

        // Back by whole blocks to one below the rank, then forward to the block that holds it.
        while rank <= self.below && self.at > 0 {
            let begin = (self.at - 1) / block * block;
            self.below -= sum(&self.used[begin..self.at]);
            self.at = begin;
        }

        for buckets in self.used[self.at..].chunks(block) {
            let with = self.below.saturating_add(sum(buckets));
            if with >= rank {
                break;
            }
            (self.at, self.below) = (self.at + buckets.len(), with);
        }

        let mut seen = self.below;
        let within = self.used[self.at..].iter().position(|n| {
            seen = seen.saturating_add(*n);
            *n > 0 && seen >= rank
        })?;

        let index = self.first + self.at + within;
        let ExactFigures { min_ns, max_ns, .. } = self.exact;
        let value_ns = layout::highest(index).clamp(min_ns, max_ns);
        let lower_ns = layout::lowest(index).clamp(min_ns, max_ns);

        // Producers' wide buckets may leave open in which bucket of ours the sample lies.
        let buckets = self.used.iter().zip(self.first..);
        let buckets = buckets.filter(|(n, _)| **n > 0).map(|(n, index)| (index, *n));
        let open = self
            .uncertainty
            .and_then(|uncertainty| uncertainty.at_rank(self.exact.count, &buckets, rank));
        let (lower_ns, upper_ns) = open.unwrap_or((lower_ns, value_ns));
        Some(Quantile { value_ns, lower_ns, upper_ns })
    }
}

fn sum(buckets: &[u64]) -> u64 {
    buckets.iter().fold(0, |sum, n| sum.wrapping_add(*n))
}

impl From<&Histogram> for Merged {
    fn from(samples: &Histogram) -> Self {
        let mut merged = Self::default();
        merged.add_histogram(samples);
        merged
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples() -> impl Strategy<Value = Histogram> {
        let value = prop_oneof![0..2_000_u64, 1_000_000..40_000_000_u64, 0..=layout::MAX_NS];
        let values = prop::collection::vec((value, 1..70_000_u64), 0..100);
        // Few are forged, so that most sums are exact.
        let times = prop_oneof![9 => Just(1), 1 => Just(u64::MAX / 4)];
        (values, times).prop_map(|(values, times)| {
            let mut samples = Histogram::default();
            for (value, n) in values {
                match n % 4 {
                    0 => samples.record_within(value, value.saturating_mul(n % 3 + 2), n),
                    _ => samples.record_n(value, n.saturating_mul(times)),
                }
            }
            samples
        })
    }

    proptest! {
        #[test]
        fn the_former_format_equals_a_histogram_of_the_same_samples(
            before in samples(), one in samples(), two in samples(), three in samples(),
            permille in prop::collection::vec(0..=1_000_u64, 0..20),
        ) {
            let mut merged = Merged::from(&before);
            merged.clear();
            prop_assert!(merged.counts.iter().all(|n| *n == 0));
            merged.add_histogram(&one);
            merged.add_packed(&Packed::from(&two));
            merged.add_merged(&Merged::from(&three));
            let mut both = one;
            both.merge_packed(&Packed::from(&two));
            both.merge(&three);
            prop_assert_eq!(merged.exact(), both.exact());
            let buckets = both.counts().iter().collect::<Vec<_>>();
            prop_assert_eq!(merged.buckets().collect::<Vec<_>>(), buckets);
            let rank = |permille: u64| u128::from(both.count()) * u128::from(permille) / 1_000;
            let ranks = permille.into_iter().filter_map(|permille| rank(permille).try_into().ok());
            let ranks = ranks.chain([1, 2, both.count(), u64::MAX]);
            let mut search = merged.ranks();
            for rank in ranks.filter(|rank| *rank > 0) {
                prop_assert_eq!(search.find(rank), both.at_rank(rank), "{}", rank);
            }
        }
    }
}
