//! The sensor catalogue: one row for each sensor, from which everything else is derived.
//!
//! A sensor is one row here, and a reader in the node: RECIPES.md has the steps. `gauge` is a value
//! whose highest reading is the worst, `gauge_low` one whose lowest reading is the worst, `counter`
//! a total that only grows within one boot of the machine. The order of rows is free: names are
//! stored and sent, places never are.
//!
//! DESIGN S11.

/// One sensor, as the mesh names it.
#[derive(Debug, PartialEq, Eq)]
pub struct Sensor {
    /// Name with its base unit at the end; the metric is `plimsoll_node_<name>`.
    pub name: &'static str,
    /// One line of help text.
    pub help: &'static str,
    /// True when the value only ever grows within one boot of the machine.
    pub cumulative: bool,
    /// Which of several readings is the worst.
    pub direction: Direction,
}

impl Sensor {
    /// The base unit with which the name ends; `None` for a plain number: a count, a load, a state.
    #[must_use]
    pub fn unit(&self) -> Option<&'static str> {
        unit_of(self.name.strip_suffix("_total").unwrap_or(self.name))
    }
}

/// The unit with which a name without `_total` ends, of a sensor or a metric.
#[must_use]
pub fn unit_of(name: &str) -> Option<&'static str> {
    let ends = |unit: &&str| name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'));
    UNITS.into_iter().find(|unit| ends(unit))
}

/// The units of sensors and of metrics. The document of the API lists those that sensors have.
const UNITS: [&str; 11] = [
    "bytes",
    "bytes_per_second",
    "celsius",
    "cores",
    "hertz",
    "joules",
    "percent",
    "ratio",
    "seconds",
    "volts",
    "watts",
];

/// Which of several values of one sensor or metric is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The maximum: of two temperatures the higher one.
    HighIsWorse,
    /// The least: of two amounts of free memory the smaller one.
    LowIsWorse,
}

impl Direction {
    /// Whether `value` is worse than `other`.
    #[must_use]
    pub fn is_worse(self, value: f64, other: f64) -> bool {
        match self {
            Self::HighIsWorse => value > other,
            Self::LowIsWorse => value < other,
        }
    }
}

macro_rules! catalogue {
    ($($constant:ident $kind:ident $name:literal $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Sensor = catalogue!(@ $kind $name $help);
        )*

        /// Every sensor of this version.
        pub const CATALOGUE: &[&Sensor] = &[$(&$constant),*];
    };
    (@ gauge $name:literal $help:literal) => {
        catalogue!(@ $name, $help, false, HighIsWorse)
    };
    (@ gauge_low $name:literal $help:literal) => {
        catalogue!(@ $name, $help, false, LowIsWorse)
    };
    (@ counter $name:literal $help:literal) => {
        catalogue!(@ $name, $help, true, HighIsWorse)
    };
    (@ $name:literal, $help:literal, $cumulative:literal, $direction:ident) => {
        Sensor {
            name: $name,
            help: $help,
            cumulative: $cumulative,
            direction: Direction::$direction,
        }
    };
}

catalogue! {
    CPU_USAGE_RATIO gauge "cpu_usage_ratio"
        "Share of all CPU time in use, 0 to 1";
    CPU_CORE_USAGE_RATIO gauge "cpu_core_usage_ratio"
        "Share of one core's time in use, 0 to 1";
    CPU_FREQUENCY_HERTZ gauge_low "cpu_frequency_hertz"
        "Clock frequency of one core";
    LOAD1 gauge "load1"
        "Runnable tasks, averaged over one minute";
    LOAD5 gauge "load5"
        "Runnable tasks, averaged over five minutes";
    LOAD15 gauge "load15"
        "Runnable tasks, averaged over fifteen minutes";
    MEMORY_TOTAL_BYTES gauge "memory_total_bytes"
        "Physical memory";
    MEMORY_USED_BYTES gauge "memory_used_bytes"
        "Physical memory in use";
    MEMORY_AVAILABLE_BYTES gauge_low "memory_available_bytes"
        "Physical memory available without swapping";
    SWAP_TOTAL_BYTES gauge "swap_total_bytes"
        "Swap space";
    SWAP_USED_BYTES gauge "swap_used_bytes"
        "Swap space in use";
    DISK_TOTAL_BYTES gauge "disk_total_bytes"
        "Size of one mounted file system";
    DISK_AVAILABLE_BYTES gauge_low "disk_available_bytes"
        "Space left on one mounted file system, for ordinary users";
    DISK_USED_BYTES gauge "disk_used_bytes"
        "Space in use on one mounted file system, without what is kept for its administrator";
    NETWORK_RECEIVE_BYTES_TOTAL counter "network_receive_bytes_total"
        "Bytes received on one interface";
    NETWORK_TRANSMIT_BYTES_TOTAL counter "network_transmit_bytes_total"
        "Bytes sent on one interface";
    NETWORK_RECEIVE_ERRORS_TOTAL counter "network_receive_errors_total"
        "Packets received with errors on one interface";
    NETWORK_TRANSMIT_ERRORS_TOTAL counter "network_transmit_errors_total"
        "Packets that could not be sent on one interface";
    TEMPERATURE_CELSIUS gauge "temperature_celsius"
        "Temperature of one component";
    PROCESS_CPU_RATIO gauge "process_cpu_ratio"
        "CPU time of the node agent itself, 1 is one whole core";
    PROCESS_RESIDENT_BYTES gauge "process_resident_bytes"
        "Resident memory of the node agent itself";
    GPU_UTILIZATION_RATIO gauge "gpu_utilization_ratio"
        "Share of time in which a kernel ran on one GPU, 0 to 1";
    GPU_MEMORY_TOTAL_BYTES gauge "gpu_memory_total_bytes"
        "Memory of one GPU";
    GPU_MEMORY_USED_BYTES gauge "gpu_memory_used_bytes"
        "Memory in use on one GPU";
    GPU_MEMORY_FREE_BYTES gauge_low "gpu_memory_free_bytes"
        "Memory left on one GPU";
    GPU_TEMPERATURE_CELSIUS gauge "gpu_temperature_celsius"
        "Temperature of one GPU's die";
    GPU_POWER_WATTS gauge "gpu_power_watts"
        "Power draw of one GPU";
    GPU_CLOCK_HERTZ gauge_low "gpu_clock_hertz"
        "Clock frequency of one domain of one GPU";
    GPU_THROTTLE_REASON gauge "gpu_throttle_reason"
        "1 while one GPU's clocks are held down for the named reason";
    CPU_IOWAIT_RATIO gauge "cpu_iowait_ratio"
        "Share of all CPU time that waited for a disk, 0 to 1";
    CPU_STEAL_RATIO gauge "cpu_steal_ratio"
        "Share of all CPU time that a hypervisor gave to other machines, 0 to 1";
    CPU_TEMPERATURE_CELSIUS gauge "cpu_temperature_celsius"
        "Temperature of the processors: the hottest sensor of the best available driver";
    CPU_FREQUENCY_MEAN_HERTZ gauge_low "cpu_frequency_mean_hertz"
        "Clock frequency, averaged over all cores";
    CPU_FREQUENCY_BASELINE_HERTZ gauge "cpu_frequency_baseline_hertz"
        "Clock frequency that the processors sustain when nothing holds them down";
    CPU_THROTTLED gauge "cpu_throttled"
        "1 while the processors run 20 % below their baseline and above 70 degrees";
    CPU_THROTTLED_SECONDS_TOTAL counter "cpu_throttled_seconds_total"
        "Time for which the processors were throttled, since the node agent started";
    CPU_THERMAL_THROTTLE_TOTAL counter "cpu_thermal_throttle_total"
        "Times that the kernel saw processors slow down for heat, by level";
    TASKS_RUNNING gauge "tasks_running"
        "Tasks that run or could run now";
    TASKS_BLOCKED gauge "tasks_blocked"
        "Tasks that wait for a disk now";
    PRESSURE_SOME_RATIO gauge "pressure_some_ratio"
        "Share of the last ten seconds in which some task waited for a resource, 0 to 1";
    PRESSURE_FULL_RATIO gauge "pressure_full_ratio"
        "Share of the last ten seconds in which all tasks waited for a resource, 0 to 1";
    PRESSURE_SOME_SECONDS_TOTAL counter "pressure_some_seconds_total"
        "Time in which some task waited for a resource";
    PRESSURE_FULL_SECONDS_TOTAL counter "pressure_full_seconds_total"
        "Time in which all tasks waited for a resource";
    CGROUP_MEMORY_LIMIT_BYTES gauge "cgroup_memory_limit_bytes"
        "Memory that this control group and those above it may use";
    CGROUP_MEMORY_USED_BYTES gauge "cgroup_memory_used_bytes"
        "Memory that the group with this limit uses, without file pages that are given up first";
    CGROUP_MEMORY_EVENTS_TOTAL counter "cgroup_memory_events_total"
        "Times that the group with this limit met a bound of memory, by event";
    CGROUP_CPU_LIMIT_CORES gauge "cgroup_cpu_limit_cores"
        "Cores' worth of CPU time that this control group may use";
    CGROUP_CPU_SECONDS_TOTAL counter "cgroup_cpu_seconds_total"
        "CPU time that this control group used";
    CGROUP_CPU_PERIODS_TOTAL counter "cgroup_cpu_periods_total"
        "Periods in which the control group with this CPU limit ran";
    CGROUP_CPU_THROTTLED_PERIODS_TOTAL counter "cgroup_cpu_throttled_periods_total"
        "Periods in which the control group used up its CPU limit";
    CGROUP_CPU_THROTTLED_SECONDS_TOTAL counter "cgroup_cpu_throttled_seconds_total"
        "Time that tasks of the control group waited for the next period";
    CGROUP_TASKS gauge "cgroup_tasks"
        "Tasks in this control group";
    CGROUP_TASKS_LIMIT gauge "cgroup_tasks_limit"
        "Tasks that this control group may have";
    MEMORY_CACHED_BYTES gauge "memory_cached_bytes"
        "Physical memory that holds file pages";
    MEMORY_DIRTY_BYTES gauge "memory_dirty_bytes"
        "Physical memory that waits to be written to disk";
    SWAP_IN_BYTES_TOTAL counter "swap_in_bytes_total"
        "Bytes read back from swap space";
    SWAP_OUT_BYTES_TOTAL counter "swap_out_bytes_total"
        "Bytes written to swap space";
    PAGE_FAULTS_MAJOR_TOTAL counter "page_faults_major_total"
        "Page faults that needed a disk";
    OOM_KILLS_TOTAL counter "oom_kills_total"
        "Processes that the kernel killed because memory ran out";
    DISK_INODES gauge "disk_inodes"
        "Files that one mounted file system may hold";
    DISK_INODES_USED gauge "disk_inodes_used"
        "Files on one mounted file system";
    DISK_READ_ONLY gauge "disk_read_only"
        "1 while one mounted file system takes no writes";
    DISK_READ_BYTES_TOTAL counter "disk_read_bytes_total"
        "Bytes read from one device";
    DISK_WRITE_BYTES_TOTAL counter "disk_write_bytes_total"
        "Bytes written to one device";
    DISK_READS_TOTAL counter "disk_reads_total"
        "Reads from one device that are done";
    DISK_WRITES_TOTAL counter "disk_writes_total"
        "Writes to one device that are done";
    DISK_READ_SECONDS_TOTAL counter "disk_read_seconds_total"
        "Total duration of reads from one device";
    DISK_WRITE_SECONDS_TOTAL counter "disk_write_seconds_total"
        "Total duration of writes to one device";
    DISK_BUSY_SECONDS_TOTAL counter "disk_busy_seconds_total"
        "Time in which one device had something to do";
    NETWORK_RECEIVE_PACKETS_TOTAL counter "network_receive_packets_total"
        "Packets received on one interface";
    NETWORK_TRANSMIT_PACKETS_TOTAL counter "network_transmit_packets_total"
        "Packets sent on one interface";
    NETWORK_RECEIVE_DROPS_TOTAL counter "network_receive_drops_total"
        "Packets received on one interface and dropped";
    NETWORK_TRANSMIT_DROPS_TOTAL counter "network_transmit_drops_total"
        "Packets dropped before one interface sent them";
    TCP_RETRANSMITS_TOTAL counter "tcp_retransmits_total"
        "TCP segments retransmitted";
    FILE_HANDLES gauge "file_handles"
        "Open files of the whole machine";
    FILE_HANDLES_LIMIT gauge "file_handles_limit"
        "Files that the whole machine may have open";
    UPTIME_SECONDS gauge "uptime_seconds"
        "Time since the machine was started";
    CLOCK_SYNCHRONIZED gauge_low "clock_synchronized"
        "1 while the kernel's clock is synchronized";
    CLOCK_OFFSET_SECONDS gauge "clock_offset_seconds"
        "Offset of the kernel's clock, as its synchronization last measured";
    CLOCK_ERROR_SECONDS gauge "clock_error_seconds"
        "Largest possible error of the kernel's clock";
    WATCHED_PROCESSES gauge "watched_processes"
        "Processes that one watch finds";
    WATCHED_CPU_SECONDS_TOTAL counter "watched_cpu_seconds_total"
        "CPU time of the processes of one watch since the node agent started";
    WATCHED_CPU_RATIO gauge "watched_cpu_ratio"
        "CPU time of the processes of one watch, 1 is one whole core";
    WATCHED_RESIDENT_BYTES gauge "watched_resident_bytes"
        "Resident memory of the processes of one watch";
    WATCHED_PEAK_BYTES gauge "watched_peak_bytes"
        "Sum of the highest resident memory of each process of one watch";
    WATCHED_PROPORTIONAL_BYTES gauge "watched_proportional_bytes"
        "Resident memory of the processes of one watch, of shared pages their part";
    WATCHED_SWAP_BYTES gauge "watched_swap_bytes"
        "Memory of the processes of one watch that is swapped out";
    WATCHED_GROWTH_BYTES_PER_SECOND gauge "watched_growth_bytes_per_second"
        "Steady growth of the resident memory of one watch over up to four hours, 0 if none is certain";
    WATCHED_LIMIT_EARLIEST_SECONDS gauge_low "watched_limit_earliest_seconds"
        "Time until the memory of one watch reaches its limit, at the upper end of its growth";
    WATCHED_LIMIT_LATEST_SECONDS gauge_low "watched_limit_latest_seconds"
        "Time until the memory of one watch reaches its limit, at the lower end of its growth";
    WATCHED_THREADS gauge "watched_threads"
        "Threads of the processes of one watch";
    WATCHED_FAULTS_MINOR_TOTAL counter "watched_faults_minor_total"
        "Page faults of the processes of one watch that needed no disk, since the agent started";
    WATCHED_FAULTS_MAJOR_TOTAL counter "watched_faults_major_total"
        "Page faults of the processes of one watch that needed a disk, since the agent started";
    SAMPLING_CPU_SECONDS_TOTAL counter "sampling_cpu_seconds_total"
        "CPU time of one thread that reads sensors";
    SAMPLING_WORST_SECONDS gauge "sampling_worst_seconds"
        "Longest duration of one thread for its sensors within the last interval";
    GPU_UTILIZATION_MIN_RATIO gauge "gpu_utilization_min_ratio"
        "Smallest share of time in which a kernel ran on one GPU, of all polls of an interval";
    GPU_UTILIZATION_MAX_RATIO gauge "gpu_utilization_max_ratio"
        "Largest share of time in which a kernel ran on one GPU, of all polls of an interval";
    GPU_MEMORY_UTILIZATION_RATIO gauge "gpu_memory_utilization_ratio"
        "Share of time in which one GPU's memory was read or written, 0 to 1";
    GPU_MEMORY_USED_MIN_BYTES gauge "gpu_memory_used_min_bytes"
        "Smallest memory in use on one GPU, of all polls of an interval";
    GPU_MEMORY_USED_MAX_BYTES gauge "gpu_memory_used_max_bytes"
        "Largest memory in use on one GPU, of all polls of an interval";
    GPU_TEMPERATURE_MIN_CELSIUS gauge "gpu_temperature_min_celsius"
        "Lowest temperature of one GPU's die, of all polls of an interval";
    GPU_TEMPERATURE_MAX_CELSIUS gauge "gpu_temperature_max_celsius"
        "Highest temperature of one GPU's die, of all polls of an interval";
    GPU_TEMPERATURE_SLOWDOWN_CELSIUS gauge "gpu_temperature_slowdown_celsius"
        "Temperature at which one GPU slows itself down";
    GPU_POWER_MIN_WATTS gauge "gpu_power_min_watts"
        "Lowest power draw of one GPU, of all polls of an interval";
    GPU_POWER_MAX_WATTS gauge "gpu_power_max_watts"
        "Highest power draw of one GPU, of all polls of an interval";
    GPU_POWER_LIMIT_WATTS gauge "gpu_power_limit_watts"
        "Power that one GPU may draw";
    GPU_ENERGY_JOULES_TOTAL counter "gpu_energy_joules_total"
        "Energy that one GPU used since its driver was loaded";
    GPU_CLOCK_MIN_HERTZ gauge_low "gpu_clock_min_hertz"
        "Lowest clock frequency of one domain of one GPU, of all polls of an interval";
    GPU_CLOCK_MAX_HERTZ gauge_low "gpu_clock_max_hertz"
        "Highest clock frequency of one domain of one GPU, of all polls of an interval";
    GPU_CLOCK_LIMIT_HERTZ gauge "gpu_clock_limit_hertz"
        "Clock frequency that one domain of one GPU can reach";
    GPU_THROTTLED gauge "gpu_throttled"
        "1 while a busy GPU above 75 degrees runs 20 % below its clock when cool and busy";
    GPU_THROTTLE_SECONDS_TOTAL counter "gpu_throttle_seconds_total"
        "Time for which one GPU's clocks were held down for the named reason";
    GPU_PCIE_RECEIVE_BYTES_PER_SECOND gauge "gpu_pcie_receive_bytes_per_second"
        "Rate at which one GPU read over PCIe";
    GPU_PCIE_TRANSMIT_BYTES_PER_SECOND gauge "gpu_pcie_transmit_bytes_per_second"
        "Rate at which one GPU wrote over PCIe";
    GPU_PCIE_REPLAYS_TOTAL counter "gpu_pcie_replays_total"
        "Packets that one GPU retransmitted over PCIe";
    GPU_PCIE_LINK_GENERATION gauge_low "gpu_pcie_link_generation"
        "Generation of PCIe that one GPU's link uses now";
    GPU_PCIE_LINK_WIDTH gauge_low "gpu_pcie_link_width"
        "Lanes of PCIe that one GPU's link uses now";
    GPU_NVLINK_UP gauge_low "gpu_nvlink_up"
        "1 while one NVLink of one GPU works";
    GPU_NVLINK_ERRORS_TOTAL counter "gpu_nvlink_errors_total"
        "Errors on the NVLinks of one GPU, by kind";
    GPU_ECC_ERRORS_TOTAL counter "gpu_ecc_errors_total"
        "Memory errors of one GPU since its driver was loaded: corrected, uncorrected";
    GPU_RETIRED_PAGES gauge "gpu_retired_pages"
        "Pages of one GPU's memory that are used no more, by kind of error";
    GPU_REMAPPED_ROWS gauge "gpu_remapped_rows"
        "Rows of one GPU's memory that were replaced by spare ones, by kind of error";
    GPU_FAULTS_TOTAL counter "gpu_faults_total"
        "Faults that one GPU's driver reported since the node agent started";
    GPU_XID_TOTAL counter "gpu_xid_total"
        "GPU driver faults by their XID number";
    GPU_MIG_ENABLED gauge "gpu_mig_enabled"
        "1 while one GPU is divided into instances";
    GPU_FAN_RATIO gauge "gpu_fan_ratio"
        "Speed of one fan of one GPU as a share of its maximum";
    GPUS_LISTED gauge "gpus_listed"
        "GPUs that the driver lists now";
    GPUS_LOST gauge "gpus_lost"
        "GPUs that were listed once and do not answer now";
    GPUS_DRIVER_INFO gauge "gpus_driver_info"
        "Version of the driver of the GPUs, as a label; always 1";
    MACHINE_INFO gauge "machine_info"
        "Processors, kernel and operating system of the machine, as labels; always 1";
    SENSORS_UNREAD gauge "sensors_unread"
        "Items of one list, such as file systems, that are not read: they hang, or exceed a bound";
}

/// The catalogue's entry under `name`.
#[must_use]
pub fn sensor(name: &str) -> Option<&'static Sensor> {
    CATALOGUE.iter().copied().find(|sensor| sensor.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_mark_counters() {
        for (index, one) in CATALOGUE.iter().enumerate() {
            assert_eq!(one.cumulative, one.name.ends_with("_total"), "{}", one.name);
            assert!(CATALOGUE[index + 1..].iter().all(|other| other.name != one.name));
            assert_eq!(sensor(one.name), Some(*one));
        }
    }

    #[test]
    fn the_unit_is_the_end_of_the_name() {
        let table = [
            (&CPU_USAGE_RATIO, Some("ratio")),
            (&NETWORK_RECEIVE_BYTES_TOTAL, Some("bytes")),
            (&GPU_PCIE_RECEIVE_BYTES_PER_SECOND, Some("bytes_per_second")),
            (&CGROUP_CPU_LIMIT_CORES, Some("cores")),
            (&LOAD1, None),
            (&OOM_KILLS_TOTAL, None),
        ];
        for (sensor, unit) in table {
            assert_eq!(sensor.unit(), unit, "{}", sensor.name);
        }
    }

    /// A new unit belongs to `UNITS`; a new kind of plain number is added here.
    #[test]
    fn a_name_without_a_unit_ends_in_what_it_counts() {
        const COUNTED: &str = "blocked drops enabled errors events faults generation handles info \
            inodes kills limit listed load1 load15 load5 lost major minor only packets pages periods \
            processes reads reason replays retransmits rows running synchronized tasks threads \
            throttle throttled unread up used width writes xid";
        for sensor in CATALOGUE.iter().filter(|sensor| sensor.unit().is_none()) {
            let name = sensor.name.trim_end_matches("_total");
            let last = name.rsplit('_').next().unwrap();
            assert!(COUNTED.split_whitespace().any(|word| word == last), "{}", sensor.name);
        }
    }

    #[test]
    fn the_worst_of_two_readings_depends_on_the_sensor() {
        assert!(GPU_TEMPERATURE_CELSIUS.direction.is_worse(90.0, 60.0));
        assert!(MEMORY_AVAILABLE_BYTES.direction.is_worse(1e6, 1e9));
    }
}
