//! The functions that the node calls once an interval, or less often.

use std::ffi::{c_int, c_longlong, c_uint, c_ulonglong};

use crate::control::{
    Control, Device, INVALID_ARGUMENT, NOT_SUPPORTED, SUCCESS, Status, answer, figures, hang,
};

figures! {
    nvmlDeviceGetMaxClockInfo(domain) c_uint, "clock_limits", "clock_limit", 1_980;
    nvmlDeviceGetTemperatureThreshold(threshold) c_uint, "slowdown", "slowdown", 87;
    nvmlDeviceGetEnforcedPowerLimit() c_uint, "power_limit", "power_limit_mw", 700_000;
    nvmlDeviceGetTotalEnergyConsumption() c_ulonglong, "energy", "energy_mj", 0;
    nvmlDeviceGetPcieReplayCounter() c_uint, "pcie_replays", "pcie_replays", 0;
    nvmlDeviceGetCurrPcieLinkGeneration() c_uint, "pcie_link", "pcie_generation", 5;
    nvmlDeviceGetCurrPcieLinkWidth() c_uint, "pcie_link", "pcie_width", 16;
    nvmlDeviceGetNumFans() c_uint, "fans", "fans", 0;
    nvmlDeviceGetFanSpeed_v2(fan) c_uint, "fans", "fan", 30;
}

/// `which` of two keys, as NVML numbers them.
unsafe fn one_of<T>(
    device: Device,
    field: &str,
    keys: [&str; 2],
    which: c_uint,
    out: *mut T,
    cast: fn(u64) -> T,
) -> Status {
    let Some(key) = keys.get(which as usize) else { return INVALID_ARGUMENT };
    let figure = |control: &Control| cast(control.number_of_gpu(device, key, 0));
    unsafe { answer(device, field, out, figure) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPcieThroughput(
    device: Device,
    counter: c_uint,
    out: *mut c_uint,
) -> Status {
    let keys = ["pcie_tx", "pcie_rx"];
    unsafe { one_of(device, "pcie", keys, counter, out, |figure| figure as c_uint) }
}

/// `counter` is 0 for counts since the driver was loaded, the only ones here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: Device,
    error: c_uint,
    counter: c_uint,
    out: *mut c_ulonglong,
) -> Status {
    if counter != 0 {
        return NOT_SUPPORTED;
    }
    let keys = ["ecc_corrected", "ecc_uncorrected"];
    unsafe { one_of(device, "ecc", keys, error, out, |figure| figure) }
}

#[repr(C)]
pub struct FieldValue {
    field: c_uint,
    scope: c_uint,
    timestamp: c_longlong,
    latency: c_longlong,
    kind: c_uint,
    status: Status,
    value: c_ulonglong,
}

/// NVML's numbers of the fields, the field that the control file calls them by, and the key.
const FIELDS: [(c_uint, &str, &str); 4] = [
    (29, "retired", "retired_corrected"),
    (30, "retired", "retired_uncorrected"),
    (142, "remapped", "remapped_corrected"),
    (143, "remapped", "remapped_uncorrected"),
];
const UNSIGNED_LONG_LONG: c_uint = 3;

#[cfg(not(old_driver))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: Device,
    count: c_int,
    values: *mut FieldValue,
) -> Status {
    hang(device, "fields");
    let control = Control::read();
    if let Some(refusal) = control.refuses(device, "fields") {
        return refusal;
    }
    for index in 0..count.max(0) as usize {
        // SAFETY: the caller guarantees that `values` holds `count` items.
        let value = unsafe { &mut *values.add(index) };
        let known = FIELDS.iter().find(|(id, ..)| *id == value.field);
        value.kind = UNSIGNED_LONG_LONG;
        value.status = match known {
            Some((_, field, key)) => {
                value.value = control.number_of_gpu(device, key, 0);
                control.refuses(device, field).unwrap_or(SUCCESS)
            }
            None => NOT_SUPPORTED,
        };
    }
    SUCCESS
}
