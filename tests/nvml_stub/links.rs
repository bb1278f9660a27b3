//! NVLinks: how many there are, which are down, and their errors, alike on all of them.

use std::ffi::{c_uint, c_ulonglong};

use crate::control::{Control, Device, INVALID_ARGUMENT, NOT_SUPPORTED, Status, answer};

fn refusal(device: Device, link: c_uint) -> Option<Status> {
    match Control::read().number_of_gpu(device, "nvlinks", 0) {
        0 => Some(NOT_SUPPORTED),
        links if u64::from(link) >= links => Some(INVALID_ARGUMENT),
        _ => None,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkState(
    device: Device,
    link: c_uint,
    out: *mut c_uint,
) -> Status {
    if let Some(refusal) = refusal(device, link) {
        return refusal;
    }
    let up = |control: &Control| {
        let down = control.list_of_gpu(device, "nvlink_down");
        c_uint::from(!down.contains(&link.to_string().as_str()))
    };
    unsafe { answer(device, "nvlink", out, up) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkErrorCounter(
    device: Device,
    link: c_uint,
    counter: c_uint,
    out: *mut c_ulonglong,
) -> Status {
    let keys = ["nvlink_replay", "nvlink_recovery", "nvlink_crc_flit", "nvlink_crc_data"];
    let Some(key) = keys.get(counter as usize) else { return INVALID_ARGUMENT };
    if let Some(refusal) = refusal(device, link) {
        return refusal;
    }
    let errors = |control: &Control| control.number_of_gpu(device, key, 0);
    unsafe { answer(device, "nvlink_errors", out, errors) }
}
