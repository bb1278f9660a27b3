//! What this process's control group may use, uses, and had to wait for.
//!
//! A limit is the tightest of the group's own and of those above it that can be seen. Usage and
//! waiting time are those of the group that has this limit. Without a limit the reading is none,
//! never a huge number. Both versions of the hierarchy are read, also side by side: each
//! controller is in one of them.

mod controller;
mod cpu;
mod limit;
mod memory;
mod tasks;

use plimsoll_schemas::hardware::{
    CGROUP_CPU_LIMIT_CORES, CGROUP_CPU_PERIODS_TOTAL, CGROUP_CPU_SECONDS_TOTAL,
    CGROUP_CPU_THROTTLED_PERIODS_TOTAL, CGROUP_CPU_THROTTLED_SECONDS_TOTAL,
    CGROUP_MEMORY_EVENTS_TOTAL, CGROUP_MEMORY_LIMIT_BYTES, CGROUP_MEMORY_USED_BYTES, CGROUP_TASKS,
    CGROUP_TASKS_LIMIT, MissingReading, Sensor,
};
use plimsoll_schemas::time::Mono;

use super::gather::Gather;
use super::lifeline::Relist;
use super::root::{Kept, Root};

/// The group's controllers, as of the last search for them.
pub(super) struct Cgroup {
    root: Root,
    relist: Relist,
    groups: Kept,
    mounts: Kept,
    memory: Result<memory::Group, MissingReading>,
    cpu: Result<cpu::Group, MissingReading>,
    tasks: Result<tasks::Group, MissingReading>,
}

impl Cgroup {
    pub(super) fn new(root: &Root) -> Self {
        let none = MissingReading::unsupported("not_found");
        Self {
            root: root.clone(),
            relist: Relist::default(),
            groups: root.kept("proc/self/cgroup"),
            mounts: root.kept("proc/self/mountinfo"),
            memory: Err(none),
            cpu: Err(none),
            tasks: Err(none),
        }
    }

    pub(super) fn gather(&mut self, now: Mono, space: &mut Vec<u8>, gather: &mut Gather) {
        if self.relist.is_due(now) {
            self.find(space);
        }

        match &mut self.memory {
            Ok(memory) => memory.gather(space, gather),
            Err(why) => absent(&MEMORY, *why, gather),
        }

        match &mut self.cpu {
            Ok(cpu) => cpu.gather(space, gather),
            Err(why) => absent(&CPU, *why, gather),
        }

        match &mut self.tasks {
            Ok(tasks) => tasks.gather(space, gather),
            Err(why) => absent(&TASKS, *why, gather),
        }
    }

    /// Which group this process is in may change, seldom.
    fn find(&mut self, space: &mut Vec<u8>) {
        let (root, groups) = (&self.root, self.groups.read(space).map(str::to_owned));
        let mounts = self.mounts.read(space);
        let place = |controller| {
            let place = controller::find(controller, groups.as_ref().map_err(|why| *why)?, mounts?);
            place.ok_or(MissingReading::unsupported("no_controller"))
        };
        self.memory = place("memory").map(|place| memory::Group::new(root, &place));
        self.cpu = place("cpu").map(|cpu| {
            let account = place("cpuacct").unwrap_or_else(|_| cpu.clone());
            cpu::Group::new(root, &cpu, &account)
        });
        self.tasks = place("pids").map(|place| tasks::Group::new(root, &place));
    }
}

const MEMORY: [&Sensor; 3] =
    [&CGROUP_MEMORY_LIMIT_BYTES, &CGROUP_MEMORY_USED_BYTES, &CGROUP_MEMORY_EVENTS_TOTAL];
const CPU: [&Sensor; 5] = [
    &CGROUP_CPU_LIMIT_CORES,
    &CGROUP_CPU_SECONDS_TOTAL,
    &CGROUP_CPU_PERIODS_TOTAL,
    &CGROUP_CPU_THROTTLED_PERIODS_TOTAL,
    &CGROUP_CPU_THROTTLED_SECONDS_TOTAL,
];
const TASKS: [&Sensor; 2] = [&CGROUP_TASKS, &CGROUP_TASKS_LIMIT];

fn absent(sensors: &[&Sensor], why: MissingReading, gather: &mut Gather) {
    sensors.iter().for_each(|sensor| gather.put(sensor, Err(why)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What sensors report of the group `jobs/own`.
    fn sent(kind: &str, files: &[(&str, &str)]) -> Vec<(String, Option<f64>)> {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let mount = format!("29 23 0:26 / /c rw - {kind} c rw,memory,cpu\n");
        let own = if kind == "cgroup2" { "0::/jobs/own\n" } else { "3:cpu,memory:/jobs/own\n" };
        let found = [("proc/self/cgroup", own), ("proc/self/mountinfo", &mount)];
        for (path, text) in found.iter().chain(files) {
            std::fs::create_dir_all(root.at(path).parent().unwrap()).unwrap();
            std::fs::write(root.at(path), text).unwrap();
        }
        let mut gather = Gather::default();
        Cgroup::new(&root).gather(Mono(1), &mut Vec::new(), &mut gather);
        gather.finish().into_iter().map(|one| (one.sensor, one.value)).collect()
    }

    #[test]
    fn what_is_used_and_waited_for_is_of_the_group_that_has_the_limit() {
        let unified = sent(
            "cgroup2",
            &[
                ("c/jobs/memory.max", "1000"),
                ("c/jobs/memory.current", "970"),
                ("c/jobs/memory.stat", "inactive_file 20\n"),
                ("c/jobs/own/memory.max", "max"),
                ("c/jobs/own/memory.current", "10"),
                ("c/jobs/own/memory.stat", "inactive_file 0\n"),
                ("c/jobs/cpu.max", "20000 100000"),
                ("c/jobs/cpu.stat", "usage_usec 9000000\nnr_periods 90\nnr_throttled 80\n"),
                ("c/jobs/own/cpu.max", "max 100000"),
                ("c/jobs/own/cpu.stat", "usage_usec 1000000\nnr_periods 0\nnr_throttled 0\n"),
            ],
        );
        let separate = sent(
            "cgroup",
            &[
                ("c/jobs/memory.limit_in_bytes", "1000"),
                ("c/jobs/memory.usage_in_bytes", "970"),
                ("c/jobs/memory.stat", "total_inactive_file 20\n"),
                ("c/jobs/own/memory.limit_in_bytes", "9223372036854771712"),
                ("c/jobs/own/memory.usage_in_bytes", "10"),
                ("c/jobs/own/memory.stat", "hierarchical_memory_limit 1000\n"),
                ("c/jobs/cpu.cfs_quota_us", "20000"),
                ("c/jobs/cpu.cfs_period_us", "100000"),
                ("c/jobs/cpu.stat", "nr_periods 90\nnr_throttled 80\n"),
                ("c/jobs/own/cpu.cfs_quota_us", "-1"),
                ("c/jobs/own/cpu.cfs_period_us", "100000"),
                ("c/jobs/own/cpu.stat", "nr_periods 0\nnr_throttled 0\n"),
                ("c/jobs/own/cpuacct.usage", "1000000000"),
            ],
        );
        for sent in [unified, separate] {
            for (sensor, value) in [
                (&CGROUP_MEMORY_LIMIT_BYTES, 1_000.0),
                (&CGROUP_MEMORY_USED_BYTES, 950.0),
                (&CGROUP_CPU_LIMIT_CORES, 0.2),
                (&CGROUP_CPU_SECONDS_TOTAL, 1.0),
                (&CGROUP_CPU_PERIODS_TOTAL, 90.0),
                (&CGROUP_CPU_THROTTLED_PERIODS_TOTAL, 80.0),
            ] {
                let wanted = (sensor.name.to_owned(), Some(value));
                assert!(sent.contains(&wanted), "{wanted:?} {sent:?}");
            }
        }
    }
}
