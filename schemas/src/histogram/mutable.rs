//! A distribution that takes samples one by one.

use super::counts::Counts;
use super::decoded::{Decoded, Stated};
use super::distribution::Distribution;
use super::error::DistributionError;
use super::exact::{BucketSpan, ExactFigures};
use super::layout::{self, MAX_NS};
use super::over::{Over, Overs};
use super::packed::Packed;
use super::quantile::{Quantile, rank};
use super::uncertainty::{BucketUncertainty, PackedUncertainty, UncertaintySummary, Within};
use super::writer::Writer;
use crate::limits::wire::SAMPLES_MAX;

/// A bucket of a producer: each of its samples is over `over_ns` and at most `upto_ns`, and no more
/// is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerBucket {
    /// The lower end, which is not in it; over 0 includes 0.
    pub over_ns: u64,
    /// The upper end. Up to an hour includes all longer samples, and `u64::MAX` represents a last
    /// bucket without an end.
    pub upto_ns: u64,
    /// Samples in it.
    pub samples: u64,
}

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
    /// The uncertainty of samples' buckets; without one all lie where they are counted.
    uncertainty: Option<Box<BucketUncertainty>>,
}

impl Distribution for Histogram {
    fn try_from_v2(
        exact: ExactFigures,
        bytes: &[u8],
        overs: Overs,
        uncertainty: Option<UncertaintySummary<'_>>,
    ) -> Result<Self, DistributionError> {
        Stated { exact, overs, uncertainty }.check_v2(bytes, SAMPLES_MAX).map(Self::from_decoded)
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
        exact.check(total, edges.map(|(first, last)| BucketSpan { first, last }))?;
        let ExactFigures { count, sum_ns, min_ns, max_ns } = exact;
        Ok(Self { count, sum_ns, min_ns, max_ns, counts, ..Self::default() })
    }

    pub(super) fn from_decoded(decoded: Decoded<'_>) -> Self {
        let Decoded { buckets, exact, overs, uncertainty } = decoded;
        let mut histogram =
            Self { overs, uncertainty: uncertainty.map(Box::new), ..Self::default() };
        histogram.merge_exact(&exact);
        histogram.counts.merge_payload(&buckets.payload, buckets.edges());
        histogram
    }

    /// Records one sample.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.record_n(value_ns, 1);
    }

    /// Records `n` samples of the same value. A value above one hour counts as one hour; the caller
    /// counts such clamps, since the histogram cannot distinguish them afterwards.
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

    /// Samples over a limit: exact for samples recorded since it is watched; earlier samples, and
    /// all for an unwatched limit, are counted from the buckets.
    #[must_use]
    pub fn over(&self, limit_ns: u64) -> Over {
        let exact = self.exact();
        let beside = |index| self.counts.beside(index);
        // Minimum and maximum decide nothing here: those of uncertain samples are of the places
        // where they are counted.
        if let Some(uncertainty) = &self.uncertainty {
            let stated = self.overs.get(limit_ns);
            return stated.unwrap_or_else(|| uncertainty.over(limit_ns, beside));
        }
        let stated = Over::plain(&exact, limit_ns).or_else(|| self.overs.get(limit_ns));
        stated.unwrap_or_else(|| Over::from_buckets(&exact, limit_ns, beside))
    }

    /// Returns its content and continues empty, watching the same limits.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let overs = self.overs.renewed();
        std::mem::replace(self, Self { overs, ..Self::default() })
    }

    /// Adds every sample of `other`: exact, commutative and associative. Watches afterwards what
    /// either did; of what only one did, the other's part is counted from its buckets, which is
    /// less sure where that part is itself a sum.
    pub fn merge(&mut self, other: &Self) {
        // First, while our buckets are still ours alone: what only the other side watches is
        // counted from them.
        self.merge_overs(&other.overs, |limit_ns| other.over(limit_ns));
        self.merge_exact(&other.exact());
        self.counts.merge(&other.counts);
        if let Some(theirs) = &other.uncertainty {
            self.uncertainty.get_or_insert_default().merge(theirs);
        }
    }

    /// Adds all samples of a packed distribution.
    pub fn merge_packed(&mut self, other: &Packed) {
        self.merge_overs(other.overs(), |limit_ns| other.over(limit_ns));
        self.merge_exact(&other.exact());
        self.counts.merge_payload(other.payload(), other.edges());
        if let Some(theirs) = other.uncertainty() {
            self.uncertainty.get_or_insert_default().merge(&theirs);
        }
    }

    fn merge_overs(&mut self, others: &Overs, theirs: impl Fn(u64) -> Over) {
        if self.overs.is_empty() && others.is_empty() {
            return;
        }
        // While they are taken, `self.over` counts from the buckets, as is meant for a limit that
        // only the other side watches.
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

    /// The exact figures: count, sum, least and greatest.
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

    /// Heap bytes in use, without the counts over limits.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.counts.heap_bytes()
            + self.uncertainty.as_ref().map_or(0, |uncertainty| uncertainty.heap_bytes())
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

    /// The sample of rank `rank`, 1 being the smallest; `None` when there is no such sample.
    #[must_use]
    pub fn at_rank(&self, rank: u64) -> Option<Quantile> {
        let index = self.counts.index_at_rank(rank)?;
        let value_ns = layout::highest(index).clamp(self.min_ns, self.max_ns);
        let lower_ns = layout::lowest(index).clamp(self.min_ns, self.max_ns);
        let uncertainty = self.uncertainty.as_ref();
        let bounds = uncertainty
            .and_then(|uncertainty| uncertainty.at_rank(self.count, &self.counts.iter(), rank));
        let (lower_ns, upper_ns) = bounds.unwrap_or((lower_ns, value_ns));
        Some(Quantile { value_ns, lower_ns, upper_ns })
    }

    /// Records `n` samples of a [`ProducerBucket`]. Their number is exact. So is the share over a
    /// limit that is not between the two ends and is already watched: call [`Self::watch`] first.
    /// The rest is bounded, see [`Quantile`](super::Quantile).
    pub fn record_within(&mut self, over_ns: u64, upto_ns: u64, n: u64) {
        let bucket = ProducerBucket { over_ns, upto_ns, samples: n };
        self.record_all_within(std::iter::once(bucket), 1);
    }

    /// As [`Self::record_within`] for several buckets of a producer; cheapest in ascending order.
    /// `len` is about how many there are.
    pub fn record_all_within(&mut self, buckets: impl Iterator<Item = ProducerBucket>, len: usize) {
        let mut placed = ExactFigures { min_ns: u64::MAX, ..ExactFigures::default() };
        for ProducerBucket { over_ns, upto_ns, samples: n } in buckets {
            let (least_ns, most_ns) = (over_ns.saturating_add(1), upto_ns.min(MAX_NS));

            // A bucket that holds one value alone leaves nothing open.
            if n == 0 || least_ns >= most_ns {
                self.record_n(most_ns, n);
                continue;
            }

            self.overs.record_within(over_ns, most_ns, n);

            let uncertainty = self.uncertainty.get_or_insert_with(|| {
                self.counts.reserve_apart(len);
                Box::new(BucketUncertainty::with_room(len))
            });

            let samples = Within::new(least_ns, most_ns, n);
            uncertainty.add_ends(samples);

            for place in samples.places() {
                self.counts.add_apart(place.index, place.n);
                uncertainty.add_placed(place);
                placed.sum_ns += u128::from(place.value_ns) * u128::from(place.n);
                placed.min_ns = placed.min_ns.min(place.value_ns);
                placed.max_ns = placed.max_ns.max(place.value_ns);
            }

            placed.count = placed.count.saturating_add(n);
        }

        // Once for all buckets: a producer's point often has 160 of them (N61).
        self.merge_exact(&placed);
    }

    /// Sets the sum that a producer states for its samples, clamped to what the ends of their
    /// buckets allow. It applies to all samples in the histogram: call it after the last of a
    /// producer's samples and before any other's.
    pub fn state_sum(&mut self, sum_ns: u128) {
        if let Some(uncertainty) = &self.uncertainty {
            let (least, most) = uncertainty.sums(self.count, &self.counts.iter());
            self.sum_ns = sum_ns.clamp(least, most);
        }
    }

    /// Whether only a producer's wide buckets are known for some samples, so that quantiles have
    /// bounds instead of exact buckets.
    #[must_use]
    pub fn is_approximate(&self) -> bool {
        self.uncertainty.is_some()
    }

    /// The uncertainty of its samples' buckets; `None` if all samples lie where they are counted.
    #[must_use]
    pub fn uncertainty(&self) -> Option<&BucketUncertainty> {
        self.uncertainty.as_deref()
    }

    /// The exact figures as they are written beside the buckets.
    pub(crate) fn exact_as_counted(&self) -> ExactFigures {
        let exact = self.exact();
        if self.uncertainty.is_some() { exact.as_counted() } else { exact }
    }

    /// Samples over limits as they are written beside the buckets.
    pub(crate) fn overs_as_counted(&self) -> Overs {
        // Those of uncertain samples may contradict the buckets, and an older reader would refuse
        // the message: they are in the summary, which it skips (S4).
        if self.uncertainty.is_some() { Overs::NONE } else { self.overs.clone() }
    }

    /// The uncertainty as it is written beside the buckets.
    pub(crate) fn uncertainty_summary(&self) -> Option<UncertaintySummary<'static>> {
        let uncertainty = self.uncertainty.as_ref()?;
        let mut writer = Writer::default();
        self.counts.each(|index, n| writer.push(index, n));
        Some(
            PackedUncertainty::of(uncertainty, writer.written())
                .into_summary(self.sum_ns, &self.overs),
        )
    }
}

impl From<&Histogram> for Packed {
    fn from(histogram: &Histogram) -> Self {
        let mut writer = Writer::default();
        histogram.counts().each(|index, n| writer.push(index, n));
        let uncertainty = histogram
            .uncertainty()
            .map(|uncertainty| PackedUncertainty::of(uncertainty, writer.written()));
        Self::new(
            histogram.exact(),
            writer.written().into(),
            histogram.overs().clone(),
            uncertainty,
        )
    }
}
