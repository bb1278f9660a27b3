//! The control file, and the result of every call that follows from it.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub type Status = c_uint;
/// A handle that is never null and never followed: the GPU's number plus one, and above
/// [`INSTANCE`] that of one of its instances.
pub type Device = usize;

pub const SUCCESS: Status = 0;
pub const INVALID_ARGUMENT: Status = 2;
pub const NOT_SUPPORTED: Status = 3;
pub const NOT_FOUND: Status = 6;
pub const TIMEOUT: Status = 10;
pub const GPU_IS_LOST: Status = 15;

/// Handles of the instances of GPU n are n + 1 + this, twice this and so on.
pub const INSTANCE: Device = 1_000;

/// The present control file; an absent file has no lines.
pub struct Control(String);

/// Distinguishes one version of a file from another, for a file that is replaced in one step.
type Version = (u64, u64, i64, i64);

static TURNS: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
static LAST: Mutex<Option<(Version, Arc<Control>)>> = Mutex::new(None);

/// What `dladdr(3)` reports of an address.
#[repr(C)]
struct LibraryInfo {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    symbol_address: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, info: *mut LibraryInfo) -> c_int;
}

/// The file `control` in the folder of this library, so that one build serves every folder.
fn beside_library() -> Option<PathBuf> {
    let mut info = MaybeUninit::<LibraryInfo>::uninit();
    // SAFETY: `dladdr` fills `info` when it returns non-zero, and the name that it points to lasts
    // as long as the library is loaded, which runs this code.
    let file = unsafe {
        if dladdr(beside_library as *const c_void, info.as_mut_ptr()) == 0 {
            return None;
        }
        CStr::from_ptr(info.assume_init().file)
    };
    let file = Path::new(OsStr::from_bytes(file.to_bytes()));
    Some(file.parent()?.join("control"))
}

impl Control {
    pub fn read() -> Arc<Self> {
        let path = std::env::var_os("PLIMSOLL_NVML_STUB").map(PathBuf::from);
        let path = path.or_else(beside_library).unwrap_or_default();
        let Ok(found) = fs::metadata(&path) else { return Arc::new(Self(String::new())) };
        let version = (found.ino(), found.size(), found.mtime(), found.mtime_nsec());
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, control)) if *known == version => Arc::clone(control),
            _ => {
                let control = Arc::new(Self(fs::read_to_string(path).unwrap_or_default()));
                *last = Some((version, Arc::clone(&control)));
                control
            }
        }
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        let lines = self.0.lines().filter_map(|line| line.split_once('='));
        lines.filter(|(found, _)| found.trim() == key).last().map(|(_, value)| value.trim())
    }

    pub fn number(&self, key: &str, default: u64) -> u64 {
        let Some(text) = self.text(key) else { return default };
        let text = if text.contains('|') { turn(key, text) } else { text };
        let parsed = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        parsed.unwrap_or_else(|_| panic!("{key}={text} in the control file is no number"))
    }

    pub fn of_gpu(&self, device: Device, key: &str) -> Option<&str> {
        self.text(&format!("{}.{key}", gpu(device))).or_else(|| self.text(key))
    }

    pub fn number_of_gpu(&self, device: Device, key: &str, default: u64) -> u64 {
        self.number(&format!("{}.{key}", gpu(device)), self.number(key, default))
    }

    /// The items of a comma list.
    pub fn list_of_gpu(&self, device: Device, key: &str) -> Vec<&str> {
        let items = self.of_gpu(device, key).unwrap_or_default().split(',').map(str::trim);
        items.filter(|item| !item.is_empty()).collect()
    }

    pub fn refuses(&self, device: Device, field: &str) -> Option<Status> {
        if self.number_of_gpu(device, "lost", 0) == 1 {
            return Some(GPU_IS_LOST);
        }
        if self.list_of_gpu(device, "unsupported").contains(&field) {
            return Some(NOT_SUPPORTED);
        }
        let mut errors = self.list_of_gpu(device, "errors").into_iter();
        let status = errors.find_map(|error| error.strip_prefix(field)?.strip_prefix(':'));
        status.map(|status| status.parse().expect("a status in the control file is a number"))
    }
}

/// The next of several figures; each key has a cycle of its own.
fn turn<'a>(key: &str, figures: &'a str) -> &'a str {
    let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    let turn = turns.entry(key.to_owned()).or_default();
    *turn += 1;
    let figures: Vec<_> = figures.split('|').map(str::trim).collect();
    figures[*turn % figures.len()]
}

/// The number of the GPU of a handle, or of the GPU that contains the handle's instance.
pub fn gpu(device: Device) -> Device {
    device % INSTANCE - 1
}

/// Hangs in small steps, so that the call continues when the line is removed from the file.
pub fn hang(device: Device, field: &str) {
    let began = Instant::now();
    loop {
        let control = Control::read();
        let of_field = control.number_of_gpu(device, &format!("{field}_ms"), 0);
        let of_all = control.number_of_gpu(device, "hang_ms", 0);
        let left = Duration::from_millis(of_all.max(of_field)).saturating_sub(began.elapsed());
        if left.is_zero() {
            return;
        }
        std::thread::park_timeout(left.min(Duration::from_millis(10)));
    }
}

/// One call on one GPU: hangs, returns an error, or stores the value that `answer` reads from the
/// control file.
///
/// # Safety
/// `out` is valid for one write.
pub unsafe fn answer<T>(
    device: Device,
    field: &str,
    out: *mut T,
    answer: impl FnOnce(&Control) -> T,
) -> Status {
    hang(device, field);
    let control = Control::read();
    if let Some(refusal) = control.refuses(device, field) {
        return refusal;
    }
    // SAFETY: the caller of each exported function passes a pointer to its own result.
    unsafe { out.write(answer(&control)) };
    SUCCESS
}

/// Exports functions that return one number of one GPU.
macro_rules! figures {
    ($(
        $function:ident($($argument:ident),*) $type:ty, $field:literal, $key:literal,
        $default:expr;
    )*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(
            device: $crate::control::Device,
            $($argument: std::ffi::c_uint,)*
            out: *mut $type,
        ) -> $crate::control::Status {
            $(let _ = $argument;)*
            let figure = |control: &$crate::control::Control| {
                control.number_of_gpu(device, $key, $default) as $type
            };
            unsafe { $crate::control::answer(device, $field, out, figure) }
        }
    )*};
}
pub(crate) use figures;
