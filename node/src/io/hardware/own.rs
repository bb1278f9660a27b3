//! What this process itself costs, from sysinfo.
//!
//! Never a whole refresh: sysinfo would open every process's tasks and keep the handles.

use plimsoll_schemas::hardware::{MissingReading, PROCESS_CPU_RATIO, PROCESS_RESIDENT_BYTES};
use plimsoll_schemas::time::{Mono, seconds};
use sysinfo::{Pid, Process, ProcessRefreshKind, ProcessesToUpdate, System};

use super::gather::Gather;
use super::scale::{self, Raw};

const FAILED: Raw = Err(MissingReading::failed("unread"));

/// Queries sysinfo, and keeps what this process had used the last time.
#[derive(Default)]
pub(super) struct Own {
    system: Option<System>,
    spent: Option<Spent>,
}

/// CPU time of this process up to a point in time.
#[derive(Clone, Copy)]
struct Spent {
    at: Mono,
    cpu_ms: u64,
}

impl Own {
    /// sysinfo's share of a process reads 0 until the process has used CPU time twice; the total
    /// that it also returns does not.
    pub(super) fn gather(&mut self, now: Mono, gather: &mut Gather) {
        let pid = Pid::from_u32(std::process::id());
        let wanted = ProcessRefreshKind::nothing().without_tasks().with_cpu().with_memory();
        if self.system.is_none() {
            self.system = System::new().ok();
        }

        let process = self.system.as_mut().and_then(|system| {
            let one = ProcessesToUpdate::Some(&[pid]);
            let seen = system.refresh_processes_specifics(one, true, wanted);
            system.process(pid).filter(|_| seen > 0)
        });

        let resident = process.map_or(FAILED, |process| scale::bytes(process.memory()));
        gather.put(&PROCESS_RESIDENT_BYTES, resident);
        let cpu_ms = process.map(Process::accumulated_cpu_time);
        let spent = cpu_ms.map(|cpu_ms| Spent { at: now, cpu_ms });

        match (self.spent, spent) {
            (Some(before), Some(spent)) => gather.put(&PROCESS_CPU_RATIO, Ok(share(before, spent))),
            (_, None) => gather.put(&PROCESS_CPU_RATIO, FAILED),
            (None, Some(_)) => {}
        }

        self.spent = spent;
    }
}

fn share(before: Spent, spent: Spent) -> f64 {
    let cpu_ns = spent.cpu_ms.saturating_sub(before.cpu_ms).saturating_mul(1_000_000);
    let elapsed_ns = spent.at.0.saturating_sub(before.at.0).max(1);
    seconds(cpu_ns) / seconds(elapsed_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_share_is_cpu_time_over_elapsed_time() {
        let before = Spent { at: Mono(0), cpu_ms: 40 };
        for (at, cpu_ms, ratio) in [(1_000_000_000, 50, 0.01), (2_000_000_000, 4_040, 2.0)] {
            assert_eq!(share(before, Spent { at: Mono(at), cpu_ms }), ratio);
        }
        assert_eq!(share(before, Spent { at: Mono(0), cpu_ms: 40 }), 0.0);
    }
}
