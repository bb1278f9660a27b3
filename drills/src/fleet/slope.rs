//! Whether a figure grows: a line through the medians of each minute, which a few outliers do not
//! turn.
//!
//! DESIGN D35.

use std::collections::BTreeMap;

use serde::Serialize;

/// Seconds whose median is one point of the line.
const POINT: f64 = 60.0;
const HOUR: f64 = 3_600.0;

/// A figure over time after warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Slope {
    /// What it is a figure of.
    pub of: String,
    pub median: f64,
    /// How much it grows in an hour.
    pub per_hour: f64,
    /// How much of the median that is, in percent.
    pub percent_per_hour: f64,
}

impl Slope {
    /// The slope of `(seconds, value)`: the median of those between any two minutes (Theil-Sen).
    /// `None` with fewer than three minutes.
    pub fn of(of: &str, values: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let mut minutes: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (at, value) in values {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "minutes of a run; a cast saturates"
            )]
            let minute = (at / POINT) as u64;
            minutes.entry(minute).or_default().push(value);
        }

        #[expect(clippy::cast_precision_loss, reason = "minutes of a run")]
        let points: Vec<(f64, f64)> =
            minutes.into_iter().map(|(at, all)| (at as f64 * POINT, median(all))).collect();

        let slopes = points.iter().enumerate().flat_map(|(place, (from, before))| {
            let later = points[place + 1..].iter();
            later.map(move |(to, after)| (after - before) / (to - from))
        });

        let slopes: Vec<f64> = slopes.collect();
        if points.len() < 3 {
            return None;
        }
        let level = median(points.iter().map(|(_, value)| *value).collect());
        let per_hour = median(slopes) * HOUR;
        let percent_per_hour = if level > 0.0 { 100.0 * per_hour / level } else { 0.0 };
        Some(Self { of: of.to_owned(), median: level, per_hour, percent_per_hour })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    let at = |place: usize| values.get(place).copied().unwrap_or_default();
    f64::midpoint(at(low), at(high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::rng::Rng;

    /// Three quarters of an hour around 250 MiB, every ten seconds, with noise of 4 % and a spike
    /// in one of fifty values.
    fn hour(growth_percent: f64) -> Slope {
        let mut rng = Rng::new(7, 7);
        let values = (90..360_u32).map(|place| {
            let at = f64::from(place) * 10.0;
            let noise = f64::from(u32::try_from(rng.below(1_000)).unwrap()) / 1_000.0 - 0.5;
            let spike = if rng.chance(20) { 80e6 } else { 0.0 };
            let grown = 1.0 + growth_percent / 100.0 * at / HOUR;
            (at, 262e6 * grown * (1.0 + 0.04 * noise) + spike)
        });
        Slope::of("test", values).unwrap()
    }

    #[test]
    fn a_leak_of_two_percent_an_hour_is_seen_and_noise_is_none() {
        let (leak, level) = (hour(2.0).percent_per_hour, hour(0.0).percent_per_hour);
        assert!(leak > 1.0, "{leak}");
        assert!(level.abs() < 1.0, "{level}");
    }

    #[test]
    fn a_count_that_stays_has_no_slope_and_few_minutes_have_none_at_all() {
        let count = |seconds: u32| (0..seconds).map(|at| (f64::from(at), 40.0));
        assert_eq!(Slope::of("x", count(600)).unwrap().per_hour, 0.0);
        assert_eq!(Slope::of("x", count(120)), None);
    }
}
