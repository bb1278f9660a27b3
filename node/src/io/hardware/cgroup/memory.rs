//! A group's memory: what it may use, what it uses, and how often it met a bound.

use plimsoll_schemas::hardware::{
    CGROUP_MEMORY_EVENTS_TOTAL, CGROUP_MEMORY_LIMIT_BYTES, CGROUP_MEMORY_USED_BYTES, Missing,
};

use super::super::gather::Gather;
use super::super::root::{Kept, Root};
use super::super::scale::{self, Raw};
use super::super::table;
use super::{Place, limit, tightest, upwards};

/// Files of a group's memory.
pub(super) struct Group {
    is_unified: bool,
    limits: Vec<Kept>,
    usage: Kept,
    stat: Kept,
    events: Kept,
    failures: Kept,
}

impl Group {
    pub(super) fn new(root: &Root, place: &Place) -> Self {
        let own = |file: &str| root.kept(&format!("{}/{file}", place.own()));
        let is_unified = place.is_unified;
        let (usage, events) = if is_unified {
            ("memory.current", "memory.events")
        } else {
            ("memory.usage_in_bytes", "memory.oom_control")
        };
        // The first version says in its statistics what holds with all groups above.
        let limits = if is_unified { upwards(root, place, "memory.max") } else { Vec::new() };
        Self {
            is_unified,
            limits,
            usage: own(usage),
            stat: own("memory.stat"),
            events: own(events),
            failures: own("memory.failcnt"),
        }
    }

    pub(super) fn gather(&mut self, space: &mut Vec<u8>, gather: &mut Gather) {
        let usage = self.usage.read(space).and_then(table::count);
        let stat = self.stat.read(space);
        let key = if self.is_unified { "inactive_file" } else { "total_inactive_file" };
        let given_up_first = stat.and_then(|stat| table::figure(stat, key));
        let used = usage.and_then(|usage| Ok(usage.saturating_sub(given_up_first?)));
        let held = stat.and_then(|stat| table::word(stat, "hierarchical_memory_limit"));
        let held = held.and_then(limit);
        let limit: Raw = if self.is_unified {
            tightest(self.limits.iter_mut().map(|file| file.read(space).and_then(limit)))
        } else {
            held
        };
        gather.put(&CGROUP_MEMORY_LIMIT_BYTES, limit);
        gather.put(&CGROUP_MEMORY_USED_BYTES, used.and_then(scale::bytes));
        self.gather_events(space, gather);
    }

    fn gather_events(&mut self, space: &mut Vec<u8>, gather: &mut Gather) {
        let events: &[&str] =
            if self.is_unified { &["high", "max", "oom", "oom_kill"] } else { &["oom_kill"] };
        let table = self.events.read(space);
        for event in events {
            put_event(event, table.and_then(|table| table::figure(table, event)), gather);
        }
        if !self.is_unified {
            put_event("max", self.failures.read(space).and_then(table::count), gather);
        }
    }
}

fn put_event(event: &str, times: Result<u64, Missing>, gather: &mut Gather) {
    if let Some(labels) = gather.labels(&[("event", event)]) {
        gather.put_of(&CGROUP_MEMORY_EVENTS_TOTAL, &labels, times.map(|times| times as f64));
    }
}
