//! CPU time and memory of processes, as the kernel reports them.

use std::time::Duration;

use serde::Serialize;

/// Time of one tick in `/proc/<id>/stat`: a fixed part of Linux' interface to user space.
const TICK: Duration = Duration::from_millis(10);

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// CPU seconds in user and kernel mode, of all its threads.
    pub cpu_seconds: f64,
    /// Resident bytes now.
    pub resident_bytes: u64,
    /// The fewest resident bytes since it was last recorded: what a process holds between bursts,
    /// such as pages of all nodes.
    pub resident_floor_bytes: u64,
    /// Open handles: files, sockets and the like.
    pub handles: u64,
    pub threads: u64,
}

/// What the process `id` has used; `None` when there is no such process.
pub fn usage(id: u32) -> Option<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let number = |key: &str| -> Option<u64> {
        let value = status.lines().find_map(|line| line.strip_prefix(key))?;
        value.split_whitespace().next()?.parse().ok()
    };
    let (kib, threads) = (number("VmRSS:")?, number("Threads:")?);
    let handles = std::fs::read_dir(format!("/proc/{id}/fd")).ok()?.count() as u64;
    let ticks = cpu_ticks(&stat)?;
    let (cpu_seconds, resident_bytes) = (ticks * TICK.as_secs_f64(), kib * 1024);
    let resident_floor_bytes = resident_bytes;
    Some(Usage { cpu_seconds, resident_bytes, resident_floor_bytes, handles, threads })
}

impl Usage {
    /// The same, with the floor since `before` was read. A process that was down has none of then.
    pub fn since(self, before: &Self) -> Self {
        let floor = match before.resident_floor_bytes {
            0 => self.resident_floor_bytes,
            before => before.min(self.resident_floor_bytes),
        };
        Self { resident_floor_bytes: floor, ..self }
    }
}

/// CPU seconds that the thread `name` of this process has used; zero when there is none.
pub fn thread_cpu_seconds(name: &str) -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let named = tasks.filter(|task| {
        let comm = std::fs::read_to_string(task.path().join("comm"));
        comm.is_ok_and(|comm| comm.trim_end() == name)
    });
    let ticks = named
        .filter_map(|task| cpu_ticks(&std::fs::read_to_string(task.path().join("stat")).ok()?));
    ticks.sum::<f64>() * TICK.as_secs_f64()
}

/// The fields `utime` and `stime`, the 14th and 15th. The second is the program's name in
/// brackets and may hold anything.
fn cpu_ticks(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some(ticks()? + ticks()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_ticks(stat), Some(300.0));
        assert_eq!(cpu_ticks("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_has_used_something_and_no_process_nothing() {
        let own = usage(std::process::id()).unwrap();
        assert!(own.resident_bytes > 100 * 1024, "{own:?}");
        assert!(own.handles >= 3 && own.threads >= 1, "{own:?}");
        assert_eq!(usage(0), None);
    }

    #[test]
    fn the_floor_is_below_bursts_and_does_not_outlive_a_process() {
        let at = |bytes: u64| Usage {
            resident_bytes: bytes,
            resident_floor_bytes: bytes,
            ..Usage::default()
        };
        let held = |all: &[u64]| all.iter().map(|of| at(*of)).reduce(|now, next| next.since(&now));
        assert_eq!(held(&[5, 9, 6]).unwrap().resident_floor_bytes, 5);
        assert_eq!(held(&[9, 5, 6]).map(|of| of.resident_bytes), Some(6));
        assert_eq!(held(&[9, 0, 6]).unwrap().resident_floor_bytes, 6);
    }

    #[test]
    fn a_thread_is_found_by_its_name() {
        let busy = || {
            let mut turns = 0_u64;
            while thread_cpu_seconds("busy") < 0.03 && turns < 1_000_000 {
                turns += 1;
            }
            thread_cpu_seconds("busy")
        };
        let thread = std::thread::Builder::new().name("busy".to_owned()).spawn(busy).unwrap();
        assert!(thread.join().unwrap() >= 0.03);
        assert!(thread_cpu_seconds("absent") <= 0.0);
    }
}
