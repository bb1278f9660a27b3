//! Faults that a driver reports as they happen.

use std::ffi::{c_uint, c_ulonglong};
use std::time::Duration;

use crate::control::{Control, Device, INVALID_ARGUMENT, SUCCESS, Status, TIMEOUT, hang};

/// `nvmlEventTypeXidCriticalError`.
const XID: c_ulonglong = 8;

#[derive(Default)]
pub struct Set {
    device: Device,
    // How many of the control file's faults were reported, or had happened before.
    seen: usize,
}

#[repr(C)]
pub struct Event {
    device: Device,
    kind: c_ulonglong,
    data: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

fn faults(control: &Control, device: Device) -> Vec<c_ulonglong> {
    let numbers = control.list_of_gpu(device, "xid").into_iter();
    numbers.map(|number| number.parse().expect("a fault in the control file is a number")).collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetCreate(out: *mut *mut Set) -> Status {
    unsafe { out.write(Box::into_raw(Box::default())) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetFree(set: *mut Set) -> Status {
    // SAFETY: made by `nvmlEventSetCreate`, and freed once.
    drop(unsafe { Box::from_raw(set) });
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceRegisterEvents(
    device: Device,
    kinds: c_ulonglong,
    set: *mut Set,
) -> Status {
    hang(device, "events");
    let control = Control::read();
    match control.refuses(device, "events") {
        Some(refusal) => refusal,
        None if kinds != XID => INVALID_ARGUMENT,
        None => {
            let seen = faults(&control, device).len();
            // SAFETY: made by `nvmlEventSetCreate`, and not yet freed.
            unsafe { set.write(Set { device, seen }) };
            SUCCESS
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetWait_v2(
    set: *mut Set,
    out: *mut Event,
    timeout_ms: c_uint,
) -> Status {
    // SAFETY: made by `nvmlEventSetCreate`, and not yet freed.
    let set = unsafe { &mut *set };
    hang(set.device, "events");
    let (control, device) = (Control::read(), set.device);
    if let Some(refusal) = control.refuses(device, "events") {
        return refusal;
    }
    let Some(fault) = faults(&control, device).get(set.seen).copied() else {
        std::thread::park_timeout(Duration::from_millis(timeout_ms.into()));
        return TIMEOUT;
    };
    set.seen += 1;
    let event = Event { device, kind: XID, data: fault, gpu_instance: 0, compute_instance: 0 };
    unsafe { out.write(event) };
    SUCCESS
}
