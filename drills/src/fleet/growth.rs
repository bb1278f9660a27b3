//! Whether a lag grows: the second half of what was seen beside the first.

use std::time::Duration;

/// A lag whose median rose by no more than this is level: a few turns of the slowest page.
pub const LEVEL_WITHIN: Duration = Duration::from_millis(250);
/// The fewest values in a half that allow a judgement.
const HALF_MIN: usize = 3;

/// Medians of the first and of the second half of a time series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halves {
    /// Of the first half.
    pub first: Duration,
    /// Of the second half.
    pub second: Duration,
}

impl Halves {
    /// `None` when there are too few values.
    pub fn of(values: &[Duration]) -> Option<Self> {
        let (first, second) = values.split_at(values.len() / 2);
        (first.len() >= HALF_MIN).then(|| Self { first: median(first), second: median(second) })
    }

    /// Whether the lag is level.
    pub fn is_level(self) -> bool {
        self.second <= self.first + LEVEL_WITHIN
    }
}

fn median(values: &[Duration]) -> Duration {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(ms: impl IntoIterator<Item = u64>) -> Option<Halves> {
        let values: Vec<Duration> = ms.into_iter().map(Duration::from_millis).collect();
        Halves::of(&values)
    }

    #[test]
    fn a_lag_that_grows_steadily_differs_from_one_that_only_jitters() {
        assert!(!halves((0..60).map(|second| 40 + 10 * second)).unwrap().is_level());
        assert!(halves((0..60).map(|second| 40 + 200 * (second % 3))).unwrap().is_level());
        assert!(halves((0..60).map(|second| 900 - 10 * second)).unwrap().is_level());
    }

    #[test]
    fn one_outlier_or_few_values_are_no_growth() {
        assert!(halves([10, 10, 10, 10, 10, 5_000]).unwrap().is_level());
        assert_eq!(halves([10, 10, 10, 10, 10]), None);
    }
}
