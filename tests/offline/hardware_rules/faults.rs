//! Faults of a machine, and their repairs.

use plimsoll_schemas::hardware::Reading;

use super::machine::{Machine, TREE};

/// One rule, what fires it and what resolves it.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) rule: &'static str,
    /// Part of the names of the sensors concerned.
    pub(crate) sensors: &'static str,
    pub(crate) cause: fn(&mut Machine),
    pub(crate) repair: fn(&mut Machine),
}

impl Fault {
    /// The readings of these sensors.
    pub(crate) fn about<'s>(&self, sample: &'s [Reading]) -> Vec<&'s Reading> {
        sample.iter().filter(|reading| reading.sensor.contains(self.sensors)).collect()
    }
}

const fn fault(
    rule: &'static str,
    sensors: &'static str,
    cause: fn(&mut Machine),
    repair: fn(&mut Machine),
) -> Fault {
    Fault { rule, sensors, cause, repair }
}

const HOT: &str = "sys/class/hwmon/hwmon0/temp1_input";
const CLOCKS: [&str; 2] = [
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq",
];
const GROUP: &str = "sys/fs/cgroup/jobs/memory.current";

fn degrees(machine: &mut Machine, celsius: u32) {
    machine.file(HOT, &format!("{celsius}000\n"));
}

/// `available` of 1 000 000 kB, where 600 000 were.
fn memory(machine: &mut Machine, available: u32) {
    machine.restore(TREE);
    machine.part("proc/meminfo", "600000", &available.to_string());
}

fn back(machine: &mut Machine) {
    machine.restore(TREE);
}

pub(crate) const FILES: &[Fault] = &[
    fault("memory_high", "memory_", |m| memory(m, 140_000), |m| memory(m, 160_000)),
    fault("memory_critical", "memory_", |m| memory(m, 40_000), back),
    fault("cpu_hot", "temperature", |m| degrees(m, 76), |m| degrees(m, 75)),
    fault("cpu_critical", "temperature", |m| degrees(m, 86), back),
    fault(
        "cpu_throttled",
        "cpu_",
        |m| {
            degrees(m, 72);
            CLOCKS.into_iter().for_each(|clock| m.file(clock, "1500000\n"));
        },
        back,
    ),
    fault("cgroup_memory_high", "cgroup", |m| m.file(GROUP, "870000\n"), back),
    fault("cgroup_memory_critical", "cgroup", |m| m.file(GROUP, "970000\n"), back),
    fault(
        "cgroup_cpu_throttled",
        "cgroup_cpu",
        |m| {
            m.part("sys/fs/cgroup/jobs/cpu.stat", "nr_periods 1000", "nr_periods 1100");
            m.part("sys/fs/cgroup/jobs/cpu.stat", "nr_throttled 10", "nr_throttled 60");
        },
        |_| {},
    ),
    fault(
        "memory_stalled",
        "pressure",
        |m| m.part("proc/pressure/memory", "full avg10=0.00", "full avg10=12.50"),
        back,
    ),
    fault("sensors_unread", "sensors_unread", more_file_systems_than_are_read, back),
    fault("oom_kills", "oom", |m| m.part("proc/vmstat", "oom_kill 3", "oom_kill 4"), |_| {}),
    fault(
        "file_handles_high",
        "file_",
        |m| m.file("proc/sys/fs/file-nr", "9300\t0\t10000\n"),
        back,
    ),
];

fn more_file_systems_than_are_read(machine: &mut Machine) {
    let mounts: String =
        (0..200).map(|number| format!("/dev/osd{number} /osd/{number} xfs rw 0 0\n")).collect();
    machine.file("proc/1/mounts", &mounts);
}

fn cool(machine: &mut Machine) {
    machine.gpu("");
}

pub(crate) const GPU: &[Fault] = &[
    fault("gpu_hot", "gpu_temp", |m| m.gpu("1.temperature=76\n"), |m| m.gpu("temperature=75\n")),
    fault("gpu_memory_high", "gpu_memory", |m| m.gpu("memory_used=77309411328\n"), cool),
    fault("gpu_memory_critical", "gpu_memory", |m| m.gpu("memory_used=84000000000\n"), cool),
    fault("gpu_throttled", "throttle", |m| m.gpu("1.throttle=0x40\n"), cool),
    fault("gpu_lost", "gpus_", |m| m.gpu("1.lost=1\n"), cool),
    fault("gpu_fault", "xid", |m| m.gpu("xid=79\n"), |_| {}),
    fault("gpu_memory_errors", "ecc", |m| m.gpu("xid=79\necc_uncorrected=2\n"), |_| {}),
];

pub(crate) const FILE_SYSTEM: &[Fault] = &[
    fault("disk_high", "disk_", |m| m.fill(90), |m| m.fill(50)),
    fault("disk_full", "disk_", |m| m.fill(97), |m| m.fill(0)),
    fault("inodes_high", "inodes", |m| m.crowd(90), |m| m.crowd(50)),
    fault("inodes_full", "inodes", |m| m.crowd(97), |m| m.crowd(0)),
];
