//! What readings of sensors come to: one figure each of a machine that may have many disks, GPUs
//! and thermometers, of which the worst counts. A sensor that says nothing gives no figure.

use std::collections::BTreeMap;

use plimsoll_schemas::hardware::{
    CPU_USAGE_RATIO, DISK_AVAILABLE_BYTES, DISK_TOTAL_BYTES, DISK_USED_BYTES,
    GPU_MEMORY_TOTAL_BYTES, GPU_MEMORY_USED_BYTES, GPU_TEMPERATURE_CELSIUS, GPU_THROTTLE_REASON,
    MEMORY_TOTAL_BYTES, MEMORY_USED_BYTES, Reading, SWAP_TOTAL_BYTES, SWAP_USED_BYTES, Sensor,
    TEMPERATURE_CELSIUS,
};
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::metric::Figure;

/// A figure that readings tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sensed {
    /// Used share of the processors.
    CpuUsage,
    /// See [`Figure::MemoryUsedRatio`].
    Memory,
    /// See [`Figure::SwapUsedRatio`].
    Swap,
    /// See [`Figure::DiskUsedRatio`].
    Disk,
    /// See [`Figure::CpuTemperatureCelsius`].
    CpuTemperature,
    /// See [`Figure::GpuTemperatureCelsius`].
    GpuTemperature,
    /// See [`Figure::GpuMemoryUsedRatio`].
    GpuMemory,
    /// See [`Figure::GpuThrottled`].
    GpuThrottled,
}

/// How many there are.
pub(crate) const SENSED: usize = 8;

/// What one sensor has to do with one of them.
#[derive(Clone, Copy)]
enum Part {
    Itself,
    Total,
    Used,
    Available,
    Thermometer,
    Reason,
}

const PARTS: [(&Sensor, Sensed, Part); 13] = [
    (&CPU_USAGE_RATIO, Sensed::CpuUsage, Part::Itself),
    (&MEMORY_TOTAL_BYTES, Sensed::Memory, Part::Total),
    (&MEMORY_USED_BYTES, Sensed::Memory, Part::Used),
    (&SWAP_TOTAL_BYTES, Sensed::Swap, Part::Total),
    (&SWAP_USED_BYTES, Sensed::Swap, Part::Used),
    (&DISK_TOTAL_BYTES, Sensed::Disk, Part::Total),
    (&DISK_AVAILABLE_BYTES, Sensed::Disk, Part::Available),
    (&DISK_USED_BYTES, Sensed::Disk, Part::Used),
    (&TEMPERATURE_CELSIUS, Sensed::CpuTemperature, Part::Thermometer),
    (&GPU_TEMPERATURE_CELSIUS, Sensed::GpuTemperature, Part::Itself),
    (&GPU_MEMORY_TOTAL_BYTES, Sensed::GpuMemory, Part::Total),
    (&GPU_MEMORY_USED_BYTES, Sensed::GpuMemory, Part::Used),
    (&GPU_THROTTLE_REASON, Sensed::GpuThrottled, Part::Reason),
];

/// What is known of a memory or a file system, in bytes.
#[derive(Clone, Copy, Default)]
struct Store {
    total: Option<f64>,
    used: Option<f64>,
    available: Option<f64>,
}

impl Store {
    /// As df has it: of what ordinary users may use, since what is kept for the administrator, or
    /// beyond a quota, is neither used nor available.
    fn used_ratio(self) -> Option<f64> {
        let share = |part: f64, whole: f64| (whole > 0.0).then(|| (part / whole).clamp(0.0, 1.0));
        match (self.used, self.available, self.total) {
            (Some(used), Some(available), _) => share(used, used + available),
            (Some(used), None, Some(total)) => share(used, total),
            (None, Some(available), Some(total)) => share(available, total).map(|free| 1.0 - free),
            _ => None,
        }
    }
}

/// Kernel drivers and zones that measure processors, as their names begin or contain.
const PROCESSORS: [&str; 9] = [
    "coretemp",
    "k10temp",
    "k8temp",
    "zenpower",
    "cpu_thermal",
    "cpu-thermal",
    "cpu_temp",
    "x86_pkg_temp",
    "soc_thermal",
];

/// Reasons that slow a GPU against its owner's will. A power cap is how a busy one runs.
const HELD_DOWN: [&str; 4] =
    ["hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"];

/// The worst of each, and which one it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Worst<'r>([Option<(f64, &'r Labels)>; SENSED]);

impl Sensed {
    /// What a figure of a node is called here; `None` for those that no sensor tells.
    #[must_use]
    pub(crate) const fn of(figure: Figure) -> Option<Self> {
        Some(match figure {
            Figure::MemoryUsedRatio => Self::Memory,
            Figure::SwapUsedRatio => Self::Swap,
            Figure::DiskUsedRatio => Self::Disk,
            Figure::CpuTemperatureCelsius => Self::CpuTemperature,
            Figure::GpuTemperatureCelsius => Self::GpuTemperature,
            Figure::GpuMemoryUsedRatio => Self::GpuMemory,
            Figure::GpuThrottled => Self::GpuThrottled,
            _ => return None,
        })
    }
}

impl<'r> Worst<'r> {
    /// Looks at the readings whose labels fit.
    #[must_use]
    pub(crate) fn of(readings: &'r [Reading], fits: impl Fn(&Labels) -> bool) -> Self {
        let mut worst = Self::default();
        let mut stores: BTreeMap<_, Store> = BTreeMap::new();
        let fitting = readings.iter().filter(|reading| fits(&reading.labels));
        let mut thermometers =
            readings.iter().filter(|reading| reading.sensor == TEMPERATURE_CELSIUS.name);
        let with_offset = !thermometers.any(|reading| component(reading).contains("tdie"));
        for (reading, value) in fitting.filter_map(|reading| Some((reading, reading.value?))) {
            let part = PARTS.iter().find(|(sensor, ..)| sensor.name == reading.sensor);
            let Some((_, of, part)) = part else { continue };
            let labels = &reading.labels;
            let store = stores.entry((*of, labels));
            match part {
                Part::Itself => worst.offer(*of, value, labels),
                Part::Total => store.or_default().total = Some(value),
                Part::Used => store.or_default().used = Some(value),
                Part::Available => store.or_default().available = Some(value),
                Part::Thermometer if is_processor(reading, with_offset) => {
                    worst.offer(*of, value, labels);
                }
                Part::Thermometer => {}
                Part::Reason => worst.count_reason(*of, value, labels),
            }
        }
        for ((of, labels), store) in stores {
            if let Some(ratio) = store.used_ratio() {
                worst.offer(of, ratio, labels);
            }
        }
        worst
    }

    /// The worst of one.
    #[must_use]
    pub(crate) fn get(&self, of: Sensed) -> Option<(f64, &'r Labels)> {
        self.0[of as usize]
    }

    /// All of them, without which one each is.
    #[must_use]
    pub(crate) fn values(&self) -> [Option<f64>; SENSED] {
        self.0.map(|worst| worst.map(|(value, _)| value))
    }

    fn offer(&mut self, of: Sensed, value: f64, labels: &'r Labels) {
        let worst = &mut self.0[of as usize];
        if worst.is_none_or(|(known, _)| value > known) {
            *worst = Some((value, labels));
        }
    }

    fn count_reason(&mut self, of: Sensed, value: f64, labels: &'r Labels) {
        let is_one = labels.get("reason").is_some_and(|reason| HELD_DOWN.contains(&reason));
        let held = is_one && value > 0.0;
        let (reasons, known) = self.0[of as usize].unwrap_or((0.0, labels));
        let named = if held && reasons < 1.0 { labels } else { known };
        self.0[of as usize] = Some((reasons + f64::from(u8::from(held)), named));
    }
}

fn component(reading: &Reading) -> String {
    reading.labels.get("component").unwrap_or_default().to_ascii_lowercase()
}

fn is_processor(reading: &Reading, with_offset: bool) -> bool {
    let component = component(reading);
    let counts = with_offset || !component.contains("tctl");
    counts && PROCESSORS.iter().any(|name| component.contains(name))
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::Missing;

    use super::*;

    fn read(sensor: &Sensor, label: (&str, &str), value: f64) -> Reading {
        let labels = [label].into_iter().filter(|(key, _)| !key.is_empty());
        Reading::ok(sensor, Labels::new(labels).unwrap(), value)
    }

    #[test]
    fn the_worst_of_several_counts_and_is_named() {
        let readings = [
            read(&DISK_AVAILABLE_BYTES, ("mount", "/"), 50.0),
            read(&DISK_TOTAL_BYTES, ("mount", "/"), 100.0),
            read(&DISK_TOTAL_BYTES, ("mount", "/data"), 100.0),
            read(&DISK_AVAILABLE_BYTES, ("mount", "/data"), 4.0),
            read(&GPU_MEMORY_TOTAL_BYTES, ("gpu", "0"), 80.0),
            read(&GPU_MEMORY_USED_BYTES, ("gpu", "0"), 20.0),
            // Nobody knows how much this one has.
            read(&GPU_MEMORY_USED_BYTES, ("gpu", "1"), 79.0),
            read(&TEMPERATURE_CELSIUS, ("component", "nvme Composite"), 99.0),
            read(&TEMPERATURE_CELSIUS, ("component", "coretemp Core 3"), 71.0),
            read(&TEMPERATURE_CELSIUS, ("component", "coretemp Core 4"), 70.0),
        ];
        let worst = Worst::of(&readings, |_| true);
        let of = |what| worst.get(what).map(|(value, labels)| (value, labels.iter().next()));
        assert_eq!(of(Sensed::Disk), Some((0.96, Some(("mount", "/data")))));
        assert_eq!(of(Sensed::GpuMemory), Some((0.25, Some(("gpu", "0")))));
        assert_eq!(
            of(Sensed::CpuTemperature),
            Some((71.0, Some(("component", "coretemp Core 3"))))
        );
        let root = Worst::of(&readings, |labels| labels.get("mount") == Some("/"));
        assert_eq!(root.get(Sensed::Disk).map(|(value, _)| value), Some(0.5));
    }

    #[test]
    fn a_file_system_is_as_full_as_df_says_it_is() {
        // Of 252 GiB 196 are free, of which ordinary users may have 35.
        let readings = [
            read(&DISK_TOTAL_BYTES, ("mount", "/"), 252.0),
            read(&DISK_USED_BYTES, ("mount", "/"), 56.0),
            read(&DISK_AVAILABLE_BYTES, ("mount", "/"), 35.0),
        ];
        let used = |readings: &[Reading]| {
            Worst::of(readings, |_| true).get(Sensed::Disk).map(|(value, _)| value)
        };
        assert_eq!(used(&readings), Some(56.0 / 91.0));
        assert_eq!(used(&readings[..2]), Some(56.0 / 252.0));
        assert_eq!(used(&readings[1..]), Some(56.0 / 91.0));
        assert_eq!(used(&readings[2..]), None);
    }

    #[test]
    fn what_sensors_do_not_say_is_no_figure() {
        let absent = |sensor, missing| Reading::absent(sensor, Labels::default(), missing);
        let readings = [
            absent(&MEMORY_USED_BYTES, Missing::failed("unread")),
            read(&MEMORY_TOTAL_BYTES, ("", ""), 100.0),
            absent(&GPU_TEMPERATURE_CELSIUS, Missing::unsupported("driver")),
            absent(&GPU_THROTTLE_REASON, Missing::stale("hangs")),
            // A machine without swap space has not used none of it.
            read(&SWAP_TOTAL_BYTES, ("", ""), 0.0),
            read(&SWAP_USED_BYTES, ("", ""), 0.0),
        ];
        assert_eq!(Worst::of(&readings, |_| true).values(), [None; SENSED]);
    }

    #[test]
    fn strange_values_stay_numbers() {
        let readings = [
            read(&MEMORY_TOTAL_BYTES, ("", ""), 1e-308),
            read(&MEMORY_USED_BYTES, ("", ""), 1e308),
            read(&DISK_TOTAL_BYTES, ("mount", "/"), 1.0),
            read(&DISK_AVAILABLE_BYTES, ("mount", "/"), -1e308),
        ];
        let worst = Worst::of(&readings, |_| true);
        assert_eq!(worst.get(Sensed::Memory).map(|(value, _)| value), Some(1.0));
        assert_eq!(worst.get(Sensed::Disk).map(|(value, _)| value), Some(1.0));
    }

    #[test]
    fn a_gpu_at_its_power_cap_is_busy_and_one_that_is_too_hot_is_held_down() {
        let with = |held: &[&str]| {
            let reasons = ["gpu_idle", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown"];
            let read_one = |reason: &&str| {
                let value = f64::from(u8::from(held.contains(reason)));
                read(&GPU_THROTTLE_REASON, ("reason", reason), value)
            };
            let readings: Vec<_> = reasons.iter().map(read_one).collect();
            let worst = Worst::of(&readings, |_| true);
            let (n, labels) = worst.get(Sensed::GpuThrottled).unwrap();
            (n, labels.get("reason").unwrap().to_owned())
        };
        assert_eq!(with(&["sw_power_cap"]).0, 0.0);
        assert_eq!(with(&["hw_slowdown", "hw_thermal_slowdown"]), (2.0, "hw_slowdown".to_owned()));
    }

    #[test]
    fn a_die_that_tells_its_temperature_is_believed_before_the_one_with_an_offset() {
        let tctl = read(&TEMPERATURE_CELSIUS, ("component", "k10temp Tctl"), 90.0);
        let tdie = read(&TEMPERATURE_CELSIUS, ("component", "k10temp Tdie"), 63.0);
        let of = |readings: &[Reading]| {
            Worst::of(readings, |_| true).get(Sensed::CpuTemperature).map(|(value, _)| value)
        };
        assert_eq!(
            [of(std::slice::from_ref(&tctl)), of(&[tctl.clone(), tdie])],
            [Some(90.0), Some(63.0)]
        );
    }
}
