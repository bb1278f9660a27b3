//! Hears of forks and of the process's end: the only place with unsafe code.
//!
//! The standard library has no hook for either. Without the first, a forked child would count
//! its parent's samples a second time and have no thread that sends its own; without the second,
//! the samples since the last flush would be lost whenever a job ends.

#![expect(unsafe_code, reason = "the two calls below exist only in C")]

use crate::{gate, stats};

/// Registers the hooks, which outlive a fork.
///
/// A fork that another thread has already begun when this process makes its first handle does
/// not run them: its child may find the lock taken for good. Only hooks from before `main` would
/// leave no such moment.
pub(crate) fn install() {
    // SAFETY: all functions are `extern "C"` of the type asked for, are part of the program for
    // as long as it runs, and do not unwind: they neither index, nor unwrap, nor borrow twice.
    // Failing, which takes a want of memory, leaves things as if the library were not there.
    unsafe {
        let _failed = libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
        let _failed = libc::atexit(at_exit);
    }
}

extern "C" fn before() {
    gate::before_fork();
}

extern "C" fn in_parent() {
    gate::after_fork_in_parent();
}

extern "C" fn in_child() {
    gate::after_fork_in_child();
}

extern "C" fn at_exit() {
    stats::flush_at_exit();
}
