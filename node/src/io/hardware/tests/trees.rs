//! Every reading of recorded machines, against the values that a person expects; and what becomes
//! of readings when files of such a machine go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::limits::SENSOR_EVERY;
use plimsoll_schemas::hardware::{CATALOGUE, Reading, SensorState, sensor};
use plimsoll_schemas::time::Mono;
use tempfile::TempDir;

use super::super::devices::Devices;
use super::super::gather::Gather;
use super::super::host::Host;
use super::super::root::Root;

#[path = "../../../../tests/trees/unpack.rs"]
mod unpack;

const TREES: [&str; 5] = ["server", "laptop", "jetson", "container", "container-v1"];

/// A machine that is sampled twice, a second apart.
struct Recorded {
    text: String,
    folder: TempDir,
    host: Host,
    devices: Devices,
}

fn text_of(tree: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees");
    fs::read_to_string(folder.join(format!("{tree}.txt"))).unwrap()
}

impl Recorded {
    fn new(tree: &str) -> Self {
        let (text, folder) = (text_of(tree), tempfile::tempdir().unwrap());
        unpack::unpack(&text, folder.path(), false);
        let root = Root::new(folder.path());
        let devices = Devices::new(&root, SENSOR_EVERY);
        let mut recorded = Self { text, folder, host: Host::new(&root), devices };
        recorded.devices.wait_patiently();
        recorded.look(1);
        recorded
    }

    fn look(&mut self, second: u64) -> Vec<Reading> {
        let (now, mut gather) = (Mono(second * 1_000_000_000), Gather::default());
        self.host.gather_scalars(now, &mut gather);
        gather.append(self.devices.sample(now));
        self.host.gather_lists(now, &mut gather);
        gather.finish_sample()
    }

    fn later(&mut self) -> Vec<Reading> {
        unpack::unpack(&self.text, self.folder.path(), true);
        self.look(2)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }
}

/// As a line of the expected readings; what this process costs is no recorded machine's.
fn got(readings: &[Reading]) -> BTreeMap<String, String> {
    let recorded = readings.iter().filter(|reading| !reading.sensor.starts_with("process_"));
    let got = recorded.map(|reading| {
        let labels = reading.labels.iter().map(|(key, value)| format!(" {key}={value}"));
        let figure = match (reading.value, reading.reason.as_deref()) {
            (Some(value), None) => value.to_string(),
            (None, reason) => format!("{} {}", reading.state.as_str(), reason.unwrap()),
            (Some(_), Some(_)) => panic!("{reading:?} has a value and a reason"),
        };
        (format!("{}{}", reading.sensor, labels.collect::<String>()), figure)
    });
    let got: BTreeMap<_, _> = got.collect();
    assert_eq!(got.len(), readings.len() - 2, "each sensor comes once");
    got
}

/// Lines before the first file, such as `cpu_core_usage_ratio core=1 | 0.5`; `any` matches any
/// value.
fn expected(tree: &str) -> BTreeMap<String, String> {
    let text = text_of(tree);
    let head = text.lines().take_while(|line| !line.starts_with('='));
    let lines = head.filter_map(|line| line.split_once(" | "));
    lines.map(|(sensor, figure)| (sensor.to_owned(), figure.to_owned())).collect()
}

#[test]
fn every_recorded_machine_is_read_as_a_person_reads_it() {
    for tree in TREES {
        let got = got(&Recorded::new(tree).later());
        let expected = expected(tree);
        for (sensor, wanted) in &expected {
            let found = got.get(sensor).map_or("nothing", String::as_str);
            let fits = wanted == found || (wanted == "any" && found.parse::<f64>().is_ok());
            assert!(fits, "{tree}: {sensor} is {found}, expected {wanted}");
        }
        // A new sensor needs its line only where a machine has what it reads.
        let is_surplus = |(sensor, figure): &(&String, &String)| {
            !expected.contains_key(*sensor) && *figure != NO_FILE
        };
        let surplus: Vec<_> = got.iter().filter(is_surplus).collect();
        assert_eq!(surplus, Vec::<(&String, &String)>::new(), "{tree}: add `SENSOR | VALUE`");
    }
}

#[test]
fn every_sensor_of_the_host_has_a_producer() {
    let of_others = ["gpu", "watched_", "sampling_"];
    let produced: BTreeSet<String> = TREES
        .iter()
        .flat_map(|tree| Recorded::new(tree).later())
        .map(|reading| reading.sensor)
        .collect();
    let catalogue = CATALOGUE.iter().map(|sensor| sensor.name);
    let without: Vec<_> = catalogue
        .filter(|name| !of_others.iter().any(|prefix| name.starts_with(prefix)))
        .filter(|name| !produced.contains(*name))
        .collect();
    assert_eq!(without, Vec::<&str>::new());
}

/// What can become of a file between two samples.
enum Fault {
    Gone,
    Holds(&'static str),
    Megabytes(usize),
    /// Reading it comes to whatever reading that file comes to.
    Like(&'static str),
}

use Fault::{Gone, Holds, Like, Megabytes};

impl Fault {
    fn strike(&self, path: &Path) {
        match self {
            Gone => {}
            Holds(text) => return unpack::write(path, text),
            Megabytes(count) => return unpack::write(path, &"7".repeat(count << 20)),
            Like(other) => {
                fs::remove_file(path).unwrap();
                return symlink(other, path).unwrap();
            }
        }
        fs::remove_file(path).or_else(|_| fs::remove_dir_all(path)).unwrap();
    }
}

/// Returns an input error for any read from its beginning.
const BAD_DISK: Fault = Like("/proc/self/mem");
/// May be written to only, even by an administrator. Not below `/sys`, which some containers lack.
const SHUT: Fault = Like("/proc/sys/vm/drop_caches");

const HOTTEST: &str = "sys/class/hwmon/hwmon2/temp1_input";
const PACKAGE: &str = "temperature_celsius component=coretemp Package id 1";
const PROCESSORS: &str = "cpu_temperature_celsius source=coretemp";
const NO_FILE: &str = "unsupported not_found";
const SHUT_OUT: &str = "failed no_permission";
const NO_NUMBER: &str = "failed not_a_number";

/// A file of the server, what becomes of it, and every reading that differs then.
type Case = (&'static str, Fault, &'static [(&'static str, &'static str)]);

const CASES: &[Case] = &[
    (HOTTEST, Gone, &[(PACKAGE, NO_FILE), (PROCESSORS, "71")]),
    (HOTTEST, BAD_DISK, &[(PACKAGE, "failed io_error"), (PROCESSORS, "71")]),
    (
        HOTTEST,
        Holds("9223372036854775794"),
        &[(PACKAGE, "failed out_of_range"), (PROCESSORS, "71")],
    ),
    (HOTTEST, Megabytes(10), &[(PACKAGE, "failed too_long"), (PROCESSORS, "71")]),
    (
        "proc/pressure/io",
        SHUT,
        &[
            ("pressure_some_ratio resource=io", SHUT_OUT),
            ("pressure_full_ratio resource=io", SHUT_OUT),
            ("pressure_some_seconds_total resource=io", SHUT_OUT),
            ("pressure_full_seconds_total resource=io", SHUT_OUT),
        ],
    ),
    (
        "proc/sys/fs/file-nr",
        Holds("many"),
        &[("file_handles", NO_NUMBER), ("file_handles_limit", NO_NUMBER)],
    ),
    ("proc/uptime", Holds(""), &[("uptime_seconds", NO_NUMBER)]),
    (
        "proc/loadavg",
        Megabytes(2),
        &[("load1", NO_NUMBER), ("load5", NO_NUMBER), ("load15", NO_NUMBER)],
    ),
    (
        "sys/fs/cgroup/system.slice/plimsoll-node.service/memory.max",
        Holds("lots"),
        &[("cgroup_memory_limit_bytes", NO_NUMBER)],
    ),
    (
        "sys/fs/cgroup/system.slice/plimsoll-node.service/memory.stat",
        BAD_DISK,
        &[("cgroup_memory_used_bytes", "failed io_error")],
    ),
    (
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
        Holds("fast"),
        &[("cpu_frequency_hertz core=0", NO_NUMBER), ("cpu_frequency_mean_hertz", "1965000000")],
    ),
    (
        "sys/devices/system/cpu/cpu0",
        Gone,
        &[("cpu_frequency_hertz core=0", NO_FILE), ("cpu_frequency_mean_hertz", "1965000000")],
    ),
    (
        "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
        BAD_DISK,
        &[("cpu_thermal_throttle_total level=core package=0", "failed io_error")],
    ),
    (
        "proc/net/snmp",
        Holds("Tcp: RetransSegs\nTcp: -5\n"),
        &[("tcp_retransmits_total", NO_NUMBER)],
    ),
];

#[test]
fn what_goes_wrong_with_one_file_costs_its_own_readings_and_no_other() {
    let right = got(&Recorded::new("server").later());
    for (path, fault, differing) in CASES {
        let mut recorded = Recorded::new("server");
        fault.strike(&recorded.path(path));
        let mut wanted = right.clone();
        for (sensor, figure) in *differing {
            let before = wanted.insert((*sensor).to_owned(), (*figure).to_owned());
            assert!(before.is_some(), "{sensor}");
        }
        let found = got(&recorded.later());
        let space = |sensor: &String| sensor.starts_with("disk_") && sensor.contains("mount=/");
        for (sensor, wanted) in wanted.iter().filter(|(sensor, _)| !space(sensor)) {
            assert_eq!(found.get(sensor), Some(wanted), "{path}: {sensor}");
        }
        assert_eq!(found.len(), wanted.len(), "{path}");
    }
}

#[test]
fn a_whole_tree_of_garbage_is_survived_and_no_reading_of_it_has_a_value() {
    for garbage in [Holds(""), Holds("\u{0}x -1 : ,\n"), Megabytes(2), BAD_DISK, Gone] {
        let mut recorded = Recorded::new("server");
        let files: Vec<String> = recorded
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("== ").or(line.strip_prefix("= ")))
            .map(|line| line.split(' ').next().unwrap().to_owned())
            .collect();
        unpack::unpack(&recorded.text, recorded.folder.path(), true);
        for file in files.iter().collect::<BTreeSet<_>>() {
            garbage.strike(&recorded.path(file));
        }
        let readings = recorded.look(2);
        let values = readings.iter().filter(|reading| reading.state == SensorState::Ok);
        let values: Vec<_> = values.map(|reading| reading.sensor.as_str()).collect();
        let known = ["process_resident_bytes", "process_cpu_ratio", "sensors_unread"];
        let remembered = ["cpu_frequency_baseline_hertz", "cpu_thermal_throttle_total"];
        let made_up: Vec<_> = values
            .iter()
            .filter(|sensor| !known.contains(sensor) && !remembered.contains(sensor))
            .collect();
        assert_eq!(made_up, Vec::<&&str>::new());
        assert!(readings.iter().all(|reading| sensor(&reading.sensor).is_some()));
    }
}

#[test]
fn a_new_thermometer_is_found_within_a_minute_and_a_removed_one_is_dropped() {
    let mut recorded = Recorded::new("laptop");
    let found = |readings: &[Reading], component: &str| {
        let labels = |reading: &&Reading| reading.labels.get("component") == Some(component);
        readings.iter().find(labels).map(|reading| reading.value.ok_or(reading.state))
    };
    let (gone, came) = ("amdgpu edge", "gpu_card temp1");
    fs::remove_dir_all(recorded.path("sys/class/hwmon/hwmon4")).unwrap();
    unpack::write(&recorded.path("sys/class/hwmon/hwmon9/name"), "gpu_card\n");
    unpack::write(&recorded.path("sys/class/hwmon/hwmon9/temp1_input"), "50000\n");
    let next = recorded.look(2);
    assert_eq!(found(&next, gone), Some(Err(SensorState::Unsupported)));
    let after = recorded.look(3);
    assert_eq!((found(&after, gone), found(&after, came)), (None, Some(Ok(50.0))));
    unpack::write(&recorded.path("sys/class/hwmon/hwmon10/name"), "late\n");
    unpack::write(&recorded.path("sys/class/hwmon/hwmon10/temp1_input"), "20000\n");
    assert_eq!(found(&recorded.look(62), "late temp1"), None);
    assert_eq!(found(&recorded.look(63), "late temp1"), Some(Ok(20.0)));
}
