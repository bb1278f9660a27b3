//! NVML's own units in base units. Beyond [`scale`](super::super::scale) only because no other
//! hardware has these figures; what cannot be true is a failed reading here too.

use super::super::scale::{Raw, up_to};

/// Sixteen lanes of the seventh generation carry a quarter of this.
const BYTES_PER_SECOND_MAX: f64 = 1e12;
/// Twenty kilowatts for sixteen years.
const JOULES_MAX: f64 = 1e13;
/// Far below the sentinels of 32 bits and of 64 bits: a GPU with so many errors or so wide a
/// link does not work any more.
const COUNT_MAX: f64 = 4e9;
/// A driver may turn a fan beyond what its maker calls the greatest speed.
const FAN_PERCENT_MAX: f64 = 200.0;

pub(super) fn joules_from_millijoules(millijoules: u64) -> Raw {
    up_to(millijoules as f64 / 1e3, JOULES_MAX)
}

/// A rate in KB/s; NVML does not document whether its K is 1000 or 1024.
pub(super) fn bytes_per_second_from_kilobytes(kilobytes: u32) -> Raw {
    up_to(f64::from(kilobytes) * 1e3, BYTES_PER_SECOND_MAX)
}

pub(super) fn fan_ratio_from_percent(percent: u32) -> Raw {
    up_to(f64::from(percent), FAN_PERCENT_MAX).map(|percent| percent / 100.0)
}

pub(super) fn count(count: u64) -> Raw {
    up_to(count as f64, COUNT_MAX)
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::MissingReading;

    use super::*;

    #[test]
    fn figures_come_out_in_base_units() {
        for (name, got, want) in [
            ("mJ", joules_from_millijoules(1_234_567), 1_234.567),
            ("KB/s", bytes_per_second_from_kilobytes(12_500_000), 12.5e9),
            ("fan", fan_ratio_from_percent(30), 0.3),
            ("fan beyond its highest speed", fan_ratio_from_percent(110), 1.1),
            ("count", count(17), 17.0),
        ] {
            assert_eq!(got, Ok(want), "{name}");
        }
    }

    #[test]
    fn sentinels_are_failed_readings() {
        const NEGATIVE: u64 = 9_223_372_036_854_775_794;
        for (name, got) in [
            ("mJ", joules_from_millijoules(NEGATIVE)),
            ("KB/s", bytes_per_second_from_kilobytes(u32::MAX)),
            ("fan", fan_ratio_from_percent(u32::MAX)),
            ("count", count(NEGATIVE)),
            ("count of 32 bits", count(u64::from(u32::MAX))),
        ] {
            assert_eq!(got, Err(MissingReading::failed("out_of_range")), "{name}");
        }
    }
}
