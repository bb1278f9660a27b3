//! Registers functions with the C library for forks and for the exit of the process. This file and
//! `thread.rs` alone have unsafe code.
//!
//! The standard library has no hook for either. Without the first, a forked child would count its
//! parent's samples a second time and have no thread that sends its own. Without the second, the
//! samples since the last flush would be lost whenever a job ends.

#![expect(unsafe_code, reason = "the two calls below exist only in C")]

use std::ffi::{c_int, c_void};

/// Functions to call; none of them may unwind.
pub(crate) struct Hooks {
    pub(crate) before_fork: extern "C" fn(),
    pub(crate) in_parent: extern "C" fn(),
    pub(crate) in_child: extern "C" fn(),
    /// Takes the exit status.
    pub(crate) at_exit: extern "C" fn(c_int, *mut c_void),
}

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    /// Of the GNU C library, see its manual: as `atexit`, with the exit status.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Other C libraries report no exit status: every exit counts as one with 0.
#[cfg(not(target_env = "gnu"))]
unsafe fn on_exit(function: extern "C" fn(c_int, *mut c_void), _: *mut c_void) -> c_int {
    static FUNCTION: std::sync::OnceLock<extern "C" fn(c_int, *mut c_void)> =
        std::sync::OnceLock::new();
    extern "C" fn call() {
        if let Some(function) = FUNCTION.get() {
            function(0, std::ptr::null_mut());
        }
    }
    FUNCTION.get_or_init(|| function);
    // SAFETY: `call` is part of the program for as long as it runs, and does not unwind.
    unsafe { libc::atexit(call) }
}

/// Registers the hooks, which outlive a fork.
///
/// A fork that another thread has already started when this process makes its first handle does not
/// run them: its child may inherit the lock in a locked state. Only hooks from before `main` would
/// exclude that.
pub(crate) fn install(hooks: &Hooks) {
    let Hooks { before_fork, in_parent, in_child, at_exit } = *hooks;
    // SAFETY: all functions are `extern "C"` of the required type, are part of the program for as
    // long as it runs, and do not unwind: an `extern "C"` function aborts instead. A failure, which
    // requires that memory is exhausted, leaves the process as if the library were not there.
    unsafe {
        let _failed = libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child));
        let _failed = on_exit(at_exit, std::ptr::null_mut());
    }
}
