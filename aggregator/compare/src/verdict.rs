//! Verdicts, of one operation and of a whole comparison.
//!
//! DESIGN A78.

use serde::{Deserialize, Serialize};

/// What a comparison found. The order is that of a gate: a regression that was shown outweighs
/// what could not be judged, and what cannot be compared outweighs what more samples would settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(schemars::JsonSchema),
    schemars(rename = "ComparisonVerdict")
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No shift above the noise floor.
    Same,
    /// Some quantile is lower in B, and none is higher.
    Better,
    /// There are too few samples or slots for a verdict.
    NotEnoughData,
    /// The sides do not measure the same thing in the same buckets.
    NotComparable,
    /// Some quantile, or the share over the limit, is higher in B.
    Worse,
}

impl Verdict {
    /// The verdict as words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Better => "better",
            Self::NotEnoughData => "not enough data",
            Self::NotComparable => "not comparable",
            Self::Worse => "worse",
        }
    }

    /// The same where more is better.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::Better => Self::Worse,
            Self::Worse => Self::Better,
            other => other,
        }
    }

    /// The verdict of all operations together; without any, there is nothing to compare.
    pub fn of_all(verdicts: impl IntoIterator<Item = Self>) -> Self {
        verdicts.into_iter().max().unwrap_or(Self::NotComparable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_is_what_a_gate_must_stop_for() {
        use Verdict::{Better, NotComparable, NotEnoughData, Same, Worse};
        for (parts, whole) in [
            (vec![Same, Same], Same),
            (vec![Same, Better], Better),
            (vec![Better, NotEnoughData, Same], NotEnoughData),
            (vec![NotComparable, NotEnoughData], NotComparable),
            (vec![NotComparable, Worse, Better], Worse),
            (vec![], NotComparable),
        ] {
            assert_eq!(Verdict::of_all(parts.clone()), whole, "{parts:?}");
        }
    }
}
