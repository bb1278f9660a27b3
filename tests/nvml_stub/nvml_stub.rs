//! A stand-in for `libnvidia-ml.so.1`, so that every GPU and every GPU fault can be had on a
//! machine without one. Not a driver model: it says what its control file says.
//!
//! Built by tests with `rustc --edition 2024 --crate-type cdylib`. The control file is named by
//! the environment variable `PLIMSOLL_NVML_STUB` of the process that loads the library, or else
//! by `PLIMSOLL_STUB_CONTROL` at build time, and is read again on every call. A line is
//! `key=value`; `1.key=value` is for GPU 1 alone. Without a line, the default of [`Control`]'s
//! callers holds.
//!
//! | key | meaning |
//! |---|---|
//! | `gpus`, `name` | how many, and what they are called |
//! | `utilization`, `temperature`, `power_mw` | percent, degrees, milliwatts |
//! | `memory_total`, `memory_used` | bytes |
//! | `clock_graphics`, `clock_sm`, `clock_memory`, `clock_video` | MHz |
//! | `throttle` | bit set, decimal or `0x` |
//! | `unsupported` | comma list of: utilization, memory, temperature, power, clocks, throttle |
//! | `lost=1` | every call on the GPU fails with "GPU is lost" |
//! | `no_handle=1` | so does asking for the GPU |
//! | `init` | what `nvmlInit_v2` returns, 9 being "driver not loaded" |
//! | `list` | what `nvmlDeviceGetCount_v2` returns, 1 being "uninitialized" |
//! | `hang_ms` | every call on a GPU lasts this long, or until the line is gone |

use std::ffi::{c_char, c_uint, c_ulonglong};
use std::time::{Duration, Instant};

type Status = c_uint;
/// The GPU's index plus one: a handle that is never null and never followed.
type Device = usize;

const SUCCESS: Status = 0;
const INVALID_ARGUMENT: Status = 2;
const NOT_SUPPORTED: Status = 3;
const GPU_IS_LOST: Status = 15;

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

/// The control file as it is now; an absent one says nothing.
struct Control(String);

impl Control {
    fn read() -> Self {
        let built_in = option_env!("PLIMSOLL_STUB_CONTROL").map(str::to_owned);
        let path = std::env::var("PLIMSOLL_NVML_STUB").ok().or(built_in);
        Self(path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default())
    }

    fn text(&self, key: &str) -> Option<&str> {
        let lines = self.0.lines().filter_map(|line| line.split_once('='));
        lines.filter(|(found, _)| found.trim() == key).last().map(|(_, value)| value.trim())
    }

    fn number(&self, key: &str, default: u64) -> u64 {
        let Some(text) = self.text(key) else { return default };
        let parsed = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        parsed.unwrap_or_else(|_| panic!("{key}={text} in the control file is no number"))
    }

    fn of_gpu(&self, device: Device, key: &str) -> Option<&str> {
        self.text(&format!("{}.{key}", device - 1)).or_else(|| self.text(key))
    }

    fn number_of_gpu(&self, device: Device, key: &str, default: u64) -> u64 {
        self.number(&format!("{}.{key}", device - 1), self.number(key, default))
    }

    fn refuses(&self, device: Device, field: &str) -> Option<Status> {
        let unsupported = self.of_gpu(device, "unsupported").unwrap_or_default();
        if self.number_of_gpu(device, "lost", 0) == 1 {
            Some(GPU_IS_LOST)
        } else if unsupported.split(',').any(|listed| listed.trim() == field) {
            Some(NOT_SUPPORTED)
        } else {
            None
        }
    }
}

/// Hangs in small steps, so that taking the line out of the file lets the call go on.
fn hang(device: Device) {
    let began = Instant::now();
    while began.elapsed()
        < Duration::from_millis(Control::read().number_of_gpu(device, "hang_ms", 0))
    {
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// One call on one GPU: hangs, refuses, or stores what `answer` makes of the control file.
///
/// # Safety
/// `out` is valid for one write.
unsafe fn answer<T>(
    device: Device,
    field: &str,
    out: *mut T,
    answer: impl FnOnce(&Control) -> T,
) -> Status {
    hang(device);
    let control = Control::read();
    if let Some(refusal) = control.refuses(device, field) {
        return refusal;
    }
    // SAFETY: the caller of each function below passes a pointer to its own result.
    unsafe { out.write(answer(&control)) };
    SUCCESS
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(out: *mut c_uint) -> Status {
    let control = Control::read();
    unsafe { out.write(control.number("gpus", 1) as c_uint) };
    control.number("list", 0) as Status
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: *mut Device) -> Status {
    let (control, device) = (Control::read(), index as Device + 1);
    if u64::from(index) >= control.number("gpus", 1) {
        return INVALID_ARGUMENT;
    }
    if control.number_of_gpu(device, "no_handle", 0) == 1 {
        return GPU_IS_LOST;
    }
    unsafe { out.write(device) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    device: Device,
    out: *mut c_char,
    length: c_uint,
) -> Status {
    let control = Control::read();
    match control.refuses(device, "name") {
        Some(refusal) => refusal,
        None => unsafe {
            write_text(control.of_gpu(device, "name").unwrap_or("Stub"), out, length)
        },
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    device: Device,
    out: *mut Utilization,
) -> Status {
    let rates = |control: &Control| Utilization {
        gpu: control.number_of_gpu(device, "utilization", 0) as c_uint,
        memory: 0,
    };
    unsafe { answer(device, "utilization", out, rates) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, out: *mut MemoryV2) -> Status {
    let memory = |control: &Control| {
        let total = control.number_of_gpu(device, "memory_total", 80 << 30);
        let used = control.number_of_gpu(device, "memory_used", 0);
        let version = size_of::<MemoryV2>() as c_uint | (2 << 24);
        MemoryV2 { version, total, reserved: 0, free: total.saturating_sub(used), used }
    };
    unsafe { answer(device, "memory", out, memory) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(
    device: Device,
    _sensor: c_uint,
    out: *mut c_uint,
) -> Status {
    let degrees = |control: &Control| control.number_of_gpu(device, "temperature", 40) as c_uint;
    unsafe { answer(device, "temperature", out, degrees) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(device: Device, out: *mut c_uint) -> Status {
    let power = |control: &Control| control.number_of_gpu(device, "power_mw", 70_000) as c_uint;
    unsafe { answer(device, "power", out, power) }
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    device: Device,
    out: *mut c_ulonglong,
) -> Status {
    let bits = |control: &Control| control.number_of_gpu(device, "throttle", 0);
    unsafe { answer(device, "throttle", out, bits) }
}
