//! The figures that sensor readings come to. A machine may have many disks, GPUs and thermometers;
//! each figure is the worst of them. A sensor without readings has no figure.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use plimsoll_schemas::hardware::{
    self, CATALOGUE, CPU_TEMPERATURE_CELSIUS, Direction, Sensor, TEMPERATURE_CELSIUS,
};
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::metric::NodeMetric;

use super::reading_table::{KnownReading, ReadingTable};
use crate::core::fleet::catalogue::place_of;

/// How the readings of one sensor enter a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The worst reading is the figure.
    Itself,
    /// The contrary of what is 1 or 0.
    Not,
    /// The reading whose resource is memory.
    OfMemory,
    /// Size of a store, of whose used share the greatest is the figure.
    Total,
    Used,
    Available,
    /// 1 where nothing can be added to the store.
    Closed,
    /// The hottest thermometer of a processor.
    Thermometer,
    /// Readings that slow a GPU, of several reasons, are counted.
    Reason,
    /// Readings above 0 are counted.
    Held,
}

/// One row of the table of figures.
struct Input {
    sensor: &'static Sensor,
    figure: SensedFigure,
    part: Part,
}

macro_rules! figures {
    ($($figure:ident $(= $metric:ident)? { $($sensor:ident $part:ident),+ })+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum SensedFigure { $($figure),+ }

        /// The number of figures.
        pub(crate) const SENSED: usize = [$(SensedFigure::$figure),+].len();

        const INPUTS: &[Input] = &[$($(Input {
            sensor: &hardware::$sensor,
            figure: SensedFigure::$figure,
            part: Part::$part,
        }),+),+];

        impl SensedFigure {
            /// The figure that a metric of a node is; `None` for metrics that no sensor measures.
            pub(crate) const fn of(metric: NodeMetric) -> Option<Self> {
                match metric {
                    $($(NodeMetric::$metric => Some(Self::$figure),)?)+
                    _ => None,
                }
            }
        }
    };
}

// Each figure, the metric that rules compare, and the sensors that it is computed from. Checkpoints
// store figures in this order: a new one comes last; any other change raises their version.
figures! {
    CpuUsage { CPU_USAGE_RATIO Itself }
    CpuSteal { CPU_STEAL_RATIO Itself }
    Memory = MemoryUsedRatio { MEMORY_TOTAL_BYTES Total, MEMORY_USED_BYTES Used }
    Swap = SwapUsedRatio { SWAP_TOTAL_BYTES Total, SWAP_USED_BYTES Used }
    Disk = DiskUsedRatio {
        DISK_TOTAL_BYTES Total, DISK_USED_BYTES Used, DISK_AVAILABLE_BYTES Available,
        DISK_READ_ONLY Closed
    }
    CpuTemperature = CpuTemperatureCelsius {
        CPU_TEMPERATURE_CELSIUS Itself, TEMPERATURE_CELSIUS Thermometer
    }
    GpuTemperature = GpuTemperatureCelsius {
        GPU_TEMPERATURE_CELSIUS Itself, GPU_TEMPERATURE_MAX_CELSIUS Itself
    }
    GpuMemory = GpuMemoryUsedRatio { GPU_MEMORY_TOTAL_BYTES Total, GPU_MEMORY_USED_BYTES Used }
    GpuThrottled = GpuThrottled { GPU_THROTTLE_REASON Reason, GPU_THROTTLED Held }
    CpuThrottled = CpuThrottled { CPU_THROTTLED Itself }
    CgroupMemory = CgroupMemoryUsedRatio {
        CGROUP_MEMORY_LIMIT_BYTES Total, CGROUP_MEMORY_USED_BYTES Used
    }
    Inodes = DiskInodesUsedRatio {
        DISK_INODES Total, DISK_INODES_USED Used, DISK_READ_ONLY Closed
    }
    FileHandles = FileHandlesUsedRatio { FILE_HANDLES_LIMIT Total, FILE_HANDLES Used }
    MemoryStalled = MemoryStalledRatio { PRESSURE_FULL_RATIO OfMemory }
    GpusLost = GpusLost { GPUS_LOST Itself }
    ClockUnsynchronized = ClockUnsynchronized { CLOCK_SYNCHRONIZED Not }
    SensorsUnread = SensorsUnread { SENSORS_UNREAD Itself }
}

/// Which of several values of each figure is the worst: that of the sensor whose readings are the
/// figure itself, and the greatest of all computed ones.
pub(super) const WORST: [Direction; SENSED] = {
    let mut worst = [Direction::HighIsWorse; SENSED];
    let mut at = 0;
    while at < INPUTS.len() {
        let Input { sensor, figure, part } = &INPUTS[at];
        if matches!(part, Part::Itself) {
            worst[*figure as usize] = sensor.direction;
        }
        at += 1;
    }
    worst
};

/// By the sensor's place in the catalogue.
static BY_PLACE: LazyLock<Vec<Vec<&Input>>> = LazyLock::new(|| {
    let of = |sensor: &&Sensor| INPUTS.iter().filter(|of| of.sensor.name == sensor.name).collect();
    CATALOGUE.iter().map(of).collect()
});

const CPU_TEMPERATURE_PLACE: usize = place_of(&CPU_TEMPERATURE_CELSIUS);
const TEMPERATURE_PLACE: usize = place_of(&TEMPERATURE_CELSIUS);

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

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorstReadings<'r>([Option<(f64, &'r Labels)>; SENSED]);

impl<'r> WorstReadings<'r> {
    /// Processes the readings whose labels fit.
    pub(crate) fn of(readings: &'r ReadingTable, fits: impl Fn(&Labels) -> bool) -> Self {
        let mut worst = Self::default();
        let mut stores: BTreeMap<_, Store> = BTreeMap::new();
        let thermometers = Thermometers::of(readings);

        for reading in readings.iter() {
            let inputs = &BY_PLACE[reading.place];
            let (Some(value), labels) = (reading.value, reading.labels) else { continue };
            if inputs.is_empty() || !fits(labels) {
                continue;
            }

            for &&Input { figure, part, .. } in inputs {
                let of = (figure, labels);
                match part {
                    Part::Itself => worst.offer(figure, value, labels),
                    Part::Not => worst.offer(figure, 1.0 - value, labels),
                    Part::OfMemory if labels.get("resource") == Some("memory") => {
                        worst.offer(figure, value, labels);
                    }
                    Part::Thermometer if thermometers.count(&reading) => {
                        worst.offer(figure, value, labels);
                    }
                    Part::OfMemory | Part::Thermometer => {}
                    Part::Total => stores.entry(of).or_default().total = Some(value),
                    Part::Used => stores.entry(of).or_default().used = Some(value),
                    Part::Available => stores.entry(of).or_default().available = Some(value),
                    Part::Closed => stores.entry(of).or_default().closed = value > 0.0,
                    Part::Reason => {
                        worst.count(figure, is_held_down(labels) && value > 0.0, labels);
                    }
                    Part::Held => worst.count(figure, value > 0.0, labels),
                }
            }
        }

        // A ratio takes the total and what is used or available of it, in readings of their own.
        for ((of, labels), store) in stores {
            if let Some(ratio) = store.used_ratio() {
                worst.offer(of, ratio, labels);
            }
        }

        worst
    }

    /// The worst of one.
    pub(crate) fn get(&self, of: SensedFigure) -> Option<(f64, &'r Labels)> {
        self.0[of as usize]
    }

    /// All of them, without which one each is.
    pub(crate) fn values(&self) -> [Option<f64>; SENSED] {
        self.0.map(|worst| worst.map(|(value, _)| value))
    }

    fn offer(&mut self, of: SensedFigure, value: f64, labels: &'r Labels) {
        let worst = &mut self.0[of as usize];
        if worst.is_none_or(|(known, _)| WORST[of as usize].is_worse(value, known)) {
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
    fn of(readings: &ReadingTable) -> Self {
        if readings.iter().any(|reading| reading.place == CPU_TEMPERATURE_PLACE) {
            return Self::Chosen;
        }
        let mut all = readings.iter().filter(|reading| reading.place == TEMPERATURE_PLACE);
        Self::Named { with_offset: !all.any(|reading| component(&reading).contains("tdie")) }
    }

    fn count(self, reading: &KnownReading<'_>) -> bool {
        let Self::Named { with_offset } = self else { return false };
        let component = component(reading);
        let counts = with_offset || !component.contains("tctl");
        counts && PROCESSORS.iter().any(|name| component.contains(name))
    }
}

fn component(reading: &KnownReading<'_>) -> String {
    reading.labels.get("component").unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
