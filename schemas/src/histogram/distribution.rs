//! What the decoder of a snapshot needs of a distribution: built from checked bytes, counted.

use super::error::Refused;
use super::exact::ExactFigures;
use super::over::Overs;
use super::uncertainty::ToldBlur;

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
