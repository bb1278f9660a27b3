//! Faults that the driver reports, and errors and figures of a driver that is not well.

use super::bench::{Bench, LOST, NOT_SUPPORTED, TWO_GPUS, assert_figures, look_up};

#[test]
fn each_fault_is_counted_once_for_its_gpu_and_by_its_number() {
    // What happened before the agent began is not counted.
    let mut bench = Bench::with_stub("gpus=2\n0.xid=79\n");
    bench.until(&[("gpu_faults_total gpu=0", Ok(0.0)), ("gpu_faults_total gpu=1", Ok(0.0))]);
    bench.control("gpus=2\n0.xid=79\n1.xid=31,48,31\n");
    let sample = bench.until(&[("gpu_faults_total gpu=1", Ok(3.0))]);
    assert_figures(
        &sample,
        &[
            ("gpu_xid_total gpu=1 xid=31", Ok(2.0)),
            ("gpu_xid_total gpu=1 xid=48", Ok(1.0)),
            ("gpu_faults_total gpu=0", Ok(0.0)),
        ],
    );
    bench.control("gpus=2\n0.xid=79,94\n1.xid=31,48,31,999\n");
    let sample =
        bench.until(&[("gpu_faults_total gpu=0", Ok(1.0)), ("gpu_faults_total gpu=1", Ok(4.0))]);
    assert_figures(&sample, &[("gpu_xid_total gpu=1 xid=unknown", Ok(1.0))]);
    assert_eq!(look_up(&sample, "gpu_xid_total gpu=0 xid=79"), None);
}

#[test]
fn a_gpu_that_reports_no_faults_is_unsupported_and_the_other_still_does() {
    let mut bench = Bench::with_stub("gpus=2\n0.unsupported=events\n");
    bench.until(&[("gpu_faults_total gpu=1", Ok(0.0))]);
    bench.control("gpus=2\n0.unsupported=events\n1.xid=13\n");
    let sample = bench.until(&[("gpu_xid_total gpu=1 xid=13", Ok(1.0))]);
    assert_figures(&sample, &[("gpu_faults_total gpu=0", NOT_SUPPORTED)]);
}

#[test]
fn faults_are_kept_over_a_loss_of_the_gpu_and_counted_on_after_it() {
    let mut bench = Bench::with_stub(TWO_GPUS);
    bench.until(&[("gpu_faults_total gpu=1", Ok(0.0))]);
    bench.control(&format!("{TWO_GPUS}1.xid=79\n"));
    bench.until(&[("gpu_faults_total gpu=1", Ok(1.0))]);
    bench.control(&format!("{TWO_GPUS}1.xid=79\n1.lost=1\n"));
    bench.until(&[("gpu_faults_total gpu=1", LOST), ("gpu_xid_total gpu=1 xid=79", LOST)]);
    bench.control(&format!("{TWO_GPUS}1.xid=79\n"));
    bench.until(&[("gpu_faults_total gpu=1", Ok(1.0))]);
    bench.control(&format!("{TWO_GPUS}1.xid=79,43\n"));
    let sample = bench.until(&[("gpu_faults_total gpu=1", Ok(2.0))]);
    assert_figures(&sample, &[("gpu_xid_total gpu=1 xid=79", Ok(1.0))]);
}

#[test]
fn every_error_of_the_driver_has_its_reason() {
    let mut bench = Bench::with_stub(
        "errors=temperature:4,power:10,utilization:999,clocks:16,throttle:20,memory:6,pcie:17",
    );
    let sample = bench.until(&[("gpu_temperature_celsius", Err("failed no_permission"))]);
    assert_figures(
        &sample,
        &[
            ("gpu_power_watts", Err("failed timeout")),
            ("gpu_utilization_ratio", Err("failed driver")),
            ("gpu_clock_hertz domain=sm", Err("failed reset_required")),
            ("gpu_throttle_reason reason=gpu_idle", Err("failed driver")),
            ("gpu_memory_total_bytes", Err("failed driver")),
            ("gpu_pcie_receive_bytes_per_second", Err("failed no_permission")),
            ("gpu_throttled", Err("failed no_permission")),
        ],
    );
}

#[test]
fn what_an_old_driver_has_no_function_for_is_unsupported() {
    let mut bench = Bench::with_flags("", &["--cfg", "old_driver"]);
    let old = Err("unsupported old_driver");
    let sample = bench.until(&[("gpu_temperature_celsius", Ok(40.0))]);
    assert_figures(
        &sample,
        &[
            ("gpu_memory_total_bytes", old),
            ("gpu_memory_used_max_bytes", old),
            ("gpu_retired_pages kind=corrected", old),
            ("gpu_remapped_rows kind=uncorrected", old),
        ],
    );
}
