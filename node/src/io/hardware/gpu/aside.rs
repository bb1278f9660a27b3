//! Queries beside the polls: once an interval counters and slow measurements (the PCIe rate takes
//! NVML 20 ms each way), and every ten seconds what hardly ever changes.

use crate::limits::{GPU_FANS_MAX, GPU_INSTANCES_MAX};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{
    EccCounter, MemoryError, PcieUtilCounter, TemperatureThreshold,
};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_REMAPPED_COR, NVML_FI_DEV_REMAPPED_UNC, NVML_FI_DEV_RETIRED_DBE,
    NVML_FI_DEV_RETIRED_SBE,
};
use plimsoll_schemas::hardware::{
    GPU_CLOCK_LIMIT_HERTZ, GPU_ECC_ERRORS_TOTAL, GPU_ENERGY_JOULES_TOTAL, GPU_FAN_RATIO,
    GPU_MEMORY_FREE_BYTES, GPU_MEMORY_TOTAL_BYTES, GPU_MEMORY_USED_BYTES, GPU_MIG_ENABLED,
    GPU_PCIE_LINK_GENERATION, GPU_PCIE_LINK_WIDTH, GPU_PCIE_RECEIVE_BYTES_PER_SECOND,
    GPU_PCIE_REPLAYS_TOTAL, GPU_PCIE_TRANSMIT_BYTES_PER_SECOND, GPU_POWER_LIMIT_WATTS,
    GPU_REMAPPED_ROWS, GPU_RETIRED_PAGES, GPU_TEMPERATURE_SLOWDOWN_CELSIUS, MissingReading, Sensor,
};

use super::super::scale::{self, Raw};
use super::fold::DOMAINS;
use super::query::{CLOCKS, hertz, queried, watts};
use super::units;

/// One reading to be, kept until it is queried again.
pub(super) struct Finding {
    pub(super) sensor: &'static Sensor,
    /// Which one, where a GPU has several.
    pub(super) label: Option<(&'static str, String)>,
    pub(super) raw: Raw,
}

impl Finding {
    pub(super) fn once(sensor: &'static Sensor, raw: Raw) -> Self {
        Self { sensor, label: None, raw }
    }

    pub(super) fn of(
        sensor: &'static Sensor,
        key: &'static str,
        which: &(impl ToString + ?Sized),
        raw: Raw,
    ) -> Self {
        Self { sensor, label: Some((key, which.to_string())), raw }
    }
}

/// What is queried once an interval.
pub(super) fn each_interval(device: &Device<'_>) -> Vec<Finding> {
    let rate = |way| {
        let kilobytes = queried(device.pcie_throughput(way));
        kilobytes.and_then(units::bytes_per_second_from_kilobytes)
    };

    let counted = |answer| queried(answer).map(u64::from).and_then(units::count);
    let energy = queried(device.total_energy_consumption());

    let mut findings: Vec<_> = [
        (&GPU_PCIE_RECEIVE_BYTES_PER_SECOND, rate(PcieUtilCounter::Receive)),
        (&GPU_PCIE_TRANSMIT_BYTES_PER_SECOND, rate(PcieUtilCounter::Send)),
        (&GPU_PCIE_REPLAYS_TOTAL, counted(device.pcie_replay_counter())),
        (&GPU_PCIE_LINK_GENERATION, counted(device.current_pcie_link_gen())),
        (&GPU_PCIE_LINK_WIDTH, counted(device.current_pcie_link_width())),
        (&GPU_POWER_LIMIT_WATTS, watts(device.enforced_power_limit())),
        (&GPU_ENERGY_JOULES_TOTAL, energy.and_then(units::joules_from_millijoules)),
    ]
    .into_iter()
    .map(|(sensor, raw)| Finding::once(sensor, raw))
    .collect();

    findings.extend(fans(device));
    findings.extend(instances(device));
    findings
}

/// What is queried every ten seconds.
pub(super) fn seldom(device: &Device<'_>) -> Vec<Finding> {
    let slowdown = queried(device.temperature_threshold(TemperatureThreshold::Slowdown));
    let slowdown = slowdown.map(f64::from).and_then(scale::celsius);
    let mut findings = vec![Finding::once(&GPU_TEMPERATURE_SLOWDOWN_CELSIUS, slowdown)];

    findings.extend(DOMAINS.into_iter().zip(CLOCKS).map(|(domain, clock)| {
        let limit = hertz(device.max_clock_info(clock));
        Finding::of(&GPU_CLOCK_LIMIT_HERTZ, "domain", domain, limit)
    }));

    for (kind, error) in
        [("corrected", MemoryError::Corrected), ("uncorrected", MemoryError::Uncorrected)]
    {
        let errors = queried(device.total_ecc_errors(error, EccCounter::Volatile));
        let errors = errors.and_then(units::count);
        findings.push(Finding::of(&GPU_ECC_ERRORS_TOTAL, "kind", kind, errors));
    }

    findings.extend(broken_memory(device));
    findings
}

/// Through NVML's numbered fields: its call for retired pages would have us make room for as
/// many as the driver claims, and the binding has none for remapped rows.
fn broken_memory(device: &Device<'_>) -> Vec<Finding> {
    const FIELDS: [(&Sensor, &str, u32); 4] = [
        (&GPU_RETIRED_PAGES, "corrected", NVML_FI_DEV_RETIRED_SBE),
        (&GPU_RETIRED_PAGES, "uncorrected", NVML_FI_DEV_RETIRED_DBE),
        (&GPU_REMAPPED_ROWS, "corrected", NVML_FI_DEV_REMAPPED_COR),
        (&GPU_REMAPPED_ROWS, "uncorrected", NVML_FI_DEV_REMAPPED_UNC),
    ];

    let mut answers = match device.field_values_for(&FIELDS.map(|(.., id)| FieldId(id))) {
        Ok(answers) => Ok(answers.into_iter()),
        Err(error) => Err(queried::<()>(Err(error)).err()),
    };

    let finding = |(sensor, kind, _): (&'static Sensor, &str, u32)| {
        let raw = match &mut answers {
            Ok(answers) => {
                answers.next().map_or(Err(MissingReading::failed("no_data")), |answer| {
                    queried(answer.and_then(|sample| sample.value))
                        .and_then(|value| sampled_count(&value))
                })
            }
            Err(missing) => Err(missing.unwrap_or(MissingReading::failed("driver"))),
        };
        Finding::of(sensor, "kind", kind, raw)
    };

    FIELDS.into_iter().map(finding).collect()
}

fn sampled_count(value: &SampleValue) -> Raw {
    match *value {
        SampleValue::U32(count) => units::count(u64::from(count)),
        SampleValue::U64(count) => units::count(count),
        SampleValue::I64(count) => u64::try_from(count)
            .map_err(|_| MissingReading::failed("out_of_range"))
            .and_then(units::count),
        SampleValue::F64(_) => Err(MissingReading::failed("not_understood")),
    }
}

fn fans(device: &Device<'_>) -> Vec<Finding> {
    let none = |missing| vec![Finding::once(&GPU_FAN_RATIO, Err(missing))];
    match queried(device.num_fans()) {
        Err(missing) => none(missing),
        Ok(0) => none(MissingReading::unsupported("no_fan")),
        Ok(count) => (0..count.min(GPU_FANS_MAX))
            .map(|fan| {
                let speed = queried(device.fan_speed(fan)).and_then(units::fan_ratio_from_percent);
                Finding::of(&GPU_FAN_RATIO, "fan", &fan, speed)
            })
            .collect(),
    }
}

/// Whether the GPU is divided, and the memory of each of its instances.
fn instances(device: &Device<'_>) -> Vec<Finding> {
    let divided = queried(device.mig_mode()).map(|mode| mode.current != 0);
    let enabled = divided.map(|divided| f64::from(u8::from(divided)));
    let mut findings = vec![Finding::once(&GPU_MIG_ENABLED, enabled)];

    let most = match divided {
        Ok(true) => queried(device.mig_device_count()).unwrap_or(GPU_INSTANCES_MAX),
        Ok(false) | Err(_) => 0,
    };

    for index in 0..most.min(GPU_INSTANCES_MAX) {
        let memory = match device.mig_device_by_index(index) {
            Ok(instance) => queried(instance.memory_info()),
            // Fewer instances than there may be.
            Err(NvmlError::NotFound) => continue,
            Err(error) => queried(Err(error)),
        };

        let mut find = |sensor, bytes: Result<u64, MissingReading>| {
            let raw = bytes.and_then(scale::bytes);
            findings.push(Finding::of(sensor, "mig", &index, raw));
        };

        let memory = memory.as_ref().map_err(|missing| *missing);
        find(&GPU_MEMORY_TOTAL_BYTES, memory.map(|memory| memory.total));
        find(&GPU_MEMORY_USED_BYTES, memory.map(|memory| memory.used));
        find(&GPU_MEMORY_FREE_BYTES, memory.map(|memory| memory.free));
    }

    findings
}
