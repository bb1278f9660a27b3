//! Uncertainty in a few bytes, as messages and checkpoints carry it, and as many are kept. A
//! summary that was read is accepted after it is checked against the buckets that it is about.
//!
//! An older reader skips this field and assumes that samples lie where they are counted. So the
//! values that contradict that, the true sum and the samples over limits, are in this field. The
//! fields beside the buckets hold only values that agree with the buckets.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::bounds::BucketUncertainty;
use crate::histogram::checked;
use crate::histogram::error::DistributionError;
use crate::histogram::over::Overs;
use crate::histogram::payload::{self, Buckets};
use crate::histogram::row::Row;

/// The uncertainty of one histogram as it is written. Rows are payloads of V2 bytes, without the
/// header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncertaintySummary<'a> {
    /// The counts of samples that may lie elsewhere; nothing where these are all.
    #[serde(default, borrow, with = "serde_bytes", skip_serializing_if = "is_empty")]
    pub(in crate::histogram) placed: Cow<'a, [u8]>,
    /// Where they would be counted if each were as small as it may be.
    #[serde(borrow, with = "serde_bytes")]
    pub(in crate::histogram) low: Cow<'a, [u8]>,
    /// Where they would be counted if each were as large as it may be.
    #[serde(borrow, with = "serde_bytes")]
    pub(in crate::histogram) high: Cow<'a, [u8]>,
    /// The lower and the upper half of the sum of all samples of the histogram.
    pub(in crate::histogram) sum_ns: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(in crate::histogram) sum_carry: u64,
    /// Of all samples of the histogram.
    #[serde(default, skip_serializing_if = "Overs::is_empty")]
    pub(in crate::histogram) over: Overs,
}

fn is_empty(bytes: &[u8]) -> bool {
    bytes.is_empty()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl UncertaintySummary<'_> {
    /// Accepts it if it can be about `count` samples in these buckets. Also returns their sum and
    /// the counts over limits.
    ///
    /// # Errors
    /// When rows are malformed, are about other samples, or are not below and above the counting
    /// buckets; or when the sum or a count over a limit is then impossible.
    pub(in crate::histogram) fn check(
        self,
        count: u64,
        buckets: &[u8],
        samples_max: u64,
    ) -> Result<(BucketUncertainty, u128, Overs), DistributionError> {
        let row = |bytes: &[u8]| {
            Ok::<_, DistributionError>(Row::of(&checked::check(bytes, samples_max)?.payload))
        };
        // By the same checks as the buckets: a row is as hostile as any payload.
        let (low, high) = (row(&self.low)?, row(&self.high)?);
        let placed = if self.placed.is_empty() { Row::of(buckets) } else { row(&self.placed)? };

        let uncertainty = BucketUncertainty { placed, low, high };
        let ends = uncertainty
            .ends(count, &Buckets::of(buckets))
            .filter(|_| uncertainty.is_about(Buckets::of(buckets)));

        let (least, most) = ends.ok_or(DistributionError::Contradiction("uncertainty"))?;
        let sum_ns = (u128::from(self.sum_carry) << 64) | u128::from(self.sum_ns);
        let sum_if_all_were = |ns: u64| u128::from(ns) * u128::from(count);
        if !(sum_if_all_were(least)..=sum_if_all_were(most)).contains(&sum_ns) {
            return Err(DistributionError::Contradiction("sum"));
        }

        let beside = |index| payload::beside(buckets, index);
        self.over.check(None, |limit_ns| uncertainty.over(limit_ns, beside))?;
        Ok((uncertainty, sum_ns, self.over))
    }
}

/// The uncertainty of a packed distribution: the payloads of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::histogram) struct PackedUncertainty {
    /// Empty where all samples may lie elsewhere.
    placed: Box<[u8]>,
    low: Box<[u8]>,
    high: Box<[u8]>,
}

impl PackedUncertainty {
    /// Of samples that are counted in these buckets, a canonical payload.
    pub(in crate::histogram) fn of(uncertainty: &BucketUncertainty, buckets: &[u8]) -> Self {
        let placed = uncertainty.placed.payload();
        // Left out where all samples may lie elsewhere, since it would repeat the buckets.
        let placed = if placed == buckets { Vec::new() } else { placed };
        let (low, high) = (uncertainty.low.payload(), uncertainty.high.payload());
        Self { placed: placed.into(), low: low.into(), high: high.into() }
    }

    /// The uncertainty of samples that are counted in these buckets.
    pub(in crate::histogram) fn unpack(&self, buckets: &[u8]) -> BucketUncertainty {
        let placed = if self.placed.is_empty() { buckets } else { &self.placed };
        BucketUncertainty {
            placed: Row::of(placed),
            low: Row::of(&self.low),
            high: Row::of(&self.high),
        }
    }

    /// What is written of it, and of all samples.
    pub(in crate::histogram) fn summary<'a>(
        &'a self,
        sum_ns: u128,
        overs: &Overs,
    ) -> UncertaintySummary<'a> {
        let Self { placed, low, high } = self;
        summary([placed, low, high].map(|row| Cow::Borrowed(&**row)), sum_ns, overs)
    }

    pub(in crate::histogram) fn into_summary(
        self,
        sum_ns: u128,
        overs: &Overs,
    ) -> UncertaintySummary<'static> {
        let Self { placed, low, high } = self;
        summary([placed, low, high].map(|row| Cow::Owned(row.into())), sum_ns, overs)
    }

    /// Heap bytes in use.
    pub(in crate::histogram) fn heap_bytes(&self) -> usize {
        self.placed.len() + self.low.len() + self.high.len()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "taking halves is the point")]
fn summary<'a>(rows: [Cow<'a, [u8]>; 3], sum_ns: u128, overs: &Overs) -> UncertaintySummary<'a> {
    let [placed, low, high] = rows;
    let (sum_carry, sum_ns) = ((sum_ns >> 64) as u64, sum_ns as u64);
    UncertaintySummary { placed, low, high, sum_ns, sum_carry, over: overs.clone() }
}
