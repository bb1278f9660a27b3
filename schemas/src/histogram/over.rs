//! Samples over limits, and how certain the count is. Samples recorded before a limit was known are
//! counted from the buckets, by the distribution that holds them.
//!
//! DESIGN S3.
use std::fmt;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::DistributionError;
use super::exact::ExactFigures;
use super::layout::{self, MAX_NS};
use super::payload::SamplesBeside;
use crate::limits::wire::LIMITS_MAX;

/// Samples over one limit: at least `over` and at most `over + uncertain`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over {
    /// Samples that are over it.
    pub over: u64,
    /// Samples that may be over it: in the limit's own bucket, recorded when it was not watched, or
    /// in a producer's bucket that the limit divides.
    pub uncertain: u64,
}

impl Over {
    /// Adds those of other samples.
    pub fn add(&mut self, other: Self) {
        self.over = self.over.saturating_add(other.over);
        self.uncertain = self.uncertain.saturating_add(other.uncertain);
    }

    /// The result from bucket counts: `beside` returns the samples in one bucket, and those above
    /// it. The samples in the limit's own bucket are uncertain, unless the whole bucket is above
    /// the limit or none of it.
    pub(super) fn from_buckets(
        exact: &ExactFigures,
        limit_ns: u64,
        beside: impl Fn(usize) -> SamplesBeside,
    ) -> Self {
        if let Some(plain) = Self::plain(exact, limit_ns) {
            return plain;
        }
        let own = layout::index_of(limit_ns.min(MAX_NS));
        let SamplesBeside { within, above } = beside(own);
        Self { over: above, uncertain: if layout::highest(own) <= limit_ns { 0 } else { within } }
    }

    /// The result from the smallest and the largest sample, if these alone decide it.
    pub(super) fn plain(exact: &ExactFigures, limit_ns: u64) -> Option<Self> {
        if exact.max_ns <= limit_ns {
            return Some(Self::default());
        }
        (exact.min_ns > limit_ns).then_some(Self { over: exact.count, uncertain: 0 })
    }

    /// Whether it is within the bounds from `buckets`.
    fn is_within(self, buckets: Self) -> bool {
        let Some(most) = self.over.checked_add(self.uncertain) else { return false };
        self.over >= buckets.over && most <= buckets.over.saturating_add(buckets.uncertain)
    }

    /// Whether it is consistent with the smallest and the largest sample, if these lie on either
    /// side of the limit.
    fn is_beside(self, exact: &ExactFigures, limit_ns: u64) -> bool {
        let lies_between = exact.min_ns <= limit_ns && limit_ns < exact.max_ns;
        !lies_between || self.over < exact.count && (self.over, self.uncertain) != (0, 0)
    }
}

/// Samples over each of at most [`LIMITS_MAX`] limits, in ascending order of limits.
///
/// Written as `[[limit_ns, over, uncertain], ..]`; what is read may be anything until it is
/// checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overs(pub(super) Vec<(u64, Over)>);

impl Overs {
    /// Of no limit.
    pub(super) const NONE: Self = Self(Vec::new());

    /// The limits of `limits` that there can be, the smallest where there are too many.
    pub(super) fn watching(limits: &[u64], count: impl Fn(u64) -> Over) -> Self {
        let possible = limits.iter().copied().filter(|limit| (1..=MAX_NS).contains(limit));
        let mut limits: Vec<u64> = possible.collect();
        limits.sort_unstable();
        limits.dedup();
        limits.truncate(LIMITS_MAX);
        Self(limits.into_iter().map(|limit| (limit, count(limit))).collect())
    }

    /// Without a limit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The limits.
    pub fn limits(&self) -> impl ExactSizeIterator<Item = u64> {
        self.0.iter().map(|(limit, _)| *limit)
    }

    /// The count of one limit.
    #[must_use]
    pub fn get(&self, limit_ns: u64) -> Option<Over> {
        self.0.iter().find(|(limit, _)| *limit == limit_ns).map(|(_, over)| *over)
    }

    /// The same limits, and nothing over them.
    pub(super) fn renewed(&self) -> Self {
        Self(self.limits().map(|limit| (limit, Over::default())).collect())
    }

    #[inline]
    pub(super) fn record(&mut self, value_ns: u64, n: u64) {
        for (limit, over) in &mut self.0 {
            over.over = over.over.saturating_add(if value_ns > *limit { n } else { 0 });
        }
    }

    /// Counts samples of which each is over `over_ns` and at most `upto_ns`.
    pub(super) fn record_within(&mut self, over_ns: u64, upto_ns: u64, n: u64) {
        for (limit, over) in &mut self.0 {
            over.add(match *limit {
                limit if limit <= over_ns => Over { over: n, uncertain: 0 },
                limit if limit < upto_ns => Over { over: 0, uncertain: n },
                _ => Over::default(),
            });
        }
    }

    /// Adds the counts of other samples. For a limit that only one side watches, `ours` or `theirs`
    /// returns the count of the side that does not watch it. If there are too many limits, the
    /// smallest are kept, independent of order.
    pub(super) fn merge(
        &mut self,
        other: &Self,
        ours: impl Fn(u64) -> Over,
        theirs: impl Fn(u64) -> Over,
    ) {
        for (limit, over) in &mut self.0 {
            over.add(other.get(*limit).unwrap_or_else(|| theirs(*limit)));
        }
        // All nodes of a mesh mostly watch the same limits.
        if other.limits().eq(self.limits()) {
            return;
        }
        let mut entries = std::mem::take(&mut self.0);

        for (limit, over) in &other.0 {
            if entries.iter().all(|(known, _)| known != limit) {
                let mut sum = ours(*limit);
                sum.add(*over);
                entries.push((*limit, sum));
            }
        }

        entries.sort_unstable_by_key(|(limit, _)| *limit);
        entries.truncate(LIMITS_MAX);
        self.0 = entries;
    }

    /// Heap bytes in use beside its own.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(u64, Over)>()
    }

    /// Whether limits from outside are few enough, different and in range.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let in_range = self.limits().all(|limit| (1..=MAX_NS).contains(&limit));
        in_range && self.0.len() <= LIMITS_MAX && self.0.is_sorted_by(|one, two| one.0 < two.0)
    }

    /// Checks what comes from outside against the buckets, and the exact figures if the smallest
    /// and the largest sample are known.
    pub(super) fn check(
        &self,
        exact: Option<&ExactFigures>,
        buckets: impl Fn(u64) -> Over,
    ) -> Result<(), DistributionError> {
        let agrees = |(limit, over): &(u64, Over)| {
            over.is_within(buckets(*limit))
                && exact.is_none_or(|exact| over.is_beside(exact, *limit))
        };
        match self.is_sound() && self.0.iter().all(agrees) {
            true => Ok(()),
            false => Err(DistributionError::Contradiction("over")),
        }
    }
}

impl Serialize for Overs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(self.0.iter().map(|(limit, over)| (limit, over.over, over.uncertain)))
    }
}

impl<'de> Deserialize<'de> for Overs {
    /// Keeps one entry more than the limit allows, so that [`Overs::is_sound`] detects the excess.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Few;

        impl<'de> Visitor<'de> for Few {
            type Value = Overs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of [limit_ns, over, uncertain]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Overs, A::Error> {
                let mut entries = Vec::new();
                while entries.len() <= LIMITS_MAX {
                    let Some((limit, over, uncertain)) = list.next_element()? else {
                        return Ok(Overs(entries));
                    };
                    entries.push((limit, Over { over, uncertain }));
                }

                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Overs(entries))
            }
        }

        deserializer.deserialize_seq(Few)
    }
}
