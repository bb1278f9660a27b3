//! What the kernel keeps, and every sample as a whole.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use plimsoll_clock::Deadline;
use plimsoll_node::limits::READINGS_MAX;
use plimsoll_schemas::hardware::{SensorState, sensor};

use super::bench::{Bench, TWO_GPUS, look_up};
use super::capability::{has_sysfs, skip};

fn kernel_table(path: &str) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn host_readings_agree_with_the_kernel() {
    let mut bench = Bench::without_gpu();
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
}

#[test]
fn the_bytes_of_loopback_agree_with_sysfs() {
    if !has_sysfs() {
        return skip("sysfs is not mounted at /sys, so no file has the bytes of an interface");
    }
    let sample = Bench::without_gpu().next();
    let lo = look_up(&sample, "network_receive_bytes_total interface=lo").unwrap().unwrap();
    let now = kernel_table("/sys/class/net/lo/statistics/rx_bytes").trim().parse::<f64>().unwrap();
    assert!(lo <= now, "{lo} received, by now {now}");
}

#[test]
fn every_sample_holds_known_sensors_once_each_with_a_value_exactly_when_ok() {
    let mut bench = Bench::with_stub(TWO_GPUS);
    let sample = bench.until(&[("gpu_power_watts gpu=1", Ok(700.0))]);
    let mut seen = BTreeSet::new();
    for reading in &sample {
        assert!(sensor(&reading.sensor).is_some(), "{}", reading.sensor);
        assert_eq!(reading.value.is_some(), reading.state == SensorState::Ok, "{reading:?}");
        assert!(seen.insert((&reading.sensor, &reading.labels)), "{reading:?} comes twice");
    }
    assert!(sample.len() <= READINGS_MAX);
    let unread = sample.iter().filter(|reading| reading.sensor == "sensors_unread");
    let unread: Vec<_> = unread.map(|reading| reading.value).collect();
    assert!(unread.len() > 3 && unread.iter().all(|count| *count == Some(0.0)), "{unread:?}");
}

#[test]
fn an_untaken_sample_is_counted_and_the_oldest_is_kept() {
    let mut bench = Bench::without_gpu();
    let deadline = Deadline::within(Duration::from_secs(20));
    while bench.sampler.missed() < 2 && deadline.pause(Duration::from_millis(5)) {}
    assert!(bench.sampler.missed() >= 2);
    assert_eq!(look_up(&bench.next(), "cpu_usage_ratio"), None);
}
