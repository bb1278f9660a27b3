//! Memory of the processes of a watch that takes longer to read than one line: peak, swap and
//! proportional share of each process, and what is left until their limit.

use plimsoll_schemas::hardware::MissingReading;

use super::super::root::Root;
use super::super::scale::{self, Raw};
use super::super::table;
use super::process::Processes;
use crate::limits::WATCH_GROUP_DEPTH_MAX;

const KIB: u64 = 1_024;

/// Sums over the processes of a watch, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Memory {
    /// Of the highest resident memory of each process so far.
    pub(super) peak: Raw,
    pub(super) swap: Raw,
    /// Pages that several processes share count by parts.
    pub(super) proportional: Raw,
    /// What may be added before a control group or the machine has none left.
    pub(super) headroom: Option<u64>,
}

impl Memory {
    pub(super) fn read(root: &Root, processes: &Processes, pids: &[u32]) -> Self {
        let sum = |file, key| sum(pids.iter().map(|pid| kib(processes, *pid, file, key)));
        Self {
            peak: sum("status", "VmHWM:"),
            swap: sum("status", "VmSwap:"),
            // Permitted for processes of the node's own user alone.
            proportional: sum("smaps_rollup", "Pss:"),
            headroom: pids.first().and_then(|pid| headroom(root, processes, *pid)),
        }
    }
}

/// The sum of all that are still there; one that cannot be read makes it unknown.
fn sum(figures: impl Iterator<Item = Result<Option<u64>, MissingReading>>) -> Raw {
    let mut sum: u64 = 0;
    for figure in figures {
        sum = sum.saturating_add(figure?.unwrap_or_default());
    }
    scale::bytes(sum.saturating_mul(KIB))
}

/// A figure in KiB; `None` if the process has ended.
fn kib(
    processes: &Processes,
    pid: u32,
    file: &str,
    key: &str,
) -> Result<Option<u64>, MissingReading> {
    let Some(text) = processes.file(pid, file)? else { return Ok(None) };
    let text = str::from_utf8(&text).map_err(|_| MissingReading::failed("malformed"))?;
    table::figure(text, key).map(Some)
}

/// What is left below the tightest limit of its control groups, or in the machine.
fn headroom(root: &Root, processes: &Processes, pid: u32) -> Option<u64> {
    let number = |path: &str| root.line(path).ok()?.parse::<u64>().ok();
    let figure = |path: &str, key: &str| {
        let mut space = Vec::new();
        table::figure(root.kept(path).read(&mut space).ok()?, key).ok()
    };
    let group = processes.file(pid, "cgroup").ok().flatten().unwrap_or_default();
    let group = str::from_utf8(&group).unwrap_or_default();
    // A line of the unified hierarchy; others have no common file of memory.
    let group = group.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();

    let folders = std::iter::successors(Some(group), |path| Some(path.rsplit_once('/')?.0));
    let in_groups = folders.take(WATCH_GROUP_DEPTH_MAX).filter_map(|path| {
        let file = |name: &str| format!("sys/fs/cgroup/{path}/{name}");
        // Without a limit the file has a word.
        let limit = number(&file("memory.max"))?;
        // The kernel drops pages of files first.
        let dropped_first = figure(&file("memory.stat"), "inactive_file").unwrap_or_default();
        let used = number(&file("memory.current"))?.saturating_sub(dropped_first);
        Some(limit.saturating_sub(used))
    });

    let available = figure("proc/meminfo", "MemAvailable:");
    in_groups.chain(available.map(|kib| kib.saturating_mul(KIB))).min()
}
