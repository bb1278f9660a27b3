//! GPUs and drivers that go away, come back, hang, or never were there.

use std::fs;

use plimsoll_schemas::hardware::{Reading, SensorState};
use plimsoll_schemas::ids::Labels;

use super::bench::{Bench, HANGS, LOST, TWO_GPUS, assert_figures, look_up, of_gpu};

fn labels(sample: &[Reading]) -> Vec<(String, Labels)> {
    let gpus = of_gpu(sample, None).into_iter();
    gpus.map(|reading| (reading.sensor.clone(), reading.labels.clone())).collect()
}

#[test]
fn a_lost_gpu_is_failed_under_its_old_labels_while_the_other_is_read_on() {
    let mut bench = Bench::with_stub(TWO_GPUS);
    let whole = [("gpu_power_watts gpu=1", Ok(700.0)), ("gpu_pcie_link_width gpu=1", Ok(16.0))];
    let before = labels(&bench.until(&whole));
    for loss in ["1.lost=1\n", "1.no_handle=15\n", "absent=1\n"] {
        bench.control(&format!("{TWO_GPUS}{loss}"));
        let sample = bench.until(&[("gpu_power_watts gpu=1", LOST), ("gpus_lost", Ok(1.0))]);
        assert_eq!(labels(&sample), before, "{loss}");
        let listed = if loss.starts_with("absent") { 1.0 } else { 2.0 };
        assert_figures(
            &sample,
            &[("gpu_power_watts gpu=0", Ok(312.5)), ("gpus_listed", Ok(listed))],
        );
        let lost = of_gpu(&sample, Some("1"));
        assert!(lost.iter().all(|r| r.reason.as_deref() == Some("lost")), "{loss}");
        assert!(lost.iter().all(|r| r.state == SensorState::Failed), "{loss}");
        bench.control(TWO_GPUS);
        bench.until(&[("gpu_power_watts gpu=1", Ok(700.0)), ("gpus_lost", Ok(0.0))]);
    }
    bench.control(&format!("{TWO_GPUS}list=1\n"));
    let not_listed = Err("failed not_listed");
    let sample = bench.until(&[("gpu_power_watts gpu=0", not_listed), ("gpus_lost", Ok(2.0))]);
    assert_eq!(labels(&sample), before, "an unloaded driver");
    assert_figures(&sample, &[("gpus_listed", not_listed)]);
}

#[test]
fn a_gpu_keeps_its_number_when_the_one_before_it_is_unplugged() {
    let mut bench = Bench::with_stub(TWO_GPUS);
    bench.until(&[("gpu_power_watts gpu=0", Ok(312.5)), ("gpu_power_watts gpu=1", Ok(700.0))]);
    bench.control(&format!("{TWO_GPUS}absent=0\n"));
    bench.until(&[("gpus_listed", Ok(1.0)), ("gpu_power_watts gpu=0", LOST)]);
    let sample = bench.until(&[("gpus_lost", Ok(1.0)), ("gpu_power_watts gpu=1", Ok(700.0))]);
    assert_figures(&sample, &[("gpu_temperature_celsius gpu=1", Ok(71.0))]);
    bench.control(TWO_GPUS);
    let sample = bench.until(&[("gpu_power_watts gpu=0", Ok(312.5))]);
    assert_figures(&sample, &[("gpu_power_watts gpu=1", Ok(700.0)), ("gpus_lost", Ok(0.0))]);
}

#[test]
fn a_gpu_that_is_put_in_later_is_read() {
    let mut bench = Bench::with_stub("gpus=0");
    let no_gpu = Err("unsupported no_gpu");
    let sample = bench.until(&[("gpus_listed", Ok(0.0)), ("gpu_utilization_ratio", no_gpu)]);
    assert_eq!(of_gpu(&sample, None).len(), 1);
    bench.control("gpus=1\nutilization=60");
    bench.until(&[("gpus_listed", Ok(1.0)), ("gpu_utilization_ratio gpu=0", Ok(0.6))]);
}

#[test]
fn a_gpu_without_permission_is_reported() {
    let mut bench = Bench::with_stub(&format!("{TWO_GPUS}1.no_handle=4\n"));
    let sample = bench.until(&[("gpu_power_watts gpu=1", Err("failed no_permission"))]);
    assert_figures(
        &sample,
        &[("gpu_power_watts gpu=0", Ok(312.5)), ("gpus_listed", Ok(2.0)), ("gpus_lost", Ok(1.0))],
    );
}

#[test]
fn a_hanging_driver_delays_no_other_and_its_readings_go_stale() {
    let mut bench = Bench::with_stub(TWO_GPUS);
    bench.until(&[("gpu_power_watts gpu=0", Ok(312.5))]);
    // Each call outlasts this test: whatever comes, or ends, did not wait for it.
    for call in ["pcie_ms", "events_ms", "uuid_ms"] {
        bench.control(&format!("{TWO_GPUS}{call}=3600000\n"));
        let stale = bench.until(&[("gpu_power_watts gpu=0", HANGS)]);
        assert!(matches!(look_up(&stale, "memory_total_bytes"), Some(Ok(_))), "{call}");
        let gpus = of_gpu(&stale, None);
        let supported = gpus.iter().filter(|r| r.state != SensorState::Unsupported);
        assert!(supported.clone().all(|r| r.state == SensorState::Stale), "{call}");
        bench.control(TWO_GPUS);
        bench.until(&[("gpu_power_watts gpu=0", Ok(312.5))]);
    }
}

#[test]
fn a_sampler_stops_although_its_driver_hangs() {
    let mut bench = Bench::with_stub(TWO_GPUS);
    bench.until(&[("gpu_power_watts gpu=0", Ok(312.5))]);
    bench.control(&format!("{TWO_GPUS}hang_ms=3600000\n"));
    bench.until(&[("gpu_power_watts gpu=0", HANGS)]);
    let Bench { dir, sampler, .. } = bench;
    sampler.stop();
    fs::remove_file(dir.path().join("control")).unwrap();
}

#[test]
fn a_driver_that_hangs_from_the_start_is_one_failed_reading() {
    let mut bench = Bench::with_stub("temperature_ms=3600000");
    bench.until(&[("gpu_utilization_ratio", Err("failed hangs"))]);
    bench.control("utilization=5");
    bench.until(&[("gpu_utilization_ratio", Ok(0.05))]);
}

#[test]
fn without_a_library_or_a_driver_gpus_are_unsupported_and_the_host_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("libnvidia-ml.so.1");
    for mut bench in [Bench::start(dir, Some(missing)), Bench::with_stub("init=9")] {
        let no_driver = Err("unsupported no_driver");
        let sample = bench.until(&[("gpu_utilization_ratio", no_driver)]);
        assert_eq!(of_gpu(&sample, None).len(), 1);
        assert_figures(&sample, &[("gpus_listed", no_driver), ("gpus_lost", no_driver)]);
        assert!(matches!(look_up(&sample, "memory_total_bytes"), Some(Ok(_))));
    }
}

#[test]
fn a_driver_that_fails_to_start_is_failed_not_unsupported() {
    for (status, reason) in [(999, "failed driver"), (18, "failed driver_replaced")] {
        let mut bench = Bench::with_stub(&format!("init={status}"));
        bench.until(&[("gpu_utilization_ratio", Err(reason)), ("gpus_listed", Err(reason))]);
    }
}
