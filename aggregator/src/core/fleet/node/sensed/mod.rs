//! The figures that sensor readings come to. A machine may have many disks, GPUs and thermometers;
//! each figure is the worst of them. A sensor without readings has no figure.

use std::collections::BTreeMap;

use plimsoll_schemas::hardware::{
    CGROUP_MEMORY_LIMIT_BYTES, CGROUP_MEMORY_USED_BYTES, CLOCK_SYNCHRONIZED, CPU_STEAL_RATIO,
    CPU_TEMPERATURE_CELSIUS, CPU_THROTTLED, CPU_USAGE_RATIO, DISK_AVAILABLE_BYTES, DISK_INODES,
    DISK_INODES_USED, DISK_READ_ONLY, DISK_TOTAL_BYTES, DISK_USED_BYTES, FILE_HANDLES,
    FILE_HANDLES_LIMIT, GPU_MEMORY_TOTAL_BYTES, GPU_MEMORY_USED_BYTES, GPU_TEMPERATURE_CELSIUS,
    GPU_TEMPERATURE_MAX_CELSIUS, GPU_THROTTLE_REASON, GPU_THROTTLED, GPUS_LOST, MEMORY_TOTAL_BYTES,
    MEMORY_USED_BYTES, PRESSURE_FULL_RATIO, Reading, SWAP_TOTAL_BYTES, SWAP_USED_BYTES, Sensor,
    TEMPERATURE_CELSIUS,
};
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::metric::NodeMetric;

/// A figure that is computed from readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SensedFigure {
    /// Used share of the processors.
    CpuUsage,
    /// Share of time that a hypervisor used for other machines.
    CpuSteal,
    /// See [`NodeMetric::MemoryUsedRatio`].
    Memory,
    /// See [`NodeMetric::SwapUsedRatio`].
    Swap,
    /// See [`NodeMetric::DiskUsedRatio`].
    Disk,
    /// See [`NodeMetric::CpuTemperatureCelsius`].
    CpuTemperature,
    /// See [`NodeMetric::GpuTemperatureCelsius`].
    GpuTemperature,
    /// See [`NodeMetric::GpuMemoryUsedRatio`].
    GpuMemory,
    /// See [`NodeMetric::GpuThrottled`].
    GpuThrottled,
    /// See [`NodeMetric::CpuThrottled`].
    CpuThrottled,
    /// See [`NodeMetric::CgroupMemoryUsedRatio`].
    CgroupMemory,
    /// See [`NodeMetric::DiskInodesUsedRatio`].
    Inodes,
    /// See [`NodeMetric::FileHandlesUsedRatio`].
    FileHandles,
    /// See [`NodeMetric::MemoryStalledRatio`].
    MemoryStalled,
    /// See [`NodeMetric::GpusLost`].
    GpusLost,
    /// See [`NodeMetric::ClockUnsynchronized`].
    ClockUnsynchronized,
}

/// How many there are.
pub(crate) const SENSED: usize = 16;

/// What one sensor has to do with one of them.
#[derive(Clone, Copy)]
enum Part {
    Itself,
    /// The contrary of what is 1 or 0.
    Not,
    /// The one of this resource.
    OfMemory,
    Total,
    Used,
    Available,
    /// 1 where nothing can be added.
    Closed,
    Thermometer,
    Reason,
    Held,
}

/// By name, so that each reading is found in a few steps.
const PARTS: [(&Sensor, SensedFigure, Part); 28] = [
    (&CGROUP_MEMORY_LIMIT_BYTES, SensedFigure::CgroupMemory, Part::Total),
    (&CGROUP_MEMORY_USED_BYTES, SensedFigure::CgroupMemory, Part::Used),
    (&CLOCK_SYNCHRONIZED, SensedFigure::ClockUnsynchronized, Part::Not),
    (&CPU_STEAL_RATIO, SensedFigure::CpuSteal, Part::Itself),
    (&CPU_TEMPERATURE_CELSIUS, SensedFigure::CpuTemperature, Part::Itself),
    (&CPU_THROTTLED, SensedFigure::CpuThrottled, Part::Itself),
    (&CPU_USAGE_RATIO, SensedFigure::CpuUsage, Part::Itself),
    (&DISK_AVAILABLE_BYTES, SensedFigure::Disk, Part::Available),
    (&DISK_INODES, SensedFigure::Inodes, Part::Total),
    (&DISK_INODES_USED, SensedFigure::Inodes, Part::Used),
    (&DISK_READ_ONLY, SensedFigure::Disk, Part::Closed),
    (&DISK_TOTAL_BYTES, SensedFigure::Disk, Part::Total),
    (&DISK_USED_BYTES, SensedFigure::Disk, Part::Used),
    (&FILE_HANDLES, SensedFigure::FileHandles, Part::Used),
    (&FILE_HANDLES_LIMIT, SensedFigure::FileHandles, Part::Total),
    (&GPU_MEMORY_TOTAL_BYTES, SensedFigure::GpuMemory, Part::Total),
    (&GPU_MEMORY_USED_BYTES, SensedFigure::GpuMemory, Part::Used),
    (&GPU_TEMPERATURE_CELSIUS, SensedFigure::GpuTemperature, Part::Itself),
    (&GPU_TEMPERATURE_MAX_CELSIUS, SensedFigure::GpuTemperature, Part::Itself),
    (&GPU_THROTTLE_REASON, SensedFigure::GpuThrottled, Part::Reason),
    (&GPU_THROTTLED, SensedFigure::GpuThrottled, Part::Held),
    (&GPUS_LOST, SensedFigure::GpusLost, Part::Itself),
    (&MEMORY_TOTAL_BYTES, SensedFigure::Memory, Part::Total),
    (&MEMORY_USED_BYTES, SensedFigure::Memory, Part::Used),
    (&PRESSURE_FULL_RATIO, SensedFigure::MemoryStalled, Part::OfMemory),
    (&SWAP_TOTAL_BYTES, SensedFigure::Swap, Part::Total),
    (&SWAP_USED_BYTES, SensedFigure::Swap, Part::Used),
    (&TEMPERATURE_CELSIUS, SensedFigure::CpuTemperature, Part::Thermometer),
];

fn part_of(sensor: &str) -> Option<(SensedFigure, Part)> {
    let place = PARTS.binary_search_by(|(of, ..)| of.name.cmp(sensor)).ok()?;
    Some((PARTS[place].1, PARTS[place].2))
}

/// What is known of a memory or a file system, in bytes.
#[derive(Clone, Copy, Default)]
struct Store {
    total: Option<f64>,
    used: Option<f64>,
    available: Option<f64>,
    closed: bool,
}

impl Store {
    /// As df has it: of what ordinary users may use, since what is kept for the administrator, or
    /// beyond a quota, is neither used nor available. None of what takes no writes: an image is
    /// full from the first day and gets no fuller.
    fn used_ratio(self) -> Option<f64> {
        if self.closed {
            return None;
        }
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
pub(crate) struct WorstReadings<'r>([Option<(f64, &'r Labels)>; SENSED]);

impl SensedFigure {
    /// What a figure of a node is called here; `None` for those that no sensor measures.
    #[must_use]
    pub(crate) const fn of(figure: NodeMetric) -> Option<Self> {
        Some(match figure {
            NodeMetric::MemoryUsedRatio => Self::Memory,
            NodeMetric::SwapUsedRatio => Self::Swap,
            NodeMetric::DiskUsedRatio => Self::Disk,
            NodeMetric::CpuTemperatureCelsius => Self::CpuTemperature,
            NodeMetric::GpuTemperatureCelsius => Self::GpuTemperature,
            NodeMetric::GpuMemoryUsedRatio => Self::GpuMemory,
            NodeMetric::GpuThrottled => Self::GpuThrottled,
            NodeMetric::CpuThrottled => Self::CpuThrottled,
            NodeMetric::CgroupMemoryUsedRatio => Self::CgroupMemory,
            NodeMetric::DiskInodesUsedRatio => Self::Inodes,
            NodeMetric::FileHandlesUsedRatio => Self::FileHandles,
            NodeMetric::MemoryStalledRatio => Self::MemoryStalled,
            NodeMetric::GpusLost => Self::GpusLost,
            NodeMetric::ClockUnsynchronized => Self::ClockUnsynchronized,
            _ => return None,
        })
    }
}

impl<'r> WorstReadings<'r> {
    /// Processes the readings whose labels fit.
    #[must_use]
    pub(crate) fn of(readings: &'r [Reading], fits: impl Fn(&Labels) -> bool) -> Self {
        let mut worst = Self::default();
        let mut stores: BTreeMap<_, Store> = BTreeMap::new();
        let thermometers = Thermometers::of(readings);
        for reading in readings.iter().filter(|reading| fits(&reading.labels)) {
            let Some(value) = reading.value else { continue };
            let Some((of, part)) = part_of(&reading.sensor) else { continue };
            let labels = &reading.labels;
            match part {
                Part::Itself => worst.offer(of, value, labels),
                Part::Not => worst.offer(of, 1.0 - value, labels),
                Part::OfMemory if labels.get("resource") == Some("memory") => {
                    worst.offer(of, value, labels);
                }
                Part::Total => stores.entry((of, labels)).or_default().total = Some(value),
                Part::Used => stores.entry((of, labels)).or_default().used = Some(value),
                Part::Available => stores.entry((of, labels)).or_default().available = Some(value),
                Part::Closed => {
                    [SensedFigure::Disk, SensedFigure::Inodes].into_iter().for_each(|of| {
                        stores.entry((of, labels)).or_default().closed = value > 0.0;
                    });
                }
                Part::Thermometer if thermometers.count(reading) => {
                    worst.offer(of, value, labels);
                }
                Part::OfMemory | Part::Thermometer => {}
                Part::Reason => worst.count(of, is_held_down(labels) && value > 0.0, labels),
                Part::Held => worst.count(of, value > 0.0, labels),
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
    pub(crate) fn get(&self, of: SensedFigure) -> Option<(f64, &'r Labels)> {
        self.0[of as usize]
    }

    /// All of them, without which one each is.
    #[must_use]
    pub(crate) fn values(&self) -> [Option<f64>; SENSED] {
        self.0.map(|worst| worst.map(|(value, _)| value))
    }

    fn offer(&mut self, of: SensedFigure, value: f64, labels: &'r Labels) {
        let worst = &mut self.0[of as usize];
        if worst.is_none_or(|(known, _)| value > known) {
            *worst = Some((value, labels));
        }
    }

    /// Counts one more reading if it is `held`; the first one that is held sets the labels.
    fn count(&mut self, of: SensedFigure, held: bool, labels: &'r Labels) {
        let (reasons, known) = self.0[of as usize].unwrap_or((0.0, labels));
        let named = if held && reasons < 1.0 { labels } else { known };
        self.0[of as usize] = Some((reasons + f64::from(u8::from(held)), named));
    }
}

fn is_held_down(labels: &Labels) -> bool {
    labels.get("reason").is_some_and(|reason| HELD_DOWN.contains(&reason))
}

/// Which thermometers measure the processors.
#[derive(Clone, Copy)]
enum Thermometers {
    /// None: the node has chosen among them, and reports the one it chose.
    Chosen,
    /// Of those with such names all, or all without the offset that is there for fans.
    Named { with_offset: bool },
}

impl Thermometers {
    fn of(readings: &[Reading]) -> Self {
        if readings.iter().any(|reading| reading.sensor == CPU_TEMPERATURE_CELSIUS.name) {
            return Self::Chosen;
        }
        let mut all = readings.iter().filter(|reading| reading.sensor == TEMPERATURE_CELSIUS.name);
        Self::Named { with_offset: !all.any(|reading| component(reading).contains("tdie")) }
    }

    fn count(self, reading: &Reading) -> bool {
        let Self::Named { with_offset } = self else { return false };
        let component = component(reading);
        let counts = with_offset || !component.contains("tctl");
        counts && PROCESSORS.iter().any(|name| component.contains(name))
    }
}

fn component(reading: &Reading) -> String {
    reading.labels.get("component").unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
