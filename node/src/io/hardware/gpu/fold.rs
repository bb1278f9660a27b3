//! The polls of one interval as least, mean and greatest. Pure: `ask.rs` queries the driver.

use plimsoll_schemas::hardware::{
    GPU_CLOCK_HERTZ, GPU_CLOCK_MAX_HERTZ, GPU_CLOCK_MIN_HERTZ, GPU_MEMORY_FREE_BYTES,
    GPU_MEMORY_TOTAL_BYTES, GPU_MEMORY_USED_BYTES, GPU_MEMORY_USED_MAX_BYTES,
    GPU_MEMORY_USED_MIN_BYTES, GPU_MEMORY_UTILIZATION_RATIO, GPU_POWER_MAX_WATTS,
    GPU_POWER_MIN_WATTS, GPU_POWER_WATTS, GPU_TEMPERATURE_CELSIUS, GPU_TEMPERATURE_MAX_CELSIUS,
    GPU_TEMPERATURE_MIN_CELSIUS, GPU_UTILIZATION_MAX_RATIO, GPU_UTILIZATION_MIN_RATIO,
    GPU_UTILIZATION_RATIO, MissingReading, Sensor,
};

use super::super::scale::Raw;

/// Clock domains, as they are called in labels.
pub(super) const DOMAINS: [&str; 4] = ["graphics", "sm", "memory", "video"];
/// Figures that one GPU has once.
pub(super) const SINGLES: usize = 7;
/// Figures of one poll.
pub(super) const FIGURES: usize = SINGLES + DOMAINS.len();

pub(super) const UTILIZATION: usize = 0;
pub(super) const TEMPERATURE: usize = 5;
/// The first of [`DOMAINS`].
pub(super) const GRAPHICS_CLOCK: usize = SINGLES;

/// The sensors of one polled figure: its mean, and the least and the greatest where they are
/// kept.
pub(super) struct Folded {
    pub(super) mean: &'static Sensor,
    pub(super) bounds: Option<(&'static Sensor, &'static Sensor)>,
}

impl Folded {
    const fn mean(mean: &'static Sensor) -> Self {
        Self { mean, bounds: None }
    }

    const fn all(mean: &'static Sensor, least: &'static Sensor, most: &'static Sensor) -> Self {
        Self { mean, bounds: Some((least, most)) }
    }
}

/// In the order of a poll's first figures.
pub(super) const OF_SINGLES: [Folded; SINGLES] = [
    Folded::all(&GPU_UTILIZATION_RATIO, &GPU_UTILIZATION_MIN_RATIO, &GPU_UTILIZATION_MAX_RATIO),
    Folded::mean(&GPU_MEMORY_UTILIZATION_RATIO),
    Folded::mean(&GPU_MEMORY_TOTAL_BYTES),
    Folded::all(&GPU_MEMORY_USED_BYTES, &GPU_MEMORY_USED_MIN_BYTES, &GPU_MEMORY_USED_MAX_BYTES),
    Folded::mean(&GPU_MEMORY_FREE_BYTES),
    Folded::all(
        &GPU_TEMPERATURE_CELSIUS,
        &GPU_TEMPERATURE_MIN_CELSIUS,
        &GPU_TEMPERATURE_MAX_CELSIUS,
    ),
    Folded::all(&GPU_POWER_WATTS, &GPU_POWER_MIN_WATTS, &GPU_POWER_MAX_WATTS),
];
/// Of each clock domain.
pub(super) const OF_CLOCKS: Folded =
    Folded::all(&GPU_CLOCK_HERTZ, &GPU_CLOCK_MIN_HERTZ, &GPU_CLOCK_MAX_HERTZ);

/// What one poll found of one GPU.
pub(super) struct Poll {
    /// Base units, in the order of [`OF_SINGLES`] and then of [`DOMAINS`].
    pub(super) figures: [Raw; FIGURES],
    /// NVML's bit set, unknown bits included.
    pub(super) throttle_bits: Result<u64, MissingReading>,
}

/// One figure over the polls of one interval. Polls that did not answer do not count as long as
/// one did.
#[derive(Clone, Copy, Default)]
pub(super) struct Spread {
    polls: u32,
    sum: f64,
    least: f64,
    most: f64,
    missing: Option<MissingReading>,
}

impl Spread {
    pub(super) fn add(&mut self, raw: Raw) {
        match raw {
            Ok(value) => {
                let first = self.polls == 0;
                self.least = if first { value } else { self.least.min(value) };
                self.most = if first { value } else { self.most.max(value) };
                self.polls += 1;
                self.sum += value;
            }
            Err(missing) => self.missing = Some(missing),
        }
    }

    pub(super) fn mean(&self) -> Raw {
        // Rounding of the sum may lift a mean of equal values over all of them.
        self.of((self.sum / f64::from(self.polls.max(1))).clamp(self.least, self.most))
    }

    pub(super) fn least(&self) -> Raw {
        self.of(self.least)
    }

    pub(super) fn most(&self) -> Raw {
        self.of(self.most)
    }

    fn of(&self, value: f64) -> Raw {
        match self.polls {
            0 => Err(self.missing.unwrap_or(MissingReading::failed("not_asked"))),
            _ => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_poll_without_an_answer_does_not_spoil_the_others() {
        let mut spread = Spread::default();
        assert_eq!(spread.mean(), Err(MissingReading::failed("not_asked")));
        spread.add(Err(MissingReading::failed("timeout")));
        assert_eq!(spread.most(), Err(MissingReading::failed("timeout")));
        for watts in [Ok(-2.0), Err(MissingReading::failed("timeout")), Ok(5.0)] {
            spread.add(watts);
        }
        assert_eq!((spread.least(), spread.mean(), spread.most()), (Ok(-2.0), Ok(1.5), Ok(5.0)));
    }

    proptest! {
        #[test]
        fn the_mean_lies_between_the_least_and_the_greatest(
            values in proptest::collection::vec(-1e12..1e12, 1..20),
        ) {
            let mut spread = Spread::default();
            values.iter().for_each(|value| spread.add(Ok(*value)));
            let sorted = { let mut v = values.clone(); v.sort_by(f64::total_cmp); v };
            prop_assert_eq!(spread.least(), Ok(sorted[0]));
            prop_assert_eq!(spread.most(), Ok(sorted[sorted.len() - 1]));
            let mean = spread.mean().unwrap();
            prop_assert!(sorted[0] <= mean && mean <= sorted[sorted.len() - 1]);
            let naive = values.iter().sum::<f64>() / values.len() as f64;
            prop_assert!((mean - naive).abs() <= 1e-3);
        }
    }
}
