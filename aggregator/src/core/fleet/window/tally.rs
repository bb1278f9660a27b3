//! How many samples lie over the limits of one operation's budgets, summed as samples come, so
//! that to judge them takes no buckets. Holds numbers alone and no samples.
//!
//! DESIGN A2, A4.

use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::histogram::{Over, Packed};
use plimsoll_schemas::limits::rules::LIMITS_SUMMED_MAX;
use serde::{Deserialize, Serialize};

/// The limits of one operation's budgets. For one that finds no place here samples are counted
/// from the buckets when they are needed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(from = "[u64; LIMITS_SUMMED_MAX]", into = "[u64; LIMITS_SUMMED_MAX]")]
pub struct Limits {
    ns: [u64; LIMITS_SUMMED_MAX],
    /// The share of samples that may be over each, in millionths; 0 until the budgets are known.
    allowed_ppm: [u32; LIMITS_SUMMED_MAX],
}

/// They are the same, whatever share may be over them: that is stored nowhere.
impl PartialEq for Limits {
    fn eq(&self, other: &Self) -> bool {
        self.ns == other.ns
    }
}

impl Eq for Limits {}

/// Nothing lies over it.
const UNUSED: u64 = u64::MAX;

impl Default for Limits {
    fn default() -> Self {
        Self::from([UNUSED; LIMITS_SUMMED_MAX])
    }
}

impl From<[u64; LIMITS_SUMMED_MAX]> for Limits {
    fn from(ns: [u64; LIMITS_SUMMED_MAX]) -> Self {
        Self { ns, allowed_ppm: [0; LIMITS_SUMMED_MAX] }
    }
}

impl From<Limits> for [u64; LIMITS_SUMMED_MAX] {
    fn from(limits: Limits) -> Self {
        limits.ns
    }
}

impl Limits {
    /// The different limits of budgets, which should be those of one operation.
    pub fn of<'a>(budgets: impl IntoIterator<Item = &'a Budget>) -> Self {
        let mut limits = Self::default();
        for budget in budgets {
            let known = limits.place(budget.limit_ns);
            if let Some(place) = known.or_else(|| limits.place(UNUSED)) {
                limits.ns[place] = budget.limit_ns;
                let allowed = &mut limits.allowed_ppm[place];
                *allowed = budget.allowed_ppm().max(*allowed);
            }
        }
        limits
    }

    /// The same limits, as they are with the budgets of now.
    pub(super) fn renew(&mut self, now: &Self) {
        if self == now {
            *self = *now;
        }
    }

    /// How many there are; they have the first places.
    pub(super) fn used(&self) -> usize {
        self.ns.iter().take_while(|limit| **limit != UNUSED).count()
    }

    /// The limit at a place, in nanoseconds.
    pub(super) fn ns(&self, place: usize) -> u64 {
        self.ns[place]
    }

    /// The share of samples that may be over the limit at a place; 0 where that is not known.
    pub(super) fn allowed(&self, place: usize) -> f64 {
        f64::from(self.allowed_ppm[place]) / 1e6
    }

    /// A limit with the place where samples over it are summed.
    pub(super) fn at(&self, limit_ns: u64) -> LimitPlace {
        LimitPlace { ns: limit_ns, place: self.place(limit_ns) }
    }

    /// Where samples over a limit are summed.
    pub(super) fn place(&self, limit_ns: u64) -> Option<usize> {
        self.ns.iter().position(|limit| *limit == limit_ns)
    }

    pub(super) fn hold(&self, others: &Self) -> bool {
        others.ns.iter().all(|limit| *limit == UNUSED || self.place(*limit).is_some())
    }

    /// Samples of one message over each.
    pub(super) fn over(&self, samples: &Packed) -> Overs {
        self.ns.map(|limit| samples.over(limit))
    }
}

/// A limit, and where samples over it are summed, if they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitPlace {
    pub(super) ns: u64,
    pub(super) place: Option<usize>,
}

/// Samples over each of an operation's [`Limits`].
pub(super) type Overs = [Over; LIMITS_SUMMED_MAX];

/// The same, kept small: of most samples it is known on which side of a limit they lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tally([u64; LIMITS_SUMMED_MAX], Option<Box<[u64; LIMITS_SUMMED_MAX]>>);

impl Tally {
    pub(super) fn add(&mut self, overs: &Overs) {
        for (sum, Over { over, .. }) in self.0.iter_mut().zip(overs) {
            *sum = sum.saturating_add(*over);
        }
        // Rare, and there are over a million slots: the second row exists only where it is needed.
        if overs.iter().any(|Over { uncertain, .. }| *uncertain > 0) {
            let sums = self.1.get_or_insert_default();
            for (sum, Over { uncertain, .. }) in sums.iter_mut().zip(overs) {
                *sum = sum.saturating_add(*uncertain);
            }
        }
    }

    #[inline]
    pub(super) fn at(&self, place: usize) -> Over {
        Over {
            over: self.0[place],
            uncertain: self.1.as_ref().map_or(0, |uncertain| uncertain[place]),
        }
    }

    pub(super) fn overs(&self) -> Overs {
        std::array::from_fn(|place| self.at(place))
    }

    /// The same under other limits; `count` returns how many lie over a limit that `before` lacks.
    pub(super) fn under(
        &self,
        before: &Limits,
        limits: &Limits,
        mut count: impl FnMut(u64) -> Over,
    ) -> Self {
        let of = |limit| before.place(limit).map_or_else(|| count(limit), |place| self.at(place));
        let mut tally = Self::default();
        tally.add(&limits.ns.map(of));
        tally
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.1.as_ref().map_or(0, |uncertain| size_of_val(&**uncertain))
    }
}

/// What came since each limit is known. It never falls while the limit stays, and begins anew
/// with a limit, since nothing was counted before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Since {
    /// All samples that there were when a limit became known.
    before: [u64; LIMITS_SUMMED_MAX],
    pub(super) tally: Tally,
}

impl Since {
    /// Samples, and those over a limit, where there are `count` samples by now.
    pub(super) fn at(&self, place: usize, count: u64) -> (u64, Over) {
        (count.saturating_sub(self.before[place]), self.tally.at(place))
    }

    /// Keeps the limits that stay, where there are `count` samples by now.
    pub(super) fn under(&self, before: &Limits, limits: &Limits, count: u64) -> Self {
        let begun = |limit| before.place(limit).map_or(count, |place| self.before[place]);
        let tally = self.tally.under(before, limits, |_| Over::default());
        Self { before: limits.ns.map(begun), tally }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::rule::file::effective;

    use super::*;

    fn limits(of: &[u64]) -> Limits {
        let budget = effective(&[]).unwrap().remove(0);
        Limits::of(
            &of.iter().map(|ns| Budget { limit_ns: *ns, ..budget.clone() }).collect::<Vec<_>>(),
        )
    }

    fn overs(of: [(u64, u64); LIMITS_SUMMED_MAX]) -> Overs {
        of.map(|(over, uncertain)| Over { over, uncertain })
    }

    #[test]
    fn limits_are_distinct_up_to_the_bound() {
        let limits = limits(&[5, 7, 5, 9, 11, 13]);
        let places = [5, 7, 9, 11, 13].map(|limit| limits.place(limit));
        assert_eq!(places, [Some(0), Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn what_is_known_of_a_limit_stays_where_the_others_change() {
        let (before, after) = (limits(&[5, 7, 9]), limits(&[9, 6, 5]));
        let mut tally = Tally::default();
        tally.add(&overs([(3, 1), (2, 0), (1, 4), (0, 0)]));
        let counted = tally.under(&before, &after, |limit| Over { over: limit, uncertain: 2 });
        assert_eq!(counted.overs(), overs([(1, 4), (6, 2), (3, 1), (0, 0)]));
    }

    #[test]
    fn what_came_since_a_limit_is_known_begins_anew_with_the_limit_and_not_with_the_others() {
        let (one, other) = (limits(&[5, 7]), limits(&[7, 6]));
        let mut since = Since::default();
        since.tally.add(&overs([(3, 0), (2, 0), (0, 0), (0, 0)]));
        let mut since = since.under(&one, &other, 10);
        since.tally.add(&overs([(1, 0), (1, 0), (0, 0), (0, 0)]));
        let known = |over| Over { over, uncertain: 0 };
        assert_eq!(since.at(0, 14), (14, known(3)));
        assert_eq!(since.at(1, 14), (4, known(1)));
        let again = since.under(&other, &one, 14);
        assert_eq!((again.at(0, 15), again.at(1, 15)), ((1, known(0)), (15, known(3))));
    }
}
