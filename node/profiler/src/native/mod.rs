//! Stacks of native code: what a process's threads run on a processor, whichever language it is.
//!
//! `rings` gets samples from the kernel, `registers` is what one starts with, `code` turns it into
//! frames by means of each file's `tables` and `symbols`, `kernel` names the part inside the
//! kernel, and `merge` puts Python's frames in. Nothing is paused: the kernel copies registers and
//! stack while it has the thread interrupted by its clock anyway.
//!
//! DESIGN N99.

mod code;
mod kernel;
mod merge;
mod registers;
mod rings;
mod symbols;
mod tables;

use std::fmt;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use code::Code;
use nix::errno::Errno;
use plimsoll_clock::{Deadline, since_boot};
use plimsoll_profile::{Frame, TRUNCATED};
use rings::Rings;
use symbols::Symbols;

pub use rings::{Event, NativeSample, NativeThread, Ready, Wakes};

use crate::limits::PYTHON_LATE_MILLIS_MAX;
use crate::order::Order;
use crate::reader::PythonStack;
use crate::refusal::Refusal;

/// Native stacks of one process.
pub struct Native {
    rings: Rings,
    code: Code,
    kernel: Symbols,
    threads_until: Deadline,
}

/// What the stacks show and what they lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeFacts {
    /// Whether time inside the kernel is seen.
    pub has_kernel: bool,
    /// Threads that could not be sampled.
    pub unobserved: usize,
}

impl fmt::Display for NativeFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.has_kernel { "user and kernel" } else { "user" })?;
        if self.unobserved > 0 {
            write!(f, ", {} threads not sampled", self.unobserved)?;
        }
        Ok(())
    }
}

/// Time for which no thread is sought: one that lives shorter is not sampled.
const THREADS_FOR: Duration = Duration::from_millis(250);

impl Native {
    /// # Errors
    /// When no thread of the process may be sampled; the text names the fix.
    pub fn open(order: &Order, wakes: Wakes) -> Result<Self, Refusal> {
        let pid = order.pid;
        let rings = Rings::open(pid, order.period(), wakes);
        let rings = rings.map_err(|error| Refusal::NotSampled { pid, fix: fix(&error) })?;
        let kernel = if rings.has_kernel { kernel::functions() } else { Symbols::default() };
        let mut code = Code::new(pid);
        code.refresh();
        Ok(Self { rings, code, kernel, threads_until: Deadline::within(THREADS_FOR) })
    }

    /// Waits for samples, until a time is over; which threads have some.
    pub fn wait(&mut self, span: Duration) -> Vec<Ready> {
        self.rings.wait(span)
    }

    /// All threads that may have samples; those that started are sought.
    pub fn all(&mut self) -> Vec<Ready> {
        if self.threads_until.has_passed() {
            // One that cannot be sampled is counted, and tried again.
            let _counted = self.rings.find_threads();
            self.code.refresh();
            self.threads_until = Deadline::within(THREADS_FOR);
        }
        self.rings.all()
    }

    /// The next event of a thread.
    pub fn next(&mut self, ready: Ready) -> Option<Event> {
        self.rings.next(ready)
    }

    /// The stack of a sample, root first, with the Python frames that were read after it; `None`
    /// when they do not belong together.
    pub fn stack(
        &mut self,
        sample: &NativeSample,
        python: &PythonStack,
    ) -> Option<Vec<Arc<Frame>>> {
        let walk = self.code.walk(&sample.start, &sample.stack);
        let walk = merge::merged(walk, python)?;
        let mut root_first = walk.root_first;
        if walk.is_cut {
            root_first.insert(0, Frame::marker(TRUNCATED));
        }
        root_first.extend(kernel::frames(&self.kernel, &sample.kernel));
        Some(root_first)
    }

    /// The threads that are sampled, by their own numbers.
    pub fn threads(&self) -> impl Iterator<Item = u64> {
        self.rings.threads().map(|thread| thread.native_id)
    }

    pub fn facts(&self) -> NativeFacts {
        let Rings { has_kernel, unobserved, .. } = &self.rings;
        NativeFacts { has_kernel: *has_kernel, unobserved: unobserved.len() }
    }
}

impl NativeSample {
    /// Whether Python frames that are read now may be those of the sample.
    pub fn is_fresh(&self) -> bool {
        since_boot().0.saturating_sub(self.taken_at.0) <= PYTHON_LATE_MILLIS_MAX
    }
}

const GRANT: &str = "grant CAP_PERFMON and perf_event_open (systemd: AmbientCapabilities, \
                     SystemCallFilter; containers: cap_add PERFMON, seccomp profile)";

/// Of why the kernel gives no samples.
fn fix(error: &io::Error) -> String {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let paranoid = paranoid.trim().parse().unwrap_or(2);
    fix_of(error.raw_os_error().map(Errno::from_raw), paranoid, error)
}

fn fix_of(errno: Option<Errno>, paranoid: i32, error: &io::Error) -> String {
    match errno {
        Some(Errno::EACCES | Errno::EPERM) if paranoid > 2 => {
            format!("kernel.perf_event_paranoid is {paranoid}: {GRANT}, or set it to 2")
        }
        Some(Errno::EACCES | Errno::EPERM) => GRANT.to_owned(),
        Some(Errno::ENOSYS) => {
            "perf_event_open is not available: the kernel lacks it, or a seccomp filter stops it: \
             run the profiler outside the container"
                .to_owned()
        }
        Some(Errno::EMFILE) => "too few descriptors: raise LimitNOFILE (ulimit -n)".to_owned(),
        Some(Errno::ENOMEM) => {
            "too little memory may be locked: raise LimitMEMLOCK (ulimit -l)".to_owned()
        }
        _ => format!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::remote_text::CHARS_MAX;

    use super::*;
    use crate::order::ProcessId;

    #[test]
    fn what_stops_sampling_names_its_fix() {
        let table = [
            (Errno::EACCES, 3, "kernel.perf_event_paranoid is 3: grant CAP_PERFMON"),
            (Errno::EPERM, 2, "grant CAP_PERFMON"),
            (Errno::EPERM, -1, "seccomp profile"),
            (Errno::ENOSYS, 2, "seccomp filter"),
            (Errno::EMFILE, 2, "LimitNOFILE"),
            (Errno::ENOMEM, 2, "LimitMEMLOCK"),
            (Errno::EINVAL, 2, "Invalid argument"),
        ];
        for (errno, paranoid, part) in table {
            let fix = fix_of(Some(errno), paranoid, &errno.into());
            // The highest number of a process.
            let text = Refusal::NotSampled { pid: ProcessId(1 << 22), fix }.to_string();
            assert!(text.contains(part), "{errno}: {text}");
            assert!(text.len() <= CHARS_MAX, "it is cut on its way: {text}");
        }
    }
}
