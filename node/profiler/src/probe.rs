//! What this process may read of another one, and what would let it read more.

use std::fmt;
use std::fs;

use nix::unistd::geteuid;

use crate::layout::Version;
use crate::memory::process::ProcessMemory;
use crate::memory::{Address, Memory, ReadError, Span};
use crate::order::ProcessId;
use crate::refusal::Refusal;
use crate::target::interpreter::Interpreter;

/// The rungs to a process's stacks, lowest first.
#[derive(Debug)]
pub struct Probe {
    /// What each thread does, from `/proc`.
    pub states: Result<(), Closed>,
    /// The memory of the process.
    pub memory: Result<(), Closed>,
    /// Python stacks in it. Nothing is known when the memory is closed.
    pub stacks: Option<Result<Version, Refusal>>,
}

/// Why something may not be read. The text names the fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    NoProcess,
    OtherUser { own: u32, other: u32 },
    Yama { scope: u8 },
    NotDumpable,
    Confined,
    NoCall,
}

/// What decides about reading another process's memory.
#[derive(Clone, Copy, Debug)]
struct Rights {
    own_user: u32,
    user: u32,
    can_trace: bool,
    /// `None` without Yama.
    yama_scope: Option<u8>,
}

/// Finds out what can be read of a process.
pub fn probe(pid: ProcessId) -> Probe {
    let states = fs::read(format!("/proc/{pid}/stat"));
    let states = states.map(|_| ()).map_err(|_| Closed::NoProcess);
    let memory = memory(pid);
    let found = memory.is_ok().then(|| Interpreter::find(pid, &ProcessMemory::new(pid)));
    let stacks = found.map(|found| found.map(|interpreter| interpreter.version));
    Probe { states, memory, stacks }
}

/// Whether the memory of a process may be read.
///
/// # Errors
/// Why not.
pub fn memory(pid: ProcessId) -> Result<(), Closed> {
    // Rights come before addresses: with them, reading where nothing is mapped fails otherwise.
    let nothing = Span { start: Address(1), bytes: 1 };
    match ProcessMemory::new(pid).read_span(nothing) {
        Ok(_) | Err(ReadError::Unmapped) => Ok(()),
        Err(ReadError::Ended) => Err(Closed::NoProcess),
        Err(ReadError::NoCall) => Err(Closed::NoCall),
        Err(ReadError::Denied) => Err(Rights::read(pid).map_or(Closed::NoProcess, Rights::reason)),
    }
}

impl Rights {
    fn read(pid: ProcessId) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let own = fs::read_to_string("/proc/self/status").ok()?;
        let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
        Some(Self {
            own_user: geteuid().as_raw(),
            user: user(&status)?,
            can_trace: can_trace(&own),
            yama_scope: scope.ok().and_then(|text| text.trim().parse().ok()),
        })
    }

    /// The first reason that the kernel would find.
    fn reason(self) -> Closed {
        let scope = self.yama_scope.unwrap_or(0);
        match self {
            _ if scope >= 3 => Closed::Yama { scope },
            Self { can_trace: true, .. } => Closed::Confined,
            Self { own_user, user, .. } if own_user != user => {
                Closed::OtherUser { own: own_user, other: user }
            }
            _ if scope >= 1 => Closed::Yama { scope },
            _ => Closed::NotDumpable,
        }
    }
}

/// The real user in `/proc/PID/status`.
fn user(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Whether the effective capabilities in `/proc/PID/status` include `CAP_SYS_PTRACE`.
fn can_trace(status: &str) -> bool {
    const CAP_SYS_PTRACE: u64 = 1 << 19;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    set.is_some_and(|set| set & CAP_SYS_PTRACE != 0)
}

const GRANT: &str = "grant CAP_SYS_PTRACE (systemd: AmbientCapabilities=CAP_SYS_PTRACE; \
                     containers: cap_add SYS_PTRACE)";

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess => write!(
                f,
                "there is no such process in this /proc: use the number that it has here, share its \
                 pid namespace, or mount /proc without hidepid"
            ),
            Self::OtherUser { own, other } => {
                write!(
                    f,
                    "it belongs to user {other}, not to {own}: run as user {other}, or {GRANT}"
                )
            }
            Self::Yama { scope: 1 } => write!(
                f,
                "kernel.yama.ptrace_scope is 1: {GRANT}, let the job call prctl(PR_SET_PTRACER, \
                 PR_SET_PTRACER_ANY), or set the scope to 0"
            ),
            Self::Yama { scope: 2 } => {
                write!(f, "kernel.yama.ptrace_scope is 2: {GRANT}, or set the scope to 0")
            }
            Self::Yama { scope } => write!(
                f,
                "kernel.yama.ptrace_scope is {scope}: no process may read another one before the \
                 machine restarts with a lower scope"
            ),
            Self::NotDumpable => write!(
                f,
                "it is not dumpable, as programs that change their user are: {GRANT}, or let it call \
                 prctl(PR_SET_DUMPABLE, 1)"
            ),
            Self::Confined => write!(
                f,
                "CAP_SYS_PTRACE does not suffice: the process is in another user namespace, or a \
                 security module forbids it: run the profiler on the host, outside containers"
            ),
            Self::NoCall => write!(
                f,
                "process_vm_readv is not available: allow it in the seccomp profile, or run the \
                 profiler outside the container"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_one_whose_fix_helps() {
        let rights = Rights { own_user: 5, user: 5, can_trace: false, yama_scope: None };
        let other = Closed::OtherUser { own: 5, other: 7 };
        let table = [
            (rights, Closed::NotDumpable),
            (Rights { user: 7, ..rights }, other),
            (Rights { user: 7, yama_scope: Some(1), ..rights }, other),
            (Rights { yama_scope: Some(0), ..rights }, Closed::NotDumpable),
            (Rights { yama_scope: Some(1), ..rights }, Closed::Yama { scope: 1 }),
            (Rights { yama_scope: Some(2), ..rights }, Closed::Yama { scope: 2 }),
            (Rights { yama_scope: Some(3), can_trace: true, ..rights }, Closed::Yama { scope: 3 }),
            (Rights { user: 7, can_trace: true, ..rights }, Closed::Confined),
        ];
        for (rights, expected) in table {
            assert_eq!(rights.reason(), expected, "{rights:?}");
        }
    }

    #[test]
    fn user_and_capability_are_read_from_status() {
        let status = "Uid:\t1000\t0\t0\t0\nCapEff:\t0000000000080000\n";
        assert_eq!((user(status), can_trace(status)), (Some(1000), true));
        let status = "Uid:\nCapEff:\t000001fffff7ffff\n";
        assert_eq!((user(status), can_trace(status)), (None, false));
        assert!(!can_trace(""));
    }

    #[test]
    fn each_reason_names_what_to_do() {
        let table = [
            (Closed::OtherUser { own: 5, other: 7 }, "run as user 7"),
            (Closed::Yama { scope: 1 }, "PR_SET_PTRACER"),
            (Closed::Yama { scope: 2 }, "CAP_SYS_PTRACE"),
            (Closed::Yama { scope: 3 }, "restarts"),
            (Closed::NotDumpable, "PR_SET_DUMPABLE"),
            (Closed::Confined, "on the host"),
            (Closed::NoCall, "seccomp"),
            (Closed::NoProcess, "pid namespace"),
        ];
        for (closed, fix) in table {
            assert!(closed.to_string().contains(fix), "{closed}");
        }
    }
}
