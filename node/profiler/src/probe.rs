//! Whether this process may read the memory of another one, and what would let it.

use std::fs;

use nix::unistd::geteuid;

use crate::memory::process::ProcessMemory;
use crate::memory::{Address, Memory, ReadError, Span};
use crate::order::ProcessId;
use crate::refusal::Refusal;

/// What decides about reading another process's memory.
#[derive(Clone, Copy, Debug)]
struct Rights {
    own_user: u32,
    user: u32,
    can_trace: bool,
    /// 0 without Yama.
    yama_scope: u8,
}

const GRANT: &str = "grant CAP_SYS_PTRACE (systemd: AmbientCapabilities=CAP_SYS_PTRACE; \
                     containers: cap_add SYS_PTRACE)";
const CONFINED: &str = "CAP_SYS_PTRACE does not suffice: the process is in another user namespace, \
                        or a security module forbids it: run the profiler on the host, outside \
                        containers";
const NO_CALL: &str = "process_vm_readv is not available: allow it in the seccomp profile, or run \
                       the profiler outside the container";

/// # Errors
/// When the memory of the process may not be read; the text names the fix.
pub fn readable(pid: ProcessId) -> Result<(), Refusal> {
    // Rights come before addresses: with them, reading where nothing is mapped fails otherwise.
    let nothing = Span { start: Address(1), bytes: 1 };
    let fix = match ProcessMemory::new(pid).read_span(nothing) {
        Ok(_) | Err(ReadError::Unmapped) => return Ok(()),
        Err(ReadError::Ended) => return Err(Refusal::NoProcess(pid)),
        Err(ReadError::NoCall) => NO_CALL.to_owned(),
        Err(ReadError::Denied) => Rights::read(pid).ok_or(Refusal::NoProcess(pid))?.fix(),
    };
    Err(Refusal::Denied { pid, fix })
}

impl Rights {
    fn read(pid: ProcessId) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/status").ok()?;
        let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        Some(Self {
            own_user: geteuid().as_raw(),
            user: *users(pid)?.first()?,
            can_trace: can_trace(&own),
            yama_scope: scope.trim().parse().unwrap_or(0),
        })
    }

    /// Of the first reason that the kernel would find.
    fn fix(self) -> String {
        let Self { own_user, user, can_trace, yama_scope } = self;
        match yama_scope {
            3.. => format!(
                "kernel.yama.ptrace_scope is {yama_scope}: no process may read another one before \
                 the machine restarts with a lower scope"
            ),
            _ if can_trace => CONFINED.to_owned(),
            _ if own_user != user => {
                format!(
                    "it belongs to user {user}, not to {own_user}: run as user {user}, or {GRANT}"
                )
            }
            2 => format!("kernel.yama.ptrace_scope is 2: {GRANT}, or set the scope to 0"),
            1 => format!(
                "kernel.yama.ptrace_scope is 1: {GRANT}, let the job call prctl(PR_SET_PTRACER, \
                 PR_SET_PTRACER_ANY), or set the scope to 0"
            ),
            0 => format!(
                "it is not dumpable, as programs that change their user are: {GRANT}, or let it \
                 call prctl(PR_SET_DUMPABLE, 1)"
            ),
        }
    }
}

/// The users that a process acts for, its real one first: a program may have changed some of them.
pub fn users(pid: ProcessId) -> Option<Vec<u32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().map(|user| user.parse().ok()).collect()
}

/// Whether the effective capabilities in `/proc/PID/status` include `CAP_SYS_PTRACE`.
fn can_trace(status: &str) -> bool {
    const CAP_SYS_PTRACE: u64 = 1 << 19;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    set.is_some_and(|set| set & CAP_SYS_PTRACE != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_one_whose_fix_helps() {
        let rights = Rights { own_user: 5, user: 5, can_trace: false, yama_scope: 0 };
        let table = [
            (rights, "it is not dumpable", "PR_SET_DUMPABLE"),
            (Rights { user: 7, ..rights }, "it belongs to user 7, not to 5", "run as user 7"),
            (Rights { user: 7, yama_scope: 1, ..rights }, "it belongs to user 7", "CAP_SYS_PTRACE"),
            (Rights { yama_scope: 1, ..rights }, "scope is 1", "PR_SET_PTRACER"),
            (Rights { yama_scope: 2, ..rights }, "scope is 2", "CAP_SYS_PTRACE"),
            (Rights { yama_scope: 3, can_trace: true, ..rights }, "scope is 3", "restarts"),
            (Rights { user: 7, can_trace: true, ..rights }, "does not suffice", "on the host"),
        ];
        for (rights, reason, fix) in table {
            let text = rights.fix();
            assert!(text.contains(reason) && text.contains(fix), "{rights:?}: {text}");
        }
    }

    #[test]
    fn users_and_capability_are_read_from_status() {
        assert!(can_trace("Uid:\t1000\t0\t0\t0\nCapEff:\t0000000000080000\n"));
        assert!(!can_trace("CapEff:\t000001fffff7ffff\n"));
        assert!(!can_trace(""));
        let own = ProcessId(std::process::id().cast_signed());
        assert_eq!(users(own), Some(vec![geteuid().as_raw(); 4]));
    }
}
