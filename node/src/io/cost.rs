//! The cost of the node: time per stage, CPU, memory.
//!
//! A stage ends where the next begins, so each costs one clock read for many samples; what the
//! connection to the broker and the pages do in tasks of their own is in the CPU time alone.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use plimsoll_clock::Stopwatch;

/// A part of a driver's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Taking datagrams from the kernel.
    Receive,
    /// Reading them and recording their samples.
    Intake,
    /// Taking frames and recording them.
    Frames,
    /// Recording bodies of OTLP.
    Otlp,
    /// Sealing intervals and whatever else is due.
    Decide,
    /// Handing messages to the connection.
    Publish,
    /// Handing changes to the spool's thread.
    Spool,
}

impl Stage {
    /// All of them, in the order of a turn.
    pub const ALL: [Self; 7] = [
        Self::Receive,
        Self::Intake,
        Self::Frames,
        Self::Otlp,
        Self::Decide,
        Self::Publish,
        Self::Spool,
    ];

    /// As a label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Intake => "intake",
            Self::Frames => "frames",
            Self::Otlp => "otlp",
            Self::Decide => "decide",
            Self::Publish => "publish",
            Self::Spool => "spool",
        }
    }
}

/// Time spent by stage.
#[derive(Debug)]
pub struct Cost {
    watch: Stopwatch,
    spent: [Duration; Stage::ALL.len()],
}

impl Default for Cost {
    fn default() -> Self {
        Self { watch: Stopwatch::start(), spent: [Duration::ZERO; Stage::ALL.len()] }
    }
}

impl Cost {
    /// Starts a stage; the time since the last one counts for none.
    pub fn begin(&mut self) {
        let _waited = self.watch.lap();
    }

    /// Ends a stage and starts the next.
    pub fn end(&mut self, stage: Stage) {
        self.spent[stage as usize] += self.watch.lap();
    }

    /// Time spent in each stage so far.
    #[must_use]
    pub fn by_stage(&self) -> [(Stage, Duration); Stage::ALL.len()] {
        Stage::ALL.map(|stage| (stage, self.spent[stage as usize]))
    }
}

/// CPU time of all threads of this process so far, user and system together.
#[must_use]
pub fn cpu() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let spent = [usage.user_time(), usage.system_time()].map(|time| {
        let (seconds, micros) = (u64::try_from(time.tv_sec()), u32::try_from(time.tv_usec()));
        Some(Duration::new(seconds.ok()?, micros.ok()? * 1_000))
    });
    Some(spent[0]? + spent[1]?)
}

/// Bytes of this process that are resident.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn resident(status: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_to_the_stage_that_ends() {
        let mut cost = Cost::default();
        let total = Stopwatch::start();
        cost.begin();
        cost.end(Stage::Receive);
        cost.end(Stage::Intake);
        cost.end(Stage::Receive);
        let by_stage = cost.by_stage();
        let spent: Duration = by_stage.iter().map(|(_, spent)| *spent).sum();
        assert!(spent <= total.elapsed());
        assert!(by_stage[0].1 > Duration::ZERO && by_stage[2].1 == Duration::ZERO, "{by_stage:?}");
    }

    #[test]
    fn this_process_has_used_cpu_and_memory() {
        assert!(cpu().unwrap() > Duration::ZERO);
        assert!(resident_bytes().unwrap() > 1_000_000);
    }

    #[test]
    fn a_resident_size_is_read_in_bytes_or_not_at_all() {
        assert_eq!(resident("VmHWM:\t 9 kB\nVmRSS:\t    1832 kB\n"), Some(1_875_968));
        for odd in ["", "VmRSS:\n", "VmRSS: 1 MB\n", "VmRSS: 99999999999999999999 kB\n"] {
            assert_eq!(resident(odd), None, "{odd}");
        }
    }
}
