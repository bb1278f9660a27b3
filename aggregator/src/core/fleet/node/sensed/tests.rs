//! What several devices of a machine come to, and what counts among its thermometers.

use plimsoll_schemas::hardware::{
    CLOCK_SYNCHRONIZED, CPU_THROTTLED, DISK_AVAILABLE_BYTES, DISK_INODES, DISK_INODES_USED,
    DISK_READ_ONLY, DISK_TOTAL_BYTES, DISK_USED_BYTES, GPU_MEMORY_TOTAL_BYTES,
    GPU_MEMORY_USED_BYTES, GPU_TEMPERATURE_CELSIUS, GPU_THROTTLE_REASON, MEMORY_TOTAL_BYTES,
    MEMORY_USED_BYTES, MissingReading, PRESSURE_FULL_RATIO, Reading, SWAP_TOTAL_BYTES,
    SWAP_USED_BYTES,
};

use super::*;

fn read(sensor: &Sensor, label: (&str, &str), value: f64) -> Reading {
    let labels = [label].into_iter().filter(|(key, _)| !key.is_empty());
    Reading::ok(sensor, Labels::new(labels).unwrap(), value)
}

fn table(readings: &[Reading]) -> ReadingTable {
    readings.to_vec().into()
}

#[test]
fn each_figure_has_its_metric_and_its_sensors_in_one_row() {
    assert_eq!(SensedFigure::of(NodeMetric::Dropped), None);
    assert_eq!(SensedFigure::of(NodeMetric::SwapUsedRatio), Some(SensedFigure::Swap));
    let figures = |sensor: &Sensor| -> Vec<_> {
        BY_PLACE[place_of(sensor)].iter().map(|input| (input.figure, input.part)).collect()
    };
    assert_eq!(
        figures(&DISK_READ_ONLY),
        [(SensedFigure::Disk, Part::Closed), (SensedFigure::Inodes, Part::Closed)]
    );
    assert_eq!(figures(&CPU_THROTTLED), [(SensedFigure::CpuThrottled, Part::Itself)]);
    assert!(INPUTS.iter().all(|input| figures(input.sensor).contains(&(input.figure, input.part))));
}

#[test]
fn the_worst_of_a_figure_is_as_its_sensor_states_it() {
    for input in INPUTS.iter().filter(|input| input.part == Part::Itself) {
        let worst = WORST[input.figure as usize];
        assert_eq!(worst, input.sensor.direction, "{}", input.sensor.name);
    }
    assert_eq!(WORST[SensedFigure::Disk as usize], Direction::HighIsWorse);
}

#[test]
fn what_a_node_chose_of_its_thermometers_counts_alone() {
    let chosen = |value: Option<f64>| match value {
        Some(value) => read(&CPU_TEMPERATURE_CELSIUS, ("", ""), value),
        None => Reading::absent(
            &CPU_TEMPERATURE_CELSIUS,
            Labels::default(),
            MissingReading::failed("io_error"),
        ),
    };
    let of = |value| {
        let core = read(&TEMPERATURE_CELSIUS, ("component", "coretemp Core 3"), 90.0);
        let readings = [core, chosen(value)];
        WorstReadings::of(&table(&readings), |_| true)
            .get(SensedFigure::CpuTemperature)
            .map(|(value, _)| value)
    };
    assert_eq!([of(Some(61.0)), of(None)], [Some(61.0), None]);
}

#[test]
fn only_an_unsynchronized_clock_and_memory_stalls_count() {
    let readings = [
        read(&CLOCK_SYNCHRONIZED, ("", ""), 0.0),
        read(&PRESSURE_FULL_RATIO, ("resource", "io"), 0.9),
        read(&PRESSURE_FULL_RATIO, ("resource", "memory"), 0.2),
    ];
    let readings = table(&readings);
    let worst = WorstReadings::of(&readings, |_| true);
    let of = |what| worst.get(what).map(|(value, _)| value);
    assert_eq!(of(SensedFigure::ClockUnsynchronized), Some(1.0));
    assert_eq!(of(SensedFigure::MemoryStalled), Some(0.2));
}

#[test]
fn an_image_that_takes_no_writes_is_no_full_disk() {
    let of = |mount: &'static str, read_only| {
        [
            read(&DISK_TOTAL_BYTES, ("mount", mount), 100.0),
            read(&DISK_USED_BYTES, ("mount", mount), 100.0),
            read(&DISK_INODES, ("mount", mount), 10.0),
            read(&DISK_INODES_USED, ("mount", mount), 10.0),
            read(&DISK_READ_ONLY, ("mount", mount), read_only),
        ]
    };
    let figures = |readings: &[Reading]| {
        let readings = table(readings);
        let worst = WorstReadings::of(&readings, |_| true);
        [SensedFigure::Disk, SensedFigure::Inodes].map(|of| worst.get(of).map(|(value, _)| value))
    };
    assert_eq!(figures(&of("/usr", 1.0)), [None, None]);
    assert_eq!(figures(&[of("/usr", 1.0), of("/", 0.0)].concat()), [Some(1.0), Some(1.0)]);
}

#[test]
fn the_worst_of_several_counts_and_is_named() {
    let readings = [
        read(&DISK_AVAILABLE_BYTES, ("mount", "/"), 50.0),
        read(&DISK_TOTAL_BYTES, ("mount", "/"), 100.0),
        read(&DISK_TOTAL_BYTES, ("mount", "/data"), 100.0),
        read(&DISK_AVAILABLE_BYTES, ("mount", "/data"), 4.0),
        read(&GPU_MEMORY_TOTAL_BYTES, ("gpu", "0"), 80.0),
        read(&GPU_MEMORY_USED_BYTES, ("gpu", "0"), 20.0),
        // This one has no reading of its total memory.
        read(&GPU_MEMORY_USED_BYTES, ("gpu", "1"), 79.0),
        read(&TEMPERATURE_CELSIUS, ("component", "nvme Composite"), 99.0),
        read(&TEMPERATURE_CELSIUS, ("component", "coretemp Core 3"), 71.0),
        read(&TEMPERATURE_CELSIUS, ("component", "coretemp Core 4"), 70.0),
    ];
    let readings = table(&readings);
    let worst = WorstReadings::of(&readings, |_| true);
    let of = |what| worst.get(what).map(|(value, labels)| (value, labels.iter().next()));
    assert_eq!(of(SensedFigure::Disk), Some((0.96, Some(("mount", "/data")))));
    assert_eq!(of(SensedFigure::GpuMemory), Some((0.25, Some(("gpu", "0")))));
    assert_eq!(
        of(SensedFigure::CpuTemperature),
        Some((71.0, Some(("component", "coretemp Core 3"))))
    );
    let root = WorstReadings::of(&readings, |labels| labels.get("mount") == Some("/"));
    assert_eq!(root.get(SensedFigure::Disk).map(|(value, _)| value), Some(0.5));
}

#[test]
fn a_file_system_is_as_full_as_in_df() {
    // Of 252 GiB 196 are free, of which ordinary users may have 35.
    let readings = [
        read(&DISK_TOTAL_BYTES, ("mount", "/"), 252.0),
        read(&DISK_USED_BYTES, ("mount", "/"), 56.0),
        read(&DISK_AVAILABLE_BYTES, ("mount", "/"), 35.0),
    ];
    let used = |readings: &[Reading]| {
        WorstReadings::of(&table(readings), |_| true)
            .get(SensedFigure::Disk)
            .map(|(value, _)| value)
    };
    assert_eq!(used(&readings), Some(56.0 / 91.0));
    assert_eq!(used(&readings[..2]), Some(56.0 / 252.0));
    assert_eq!(used(&readings[1..]), Some(56.0 / 91.0));
    assert_eq!(used(&readings[2..]), None);
}

#[test]
fn what_sensors_do_not_report_is_absent() {
    let absent = |sensor, missing| Reading::absent(sensor, Labels::default(), missing);
    let readings = [
        absent(&MEMORY_USED_BYTES, MissingReading::failed("unread")),
        read(&MEMORY_TOTAL_BYTES, ("", ""), 100.0),
        absent(&GPU_TEMPERATURE_CELSIUS, MissingReading::unsupported("driver")),
        absent(&GPU_THROTTLE_REASON, MissingReading::stale("hangs")),
        // A machine without swap space has not used none of it.
        read(&SWAP_TOTAL_BYTES, ("", ""), 0.0),
        read(&SWAP_USED_BYTES, ("", ""), 0.0),
    ];
    assert_eq!(WorstReadings::of(&table(&readings), |_| true).values(), [None; SENSED]);
}

#[test]
fn strange_values_stay_numbers() {
    let readings = [
        read(&MEMORY_TOTAL_BYTES, ("", ""), 1e-308),
        read(&MEMORY_USED_BYTES, ("", ""), 1e308),
        read(&DISK_TOTAL_BYTES, ("mount", "/"), 1.0),
        read(&DISK_AVAILABLE_BYTES, ("mount", "/"), -1e308),
    ];
    let readings = table(&readings);
    let worst = WorstReadings::of(&readings, |_| true);
    assert_eq!(worst.get(SensedFigure::Memory).map(|(value, _)| value), Some(1.0));
    assert_eq!(worst.get(SensedFigure::Disk).map(|(value, _)| value), Some(1.0));
}

#[test]
fn a_gpu_at_its_power_cap_is_busy_and_one_that_is_too_hot_is_held_down() {
    let with = |held: &[&str]| {
        let reasons = ["gpu_idle", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown"];
        let read_one = |reason: &&str| {
            let value = f64::from(u8::from(held.contains(reason)));
            read(&GPU_THROTTLE_REASON, ("reason", reason), value)
        };
        let readings: Vec<_> = reasons.iter().map(read_one).collect();
        let readings = table(&readings);
        let worst = WorstReadings::of(&readings, |_| true);
        let (n, labels) = worst.get(SensedFigure::GpuThrottled).unwrap();
        (n, labels.get("reason").unwrap().to_owned())
    };
    assert_eq!(with(&["sw_power_cap"]).0, 0.0);
    assert_eq!(with(&["hw_slowdown", "hw_thermal_slowdown"]), (2.0, "hw_slowdown".to_owned()));
}

#[test]
fn a_die_temperature_is_preferred_to_the_one_with_an_offset() {
    let tctl = read(&TEMPERATURE_CELSIUS, ("component", "k10temp Tctl"), 90.0);
    let tdie = read(&TEMPERATURE_CELSIUS, ("component", "k10temp Tdie"), 63.0);
    let of = |readings: &[Reading]| {
        WorstReadings::of(&table(readings), |_| true)
            .get(SensedFigure::CpuTemperature)
            .map(|(value, _)| value)
    };
    assert_eq!(
        [of(std::slice::from_ref(&tctl)), of(&[tctl.clone(), tdie])],
        [Some(90.0), Some(63.0)]
    );
}
