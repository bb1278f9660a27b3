//! Memory and swap of the machine: how much, and what the lack of it has cost.

use nix::unistd::{SysconfVar, sysconf};
use plimsoll_schemas::hardware::{
    MEMORY_AVAILABLE_BYTES, MEMORY_CACHED_BYTES, MEMORY_DIRTY_BYTES, MEMORY_TOTAL_BYTES,
    MEMORY_USED_BYTES, MissingReading, OOM_KILLS_TOTAL, PAGE_FAULTS_MAJOR_TOTAL,
    SWAP_IN_BYTES_TOTAL, SWAP_OUT_BYTES_TOTAL, SWAP_TOTAL_BYTES, SWAP_USED_BYTES,
};

use super::gather::Gather;
use super::root::{Kept, Root};
use super::scale::{self, Raw};
use super::table;

/// Reads `/proc/meminfo` and `/proc/vmstat`.
pub(super) struct Memory {
    sizes: Kept,
    events: Kept,
    page_bytes: u64,
}

impl Memory {
    pub(super) fn new(root: &Root) -> Self {
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        let page_bytes = page.and_then(|page| u64::try_from(page).ok()).unwrap_or(4_096);
        Self { sizes: root.kept("proc/meminfo"), events: root.kept("proc/vmstat"), page_bytes }
    }

    pub(super) fn gather(&mut self, space: &mut Vec<u8>, gather: &mut Gather) {
        gather_sizes(self.sizes.read(space), gather);
        gather_events(self.events.read(space), self.page_bytes, gather);
    }
}

fn gather_sizes(table: Result<&str, MissingReading>, gather: &mut Gather) {
    let bytes = |key| {
        let kib = table.and_then(|table| table::figure(table, key))?;
        kib.checked_mul(1_024).ok_or(MissingReading::failed("out_of_range"))
    };
    // Inside a container, what is available may be the host's and more than there is in all.
    let less = |whole, part| {
        let (whole, part) = (bytes(whole)?, bytes(part)?);
        whole.checked_sub(part).ok_or(MissingReading::failed("out_of_range"))
    };
    for (sensor, size) in [
        (&MEMORY_TOTAL_BYTES, bytes("MemTotal")),
        (&MEMORY_USED_BYTES, less("MemTotal", "MemAvailable")),
        (&MEMORY_AVAILABLE_BYTES, bytes("MemAvailable")),
        (&MEMORY_CACHED_BYTES, bytes("Cached")),
        (&MEMORY_DIRTY_BYTES, bytes("Dirty")),
        (&SWAP_TOTAL_BYTES, bytes("SwapTotal")),
        (&SWAP_USED_BYTES, less("SwapTotal", "SwapFree")),
    ] {
        gather.put(sensor, size.and_then(scale::bytes));
    }
}

fn gather_events(table: Result<&str, MissingReading>, page_bytes: u64, gather: &mut Gather) {
    let times = |key, unit: u64| -> Raw {
        let count = table.and_then(|table| table::figure(table, key))?;
        Ok(count as f64 * unit as f64)
    };
    for (sensor, key, unit) in [
        (&SWAP_IN_BYTES_TOTAL, "pswpin", page_bytes),
        (&SWAP_OUT_BYTES_TOTAL, "pswpout", page_bytes),
        (&PAGE_FAULTS_MAJOR_TOTAL, "pgmajfault", 1),
        (&OOM_KILLS_TOTAL, "oom_kill", 1),
    ] {
        gather.put(sensor, times(key, unit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapped_pages_are_counted_in_bytes() {
        let mut gather = Gather::default();
        gather_events(Ok("pswpin 3\npswpout 0\npgmajfault 7\n"), 65_536, &mut gather);
        let got: Vec<_> = gather.finish().iter().map(|r| (r.value, r.state.as_str())).collect();
        let ok = |value| (Some(value), "ok");
        assert_eq!(got, [ok(196_608.0), ok(0.0), ok(7.0), (None, "unsupported")]);
    }
}
