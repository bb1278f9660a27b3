//! Registers functions with the C library for forks and for the exit of the process: the only file
//! with unsafe code.
//!
//! The standard library has no hook for either. Without the first, a forked child would count its
//! parent's samples a second time and have no thread that sends its own. Without the second, the
//! samples since the last flush would be lost whenever a job ends.

#![expect(unsafe_code, reason = "the two calls below exist only in C")]

/// Functions to call; none of them may unwind.
pub(crate) struct Hooks {
    pub(crate) before_fork: extern "C" fn(),
    pub(crate) in_parent: extern "C" fn(),
    pub(crate) in_child: extern "C" fn(),
    pub(crate) at_exit: extern "C" fn(),
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
        let _failed = libc::atexit(at_exit);
    }
}
