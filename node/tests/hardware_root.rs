//! The sampler's threads on a recorded machine below another root: what it reads, what each
//! thread costs, and a device whose driver hangs.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use plimsoll_clock::Deadline;
use plimsoll_node::config::HardwareSettings;
use plimsoll_node::io::hardware::Sampler;
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::hardware::{Reading, SensorState};
use tempfile::TempDir;
use tokio::sync::mpsc::Receiver;

#[path = "trees/unpack.rs"]
mod unpack;

const SERVER: &str = include_str!("trees/server.txt");

fn recorded() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    unpack::unpack(SERVER, folder.path(), false);
    folder
}

fn start(root: &Path) -> (Sampler, Receiver<Vec<Reading>>) {
    let root = PathBuf::from(root);
    Sampler::start(
        &HardwareSettings { gpu: false, root, ..HardwareSettings::default() },
        &Supervisor::default(),
    )
}

/// The first sample of which `holds` is true; panics when none comes.
fn until(samples: &mut Receiver<Vec<Reading>>, holds: impl Fn(&[Reading]) -> bool) -> Vec<Reading> {
    let deadline = Deadline::within(Duration::from_secs(60));
    let mut last = Vec::new();
    while deadline.pause(Duration::from_millis(5)) {
        match samples.try_recv() {
            Ok(sample) if holds(&sample) => return sample,
            Ok(sample) => last = sample,
            Err(_) => {}
        }
    }
    panic!("the last sample was {last:?}");
}

fn find(sample: &[Reading], sensor: &str, label: &str) -> Option<Result<f64, SensorState>> {
    let fits = |reading: &&Reading| {
        let mut labels = reading.labels.iter();
        reading.sensor == sensor && (label.is_empty() || labels.any(|(_, value)| value == label))
    };
    sample.iter().find(fits).map(|reading| reading.value.ok_or(reading.state))
}

const PACKAGE: &str = "coretemp Package id 1";

#[test]
fn a_recorded_machine_stands_in_for_this_one() {
    let folder = recorded();
    let (sampler, mut samples) = start(folder.path());
    let sample = until(&mut samples, |sample| {
        find(sample, "temperature_celsius", PACKAGE) == Some(Ok(74.0))
    });
    assert_eq!(find(&sample, "memory_total_bytes", ""), Some(Ok(270_178_086_912.0)));
    assert_eq!(find(&sample, "cpu_throttled", ""), Some(Ok(1.0)));
    unpack::write(&folder.path().join("sys/class/hwmon/hwmon2/temp1_input"), "85000\n");
    unpack::unpack(SERVER, folder.path(), true);
    until(&mut samples, |sample| {
        find(sample, "cpu_temperature_celsius", "") == Some(Ok(85.0))
            && find(sample, "tasks_running", "") == Some(Ok(5.0))
    });
    sampler.stop();
}

#[test]
fn every_thread_reports_its_cost() {
    let (sampler, mut samples) = start(Path::new("/"));
    let of = |sample: &[Reading], sensor: &str| {
        ["host", "devices"].map(|thread| find(sample, sensor, thread).and_then(Result::ok))
    };
    let all_known = |sample: &[Reading], sensor: &str| {
        of(sample, sensor).iter().all(|cost| cost.is_some_and(|seconds| seconds > 0.0))
    };
    let first = until(&mut samples, |sample| {
        all_known(sample, "sampling_cpu_seconds_total")
            && all_known(sample, "sampling_worst_seconds")
    });
    until(&mut samples, |sample| {
        let spent = of(&first, "sampling_cpu_seconds_total").into_iter();
        spent.zip(of(sample, "sampling_cpu_seconds_total")).all(|(before, now)| now > before)
    });
    sampler.stop();
}

#[test]
fn a_hanging_thermometer_delays_no_other_and_is_read_once_it_answers() {
    let folder = recorded();
    let input = folder.path().join("sys/class/hwmon/hwmon2/temp1_input");
    let (sampler, mut samples) = start(folder.path());
    until(&mut samples, |sample| find(sample, "temperature_celsius", PACKAGE) == Some(Ok(74.0)));
    // Opening a pipe to read blocks until a writer opens it.
    let pipe = input.with_extension("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    fs::rename(&pipe, &input).unwrap();
    let stale = until(&mut samples, |sample| {
        find(sample, "temperature_celsius", PACKAGE) == Some(Err(SensorState::Stale))
    });
    assert!(matches!(find(&stale, "cpu_throttled", ""), Some(Ok(_))));
    assert_eq!(find(&stale, "sensors_unread", "thermometers"), Some(Ok(1.0)));
    assert!(matches!(find(&stale, "disk_total_bytes", "/"), Some(Ok(_))));
    assert!(matches!(find(&stale, "sampling_worst_seconds", "host"), Some(Ok(_))));
    unpack::write(&folder.path().join("proc/uptime"), "12.5 1.0\n");
    until(&mut samples, |sample| find(sample, "uptime_seconds", "") == Some(Ok(12.5)));
    fs::rename(&input, &pipe).unwrap();
    unpack::write(&input, "66000\n");
    drop(fs::OpenOptions::new().write(true).open(&pipe).unwrap());
    until(&mut samples, |sample| find(sample, "temperature_celsius", PACKAGE) == Some(Ok(66.0)));
    sampler.stop();
}
