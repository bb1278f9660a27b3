//! Reads what the kernel reports about the machine as a whole: load, open files, time since its
//! start.

use plimsoll_schemas::hardware::{
    FILE_HANDLES, FILE_HANDLES_LIMIT, LOAD1, LOAD5, LOAD15, MissingReading, UPTIME_SECONDS,
};

use super::gather::Gather;
use super::root::{Kept, Root};
use super::scale::{self, Raw};
use super::table;

/// Above any limit that an operator sets: kernels report "no limit" as a number this large.
const NO_LIMIT: u64 = 1 << 60;

/// Reads three files of one line each.
pub(super) struct Machine {
    load: Kept,
    files: Kept,
    uptime: Kept,
}

impl Machine {
    pub(super) fn new(root: &Root) -> Self {
        Self {
            load: root.kept("proc/loadavg"),
            files: root.kept("proc/sys/fs/file-nr"),
            uptime: root.kept("proc/uptime"),
        }
    }

    pub(super) fn gather(&mut self, space: &mut Vec<u8>, gather: &mut Gather) {
        let load = self.load.read(space);
        for (index, sensor) in [&LOAD1, &LOAD5, &LOAD15].into_iter().enumerate() {
            gather.put(sensor, load.and_then(|load| decimal(load, index)));
        }
        let files = self.files.read(space);
        let handles = files.and_then(|files| table::count(nth(files, 0)));
        gather.put(&FILE_HANDLES, handles.map(|handles| handles as f64));
        let limit = files.and_then(|files| table::count(nth(files, 2)));
        gather.put(&FILE_HANDLES_LIMIT, limit.and_then(limited));
        let uptime = self.uptime.read(space);
        gather.put(&UPTIME_SECONDS, uptime.and_then(|uptime| decimal(uptime, 0)));
    }
}

fn nth(line: &str, index: usize) -> &str {
    line.split_ascii_whitespace().nth(index).unwrap_or_default()
}

fn decimal(line: &str, index: usize) -> Raw {
    table::number(nth(line, index)).and_then(scale::at_least_nothing)
}

fn limited(limit: u64) -> Raw {
    if limit < NO_LIMIT { Ok(limit as f64) } else { Err(MissingReading::unsupported("no_limit")) }
}
