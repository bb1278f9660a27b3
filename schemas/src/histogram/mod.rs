//! A latency distribution: exact count, sum, min and max beside HDR bucket counts.
//!
//! There is one bucket [`layout`] in the whole mesh, so merging is adding counts and never
//! loses anything. A quantile read from a [`Histogram`] is off by at most the width of one
//! bucket (0.1 % of the value, or 512 ns below 1 ms), and says so. Samples of which only a
//! producer's wide bucket is known ([`Histogram::record_within`]) are kept with what that leaves
//! open, a [`Blur`]; quantiles then say what they surely lie between. [`codec`] turns the counts
//! into standard HdrHistogram V2 bytes and reads hostile ones safely.

mod blur;
mod cells;
pub mod codec;
mod counts;
pub mod layout;
mod numbers;
mod over;
mod packed;
mod payload;
#[cfg(test)]
mod payload_tests;
mod row;
mod stored;
mod writer;

pub use blur::{Blur, ToldBlur};
pub use counts::Counts;
pub use over::{Over, Overs};
pub use packed::Packed;

use codec::CodecError;
use layout::MAX_NS;
use payload::Checked;
use thiserror::Error;

use crate::limits::wire::SAMPLES_MAX;

/// All samples of one series over some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    counts: Counts,
    /// Of the limits that it watches.
    overs: Overs,
    /// What is not known of where samples lie; without one all are where they are counted.
    blur: Option<Box<Blur>>,
}

/// A value read from a histogram, with the bucket that bounds it.
///
/// The sample of that rank lies in `lower_ns..=upper_ns`. `value_ns` is the upper end of its
/// bucket,
/// as in every HdrHistogram library, but never above the largest sample; and so is `upper_ns`,
/// unless samples are known by wide buckets alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantile {
    /// The sample at this rank as far as is known.
    pub value_ns: u64,
    /// Lower bound of the sample at this rank.
    pub lower_ns: u64,
    /// Upper bound of the sample at this rank.
    pub upper_ns: u64,
}

impl Quantile {
    /// Where a producer's wide buckets leave open in which of ours the sample lies: the least and
    /// the most that it may be.
    #[must_use]
    pub fn within(&self) -> Option<(u64, u64)> {
        let index = |ns: u64| layout::index_of(ns.min(MAX_NS));
        let is_open = index(self.lower_ns) != index(self.upper_ns);
        is_open.then_some((self.lower_ns, self.upper_ns))
    }
}

/// What a histogram knows exactly, beside its buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExactFigures {
    /// Number of samples.
    pub count: u64,
    /// Their sum in nanoseconds.
    pub sum_ns: u128,
    /// The smallest, in nanoseconds.
    pub min_ns: u64,
    /// The largest, in nanoseconds.
    pub max_ns: u64,
}

impl ExactFigures {
    /// Adds what is known of other samples.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// As a reader must find them who takes all samples for where they are counted.
    fn as_counted(self) -> Self {
        let least = u128::from(self.min_ns) * u128::from(self.count);
        let most = u128::from(self.max_ns) * u128::from(self.count);
        Self { sum_ns: self.sum_ns.clamp(least, most), ..self }
    }

    /// Names the figure that buckets contradict which hold `total` samples, the first and the
    /// last of them at `edges`.
    fn check(&self, total: u64, edges: Option<(usize, usize)>) -> Result<(), &'static str> {
        let Self { count, sum_ns, min_ns, max_ns } = *self;
        let Some((first, last)) = edges else {
            return if *self == Self::default() { Ok(()) } else { Err("count") };
        };
        let n = u128::from(count);
        let agrees = [
            ("count", count == total),
            ("min", min_ns <= MAX_NS && layout::index_of(min_ns) == first),
            ("max", max_ns <= MAX_NS && layout::index_of(max_ns) == last),
            ("min", min_ns <= max_ns),
            ("sum", sum_ns >= u128::from(min_ns) * n && sum_ns <= u128::from(max_ns) * n),
        ];
        match agrees.into_iter().find(|(_, right)| !right) {
            Some((figure, _)) => Err(figure),
            None => Ok(()),
        }
    }
}

/// Why exact figures and V2 bytes from outside were refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// The bytes are not a histogram of the mesh.
    #[error(transparent)]
    Bytes(#[from] CodecError),
    /// An exact figure, named here, contradicts the buckets.
    #[error("{0} contradicts the buckets")]
    Contradiction(&'static str),
}

/// What a snapshot may hold as a latency distribution.
pub trait Distribution: Sized {
    /// Reads what a snapshot says of one series, of samples over limits, and of those that may
    /// lie elsewhere.
    ///
    /// # Errors
    /// When the bytes are not one, or contradict the figures or what is said beside them.
    fn try_from_v2(
        exact: ExactFigures,
        bytes: &[u8],
        overs: Overs,
        blur: Option<ToldBlur<'_>>,
    ) -> Result<Self, Refused>;

    /// Number of samples.
    fn count(&self) -> u64;
}

impl Distribution for Histogram {
    fn try_from_v2(
        exact: ExactFigures,
        bytes: &[u8],
        overs: Overs,
        blur: Option<ToldBlur<'_>>,
    ) -> Result<Self, Refused> {
        let checked = payload::check_v2(&exact, bytes, SAMPLES_MAX)?;
        Self::try_from_checked(exact, &checked, overs, blur)
    }

    fn count(&self) -> u64 {
        self.count
    }
}

impl Histogram {
    /// Puts exact figures and decoded bucket counts together.
    ///
    /// # Errors
    /// Names the figure that the counts contradict.
    pub fn try_from_parts(
        exact: ExactFigures,
        counts: Counts,
        total: u64,
    ) -> Result<Self, &'static str> {
        let index = |bucket: Option<(usize, u64)>| bucket.map(|(index, _)| index);
        let edges = index(counts.iter().next()).zip(index(counts.iter().next_back()));
        exact.check(total, edges)?;
        let ExactFigures { count, sum_ns, min_ns, max_ns } = exact;
        Ok(Self { count, sum_ns, min_ns, max_ns, counts, ..Self::default() })
    }

    fn try_from_checked(
        exact: ExactFigures,
        checked: &Checked<'_>,
        overs: Overs,
        blur: Option<ToldBlur<'_>>,
    ) -> Result<Self, Refused> {
        let (exact, overs, blur) = checked.believe(exact, overs, blur)?;
        let mut histogram = Self { overs, blur: blur.map(Box::new), ..Self::default() };
        histogram.merge_exact(&exact);
        histogram.counts.merge_payload(&checked.payload, checked.edges());
        Ok(histogram)
    }

    /// Records one sample.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.record_n(value_ns, 1);
    }

    /// Records `n` samples of the same value. A value above one hour counts as one hour; the
    /// caller counts such clamps, since the histogram cannot tell them apart afterwards.
    #[inline]
    pub fn record_n(&mut self, value_ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        let value_ns = value_ns.min(MAX_NS);
        self.min_ns = if self.count == 0 { value_ns } else { self.min_ns.min(value_ns) };
        self.max_ns = self.max_ns.max(value_ns);
        self.count = self.count.saturating_add(n);
        self.sum_ns = self.sum_ns.saturating_add(u128::from(value_ns) * u128::from(n));
        self.counts.add(layout::index_of(value_ns), n);
        self.overs.record(value_ns, n);
    }

    /// Counts exactly, from now on, what is over each of these limits in nanoseconds, and of no
    /// others; at most `limits::wire::LIMITS_MAX`, the smallest. What is here already is counted
    /// from the buckets where the limit is new.
    pub fn watch(&mut self, limits: &[u64]) {
        self.overs = Overs::watching(limits, |limit_ns| self.over(limit_ns));
    }

    /// Samples over the limits that it watches.
    #[must_use]
    pub fn overs(&self) -> &Overs {
        &self.overs
    }

    /// Samples over a limit: exact since it is watched, else counted from the buckets.
    #[must_use]
    pub fn over(&self, limit_ns: u64) -> Over {
        let exact = self.exact();
        let beside = |index| self.counts.beside(index);
        if let Some(blur) = &self.blur {
            let said = self.overs.get(limit_ns);
            return said.unwrap_or_else(|| blur.over(limit_ns, beside));
        }
        let said = Over::plain(&exact, limit_ns).or_else(|| self.overs.get(limit_ns));
        said.unwrap_or_else(|| Over::from_buckets(&exact, limit_ns, beside))
    }

    /// Hands over what it holds and goes on without a sample, watching the same limits.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let overs = self.overs.renewed();
        std::mem::replace(self, Self { overs, ..Self::default() })
    }

    /// Adds every sample of `other`: exact, commutative and associative. Watches afterwards what
    /// either did; of what only one did, the other's part is counted from its buckets, which is
    /// less sure where that part is itself a sum.
    pub fn merge(&mut self, other: &Self) {
        self.merge_overs(&other.overs, |limit_ns| other.over(limit_ns));
        self.merge_exact(&other.exact());
        self.counts.merge(&other.counts);
        if let Some(theirs) = &other.blur {
            self.blur.get_or_insert_default().merge(theirs);
        }
    }

    /// Adds all samples of a packed distribution.
    pub fn merge_packed(&mut self, other: &Packed) {
        self.merge_overs(other.overs(), |limit_ns| other.over(limit_ns));
        self.merge_exact(&other.exact());
        self.counts.merge_payload(other.payload(), other.edges());
        if let Some(theirs) = other.blur() {
            self.blur.get_or_insert_default().merge(&theirs);
        }
    }

    fn merge_overs(&mut self, others: &Overs, theirs: impl Fn(u64) -> Over) {
        if self.overs.is_empty() && others.is_empty() {
            return;
        }
        let mut overs = std::mem::take(&mut self.overs);
        overs.merge(others, |limit_ns| self.over(limit_ns), theirs);
        self.overs = overs;
    }

    fn merge_exact(&mut self, other: &ExactFigures) {
        let mut exact = self.exact();
        exact.merge(other);
        ExactFigures {
            count: self.count,
            sum_ns: self.sum_ns,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
        } = exact;
    }

    /// What is known exactly.
    #[must_use]
    pub fn exact(&self) -> ExactFigures {
        let Self { count, sum_ns, min_ns, max_ns, .. } = *self;
        ExactFigures { count, sum_ns, min_ns, max_ns }
    }

    /// Number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True when nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Exact sum in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Smallest sample in nanoseconds; zero when empty.
    #[must_use]
    pub fn min_ns(&self) -> u64 {
        self.min_ns
    }

    /// Largest sample in nanoseconds; zero when empty.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Heap bytes in use, apart from what is known of limits.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.counts.heap_bytes() + self.blur.as_ref().map_or(0, |blur| blur.heap_bytes())
    }

    /// The bucket counts.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The `quantile` (0 to 1) of all samples; `None` when empty.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<Quantile> {
        self.at_rank(rank(quantile, self.count))
    }

    /// The sample of the given rank, 1 being the smallest; `None` when there is no such sample.
    #[must_use]
    pub fn at_rank(&self, rank: u64) -> Option<Quantile> {
        let index = self.counts.index_at_rank(rank)?;
        let value_ns = layout::highest(index).clamp(self.min_ns, self.max_ns);
        let lower_ns = layout::lowest(index).clamp(self.min_ns, self.max_ns);
        let blur = self.blur.as_ref();
        let bounds = blur.and_then(|blur| blur.at_rank(self.count, &self.counts.iter(), rank));
        let (lower_ns, upper_ns) = bounds.unwrap_or((lower_ns, value_ns));
        Some(Quantile { value_ns, lower_ns, upper_ns })
    }
}

/// The nearest-rank position of `quantile` among `count` samples: `ceil(quantile * count)`,
/// at least 1.
#[must_use]
pub fn rank(quantile: f64, count: u64) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts stay far below 2^53 and the quantile is clamped to 0..=1"
    )]
    // A product such as 0.07 * 100 comes out one ulp above 7 and must not round up to 8.
    let rank = {
        let exact = quantile.clamp(0.0, 1.0) * count as f64;
        (exact - exact * f64::EPSILON * 2.0).ceil() as u64
    };
    rank.clamp(1, count.max(1))
}

/// An empty histogram of the reference library in the mesh's layout.
#[cfg(test)]
fn reference() -> hdrhistogram::Histogram<u64> {
    hdrhistogram::Histogram::new_with_bounds(layout::LOW_NS, MAX_NS, layout::DIGITS)
        .expect("the layout's bounds are valid")
}

#[cfg(test)]
mod tests;
