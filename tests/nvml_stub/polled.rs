//! The functions that the node calls at every poll.

use std::ffi::{c_uint, c_ulonglong};

use crate::control::{Control, Device, INSTANCE, INVALID_ARGUMENT, Status, answer, figures};

#[repr(C)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

#[repr(C)]
pub struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

figures! {
    nvmlDeviceGetTemperature(sensor) c_uint, "temperature", "temperature", 40;
    nvmlDeviceGetPowerUsage() c_uint, "power", "power_mw", 70_000;
    nvmlDeviceGetCurrentClocksThrottleReasons() c_ulonglong, "throttle", "throttle", 0;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    device: Device,
    out: *mut Utilization,
) -> Status {
    let rates = |control: &Control| Utilization {
        gpu: control.number_of_gpu(device, "utilization", 0) as c_uint,
        memory: control.number_of_gpu(device, "memory_utilization", 0) as c_uint,
    };
    unsafe { answer(device, "utilization", out, rates) }
}

#[cfg(not(old_driver))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, out: *mut MemoryV2) -> Status {
    let instance = if device >= INSTANCE { "mig_" } else { "" };
    let memory = |control: &Control| {
        let bytes = |part: &str, default| {
            control.number_of_gpu(device, &format!("{instance}memory_{part}"), default)
        };
        let (total, used) = (bytes("total", 80 << 30), bytes("used", 0));
        let version = size_of::<MemoryV2>() as c_uint | (2 << 24);
        MemoryV2 { version, total, reserved: 0, free: total.saturating_sub(used), used }
    };
    unsafe { answer(device, "memory", out, memory) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetClockInfo(
    device: Device,
    domain: c_uint,
    out: *mut c_uint,
) -> Status {
    let keys = ["clock_graphics", "clock_sm", "clock_memory", "clock_video"];
    let Some(key) = keys.get(domain as usize) else { return INVALID_ARGUMENT };
    let clock = |control: &Control| control.number_of_gpu(device, key, 1_500) as c_uint;
    unsafe { answer(device, "clocks", out, clock) }
}
