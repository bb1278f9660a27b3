//! How many tasks a group has, and may have.

use plimsoll_schemas::hardware::{CGROUP_TASKS, CGROUP_TASKS_LIMIT};

use super::super::gather::Gather;
use super::super::root::{Kept, Root};
use super::super::table;
use super::controller::Controller;
use super::limit::{limit, tightest, upwards};

/// Files of a group's tasks, the same in both versions.
pub(super) struct Group {
    current: Kept,
    limits: Vec<Kept>,
}

impl Group {
    pub(super) fn new(root: &Root, controller: &Controller) -> Self {
        let current = root.kept(&format!("{}/pids.current", controller.own()));
        Self { current, limits: upwards(root, controller, "pids.max") }
    }

    pub(super) fn gather(&mut self, space: &mut Vec<u8>, gather: &mut Gather) {
        let tasks = self.current.read(space).and_then(table::count);
        gather.put(&CGROUP_TASKS, tasks.map(|tasks| tasks as f64));
        let limits = self.limits.iter_mut().map(|file| file.read(space).and_then(limit));
        gather.put(&CGROUP_TASKS_LIMIT, tightest(limits).1);
    }
}
