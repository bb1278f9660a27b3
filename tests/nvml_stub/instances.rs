//! A divided GPU and its instances.

use std::ffi::c_uint;

use crate::control::{
    Control, Device, INSTANCE, INVALID_ARGUMENT, NOT_FOUND, SUCCESS, Status, answer, figures,
};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: Device,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> Status {
    let mode = |control: &Control| c_uint::from(control.of_gpu(device, "mig").is_some());
    unsafe { pending.write(mode(&Control::read())) };
    unsafe { answer(device, "mig", current, mode) }
}

figures! {
    nvmlDeviceGetMaxMigDeviceCount() c_uint, "mig", "mig_most", 7;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: Device,
    index: c_uint,
    out: *mut Device,
) -> Status {
    let control = Control::read();
    if u64::from(index) >= control.number_of_gpu(device, "mig_most", 7) {
        return INVALID_ARGUMENT;
    }
    if u64::from(index) >= control.number_of_gpu(device, "mig", 0) {
        return NOT_FOUND;
    }
    unsafe { out.write(device + INSTANCE * (index as Device + 1)) };
    SUCCESS
}
