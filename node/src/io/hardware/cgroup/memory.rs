//! A group's memory: what it may use, what it uses, and how often it met a bound.

use plimsoll_schemas::hardware::{
    CGROUP_MEMORY_EVENTS_TOTAL, CGROUP_MEMORY_LIMIT_BYTES, CGROUP_MEMORY_USED_BYTES, MissingReading,
};

use super::super::gather::Gather;
use super::super::root::{Kept, Root};
use super::super::scale::{self, Raw};
use super::super::table;
use super::controller::Controller;
use super::limit::{limit, tightest, upwards};

/// Files of a group's memory: of the group and of each above it.
pub(super) struct Group {
    is_unified: bool,
    limits: Vec<Kept>,
    usages: Vec<Kept>,
    stats: Vec<Kept>,
    events: Vec<Kept>,
    failures: Vec<Kept>,
}

impl Group {
    pub(super) fn new(root: &Root, controller: &Controller) -> Self {
        let is_unified = controller.is_unified;
        let [limits, usages, events] = if is_unified {
            ["memory.max", "memory.current", "memory.events"]
        } else {
            ["memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control"]
        };

        let all = |file: &str| upwards(root, controller, file);
        Self {
            is_unified,
            limits: all(limits),
            usages: all(usages),
            stats: all("memory.stat"),
            events: all(events),
            failures: all("memory.failcnt"),
        }
    }

    pub(super) fn gather(&mut self, space: &mut Vec<u8>, gather: &mut Gather) {
        let (place, limit) = self.limit(space);
        let usage = self.usages[place].read(space).and_then(table::count);
        let stat = self.stats[place].read(space);
        let key = if self.is_unified { "inactive_file" } else { "total_inactive_file" };
        let dropped_first = stat.and_then(|stat| table::figure(stat, key));
        let used = usage.and_then(|usage| Ok(usage.saturating_sub(dropped_first?)));
        gather.put(&CGROUP_MEMORY_LIMIT_BYTES, limit);
        gather.put(&CGROUP_MEMORY_USED_BYTES, used.and_then(scale::bytes));
        self.gather_events(place, space, gather);
    }

    /// The tightest limit, and which group has it.
    fn limit(&mut self, space: &mut Vec<u8>) -> (usize, Raw) {
        let limits = self.limits.iter_mut().map(|file| file.read(space).and_then(limit));
        let (place, seen) = tightest(limits);
        if self.is_unified {
            return (place, seen);
        }
        // Version 1 reports in its statistics the limit that holds with all groups above, also
        // with those that cannot be seen.
        let stat = self.stats[0].read(space);
        let held = stat.and_then(|stat| table::word(stat, "hierarchical_memory_limit"));
        let held = held.and_then(limit);
        (if held == seen { place } else { 0 }, held)
    }

    fn gather_events(&mut self, place: usize, space: &mut Vec<u8>, gather: &mut Gather) {
        let events: &[&str] =
            if self.is_unified { &["high", "max", "oom", "oom_kill"] } else { &["oom_kill"] };
        let table = self.events[place].read(space);
        for event in events {
            put_event(event, table.and_then(|table| table::figure(table, event)), gather);
        }
        if !self.is_unified {
            put_event("max", self.failures[place].read(space).and_then(table::count), gather);
        }
    }
}

fn put_event(event: &str, times: Result<u64, MissingReading>, gather: &mut Gather) {
    let times = times.map(|times| times as f64);
    gather.put_with(&CGROUP_MEMORY_EVENTS_TOTAL, &[("event", event)], times);
}
