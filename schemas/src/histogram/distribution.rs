//! What the decoder of a snapshot needs of a distribution: built from checked bytes, counted.

use super::error::DistributionError;
use super::exact::ExactFigures;
use super::over::Overs;
use super::uncertainty::UncertaintySummary;

/// What a snapshot may hold as a latency distribution.
pub trait Distribution: Sized {
    /// Builds the distribution of one series from V2 bytes, the exact figures, the samples over
    /// limits and the uncertainty summary of its message.
    ///
    /// # Errors
    /// When the bytes are not a histogram, or contradict what the message states beside them.
    fn try_from_v2(
        exact: ExactFigures,
        bytes: &[u8],
        overs: Overs,
        uncertainty: Option<UncertaintySummary<'_>>,
    ) -> Result<Self, DistributionError>;

    /// Number of samples.
    fn count(&self) -> u64;
}
