//! Starts a thread without the standard library, whose threads a forked child cannot rely on.
//!
//! Each thread of the standard library enters and leaves a table of stacks, behind a lock that no
//! fork waits for. A child that is forked while one starts or ends may inherit the lock locked.
//! Then a thread that the child starts waits for ever, and so does its `std::process::exit`.
//!
//! DESIGN N41.

#![expect(unsafe_code, reason = "threads of the C library exist only in C")]

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// What a thread does, behind a pointer that C can carry.
struct Start {
    name: &'static CStr,
    body: Box<dyn FnOnce() + Send>,
}

/// Calls `body` in a new detached thread, with a name of at most 15 bytes and a stack of
/// this many bytes; false when the system has no thread to spare.
pub(crate) fn spawn(
    name: &'static CStr,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> bool {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: initialises what it points to, or fails.
    if unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } != 0 {
        return false;
    }

    let start = Box::into_raw(Box::new(Start { name, body: Box::new(body) }));
    let mut thread = MaybeUninit::uninit();

    // SAFETY: `attributes` was initialised, and is used no more after it is destroyed. `run` gets a
    // pointer to a `Start` of its own, which is `Send`.
    let is_started = unsafe {
        let attributes = attributes.as_mut_ptr();
        let detached = libc::PTHREAD_CREATE_DETACHED;
        let is_started = libc::pthread_attr_setdetachstate(attributes, detached) == 0
            && libc::pthread_attr_setstacksize(attributes, stack_bytes) == 0
            && libc::pthread_create(thread.as_mut_ptr(), attributes, run, start.cast()) == 0;
        libc::pthread_attr_destroy(attributes);
        is_started
    };

    if !is_started {
        // SAFETY: `start` came from a box, and no thread has it.
        drop(unsafe { Box::from_raw(start) });
    }

    is_started
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` made `start` from a box and gives it to this thread alone.
    let Start { name, body } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    // SAFETY: the name ends with a zero; the call copies it.
    let _unnamed = unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    // As in the standard library a panic, which is reported, ends this thread alone.
    let _ended = catch_unwind(AssertUnwindSafe(body));
    null_mut()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Whether the calling thread has the alternate stack that comes with a place in the table of
    /// the standard library, and its name.
    fn place_and_name() -> (bool, String) {
        let mut stack = MaybeUninit::<libc::stack_t>::uninit();
        // SAFETY: asks alone, and initialises what it points to.
        let stack = unsafe {
            assert_eq!(libc::sigaltstack(std::ptr::null(), stack.as_mut_ptr()), 0);
            stack.assume_init()
        };
        let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        (stack.ss_flags & libc::SS_DISABLE == 0, name.trim_end().to_owned())
    }

    #[test]
    fn a_thread_is_in_no_table_that_a_fork_may_leave_locked() {
        assert!(thread::spawn(place_and_name).join().unwrap().0, "others are");
        let (sender, receiver) = mpsc::channel();
        assert!(spawn(c"of-c", 64 * 1024, move || sender.send(place_and_name()).unwrap()));
        assert_eq!(receiver.recv().unwrap(), (false, "of-c".to_owned()));
        // Its panic ends it alone.
        let (sender, receiver) = mpsc::channel::<()>();
        assert!(spawn(c"of-c", 64 * 1024, move || {
            let _kept = sender;
            panic!("planned");
        }));
        assert!(receiver.recv().is_err());
        assert!(!spawn(c"of-c", 1, || {}), "too small a stack");
    }
}
