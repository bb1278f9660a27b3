//! The hardware sampler on this machine's real kernel and on a stand-in NVML library that can
//! be told to misbehave. Needs `rustc` to build the stand-in; never touches a real GPU.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use plimsoll_node::io::hardware::{HardwareConfig, Sampler};
use plimsoll_schemas::clock::Deadline;
use plimsoll_schemas::hardware::{Reading, SensorState, sensor};
use plimsoll_schemas::limits::node::READINGS_MAX;
use tempfile::TempDir;
use tokio::sync::mpsc::Receiver;

/// A sampler, what it samples, and the file that steers the stand-in.
struct Bench {
    dir: TempDir,
    sampler: Sampler,
    samples: Receiver<Vec<Reading>>,
}

impl Bench {
    fn with_stub(control: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let library = build_stub(dir.path());
        fs::write(dir.path().join("control"), control).unwrap();
        Self::start(dir, library)
    }

    fn start(dir: TempDir, library: PathBuf) -> Self {
        let config = HardwareConfig { nvml_library: Some(library), ..HardwareConfig::default() };
        let (sampler, samples) = Sampler::start(&config);
        Self { dir, sampler, samples }
    }

    /// Replaces the control file in one step: the stand-in must never read half of it.
    fn control(&self, control: &str) {
        let next = self.dir.path().join("next");
        fs::write(&next, control).unwrap();
        fs::rename(next, self.dir.path().join("control")).unwrap();
    }

    /// The next sample; panics when it does not come.
    fn next(&mut self) -> Vec<Reading> {
        let deadline = Deadline::within(Duration::from_secs(20));
        while deadline.pause(Duration::from_millis(5)) {
            if let Ok(sample) = self.samples.try_recv() {
                return sample;
            }
        }
        panic!("no sample came");
    }

    /// The first sample in which `figure` has come to `wanted`.
    fn until(&mut self, figure: &str, wanted: Result<f64, SensorState>) -> Vec<Reading> {
        let deadline = Deadline::within(Duration::from_secs(30));
        loop {
            let sample = self.next();
            if look_up(&sample, figure) == Some(wanted) {
                return sample;
            }
            assert!(!deadline.has_passed(), "{figure} is {:?}", look_up(&sample, figure));
        }
    }
}

fn build_stub(dir: &Path) -> PathBuf {
    let library = dir.join("libnvidia-ml.so.1");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/nvml_stub/nvml_stub.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "cdylib", "-o"])
        .arg(&library)
        .arg(source)
        .env("PLIMSOLL_STUB_CONTROL", dir.join("control"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

/// Value or state of the reading called `sensor key=value ...`, other labels being free.
fn look_up(sample: &[Reading], figure: &str) -> Option<Result<f64, SensorState>> {
    let mut words = figure.split(' ');
    let name = words.next().unwrap();
    let labels: Vec<_> = words.map(|word| word.split_once('=').unwrap()).collect();
    let mut fitting = sample.iter().filter(|reading| {
        let carries = |(key, value): &(&str, &str)| reading.labels.get(key) == Some(value);
        reading.sensor == name && labels.iter().all(carries)
    });
    let found = fitting.next().map(|reading| reading.value.ok_or(reading.state));
    assert_eq!(fitting.next(), None, "{figure} names more than one reading");
    found
}

fn assert_figures(sample: &[Reading], figures: &[(&str, Result<f64, SensorState>)]) {
    for (figure, wanted) in figures {
        assert_eq!(look_up(sample, figure), Some(*wanted), "{figure}");
    }
}

fn is_gpu(reading: &&Reading) -> bool {
    reading.sensor.starts_with("gpu_")
}

const UNSUPPORTED: Result<f64, SensorState> = Err(SensorState::Unsupported);
const FAILED: Result<f64, SensorState> = Err(SensorState::Failed);
const STALE: Result<f64, SensorState> = Err(SensorState::Stale);

const TWO_GPUS: &str = "\
gpus=2
name=Stub H100
0.utilization=37
1.utilization=100
memory_total=85899345920
memory_used=10737418240
0.temperature=55
1.temperature=71
0.power_mw=312500
1.power_mw=700000
clock_graphics=1980
clock_sm=1965
clock_memory=2619
clock_video=1545
";

#[test]
fn two_gpus_are_read_in_base_units_under_their_own_labels() {
    let mut bench = Bench::with_stub(TWO_GPUS);
    let sample = bench.until("gpu_utilization_ratio gpu=0", Ok(0.37));
    assert_figures(
        &sample,
        &[
            ("gpu_utilization_ratio gpu=1", Ok(1.0)),
            ("gpu_memory_total_bytes gpu=0", Ok(85_899_345_920.0)),
            ("gpu_memory_used_bytes gpu=0", Ok(10_737_418_240.0)),
            ("gpu_memory_free_bytes gpu=1", Ok(75_161_927_680.0)),
            ("gpu_temperature_celsius gpu=0", Ok(55.0)),
            ("gpu_temperature_celsius gpu=1", Ok(71.0)),
            ("gpu_power_watts gpu=0", Ok(312.5)),
            ("gpu_power_watts gpu=1", Ok(700.0)),
            ("gpu_clock_hertz gpu=0 domain=graphics", Ok(1.98e9)),
            ("gpu_clock_hertz gpu=0 domain=sm", Ok(1.965e9)),
            ("gpu_clock_hertz gpu=1 domain=memory", Ok(2.619e9)),
            ("gpu_clock_hertz gpu=1 domain=video", Ok(1.545e9)),
            ("gpu_throttle_reason gpu=0 reason=hw_slowdown", Ok(0.0)),
        ],
    );
    let gpus: Vec<&Reading> = sample.iter().filter(is_gpu).collect();
    assert_eq!(gpus.len(), 40);
    assert!(gpus.iter().all(|reading| reading.labels.get("name") == Some("Stub H100")));
}

#[test]
fn a_throttle_reason_shows_and_an_unknown_bit_is_counted_as_unknown() {
    let mut bench = Bench::with_stub("throttle=0x40");
    let sample = bench.until("gpu_throttle_reason reason=hw_thermal_slowdown", Ok(1.0));
    assert_figures(
        &sample,
        &[
            ("gpu_throttle_reason reason=sw_power_cap", Ok(0.0)),
            ("gpu_throttle_reason reason=unknown", Ok(0.0)),
        ],
    );
    bench.control("throttle=0x1004");
    let sample = bench.until("gpu_throttle_reason reason=unknown", Ok(1.0));
    assert_figures(
        &sample,
        &[
            ("gpu_throttle_reason reason=sw_power_cap", Ok(1.0)),
            ("gpu_throttle_reason reason=hw_thermal_slowdown", Ok(0.0)),
        ],
    );
}

#[test]
fn a_field_that_a_gpu_cannot_tell_is_unsupported_and_the_others_are_there() {
    let mut bench = Bench::with_stub("unsupported=utilization,power,throttle\ntemperature=50");
    let sample = bench.until("gpu_temperature_celsius gpu=0", Ok(50.0));
    assert_figures(
        &sample,
        &[
            ("gpu_utilization_ratio gpu=0", UNSUPPORTED),
            ("gpu_power_watts gpu=0", UNSUPPORTED),
            ("gpu_throttle_reason reason=sw_power_cap", UNSUPPORTED),
            ("gpu_memory_total_bytes gpu=0", Ok(85_899_345_920.0)),
        ],
    );
}

#[test]
fn a_sentinel_from_the_driver_is_a_failed_reading() {
    let mut bench = Bench::with_stub(
        "temperature=4294967295\npower_mw=0xffffffff\nmemory_used=9223372036854775794\n",
    );
    let sample = bench.until("gpu_utilization_ratio gpu=0", Ok(0.0));
    assert_figures(
        &sample,
        &[
            ("gpu_temperature_celsius gpu=0", FAILED),
            ("gpu_power_watts gpu=0", FAILED),
            ("gpu_memory_used_bytes gpu=0", FAILED),
            ("gpu_memory_total_bytes gpu=0", Ok(85_899_345_920.0)),
        ],
    );
}

#[test]
fn a_lost_gpu_is_failed_under_its_old_labels_while_the_other_is_read_on() {
    let mut bench = Bench::with_stub(TWO_GPUS);
    let labels = |sample: &[Reading]| {
        let gpus = sample.iter().filter(is_gpu);
        gpus.map(|reading| (reading.sensor.clone(), reading.labels.clone())).collect::<Vec<_>>()
    };
    let before = labels(&bench.until("gpu_power_watts gpu=1", Ok(700.0)));
    for loss in ["1.lost=1\n", "1.no_handle=1\n"] {
        bench.control(&format!("{TWO_GPUS}{loss}"));
        let sample = bench.until("gpu_power_watts gpu=1", FAILED);
        assert_eq!(labels(&sample), before, "{loss}");
        assert_eq!(look_up(&sample, "gpu_power_watts gpu=0"), Some(Ok(312.5)), "{loss}");
        let lost = sample.iter().filter(is_gpu).filter(|r| r.labels.get("gpu") == Some("1"));
        assert!(lost.clone().all(|reading| reading.state == SensorState::Failed), "{loss}");
        assert_eq!(lost.count(), 20, "{loss}");
        bench.control(TWO_GPUS);
        bench.until("gpu_power_watts gpu=1", Ok(700.0));
    }
    bench.control(&format!("{TWO_GPUS}list=1\n"));
    let sample = bench.until("gpu_power_watts gpu=0", FAILED);
    assert_eq!(labels(&sample), before, "an unloaded driver");
}

#[test]
fn a_hanging_driver_delays_nobody_and_its_readings_become_stale() {
    let mut bench = Bench::with_stub(TWO_GPUS);
    bench.until("gpu_power_watts gpu=0", Ok(312.5));
    // The call outlasts this test: whatever comes, or ends, did not wait for it.
    bench.control(&format!("{TWO_GPUS}hang_ms=3600000\n"));
    let stale = bench.until("gpu_power_watts gpu=0", STALE);
    assert!(matches!(look_up(&stale, "memory_total_bytes"), Some(Ok(_))));
    assert!(stale.iter().filter(is_gpu).all(|reading| reading.state == SensorState::Stale));

    bench.control(TWO_GPUS);
    bench.until("gpu_power_watts gpu=0", Ok(312.5));
    bench.control(&format!("{TWO_GPUS}hang_ms=3600000\n"));
    bench.until("gpu_power_watts gpu=0", STALE);
    let Bench { dir, sampler, samples: _ } = bench;
    sampler.stop();
    fs::remove_file(dir.path().join("control")).unwrap();
}

#[test]
fn without_a_library_or_a_driver_gpus_are_unsupported_and_the_host_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("libnvidia-ml.so.1");
    for mut bench in [Bench::start(dir, missing), Bench::with_stub("init=9")] {
        let sample = bench.until("gpu_utilization_ratio", UNSUPPORTED);
        assert_eq!(sample.iter().filter(is_gpu).count(), 1);
        assert!(matches!(look_up(&sample, "memory_total_bytes"), Some(Ok(_))));
    }
}

#[test]
fn a_driver_that_fails_to_start_is_failed_not_unsupported() {
    let mut bench = Bench::with_stub("init=999");
    bench.until("gpu_utilization_ratio", FAILED);
}

fn kernel_table(path: &str) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn host_readings_agree_with_the_kernel() {
    let mut bench = Bench::start(tempfile::tempdir().unwrap(), "/nowhere".into());
    let first = bench.next();
    assert_eq!(look_up(&first, "cpu_usage_ratio"), None, "a share of one look is made up");
    let sample = bench.next();
    let value = |figure: &str| look_up(&sample, figure).unwrap().unwrap();
    let meminfo = kernel_table("/proc/meminfo");
    let kib = meminfo.split_ascii_whitespace().nth(1).unwrap().parse::<f64>().unwrap();
    assert_eq!(value("memory_total_bytes"), kib * 1024.0);
    assert_eq!(
        value("memory_used_bytes") + value("memory_available_bytes"),
        value("memory_total_bytes")
    );
    let stat = kernel_table("/proc/stat");
    let cores = stat.lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")).count();
    let read = sample.iter().filter(|reading| reading.sensor == "cpu_core_usage_ratio");
    assert_eq!(read.count(), cores);
    for ratio in ["cpu_usage_ratio", "cpu_core_usage_ratio core=0"] {
        assert!((0.0..=1.0).contains(&value(ratio)), "{ratio} is {}", value(ratio));
    }
    assert!((0.0..=cores as f64).contains(&value("process_cpu_ratio")));
    assert!((1e6..1e9).contains(&value("process_resident_bytes")));
    let lo = value("network_receive_bytes_total interface=lo");
    let now = kernel_table("/sys/class/net/lo/statistics/rx_bytes").trim().parse::<f64>().unwrap();
    assert!(lo <= now, "{lo} received, by now {now}");
}

#[test]
fn every_sample_holds_known_sensors_once_each_with_a_value_exactly_when_ok() {
    let mut bench = Bench::with_stub(TWO_GPUS);
    let sample = bench.until("gpu_power_watts gpu=1", Ok(700.0));
    let mut seen = BTreeSet::new();
    for reading in &sample {
        assert!(sensor(&reading.sensor).is_some(), "{}", reading.sensor);
        assert_eq!(reading.value.is_some(), reading.state == SensorState::Ok, "{reading:?}");
        assert!(seen.insert((&reading.sensor, &reading.labels)), "{reading:?} comes twice");
    }
    assert!(sample.len() <= READINGS_MAX);
    assert_eq!(bench.sampler.skipped(), 0);
}

#[test]
fn a_sample_that_nobody_takes_is_counted_and_the_oldest_is_kept() {
    let mut bench = Bench::start(tempfile::tempdir().unwrap(), "/nowhere".into());
    let deadline = Deadline::within(Duration::from_secs(20));
    while bench.sampler.missed() < 2 && deadline.pause(Duration::from_millis(5)) {}
    assert!(bench.sampler.missed() >= 2);
    assert_eq!(look_up(&bench.next(), "cpu_usage_ratio"), None);
}
