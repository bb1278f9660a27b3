//! A latency distribution in a few bytes for each bucket in use: exact figures beside the payload
//! of its V2 bytes. What is kept for long and merged seldom is kept so; what takes samples one by
//! one is a `Histogram`.
//!
//! DESIGN S5, S20.

use std::borrow::{Borrow, Cow};
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::counts::Counts;
use super::decoded::{Decoded, Stated};
use super::distribution::Distribution;
use super::error::DistributionError;
use super::exact::{BucketSpan, ExactFigures};
use super::layout;
use super::over::{Over, Overs};
use super::payload::{self, Buckets};
use super::uncertainty::{BucketUncertainty, PackedUncertainty, UncertaintySummary};
use super::writer::{STORED_MAX, Writer};
use crate::limits::wire::SAMPLES_MAX;

/// Where a row would have more cells for each byte, few buckets lie far apart and are sorted.
const CELLS_PER_BYTE_MAX: usize = 64;

/// All samples of one series over some time, packed. Copies share their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    // Apart, so that 64 bytes hold all of it: a fleet keeps a million of these.
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    /// Runs of empty buckets and counts in turn, as in a V2 payload, checked and canonical:
    /// equal distributions have equal bytes.
    payload: Arc<[u8]>,
    supplement: Option<Arc<Supplement>>,
}

/// Data beside the buckets, if there is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Supplement {
    /// Of samples over limits.
    overs: Overs,
    /// Of samples that may lie elsewhere.
    uncertainty: Option<PackedUncertainty>,
}

/// For a distribution without data about limits.
static NO_OVERS: Overs = Overs::NONE;

impl Packed {
    pub(super) fn new(
        exact: ExactFigures,
        payload: Arc<[u8]>,
        overs: Overs,
        uncertainty: Option<PackedUncertainty>,
    ) -> Self {
        let ExactFigures { count, sum_ns, min_ns, max_ns } = exact;
        let supplement = Supplement { overs, uncertainty };
        let supplement =
            (count > 0 && supplement != Supplement::default()).then(|| Arc::new(supplement));
        Self { count, sum_ns, min_ns, max_ns, payload, supplement }
    }

    /// The exact figures: count, sum, least and greatest.
    #[must_use]
    pub fn exact(&self) -> ExactFigures {
        let Self { count, sum_ns, min_ns, max_ns, .. } = *self;
        ExactFigures { count, sum_ns, min_ns, max_ns }
    }

    /// Samples over limits, as its message states them.
    #[must_use]
    pub fn overs(&self) -> &Overs {
        self.supplement.as_deref().map_or(&NO_OVERS, |supplement| &supplement.overs)
    }

    /// The same samples without their counts over limits. For a caller that keeps many of these
    /// and has summed [`Self::over`] already: each with such counts takes some hundred bytes more
    /// and longer to merge.
    #[must_use]
    pub fn without_overs(&self) -> Self {
        let uncertainty = self.packed_uncertainty().cloned();
        let supplement = uncertainty.map(|uncertainty| {
            Arc::new(Supplement { overs: Overs::NONE, uncertainty: Some(uncertainty) })
        });
        Self { supplement, ..self.clone() }
    }

    fn from_decoded(decoded: &Decoded<'_>) -> Self {
        let Decoded { buckets, exact, overs, uncertainty } = decoded;
        let uncertainty = uncertainty
            .as_ref()
            .map(|uncertainty| PackedUncertainty::of(uncertainty, &buckets.payload));
        Self::new(*exact, buckets.payload.as_ref().into(), overs.clone(), uncertainty)
    }

    fn packed_uncertainty(&self) -> Option<&PackedUncertainty> {
        self.supplement.as_deref().and_then(|supplement| supplement.uncertainty.as_ref())
    }

    /// The uncertainty of its samples' buckets; `None` if all samples lie where they are counted.
    #[must_use]
    pub fn uncertainty(&self) -> Option<BucketUncertainty> {
        self.packed_uncertainty().map(|uncertainty| uncertainty.unpack(&self.payload))
    }

    /// True without a sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Buckets with samples, in ascending order: (index, samples).
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        Buckets::of(&self.payload)
    }

    /// The first and the last bucket with samples.
    pub(super) fn edges(&self) -> Option<BucketSpan> {
        edges(&self.exact())
    }

    /// Visits the same faster, and some empty buckets, which may lie past the end, with 0 samples.
    #[inline]
    pub fn each_bucket(&self, visit: impl FnMut(usize, u64)) {
        payload::each(&self.payload, visit);
    }

    /// Its numbers, checked and canonical.
    pub(super) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        if self.is_empty() {
            self.clone_from(other);
        } else if !other.is_empty() {
            *self = Self::united(&[self, other]);
        }
    }

    /// All samples of several: added in one row of cells and packed once.
    #[must_use]
    pub fn united(parts: &[impl Borrow<Self>]) -> Self {
        let parts = || parts.iter().map(Borrow::borrow).filter(|part: &&Self| !part.is_empty());
        let mut exact = ExactFigures::default();
        parts().for_each(|part| exact.merge(&part.exact()));
        let room = parts().map(|part| part.payload.len()).sum();
        let mut writer = Writer::with_room(room);
        let Some(BucketSpan { first, last }) = edges(&exact) else { return Self::default() };

        if last - first < CELLS_PER_BYTE_MAX * room {
            let mut counts = Counts::default();
            // All cells at once, or each part would grow the row.
            counts.cover(first, last);
            parts().for_each(|part| counts.merge_payload(&part.payload, part.edges()));
            counts.each(|index, n| writer.push(index, n));
        } else {
            let mut buckets: Vec<_> = parts().flat_map(Self::buckets).collect();
            buckets.sort_unstable_by_key(|(index, _)| *index);
            for same in buckets.chunk_by(|one, two| one.0 == two.0) {
                let n = same.iter().fold(0, |sum: u64, (_, n)| sum.saturating_add(*n));
                writer.push(same[0].0, n);
            }
        }

        let overs = Self::united_overs(&parts().collect::<Vec<_>>());
        let uncertainty = BucketUncertainty::united(parts().filter_map(Self::uncertainty));
        let uncertainty =
            uncertainty.map(|uncertainty| PackedUncertainty::of(&uncertainty, writer.written()));
        Self::new(exact, writer.written().into(), overs, uncertainty)
    }

    fn united_overs(parts: &[&Self]) -> Overs {
        let mut limits: Vec<u64> = parts.iter().flat_map(|part| part.overs().limits()).collect();
        limits.sort_unstable();
        limits.dedup();
        Overs::watching(&limits, |limit_ns| {
            let mut sum = Over::default();
            parts.iter().for_each(|part| sum.add(part.over(limit_ns)));
            sum
        })
    }

    /// Samples over a limit: as its message states; without such a statement, counted from the
    /// buckets.
    #[must_use]
    pub fn over(&self, limit_ns: u64) -> Over {
        let exact = self.exact();
        if let Some(uncertainty) = self.packed_uncertainty() {
            let beside = |index| payload::beside(&self.payload, index);
            // What the message states was counted sample by sample; buckets are the estimate.
            let given = self.overs().get(limit_ns);
            return given
                .unwrap_or_else(|| uncertainty.unpack(&self.payload).over(limit_ns, beside));
        }
        let given = Over::plain(&exact, limit_ns).or_else(|| self.overs().get(limit_ns));
        given.unwrap_or_else(|| {
            Over::from_buckets(&exact, limit_ns, |own| payload::beside(&self.payload, own))
        })
    }

    /// Heap bytes in use.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let supplement = self.supplement.as_deref().map_or(0, Supplement::heap_bytes);
        self.payload.len() + 2 * size_of::<usize>() + supplement
    }
}

impl Supplement {
    fn heap_bytes(&self) -> usize {
        let uncertainty = self.uncertainty.as_ref().map_or(0, PackedUncertainty::heap_bytes);
        size_of::<Self>() + 2 * size_of::<usize>() + self.overs.heap_bytes() + uncertainty
    }
}

fn edges(exact: &ExactFigures) -> Option<BucketSpan> {
    let ExactFigures { count, min_ns, max_ns, .. } = *exact;
    let span = || BucketSpan { first: layout::index_of(min_ns), last: layout::index_of(max_ns) };
    (count > 0).then(span)
}

impl Distribution for Packed {
    /// Keeps the bytes as they came when they are canonical, and writes them anew if not.
    fn try_from_v2(
        exact: ExactFigures,
        bytes: &[u8],
        overs: Overs,
        uncertainty: Option<UncertaintySummary<'_>>,
    ) -> Result<Self, DistributionError> {
        let stated = Stated { exact, overs, uncertainty };
        stated.check_v2(bytes, SAMPLES_MAX).map(|decoded| Self::from_decoded(&decoded))
    }

    fn count(&self) -> u64 {
        self.count
    }
}

/// As [`super::stored`], without the V2 header.
#[derive(Serialize, Deserialize)]
struct StoredPacked<'a> {
    count: u64,
    sum_high: u64,
    sum_low: u64,
    min_ns: u64,
    max_ns: u64,
    #[serde(with = "serde_bytes", borrow)]
    payload: &'a [u8],
    #[serde(default, skip_serializing_if = "is_none")]
    over: Cow<'a, Overs>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    uncertainty: Option<UncertaintySummary<'a>>,
}

fn is_none(overs: &Overs) -> bool {
    overs.is_empty()
}

impl Serialize for Packed {
    /// Sums above [`STORED_MAX`] can only be forged: as with `Histogram`, nothing is stored then.
    #[expect(clippy::cast_possible_truncation, reason = "taking halves is the point")]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let none = Self::default();
        let stored = if self.count > STORED_MAX { &none } else { self };
        let uncertainty = stored
            .packed_uncertainty()
            .map(|uncertainty| uncertainty.summary(stored.sum_ns, stored.overs()));

        let ExactFigures { count, sum_ns, min_ns, max_ns } = match uncertainty {
            Some(_) => stored.exact().as_counted(),
            None => stored.exact(),
        };

        let (sum_high, sum_low) = ((sum_ns >> 64) as u64, sum_ns as u64);
        let over = Cow::Borrowed(if uncertainty.is_some() { &NO_OVERS } else { stored.overs() });
        let payload = &stored.payload;
        StoredPacked { count, sum_high, sum_low, min_ns, max_ns, payload, over, uncertainty }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = StoredPacked::deserialize(deserializer)?;
        let sum_ns = (u128::from(stored.sum_high) << 64) | u128::from(stored.sum_low);
        let (count, min_ns, max_ns) = (stored.count, stored.min_ns, stored.max_ns);
        let exact = ExactFigures { count, sum_ns, min_ns, max_ns };
        Stated { exact, overs: stored.over.into_owned(), uncertainty: stored.uncertainty }
            .check_payload(stored.payload, STORED_MAX)
            .map(|decoded| Self::from_decoded(&decoded))
            .map_err(D::Error::custom)
    }
}
