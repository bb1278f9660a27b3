//! Why a GPU's clocks are held down, for how long, and whether heat took a fifth of them. Pure.

use std::time::Duration;

use plimsoll_schemas::hardware::MissingReading;

use super::super::scale::Raw;
use super::fold::{GRAPHICS_CLOCK, Spread, TEMPERATURE, UTILIZATION};

/// Hotter than this, a GPU may be throttled.
const HOT_CELSIUS: f64 = 75.0;
/// It is, once its clock is below this share of its baseline.
const THROTTLED_SHARE: f64 = 0.8;
/// From this utilisation on a GPU is busy: an idle one lowers its clock without being held down.
const BUSY_RATIO: f64 = 0.5;
/// Longest time that one poll covers: a driver that hung was not queried meanwhile.
const POLL_SPAN_MAX: Duration = Duration::from_secs(1);

/// Bits of `nvmlClocksThrottleReasons` that have a name.
const NAMED: [(u64, &str); 9] = [
    (IDLE, "gpu_idle"),
    (0x002, "applications_clocks_setting"),
    (0x004, "sw_power_cap"),
    (0x008, "hw_slowdown"),
    (0x010, "sync_boost"),
    (0x020, "sw_thermal_slowdown"),
    (0x040, "hw_thermal_slowdown"),
    (0x080, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
];
const IDLE: u64 = 0x001;
const REASONS: usize = NAMED.len() + 1;

/// Each reason's bits and name; bits that a newer driver added are one reason, `unknown`.
fn reasons() -> impl Iterator<Item = (u64, &'static str)> {
    let named = NAMED.iter().fold(0, |named, (bit, _)| named | bit);
    NAMED.into_iter().chain([(!named, "unknown")])
}

/// One GPU's throttling: `held` is of one interval, the rest of all time.
#[derive(Default)]
pub(super) struct Throttle {
    /// All bits seen in this interval.
    held: Option<u64>,
    missing: Option<MissingReading>,
    held_for: [Duration; REASONS],
    baseline_hertz: Option<f64>,
}

impl Throttle {
    /// One poll's bits, which cover the time `since` the poll before.
    pub(super) fn add(&mut self, bits: Result<u64, MissingReading>, since: Duration) {
        let bits = match bits {
            Ok(bits) => bits,
            Err(missing) => return self.missing = Some(missing),
        };
        self.held = Some(self.held.unwrap_or_default() | bits);
        for ((mask, _), held_for) in reasons().zip(&mut self.held_for) {
            if bits & mask != 0 {
                *held_for += since.min(POLL_SPAN_MAX);
            }
        }
    }

    /// Each reason with 1 or 0 for this interval, and the seconds of all time.
    pub(super) fn by_reason(&self) -> impl Iterator<Item = (&'static str, Raw, Raw)> {
        let held = self.held.ok_or(self.missing.unwrap_or(MissingReading::failed("not_asked")));
        reasons().zip(self.held_for).map(move |((mask, reason), held_for)| {
            let now = held.map(|bits| f64::from(u8::from(bits & mask != 0)));
            (reason, now, held.map(|_| held_for.as_secs_f64()))
        })
    }

    /// 1 when the GPU is busy, above 75 degrees, and more than 20 % below its baseline: the
    /// highest graphics clock that it kept for an interval while busy and no hotter than that,
    /// or its limit as long as it never did.
    pub(super) fn by_heat(&mut self, figures: &[Spread], limit_hertz: Raw) -> Raw {
        let celsius = figures[TEMPERATURE].mean()?;
        let hertz = figures[GRAPHICS_CLOCK].mean()?;
        let busy = self.is_busy(figures[UTILIZATION].mean());
        if busy && celsius <= HOT_CELSIUS {
            self.baseline_hertz = Some(self.baseline_hertz.unwrap_or_default().max(hertz));
        }
        let baseline = self.baseline_hertz.map_or(limit_hertz, Ok)?;
        let throttled = busy && celsius > HOT_CELSIUS && hertz < THROTTLED_SHARE * baseline;
        Ok(f64::from(u8::from(throttled)))
    }

    /// A divided GPU has no utilisation; the bit for an idle one decides then.
    fn is_busy(&self, utilization: Raw) -> bool {
        utilization.map_or(self.held.is_none_or(|bits| bits & IDLE == 0), |u| u >= BUSY_RATIO)
    }

    pub(super) fn next(&mut self) {
        (self.held, self.missing) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use nvml_wrapper::bitmasks::device::ThrottleReasons;

    use super::super::fold::FIGURES;
    use super::*;

    const LIMIT: Raw = Ok(2e9);
    const POLL: Duration = Duration::from_millis(100);

    fn figures(utilization: Raw, celsius: f64, hertz: f64) -> [Spread; FIGURES] {
        let mut figures = [Spread::default(); FIGURES];
        figures[UTILIZATION].add(utilization);
        figures[TEMPERATURE].add(Ok(celsius));
        figures[GRAPHICS_CLOCK].add(Ok(hertz));
        figures
    }

    fn one(throttle: &Throttle, wanted: &str) -> (Raw, Raw) {
        let found = throttle.by_reason().find(|(reason, ..)| *reason == wanted);
        found.map(|(_, now, seconds)| (now, seconds)).unwrap()
    }

    #[test]
    fn the_reasons_are_those_of_the_binding() {
        let named = NAMED.iter().fold(0, |named, (bit, _)| named | bit);
        assert_eq!(named, ThrottleReasons::all().bits());
    }

    #[test]
    fn one_poll_of_an_interval_is_enough_and_times_add_up_over_intervals() {
        let mut throttle = Throttle::default();
        for bits in [0x4, 0, 0x1000_0000_0004] {
            throttle.add(Ok(bits), POLL);
        }
        assert_eq!(one(&throttle, "sw_power_cap"), (Ok(1.0), Ok(0.2)));
        assert_eq!(one(&throttle, "unknown"), (Ok(1.0), Ok(0.1)));
        assert_eq!(one(&throttle, "hw_slowdown"), (Ok(0.0), Ok(0.0)));
        throttle.next();
        throttle.add(Ok(0), POLL);
        assert_eq!(one(&throttle, "sw_power_cap"), (Ok(0.0), Ok(0.2)));
        throttle.next();
        throttle.add(Err(MissingReading::failed("timeout")), POLL);
        let timeout = Err(MissingReading::failed("timeout"));
        assert_eq!(one(&throttle, "sw_power_cap"), (timeout, timeout));
    }

    #[test]
    fn the_time_of_a_hanging_driver_is_not_throttled_time() {
        let mut throttle = Throttle::default();
        throttle.add(Ok(0x40), Duration::from_secs(3_600));
        assert_eq!(one(&throttle, "hw_thermal_slowdown").1, Ok(1.0));
    }

    #[test]
    fn heat_throttles_a_busy_gpu_from_75_degrees_and_a_fifth_of_the_limit_on() {
        let unsupported = Err(MissingReading::unsupported("not_supported"));
        for (name, utilization, celsius, hertz, throttled) in [
            ("hot and slow", Ok(1.0), 75.5, 1.59e9, 1.0),
            ("not hot enough", Ok(1.0), 75.0, 1.59e9, 0.0),
            ("not slow enough", Ok(1.0), 90.0, 1.6e9, 0.0),
            ("idle", Ok(0.1), 90.0, 0.3e9, 0.0),
            ("divided", unsupported, 90.0, 0.3e9, 1.0),
        ] {
            let figures = figures(utilization, celsius, hertz);
            let got = Throttle::default().by_heat(&figures, LIMIT);
            assert_eq!(got, Ok(throttled), "{name}");
        }
        let mut idle = Throttle::default();
        idle.add(Ok(IDLE), POLL);
        assert_eq!(idle.by_heat(&figures(unsupported, 90.0, 0.3e9), LIMIT), Ok(0.0));
    }

    #[test]
    fn the_baseline_is_the_best_clock_of_a_cool_and_busy_gpu() {
        let mut throttle = Throttle::default();
        let mut by_heat = |utilization, celsius, hertz| {
            throttle.by_heat(&figures(Ok(utilization), celsius, hertz), LIMIT)
        };
        assert_eq!(by_heat(1.0, 60.0, 1.4e9), Ok(0.0));
        assert_eq!(by_heat(0.1, 60.0, 1.9e9), Ok(0.0));
        assert_eq!(by_heat(1.0, 80.0, 1.2e9), Ok(0.0), "a seventh below 1.4 GHz");
        assert_eq!(by_heat(1.0, 80.0, 1.1e9), Ok(1.0), "more than a fifth below");
        assert_eq!(by_heat(1.0, 70.0, 1.7e9), Ok(0.0));
        assert_eq!(by_heat(1.0, 80.0, 1.3e9), Ok(1.0), "more than a fifth below 1.7 GHz");
    }

    #[test]
    fn without_temperature_or_baseline_it_is_unknown() {
        let missing = Err(MissingReading::unsupported("old_driver"));
        let got = Throttle::default().by_heat(&figures(Ok(1.0), 80.0, 1e9), missing);
        assert_eq!(got, missing);
        let none = [Spread::default(); FIGURES];
        assert_eq!(
            Throttle::default().by_heat(&none, LIMIT),
            Err(MissingReading::failed("not_asked"))
        );
    }
}
