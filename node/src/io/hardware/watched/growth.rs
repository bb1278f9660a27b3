//! Whether the resident memory of a watch grows steadily, and how fast at least and at most. No
//! I/O.
//!
//! Keeps the minimum of each slot of time, so that memory that comes and goes within a slot leaves
//! no trace, and draws the Theil-Sen slope through these: the median of the slopes of all pairs,
//! with the 95 % interval of Kendall's rank statistic. What is less than a floor, or has been lower
//! again of late, is no growth.
//!
//! DESIGN N101.

use std::collections::VecDeque;

use crate::limits::{
    GROWTH_BYTES_MIN, GROWTH_RATIO_MIN, GROWTH_SLOT, GROWTH_SLOTS_MAX, GROWTH_SLOTS_MIN,
};
use plimsoll_schemas::time::Mono;

/// Quantile of the normal distribution for 95 % of both sides.
const DEVIATIONS: f64 = 1.96;

/// The minima of one watch.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// Number and start of each process: another set has another level.
    members: Vec<(u32, u64)>,
    minima: VecDeque<u64>,
    open: Option<OpenSlot>,
    slope: Option<Slope>,
}

#[derive(Clone, Copy, Debug)]
struct OpenSlot {
    ends: Mono,
    minimum: u64,
}

/// Bytes a second: the ends of the 95 % interval, and the most likely value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slope {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

impl Growth {
    /// Takes the resident bytes of all processes of the watch.
    pub(super) fn sample(&mut self, now: Mono, members: Vec<(u32, u64)>, resident: u64) {
        if members != self.members {
            *self = Self { members, ..Self::default() };
        }

        let first = OpenSlot { ends: now.plus(GROWTH_SLOT), minimum: resident };
        let open = *self.open.get_or_insert(first);
        if now < open.ends {
            self.open = Some(OpenSlot { minimum: open.minimum.min(resident), ..open });
            return;
        }

        self.minima.push_back(open.minimum);
        if self.minima.len() > GROWTH_SLOTS_MAX {
            self.minima.pop_front();
        }
        self.slope = slope(self.minima.make_contiguous()).filter(|of| self.is_growth(*of));

        // Slots have one length, whenever samples come; after a pause of one they start anew.
        let next = OpenSlot { ends: open.ends.plus(GROWTH_SLOT), minimum: resident };
        let is_next = now < next.ends;
        self.open = Some(if is_next { next } else { first });
        if !is_next {
            self.minima.clear();
        }
    }

    /// How it grows; `None` if that is not certain.
    pub(super) fn slope(&self) -> Option<Slope> {
        self.slope
    }

    /// Whether it is more than the floor, and the latest quarter is above all of the first one.
    fn is_growth(&self, slope: Slope) -> bool {
        let quarter = self.minima.len() / 4;
        let first = self.minima.iter().take(quarter).max().copied().unwrap_or_default();
        let last = self.minima.iter().rev().take(quarter).min().copied().unwrap_or_default();

        let grown = slope.low * GROWTH_SLOT.as_secs_f64() * (self.minima.len() - 1) as f64;
        let floor = (first as f64 * GROWTH_RATIO_MIN).max(GROWTH_BYTES_MIN as f64);
        last > first && grown >= floor
    }
}

/// The slope through equidistant values, in their unit per second.
fn slope(values: &[u64]) -> Option<Slope> {
    if values.len() < GROWTH_SLOTS_MIN {
        return None;
    }

    let values: Vec<f64> = values.iter().map(|value| *value as f64).collect();
    let mut slopes = Vec::with_capacity(values.len() * (values.len() - 1) / 2);
    for (from, first) in values.iter().enumerate() {
        for (apart, second) in values[from + 1..].iter().enumerate() {
            slopes.push((second - first) / ((apart + 1) as f64 * GROWTH_SLOT.as_secs_f64()));
        }
    }
    slopes.sort_unstable_by(f64::total_cmp);

    // Sen (1968): ranks on both sides of the median, by the variance of Kendall's statistic.
    let n = values.len() as f64;
    let reach = DEVIATIONS * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt() / 2.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of 1 128 pairs")]
    let reach = reach.ceil() as usize;
    let last = slopes.len() - 1;
    let (below, above) = (last / 2, last.div_ceil(2));
    Some(Slope {
        low: slopes[below.saturating_sub(reach)],
        median: slopes[below].midpoint(slopes[above]),
        high: slopes[last.min(above + reach)],
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;
    const HOUR: u64 = 3_600;

    /// What is found of memory that is sampled every 10 s for some hours.
    fn found(hours: u64, resident: impl Fn(u64) -> u64) -> Option<Slope> {
        let mut growth = Growth::default();
        for second in (0..=hours * HOUR).step_by(10) {
            let now = Mono(second * 1_000_000_000);
            growth.sample(now, vec![(7, 100)], resident(second));
        }
        growth.slope()
    }

    #[test]
    fn a_steady_leak_has_its_slope() {
        let slope = found(2, |second| 1_000 * MIB + second * MIB / 10).unwrap();
        let expected = MIB as f64 / 10.0;
        for value in [slope.low, slope.median, slope.high] {
            assert!((value - expected).abs() < 0.01 * expected, "{slope:?}");
        }
    }

    #[test]
    fn a_leak_below_a_sawtooth_is_found() {
        // 200 MiB come and go each two minutes, above 30 KiB a second that stay.
        let slope = found(4, |second| 500 * MIB + second * 30_720 + second % 120 * 2 * MIB);
        let slope = slope.unwrap();
        assert!(slope.low <= 30_720.0 && 30_720.0 <= slope.high, "{slope:?}");
        assert!((slope.median - 30_720.0).abs() < 3_000.0, "{slope:?}");
    }

    #[test]
    fn what_is_no_leak_has_no_slope() {
        type Resident = fn(u64) -> u64;
        let table: [(&str, Resident); 5] = [
            ("level", |_| 1_000 * MIB),
            ("under the floor", |second| 1_000 * MIB + second * 4_096),
            ("a step", |second| if second < 2 * HOUR { 1_000 * MIB } else { 1_500 * MIB }),
            ("teeth of an hour", |second| 1_000 * MIB + second % HOUR * MIB / 4),
            ("a cache that fills", |second| 1_000 * MIB + second.min(600) * MIB),
        ];
        for (name, resident) in table {
            assert_eq!(found(4, resident), None, "{name}");
        }
        assert_eq!(found(0, |second| second * MIB), None, "too short");
    }

    #[test]
    fn another_process_starts_anew() {
        let mut growth = Growth::default();
        for second in (0..2 * HOUR).step_by(10) {
            let now = Mono(second * 1_000_000_000);
            growth.sample(now, vec![(7, 100)], second * MIB);
        }
        assert!(growth.slope().is_some());
        growth.sample(Mono(2 * HOUR * 1_000_000_000), vec![(7, 101)], 0);
        assert_eq!((growth.slope(), growth.minima.len()), (None, 0));
    }

    proptest! {
        /// Noise without a trend, and teeth of up to 20 minutes, are no leak.
        #[test]
        fn memory_that_returns_is_no_leak(
            seed in any::<u64>(),
            tooth in 10_u64..1_200,
            height in 0_u64..1_000,
        ) {
            let noise = |second: u64| {
                let mixed = (second ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                (mixed >> 40) % (100 * MIB)
            };
            let resident = |second: u64| {
                2_000 * MIB + noise(second) + second % tooth * height * MIB / tooth
            };
            prop_assert_eq!(found(4, resident), None);
        }
    }
}
