//! Clocks that are held down: why, for how long, and by heat.

use super::bench::{Bench, assert_figures, look_up};

#[test]
fn a_throttle_reason_shows_and_an_unknown_bit_is_counted_as_unknown() {
    let mut bench = Bench::with_stub("throttle=0x40");
    let sample = bench.until(&[("gpu_throttle_reason reason=hw_thermal_slowdown", Ok(1.0))]);
    assert_figures(
        &sample,
        &[
            ("gpu_throttle_reason reason=sw_power_cap", Ok(0.0)),
            ("gpu_throttle_reason reason=unknown", Ok(0.0)),
        ],
    );
    bench.control("throttle=0x1004");
    let sample = bench.until(&[
        ("gpu_throttle_reason reason=unknown", Ok(1.0)),
        ("gpu_throttle_reason reason=hw_thermal_slowdown", Ok(0.0)),
    ]);
    assert_figures(&sample, &[("gpu_throttle_reason reason=sw_power_cap", Ok(1.0))]);
}

#[test]
fn one_throttled_poll_of_an_interval_shows_and_its_time_adds_up() {
    let mut bench = Bench::with_stub("throttle=4|0|0|0|0|0|0|0|0|0");
    let sample = bench.until(&[
        ("gpu_throttle_reason reason=sw_power_cap", Ok(1.0)),
        ("gpu_throttle_reason reason=hw_slowdown", Ok(0.0)),
    ]);
    let seconds = |sample: &[_], reason: &str| {
        look_up(sample, &format!("gpu_throttle_seconds_total reason={reason}")).unwrap().unwrap()
    };
    let before = seconds(&sample, "sw_power_cap");
    bench.control("throttle=4");
    while seconds(&bench.next(), "sw_power_cap") < before + 1.0 {}
    assert_eq!(seconds(&bench.next(), "hw_slowdown"), 0.0);
}

/// A GPU that works as it should, cool.
const COOL: &str = "utilization=100\ntemperature=60\nclock_graphics=1700\nclock_limit=1980\n";

#[test]
fn heat_that_takes_a_fifth_of_the_clock_of_a_busy_gpu_is_throttling() {
    let mut bench = Bench::with_stub(COOL);
    bench.until(&[("gpu_throttled", Ok(0.0)), ("gpu_temperature_min_celsius", Ok(60.0))]);
    // 1 380 MHz is a third below the limit, but not a fifth below what the GPU did when cool.
    bench.control("utilization=100\ntemperature=76\nclock_graphics=1380\nclock_limit=1980\n");
    bench.until(&[
        ("gpu_throttled", Ok(0.0)),
        ("gpu_temperature_min_celsius", Ok(76.0)),
        ("gpu_clock_max_hertz domain=graphics", Ok(1.38e9)),
    ]);
    bench.control("utilization=100\ntemperature=76\nclock_graphics=1340\n");
    bench.until(&[("gpu_throttled", Ok(1.0))]);
    bench.control(COOL);
    bench.until(&[("gpu_throttled", Ok(0.0))]);
}

#[test]
fn a_gpu_that_was_never_seen_cool_is_measured_against_its_limit() {
    let mut bench =
        Bench::with_stub("utilization=100\ntemperature=90\nclock_graphics=1500\nclock_limit=1980");
    bench.until(&[("gpu_throttled", Ok(1.0))]);
    bench.control("utilization=3\ntemperature=90\nclock_graphics=300\nclock_limit=1980");
    bench.until(&[("gpu_throttled", Ok(0.0)), ("gpu_utilization_max_ratio", Ok(0.03))]);
}
