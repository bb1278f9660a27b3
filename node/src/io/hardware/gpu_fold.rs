//! What NVML said about one GPU, folded into readings. Pure: the driver is asked in `gpu.rs`.

use plimsoll_schemas::hardware::{
    GPU_CLOCK_HERTZ, GPU_MEMORY_FREE_BYTES, GPU_MEMORY_TOTAL_BYTES, GPU_MEMORY_USED_BYTES,
    GPU_POWER_WATTS, GPU_TEMPERATURE_CELSIUS, GPU_THROTTLE_REASON, GPU_UTILIZATION_RATIO, Missing,
};

use super::gather::Gather;
use super::scale;

/// A figure as NVML gave it, or why it did not.
pub(super) type Asked<T> = Result<T, Missing>;

/// Memory of one GPU in bytes.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) total: u64,
    pub(super) used: u64,
    pub(super) free: u64,
}

/// One GPU's figures in NVML's own units.
pub(super) struct Figures {
    pub(super) utilization_percent: Asked<u32>,
    pub(super) memory: Asked<Memory>,
    pub(super) temperature_celsius: Asked<u32>,
    pub(super) power_milliwatts: Asked<u32>,
    /// In the order of [`DOMAINS`].
    pub(super) clocks_mhz: [Asked<u32>; DOMAINS.len()],
    /// NVML's bit set, unknown bits included.
    pub(super) throttle_bits: Asked<u64>,
}

/// Clock domains, as they are called in labels.
pub(super) const DOMAINS: [&str; 4] = ["graphics", "sm", "memory", "video"];

/// Bits of `nvmlClocksThrottleReasons` and what they are called in labels.
const REASONS: [(u64, &str); 9] = [
    (0x001, "gpu_idle"),
    (0x002, "applications_clocks_setting"),
    (0x004, "sw_power_cap"),
    (0x008, "hw_slowdown"),
    (0x010, "sync_boost"),
    (0x020, "sw_thermal_slowdown"),
    (0x040, "hw_thermal_slowdown"),
    (0x080, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
];

impl Figures {
    /// A GPU of which nothing can be asked.
    pub(super) fn absent(missing: Missing) -> Self {
        Self {
            utilization_percent: Err(missing),
            memory: Err(missing),
            temperature_celsius: Err(missing),
            power_milliwatts: Err(missing),
            clocks_mhz: [Err(missing); DOMAINS.len()],
            throttle_bits: Err(missing),
        }
    }

    /// Adds this GPU's readings. `identity` are the labels that all of them carry.
    pub(super) fn fold_into(&self, gather: &mut Gather, identity: &[(&str, &str)]) {
        self.fold_single(gather, identity);
        for (domain, mhz) in DOMAINS.into_iter().zip(self.clocks_mhz) {
            let hertz = mhz.and_then(|mhz| scale::hertz_from_mhz(f64::from(mhz)));
            if let Some(labels) = gather.labels(&[identity, &[("domain", domain)]].concat()) {
                gather.put_of(&GPU_CLOCK_HERTZ, &labels, hertz);
            }
        }
        for (reason, held) in held_by(self.throttle_bits) {
            if let Some(labels) = gather.labels(&[identity, &[("reason", reason)]].concat()) {
                gather.put_of(&GPU_THROTTLE_REASON, &labels, held);
            }
        }
    }

    fn fold_single(&self, gather: &mut Gather, identity: &[(&str, &str)]) {
        let Some(labels) = gather.labels(identity) else { return };
        let ratio = self.utilization_percent.map(f64::from).and_then(scale::ratio_from_percent);
        let memory = |part: fn(Memory) -> u64| self.memory.map(part).and_then(scale::bytes);
        for (sensor, raw) in [
            (&GPU_UTILIZATION_RATIO, ratio),
            (&GPU_MEMORY_TOTAL_BYTES, memory(|memory| memory.total)),
            (&GPU_MEMORY_USED_BYTES, memory(|memory| memory.used)),
            (&GPU_MEMORY_FREE_BYTES, memory(|memory| memory.free)),
            (
                &GPU_TEMPERATURE_CELSIUS,
                self.temperature_celsius.map(f64::from).and_then(scale::celsius),
            ),
            (&GPU_POWER_WATTS, self.power_milliwatts.and_then(scale::watts_from_milliwatts)),
        ] {
            gather.put_of(sensor, &labels, raw);
        }
    }
}

/// Each reason with 1 or 0. Bits that a newer driver added are one reason, `unknown`.
fn held_by(bits: Asked<u64>) -> impl Iterator<Item = (&'static str, scale::Raw)> {
    let known = REASONS.iter().fold(0, |known, (bit, _)| known | bit);
    REASONS
        .into_iter()
        .chain([(!known, "unknown")])
        .map(move |(mask, reason)| (reason, bits.map(|bits| f64::from(u8::from(bits & mask != 0)))))
}

#[cfg(test)]
mod tests {
    use nvml_wrapper::bitmasks::device::ThrottleReasons;
    use plimsoll_schemas::hardware::SensorState;

    use super::*;
    use crate::io::hardware::Tally;

    const IDENTITY: &[(&str, &str)] = &[("gpu", "3")];

    fn fold(figures: &Figures) -> Vec<(String, Result<f64, SensorState>)> {
        let mut gather = Gather::default();
        figures.fold_into(&mut gather, IDENTITY);
        let readings = gather.finish(&Tally::default());
        readings
            .into_iter()
            .map(|reading| {
                assert_eq!(reading.labels.get("gpu"), Some("3"));
                let part = reading.labels.get("domain").or(reading.labels.get("reason"));
                let name = [Some(reading.sensor.as_str()), part].into_iter().flatten();
                (name.collect::<Vec<_>>().join(" "), reading.value.ok_or(reading.state))
            })
            .collect()
    }

    #[test]
    fn figures_become_readings_in_base_units() {
        let readings = fold(&Figures {
            utilization_percent: Ok(42),
            memory: Ok(Memory { total: 80 << 30, used: 10 << 30, free: 70 << 30 }),
            temperature_celsius: Ok(61),
            power_milliwatts: Ok(312_500),
            clocks_mhz: [Ok(1_980), Ok(1_980), Ok(2_619), Err(Missing::unsupported("driver"))],
            throttle_bits: Ok(0x1004),
        });
        let one = |name: &str| readings.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
        for (name, value) in [
            ("gpu_utilization_ratio", Ok(0.42)),
            ("gpu_memory_total_bytes", Ok(85_899_345_920.0)),
            ("gpu_memory_used_bytes", Ok(10_737_418_240.0)),
            ("gpu_memory_free_bytes", Ok(75_161_927_680.0)),
            ("gpu_temperature_celsius", Ok(61.0)),
            ("gpu_power_watts", Ok(312.5)),
            ("gpu_clock_hertz graphics", Ok(1.98e9)),
            ("gpu_clock_hertz memory", Ok(2.619e9)),
            ("gpu_clock_hertz video", Err(SensorState::Unsupported)),
            ("gpu_throttle_reason sw_power_cap", Ok(1.0)),
            ("gpu_throttle_reason hw_slowdown", Ok(0.0)),
            ("gpu_throttle_reason unknown", Ok(1.0)),
        ] {
            assert_eq!(one(name), Some(value), "{name}");
        }
        assert_eq!(readings.len(), 6 + DOMAINS.len() + REASONS.len() + 1);
    }

    #[test]
    fn a_lost_gpu_keeps_all_its_readings_and_none_has_a_value() {
        let readings = fold(&Figures::absent(Missing::failed("lost")));
        assert_eq!(readings.len(), 20);
        assert!(readings.iter().all(|(_, value)| *value == Err(SensorState::Failed)));
    }

    #[test]
    fn the_reasons_are_those_of_the_binding() {
        let known = REASONS.iter().fold(0, |known, (bit, _)| known | bit);
        assert_eq!(known, ThrottleReasons::all().bits());
    }
}
