//! Raw figures of kernels and drivers in base units; what cannot be true is a failed reading.
//!
//! Drivers report "unknown" as numbers near the top of the integer's range, or as garbage for a
//! sensor that is not connected. The bounds lie far beyond any hardware, so that they refuse
//! sentinels and nothing else.

use plimsoll_schemas::hardware::MissingReading;

/// A value in its base unit, or why there is none.
pub(super) type Raw = Result<f64, MissingReading>;

const CELSIUS: std::ops::RangeInclusive<f64> = -100.0..=200.0;
const WATTS_MAX: f64 = 20_000.0;
const HERTZ_MAX: f64 = 100e9;
const BYTES_MAX: f64 = (1u64 << 60) as f64;

/// `value` itself, from 0 to `most`.
pub(super) fn up_to(value: f64, most: f64) -> Raw {
    if (0.0..=most).contains(&value) {
        Ok(value)
    } else {
        Err(MissingReading::failed("out_of_range"))
    }
}

/// A figure that has no bound but nothing.
pub(super) fn at_least_nothing(value: f64) -> Raw {
    up_to(value, f64::MAX)
}

/// Converts a share from percent. Rounding may lift it a hair over 100.
pub(super) fn ratio_from_percent(percent: f64) -> Raw {
    up_to(percent, 100.5).map(|percent| (percent / 100.0).min(1.0))
}

pub(super) fn hertz_from_mhz(mhz: f64) -> Raw {
    up_to(mhz * 1e6, HERTZ_MAX)
}

pub(super) fn watts_from_milliwatts(milliwatts: u32) -> Raw {
    up_to(f64::from(milliwatts) / 1e3, WATTS_MAX)
}

pub(super) fn celsius(degrees: f64) -> Raw {
    if CELSIUS.contains(&degrees) {
        Ok(degrees)
    } else {
        Err(MissingReading::failed("out_of_range"))
    }
}

pub(super) fn bytes(bytes: u64) -> Raw {
    up_to(bytes as f64, BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: Raw = Err(MissingReading::failed("out_of_range"));

    #[test]
    fn figures_come_out_in_base_units() {
        for (name, got, want) in [
            ("percent", ratio_from_percent(37.0), 0.37),
            ("rounded percent", ratio_from_percent(100.01), 1.0),
            ("MHz", hertz_from_mhz(1_980.0), 1.98e9),
            ("mW", watts_from_milliwatts(72_345), 72.345),
            ("frost", celsius(-40.0), -40.0),
            ("bytes", bytes(85_899_345_920), 85_899_345_920.0),
        ] {
            assert_eq!(got, Ok(want), "{name}");
        }
    }

    #[test]
    fn sentinels_and_absurd_figures_are_failed_readings() {
        for (name, got) in [
            ("percent", ratio_from_percent(f64::from(u32::MAX))),
            ("no number", ratio_from_percent(f64::NAN)),
            ("MHz", hertz_from_mhz(f64::from(u32::MAX))),
            ("mW", watts_from_milliwatts(u32::MAX)),
            ("hot", celsius(201.0)),
            ("sentinel", celsius(f64::from(u32::MAX))),
            ("bytes", bytes(u64::MAX)),
            ("a negative number read as unsigned", bytes(9_223_372_036_854_775_794)),
        ] {
            assert_eq!(got, FAILED, "{name}");
        }
    }
}
