//! What the threads of a process do, as the kernel sees them: running, waiting, or waiting for the
//! GIL.
//!
//! `/proc/PID/task/TID/syscall` has the call in which a thread is blocked, and its arguments. A
//! thread that waits for the global interpreter lock waits on a futex inside the lock. That file is
//! for the owner of the process alone: a profiler of another user, whose one right is to read
//! memory, has `/proc/PID/task/TID/stat`, in which such a thread waits for something.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use nix::libc::SYS_futex;
use plimsoll_profile::{Name, ThreadState};

use crate::limits::THREAD_FILES_MAX;
use crate::memory::Address;
use crate::order::ProcessId;

/// The threads of a process, with an open file each.
#[derive(Debug)]
pub struct KernelThreads {
    pid: ProcessId,
    /// By the number that the thread itself has, which differs from ours in a pid namespace.
    known: HashMap<u64, KernelThread>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Its name when it was first seen, and its number here: threads of a pool often share a name.
    pub label: Name,
    pub state: ThreadState,
}

#[derive(Debug)]
struct KernelThread {
    label: Name,
    source: Source,
}

/// The file that has what a thread does.
#[derive(Debug)]
enum Source {
    Call(File),
    Stat(File),
}

impl KernelThreads {
    pub fn new(pid: ProcessId) -> Self {
        Self { pid, known: HashMap::new() }
    }

    /// What the thread does now; `None` when it has ended.
    pub fn observe(&mut self, native_id: u64, gil: Address) -> Option<Observed> {
        let kept = self.known.get(&native_id).and_then(|thread| thread.observe(gil));
        if kept.is_some() {
            return kept;
        }

        if self.known.len() >= THREAD_FILES_MAX {
            self.known.clear();
        }
        let thread = KernelThread::open(self.pid, native_id)?;
        let observed = thread.observe(gil);
        self.known.insert(native_id, thread);
        observed
    }
}

/// The name that a profile has for a thread, by its number here.
pub(crate) fn label(pid: ProcessId, id: u64) -> Option<Name> {
    let name = fs::read(format!("/proc/{pid}/task/{id}/comm")).ok()?;
    let name = String::from_utf8_lossy(&name);
    Some(format!("{} {id}", name.trim_end_matches('\n')).into())
}

/// The number that a thread has itself, by its number here.
pub(crate) fn native_id(pid: ProcessId, id: u64) -> Option<u64> {
    own_id(&fs::read_to_string(format!("/proc/{pid}/task/{id}/status")).ok()?)
}

impl KernelThread {
    fn open(pid: ProcessId, native_id: u64) -> Option<Self> {
        let id = kernel_id(pid, native_id)?;
        let task = format!("/proc/{pid}/task/{id}");
        let label = label(pid, id)?;
        let call = File::open(format!("{task}/syscall")).map(Source::Call);
        let source = call.or_else(|_| File::open(format!("{task}/stat")).map(Source::Stat));
        Some(Self { label, source: source.ok()? })
    }

    fn observe(&self, gil: Address) -> Option<Observed> {
        // A call's number, six arguments, two addresses; of the other file the start is enough.
        let mut bytes = [0; 256];
        let (Source::Call(file) | Source::Stat(file)) = &self.source;
        let length = file.read_at(&mut bytes, 0).ok()?;
        let text = String::from_utf8_lossy(&bytes[..length]);

        let state = match &self.source {
            Source::Call(_) => activity(&text, gil),
            Source::Stat(_) => activity_in_stat(&text)?,
        };
        Some(Observed { label: self.label.clone(), state })
    }
}

/// The number that a thread has here: mostly the one that it has itself.
fn kernel_id(pid: ProcessId, native_id: u64) -> Option<u64> {
    let tasks = format!("/proc/{pid}/task");
    let is_it = |id: u64| self::native_id(pid, id) == Some(native_id);
    if is_it(native_id) {
        return Some(native_id);
    }

    let others = fs::read_dir(&tasks).ok()?.filter_map(Result::ok);
    let mut others = others.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    others.find(|id| is_it(*id))
}

/// The number that a process has itself.
pub(super) fn own_number(pid: ProcessId) -> Option<u64> {
    own_id(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// The number in the innermost pid namespace.
fn own_id(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

fn activity(call: &str, gil: Address) -> ThreadState {
    /// What the lock takes in every version: two conditions, two mutexes and some numbers.
    const GIL_BYTES: u64 = 256;
    let mut fields = call.split_ascii_whitespace();
    match fields.next() {
        Some("running") => ThreadState::Running,
        Some(number) if number.parse() == Ok(SYS_futex) => {
            let argument = fields.next().and_then(|text| text.strip_prefix("0x"));
            let futex = argument.and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
            let is_gil = !gil.is_null() && futex.wrapping_sub(gil.0) < GIL_BYTES;
            if is_gil { ThreadState::Gil } else { ThreadState::Waiting }
        }
        _ => ThreadState::Waiting,
    }
}

/// By the letter after the name, which may have any characters; `None` without one.
fn activity_in_stat(stat: &str) -> Option<ThreadState> {
    match stat.rsplit_once(") ")?.1.chars().next()? {
        'R' => Some(ThreadState::Running),
        'Z' | 'X' => None,
        _ => Some(ThreadState::Waiting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_or_waits_by_its_letter() {
        for (stat, expected) in [
            ("7 (python3) R 1 7 7 0", Some(ThreadState::Running)),
            ("7 (a) S b) S 1 7 7 0", Some(ThreadState::Waiting)),
            ("7 (a) R b) D 1 7", Some(ThreadState::Waiting)),
            ("7 (python3) Z 1", None),
            ("7 (python3", None),
            ("", None),
        ] {
            assert_eq!(activity_in_stat(stat), expected, "{stat}");
        }
    }

    #[test]
    fn a_thread_waits_for_the_lock_if_its_futex_lies_in_it() {
        let call =
            |address: u64| format!("{SYS_futex} {address:#x} 0x189 0x0 0x7f 0x0 0x0 0x1 0x2\n");
        let table = [
            ("running\n".to_owned(), ThreadState::Running),
            (call(0x1000), ThreadState::Gil),
            (call(0x10ff), ThreadState::Gil),
            (call(0x1100), ThreadState::Waiting),
            (call(0xfff), ThreadState::Waiting),
            ("0 0x1000 0x0 0x0 0x0 0x0 0x0 0x1 0x2\n".to_owned(), ThreadState::Waiting),
            ("-1 0x7ffd 0x7f12\n".to_owned(), ThreadState::Waiting),
            (format!("{SYS_futex}\n"), ThreadState::Waiting),
            (String::new(), ThreadState::Waiting),
        ];
        for (text, expected) in table {
            assert_eq!(activity(&text, Address(0x1000)), expected, "{text}");
        }
        assert_eq!(activity(&call(16), Address(0)), ThreadState::Waiting);
    }

    #[test]
    fn a_thread_has_the_number_of_its_own_namespace() {
        assert_eq!(own_id("Name:\ta\nNSpid:\t120\t45\t3\nThreads:\t1\n"), Some(3));
        assert_eq!(own_id("NSpid:\t120\n"), Some(120));
        assert_eq!(own_id("Pid:\t120\n"), None);
    }
}
