//! A distribution from outside, after all of it was checked: the buckets against the layout, and
//! everything stated beside the buckets against them.

use super::checked::{self, CheckedPayload};
use super::error::DistributionError;
use super::exact::ExactFigures;
use super::header;
use super::over::{Over, Overs};
use super::payload;
use super::uncertainty::{BucketUncertainty, UncertaintySummary};

/// A distribution as a message or a checkpoint states it.
pub(super) struct Stated<'a> {
    pub(super) exact: ExactFigures,
    pub(super) overs: Overs,
    pub(super) uncertainty: Option<UncertaintySummary<'a>>,
}

/// The same after the check.
pub(super) struct Decoded<'a> {
    pub(super) buckets: CheckedPayload<'a>,
    pub(super) exact: ExactFigures,
    pub(super) overs: Overs,
    pub(super) uncertainty: Option<BucketUncertainty>,
}

impl Stated<'_> {
    /// Checks it against V2 bytes of at most `samples_max` samples.
    ///
    /// # Errors
    /// When the bytes are no histogram of the mesh's layout, or contradict what is stated.
    pub(super) fn check_v2(
        self,
        bytes: &[u8],
        samples_max: u64,
    ) -> Result<Decoded<'_>, DistributionError> {
        self.check_payload(header::split(bytes)?, samples_max)
    }

    /// Checks it against a V2 payload, without the header.
    ///
    /// # Errors
    /// As [`Stated::check_v2`].
    pub(super) fn check_payload(
        self,
        payload: &[u8],
        samples_max: u64,
    ) -> Result<Decoded<'_>, DistributionError> {
        let Self { exact, overs, uncertainty } = self;
        let buckets = checked::check(payload, samples_max)?;
        exact.check(buckets.total, buckets.edges()).map_err(DistributionError::Contradiction)?;
        // Without uncertainty every sample lies in its bucket, so that the buckets bound each
        // count.
        let Some(summary) = uncertainty else {
            overs.check(Some(&exact), |limit_ns| {
                Over::from_buckets(&exact, limit_ns, |own| payload::beside(&buckets.payload, own))
            })?;
            return Ok(Decoded { buckets, exact, overs, uncertainty: None });
        };
        // The true sum and counts are in the summary; those beside the buckets are for older
        // readers.
        let (uncertainty, sum_ns, overs) =
            summary.check(exact.count, &buckets.payload, samples_max)?;
        let exact = ExactFigures { sum_ns, ..exact };
        Ok(Decoded { buckets, exact, overs, uncertainty: Some(uncertainty) })
    }
}
