//! Every figure of a GPU that is well, in base units, through the real sampler.

use std::collections::BTreeSet;

use plimsoll_schemas::hardware::{CATALOGUE, Reading};

use super::bench::{Bench, NOT_SUPPORTED, OUT_OF_RANGE, TWO_GPUS, assert_figures, look_up, of_gpu};

#[test]
fn two_gpus_are_read_in_base_units_under_their_own_labels() {
    let mut bench = Bench::with_stub(TWO_GPUS);
    // The second poll reads the link of GPU 1.
    let sample = bench.until(&[
        ("gpu_utilization_ratio gpu=0", Ok(0.37)),
        ("gpu_pcie_link_width gpu=1", Ok(16.0)),
    ]);
    assert_figures(
        &sample,
        &[
            ("gpus_listed", Ok(2.0)),
            ("gpus_lost", Ok(0.0)),
            ("gpu_utilization_ratio gpu=1", Ok(1.0)),
            ("gpu_memory_utilization_ratio gpu=1", Ok(0.0)),
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
    let gpus = of_gpu(&sample, None);
    assert!(gpus.iter().all(|reading| reading.labels.get("name") == Some("Stub H100")));
    assert_eq!(of_gpu(&sample, Some("0")).len(), of_gpu(&sample, Some("1")).len());
}

/// Each call takes the next figure, so that ten polls in one interval see all of them.
#[test]
fn ten_polls_a_second_become_least_mean_and_greatest() {
    let mut bench = Bench::with_stub(
        "utilization=0|10|20|30|40|50|60|70|80|90\nmemory_used=0|1000\nclock_sm=1000|2000\n\
         temperature=40|50|60|70|80\npower_mw=100000|300000\n",
    );
    let sample = bench.until(&[
        ("gpu_utilization_min_ratio", Ok(0.0)),
        ("gpu_utilization_ratio", Ok(0.45)),
        ("gpu_utilization_max_ratio", Ok(0.9)),
    ]);
    assert_figures(
        &sample,
        &[
            ("gpu_memory_used_min_bytes", Ok(0.0)),
            ("gpu_memory_used_bytes", Ok(500.0)),
            ("gpu_memory_used_max_bytes", Ok(1_000.0)),
            ("gpu_temperature_min_celsius", Ok(40.0)),
            ("gpu_temperature_celsius", Ok(60.0)),
            ("gpu_temperature_max_celsius", Ok(80.0)),
            ("gpu_power_min_watts", Ok(100.0)),
            ("gpu_power_watts", Ok(200.0)),
            ("gpu_power_max_watts", Ok(300.0)),
            ("gpu_clock_min_hertz domain=sm", Ok(1e9)),
            ("gpu_clock_hertz domain=sm", Ok(1.5e9)),
            ("gpu_clock_max_hertz domain=sm", Ok(2e9)),
        ],
    );
}

const ALL: &str = "\
memory_utilization=25
pcie_rx=12500000
pcie_tx=800
pcie_replays=3
pcie_generation=4
pcie_width=8
power_limit_mw=450000
energy_mj=7200500
slowdown=87
clock_limit=1980
fans=2
fan=45
ecc_corrected=5
ecc_uncorrected=1
retired_corrected=2
retired_uncorrected=4
remapped_corrected=6
remapped_uncorrected=7
nvlinks=3
nvlink_down=1
nvlink_replay=10
nvlink_crc_flit=20
mig=2
mig_memory_total=21474836480
mig_memory_used=1073741824
";

#[test]
fn slow_queries_are_read_in_base_units_too() {
    let mut bench = Bench::with_stub(ALL);
    let sample = bench.until(&[("gpu_memory_utilization_ratio", Ok(0.25))]);
    assert_figures(
        &sample,
        &[
            ("gpu_pcie_receive_bytes_per_second", Ok(12.5e9)),
            ("gpu_pcie_transmit_bytes_per_second", Ok(800e3)),
            ("gpu_pcie_replays_total", Ok(3.0)),
            ("gpu_pcie_link_generation", Ok(4.0)),
            ("gpu_pcie_link_width", Ok(8.0)),
            ("gpu_power_limit_watts", Ok(450.0)),
            ("gpu_energy_joules_total", Ok(7_200.5)),
            ("gpu_temperature_slowdown_celsius", Ok(87.0)),
            ("gpu_clock_limit_hertz domain=sm", Ok(1.98e9)),
            ("gpu_fan_ratio fan=0", Ok(0.45)),
            ("gpu_fan_ratio fan=1", Ok(0.45)),
            ("gpu_ecc_errors_total kind=corrected", Ok(5.0)),
            ("gpu_ecc_errors_total kind=uncorrected", Ok(1.0)),
            ("gpu_retired_pages kind=corrected", Ok(2.0)),
            ("gpu_retired_pages kind=uncorrected", Ok(4.0)),
            ("gpu_remapped_rows kind=corrected", Ok(6.0)),
            ("gpu_remapped_rows kind=uncorrected", Ok(7.0)),
            ("gpu_nvlink_up link=0", Ok(1.0)),
            ("gpu_nvlink_up link=1", Ok(0.0)),
            ("gpu_nvlink_up link=2", Ok(1.0)),
            ("gpu_nvlink_errors_total kind=replay", Ok(30.0)),
            ("gpu_nvlink_errors_total kind=recovery", Ok(0.0)),
            ("gpu_nvlink_errors_total kind=crc_flit", Ok(60.0)),
            ("gpu_mig_enabled", Ok(1.0)),
            ("gpu_memory_total_bytes mig=", Ok(85_899_345_920.0)),
            ("gpu_memory_total_bytes mig=0", Ok(21_474_836_480.0)),
            ("gpu_memory_used_bytes mig=1", Ok(1_073_741_824.0)),
            ("gpu_memory_free_bytes mig=1", Ok(20_401_094_656.0)),
        ],
    );
    assert_eq!(look_up(&sample, "gpu_memory_total_bytes mig=2"), None);
    assert_eq!(look_up(&sample, "gpu_nvlink_up link=3"), None);
}

#[test]
fn every_sensor_of_gpus_has_a_producer() {
    let mut bench = Bench::with_stub(ALL);
    bench.until(&[("gpu_faults_total", Ok(0.0))]);
    bench.control(&format!("{ALL}xid=31\n"));
    let sample = bench.until(&[("gpu_xid_total xid=31", Ok(1.0))]);
    let seen: BTreeSet<_> = sample.iter().map(|reading| reading.sensor.as_str()).collect();
    let wanted = CATALOGUE.iter().map(|sensor| sensor.name).filter(|name| name.starts_with("gpu"));
    assert_eq!(wanted.filter(|name| !seen.contains(name)).collect::<Vec<_>>(), [""; 0]);
    let failed = |reading: &&Reading| reading.sensor.starts_with("gpu") && reading.value.is_none();
    assert_eq!(sample.iter().find(failed), None);
}

#[test]
fn what_a_gpu_has_not_is_one_unsupported_reading_each() {
    let mut bench = Bench::with_stub("unsupported=mig,pcie,energy,ecc,slowdown,events\n");
    let sample = bench.until(&[("gpu_temperature_celsius", Ok(40.0))]);
    assert_figures(
        &sample,
        &[
            ("gpu_mig_enabled", NOT_SUPPORTED),
            ("gpu_pcie_receive_bytes_per_second", NOT_SUPPORTED),
            ("gpu_energy_joules_total", NOT_SUPPORTED),
            ("gpu_ecc_errors_total kind=corrected", NOT_SUPPORTED),
            ("gpu_temperature_slowdown_celsius", NOT_SUPPORTED),
            ("gpu_faults_total", NOT_SUPPORTED),
            ("gpu_nvlink_up", NOT_SUPPORTED),
            ("gpu_nvlink_errors_total kind=replay", NOT_SUPPORTED),
            ("gpu_fan_ratio", Err("unsupported no_fan")),
            ("gpu_pcie_replays_total", Ok(0.0)),
        ],
    );
}

#[test]
fn a_field_that_a_gpu_lacks_is_unsupported_and_the_others_are_there() {
    let mut bench = Bench::with_stub("unsupported=utilization,power,throttle\ntemperature=50");
    let sample = bench.until(&[("gpu_temperature_celsius gpu=0", Ok(50.0))]);
    assert_figures(
        &sample,
        &[
            ("gpu_utilization_ratio gpu=0", NOT_SUPPORTED),
            ("gpu_utilization_max_ratio gpu=0", NOT_SUPPORTED),
            ("gpu_power_watts gpu=0", NOT_SUPPORTED),
            ("gpu_throttle_reason reason=sw_power_cap", NOT_SUPPORTED),
            ("gpu_throttle_seconds_total reason=sw_power_cap", NOT_SUPPORTED),
            ("gpu_memory_total_bytes gpu=0", Ok(85_899_345_920.0)),
        ],
    );
}

#[test]
fn a_sentinel_from_the_driver_is_a_failed_reading() {
    let mut bench = Bench::with_stub(
        "temperature=4294967295\npower_mw=0xffffffff\nmemory_used=9223372036854775794\n\
         utilization=4294967295\nclock_sm=4294967295\nenergy_mj=9223372036854775794\n\
         pcie_rx=4294967295\npcie_replays=4294967295\npower_limit_mw=4294967295\n\
         slowdown=4294967295\nclock_limit=4294967295\necc_corrected=9223372036854775794\n\
         retired_corrected=9223372036854775794\nfans=4294967295\nfan=4294967295\nmig=4294967295\n\
         mig_most=4294967295\nmig_memory_used=0xffffffffffffffff\nnvlinks=18\n\
         nvlink_replay=9223372036854775794\npcie_width=4294967295\ncount=4294967295\n",
    );
    let sample = bench.until(&[("gpu_memory_total_bytes gpu=0 mig=", Ok(85_899_345_920.0))]);
    assert_figures(
        &sample,
        &[
            ("gpu_temperature_celsius gpu=0", OUT_OF_RANGE),
            ("gpu_temperature_max_celsius gpu=0", OUT_OF_RANGE),
            ("gpu_power_watts gpu=0", OUT_OF_RANGE),
            ("gpu_memory_used_bytes gpu=0 mig=", OUT_OF_RANGE),
            ("gpu_utilization_ratio gpu=0", OUT_OF_RANGE),
            ("gpu_clock_hertz gpu=0 domain=sm", OUT_OF_RANGE),
            ("gpu_energy_joules_total gpu=0", OUT_OF_RANGE),
            ("gpu_pcie_receive_bytes_per_second gpu=0", OUT_OF_RANGE),
            ("gpu_pcie_replays_total gpu=0", OUT_OF_RANGE),
            ("gpu_pcie_link_width gpu=0", OUT_OF_RANGE),
            ("gpu_power_limit_watts gpu=0", OUT_OF_RANGE),
            ("gpu_temperature_slowdown_celsius gpu=0", OUT_OF_RANGE),
            ("gpu_clock_limit_hertz gpu=0 domain=sm", OUT_OF_RANGE),
            ("gpu_ecc_errors_total gpu=0 kind=corrected", OUT_OF_RANGE),
            ("gpu_retired_pages gpu=0 kind=corrected", OUT_OF_RANGE),
            ("gpu_fan_ratio gpu=0 fan=7", OUT_OF_RANGE),
            ("gpu_memory_used_bytes gpu=0 mig=7", OUT_OF_RANGE),
            ("gpu_nvlink_errors_total gpu=0 kind=replay", OUT_OF_RANGE),
            ("gpu_throttled gpu=0", OUT_OF_RANGE),
            ("gpus_listed", OUT_OF_RANGE),
        ],
    );
    assert_eq!(look_up(&sample, "gpu_fan_ratio gpu=0 fan=8"), None);
    assert_eq!(look_up(&sample, "gpu_memory_used_bytes gpu=0 mig=8"), None);
}
