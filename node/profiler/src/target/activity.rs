//! What the threads of a process do, as the kernel sees them: running, waiting, or waiting for the
//! GIL; and which of them have not run since they were last read.
//!
//! `/proc/PID/task/TID/syscall` has the call in which a thread is blocked, and its arguments. A
//! thread that waits for the global interpreter lock waits on a futex inside the lock. That file is
//! for the owner of the process alone: a profiler of another user, whose one right is to read
//! memory, has `/proc/PID/task/TID/stat`, in which such a thread waits for something. All may read
//! `schedstat`, how long and how often a thread had a processor.
//!
//! DESIGN N102.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use nix::libc::SYS_futex;
use plimsoll_profile::{Name, ThreadState};

use crate::limits::{THREADS_COUNTED_MAX, THREADS_OPEN_MAX};
use crate::memory::Address;
use crate::order::ProcessId;
use crate::reader::ThreadReading;

/// The threads of a process, with open files of each.
#[derive(Debug)]
pub struct KernelThreads {
    pid: ProcessId,
    /// By the number that the thread itself has, which differs from ours in a pid namespace.
    known: HashMap<u64, KernelThread>,
    samples: u64,
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
    /// Its directory in `/proc`.
    task: String,
    source: Source,
    /// Absent from kernels that do not count.
    schedstat: Option<File>,
    /// Before its stack was last read.
    ran: Option<Ran>,
    stands: bool,
    state: ThreadState,
    /// What it last waited for.
    wait: ThreadState,
    /// When this was last read.
    left: Option<Left>,
    /// The last sample that had it.
    sample: u64,
}

/// How long and how often a thread had a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ran {
    nanos: u64,
    turns: u64,
}

/// How often a thread left a processor: of itself, to wait, or because others needed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    waits: u64,
    preemptions: u64,
}

/// The file that has what a thread does.
#[derive(Debug)]
enum Source {
    Call(File),
    Stat(File),
}

impl KernelThreads {
    pub fn new(pid: ProcessId) -> Self {
        Self { pid, known: HashMap::new(), samples: 0 }
    }

    /// Makes room for new threads if there is none: those that the last sample did not have go.
    pub fn start_sample(&mut self) {
        if self.known.len() >= THREADS_OPEN_MAX {
            self.known.retain(|_, thread| thread.sample == self.samples);
        }
        self.samples += 1;
    }

    /// Whether the thread waited at the last sample and has not run since: then its stack is what
    /// it was. To be asked before the stack is read.
    pub fn stands(&mut self, native_id: u64) -> bool {
        self.known.get_mut(&native_id).is_some_and(KernelThread::stands)
    }

    /// What the thread does now, after its stack was read; `None` when it has ended.
    pub fn observe(&mut self, reading: &ThreadReading) -> Option<Observed> {
        let open = self.known.len();
        if let Some(thread) = self.known.get_mut(&reading.native_id)
            && let Some(observed) = thread.observe(reading)
        {
            thread.sample = self.samples;
            return Some(observed);
        }

        let is_counted = open < THREADS_COUNTED_MAX;
        let mut thread = KernelThread::open(self.pid, reading.native_id, is_counted)?;
        let observed = thread.observe(reading);
        thread.sample = self.samples;
        if open < THREADS_OPEN_MAX {
            self.known.insert(reading.native_id, thread);
        }
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
    fn open(pid: ProcessId, native_id: u64, is_counted: bool) -> Option<Self> {
        let id = kernel_id(pid, native_id)?;
        let task = format!("/proc/{pid}/task/{id}");
        let label = label(pid, id)?;
        let call = File::open(format!("{task}/syscall")).map(Source::Call);
        let source = call.or_else(|_| File::open(format!("{task}/stat")).map(Source::Stat)).ok()?;
        let schedstat = is_counted.then(|| File::open(format!("{task}/schedstat")).ok()).flatten();
        let (state, wait) = (ThreadState::Running, ThreadState::Waiting);
        let (ran, stands, left, sample) = (None, false, None, 0);
        Some(Self { label, task, source, schedstat, ran, stands, state, wait, left, sample })
    }

    /// A thread that had a processor when this was last read, and left it then, has run longer: a
    /// time and a number that are the same mean that it did not run in between.
    fn stands(&mut self) -> bool {
        // One that runs mostly goes on: it is not worth a read.
        let schedstat = self.schedstat.as_ref().filter(|_| self.state != ThreadState::Running);
        let ran = schedstat.and_then(Ran::read);
        self.stands = ran.is_some() && ran == self.ran;
        self.ran = ran;
        self.stands
    }

    fn observe(&mut self, reading: &ThreadReading) -> Option<Observed> {
        if !std::mem::take(&mut self.stands) {
            self.state = match self.source.state(reading.gil)? {
                ThreadState::Running if !reading.holds_gil => self.runnable(),
                state => state,
            };
            if self.state != ThreadState::Running {
                self.wait = self.state;
            }
        }
        Some(Observed { label: self.label.clone(), state: self.state })
    }

    /// The state of a thread that can run. Without a processor it was preempted, perhaps by this
    /// program; or it was woken, and stands where it waited.
    fn runnable(&mut self) -> ThreadState {
        let Some(left) = Left::read(&self.task) else { return ThreadState::Running };
        // Read last: as many turns as it left then are over. A turn that started since its stack
        // was about to be read is later than that.
        let ran = self.schedstat.as_ref().and_then(Ran::read).map(|ran| ran.turns);
        let is_later = self.ran.is_some_and(|before| ran != Some(before.turns));
        let is_off = is_later || ran == Some(left.waits + left.preemptions);
        match self.left.replace(left) {
            _ if !is_off => ThreadState::Running,
            // It has had no turn since.
            Some(before) if before == left => self.state,
            Some(before) if before.waits == left.waits => ThreadState::Running,
            _ => self.wait,
        }
    }
}

impl Source {
    fn state(&self, gil: Address) -> Option<ThreadState> {
        // A call's number, six arguments, two addresses; of the other file the start is enough.
        let mut bytes = [0; 256];
        let (Self::Call(file) | Self::Stat(file)) = self;
        let length = file.read_at(&mut bytes, 0).ok()?;
        let text = String::from_utf8_lossy(&bytes[..length]);
        match self {
            Self::Call(_) => Some(activity(&text, gil)),
            Self::Stat(_) => activity_in_stat(&text),
        }
    }
}

impl Ran {
    fn read(schedstat: &File) -> Option<Self> {
        let mut bytes = [0; 64];
        let length = schedstat.read_at(&mut bytes, 0).ok()?;
        Self::parse(str::from_utf8(&bytes[..length]).ok()?)
    }

    /// `None` where the kernel does not count.
    fn parse(schedstat: &str) -> Option<Self> {
        let mut fields = schedstat.split_ascii_whitespace();
        let nanos = fields.next()?.parse().ok()?;
        let turns = fields.nth(1)?.parse().ok()?;
        (turns > 0).then_some(Self { nanos, turns })
    }
}

impl Left {
    fn read(task: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("{task}/status")).ok()?)
    }

    fn parse(status: &str) -> Option<Self> {
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
        };
        let waits = field("voluntary_ctxt_switches:")?;
        Some(Self { waits, preemptions: field("nonvoluntary_ctxt_switches:")? })
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
    fn turns_on_a_processor_are_counted_where_the_kernel_does() {
        let table = [
            ("127670 84026 2\n", Some(Ran { nanos: 127_670, turns: 2 })),
            ("0 0 0\n", None),
            ("127670 84026\n", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(Ran::parse(text), expected, "{text}");
        }
        let status = "Name:\tvoluntary_ctxt_switches:\t9\nvoluntary_ctxt_switches:\t12\n\
                      nonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(Left::parse(status), Some(Left { waits: 12, preemptions: 3 }));
        assert_eq!(Left::parse("Name:\ta\n"), None);
    }

    #[test]
    fn a_thread_has_the_number_of_its_own_namespace() {
        assert_eq!(own_id("Name:\ta\nNSpid:\t120\t45\t3\nThreads:\t1\n"), Some(3));
        assert_eq!(own_id("NSpid:\t120\n"), Some(120));
        assert_eq!(own_id("Pid:\t120\n"), None);
    }
}
