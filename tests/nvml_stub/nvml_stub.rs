//! A stub of `libnvidia-ml.so.1`, which simulates every GPU and every GPU fault on a machine
//! without one. It is not a driver model: it returns what its control file defines.
//!
//! Built by `library.rs` beside this file, with `rustc`. The control file is named by the
//! environment variable `PLIMSOLL_NVML_STUB` of the process that loads the library; if that is
//! unset, it is the file `control` beside the library. Each call reads the present file. A line is
//! `key=value`; the last of several counts; `1.key=value` is for GPU 1 alone. Without a line, the
//! default applies. Numbers are decimal or `0x`; of several with `|` between them each call takes
//! the next. `--cfg old_driver` at build time leaves out what old drivers did not have.
//!
//! | key | meaning |
//! |---|---|
//! | `gpus`, `name`, `uuid` | how many, and what they are called |
//! | `count` | how many GPUs the list reports, if that is a wrong number |
//! | `absent` | comma list of GPUs that are not listed: what comes after moves up |
//! | `init` | what `nvmlInit_v2` returns, 9 being "driver not loaded" |
//! | `list` | what `nvmlDeviceGetCount_v2` returns, 1 being "uninitialized" |
//! | `lost=1` | every call on the GPU fails with "GPU is lost" |
//! | `no_handle` | what a request for the GPU's handle returns, 15 being "GPU is lost" |
//! | `unsupported` | comma list of fields that the GPU does not have |
//! | `errors` | comma list of `field:status`, for other failures |
//! | `hang_ms` | every call on a GPU lasts this long, or until the line is gone |
//! | `<field>_ms` | so does every call for that field |
//!
//! Fields and the keys of their figures, in NVML's units (percent, degrees, mW, mJ, MHz, KB/s):
//!
//! | field | keys |
//! |---|---|
//! | `utilization` | `utilization`, `memory_utilization` |
//! | `memory` | `memory_total`, `memory_used` in bytes |
//! | `temperature`, `power`, `throttle` | `temperature`, `power_mw`, `throttle` (a bit set) |
//! | `clocks` | `clock_graphics`, `clock_sm`, `clock_memory`, `clock_video` |
//! | `clock_limits` | `clock_limit` of all domains |
//! | `slowdown`, `power_limit`, `energy` | `slowdown`, `power_limit_mw`, `energy_mj` |
//! | `pcie` | `pcie_rx`, `pcie_tx` |
//! | `pcie_replays`, `pcie_link` | `pcie_replays`; `pcie_generation`, `pcie_width` |
//! | `fans` | `fans` (how many), `fan` |
//! | `ecc` | `ecc_corrected`, `ecc_uncorrected` |
//! | `retired`, `remapped` | `<field>_corrected`, `<field>_uncorrected` |
//! | `nvlink` | `nvlinks` (how many, none: unsupported), `nvlink_down` (comma list) |
//! | `nvlink_errors` | `nvlink_replay`, `.._recovery`, `.._crc_flit`, `.._crc_data` |
//! | `events` | `xid`: comma list of all faults so far; what is added is reported |
//! | `mig` | `mig` (how many instances, none: not divided), `mig_memory_total`, `.._used` |

mod aside;
mod control;
mod faults;
mod instances;
mod links;
mod polled;

use std::ffi::{c_char, c_uint};

use control::{Control, Device, INVALID_ARGUMENT, SUCCESS, Status, hang};

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Status {
    Control::read().number("init", 0) as Status
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Status {
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, length: c_uint) -> Status {
    unsafe { write_text("570.00-stub", out, length) }
}

/// The GPUs that are listed, by their own numbers.
fn listed(control: &Control) -> Vec<u64> {
    let absent = control.text("absent").unwrap_or_default();
    let is_absent = |gpu: &u64| absent.split(',').any(|one| one.trim() == gpu.to_string());
    // A count that is too high is still a count: only GPUs that exist have handles.
    (0..control.number("gpus", 1).min(64)).filter(|gpu| !is_absent(gpu)).collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(out: *mut c_uint) -> Status {
    let control = Control::read();
    let count = control.number("count", listed(&control).len() as u64);
    unsafe { out.write(count as c_uint) };
    control.number("list", 0) as Status
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: *mut Device) -> Status {
    let control = Control::read();
    let Some(gpu) = listed(&control).get(index as usize).copied() else { return INVALID_ARGUMENT };
    let device = gpu as Device + 1;
    unsafe { out.write(device) };
    control.number_of_gpu(device, "no_handle", 0) as Status
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    device: Device,
    out: *mut c_char,
    length: c_uint,
) -> Status {
    let control = Control::read();
    let name = control.of_gpu(device, "name").unwrap_or("Stub");
    unsafe { text(&control, device, "name", name, out, length) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(
    device: Device,
    out: *mut c_char,
    length: c_uint,
) -> Status {
    let (control, own) = (Control::read(), format!("GPU-stub-{device}"));
    let uuid = control.of_gpu(device, "uuid").unwrap_or(&own);
    unsafe { text(&control, device, "uuid", uuid, out, length) }
}

unsafe fn text(
    control: &Control,
    device: Device,
    field: &str,
    text: &str,
    out: *mut c_char,
    length: c_uint,
) -> Status {
    hang(device, field);
    match control.refuses(device, field) {
        Some(refusal) => refusal,
        None => unsafe { write_text(text, out, length) },
    }
}

/// # Safety
/// `out` is valid for `length` writes.
unsafe fn write_text(text: &str, out: *mut c_char, length: c_uint) -> Status {
    let bytes = text.bytes().take(length.saturating_sub(1) as usize).chain([0]);
    for (index, byte) in bytes.enumerate() {
        // SAFETY: at most `length` bytes, the last of them the terminator.
        unsafe { out.add(index).write(byte as c_char) };
    }
    SUCCESS
}
