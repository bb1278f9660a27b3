//! Finds the processes of a watch by name and by control group.
//!
//! Lists process ids and reads no statistics. The cost of both grows with the size of the machine,
//! so callers pause between two calls.

use std::fs::{self, ReadDir};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::limits::{CGROUP_PROCESSES_BYTES_MAX, WATCH_CGROUPS_MAX, WATCH_NAMES_MAX};
use nix::errno::Errno;
use plimsoll_schemas::hardware::MissingReading;

use super::super::root::{Root, missing};
use super::process::Processes;

/// Bytes of a process's name that the kernel keeps.
const KERNEL_NAME_BYTES: usize = 15;

/// Where a hierarchy of control groups may be: version 2, then those of version 1 that list
/// processes, of which any will do.
const HIERARCHIES: [&str; 7] =
    ["", "unified", "systemd", "memory", "cpu,cpuacct", "cpuacct", "pids"];

/// Processes, or why they could not be listed.
pub(super) type Found = Result<Vec<u32>, MissingReading>;

/// The processes of each name, and how many of the machine were not read.
pub(super) fn by_names(processes: &Processes, names: &[&str]) -> (Vec<Found>, usize) {
    let listed = match fs::read_dir(&processes.folder) {
        Ok(listed) => listed,
        Err(error) => return (vec![Err(missing(&error)); names.len()], 0),
    };

    let pids: Vec<u32> = numbers(listed).collect();
    let mut found = vec![Vec::new(); names.len()];
    let mut hidden = None;

    for pid in pids.iter().take(WATCH_NAMES_MAX) {
        match processes.file(*pid, "comm") {
            Ok(None) => {}
            Ok(Some(comm)) => {
                let fitting = names.iter().map(|name| is_called(processes, *pid, &comm, name));
                let fitting = found.iter_mut().zip(fitting).filter(|(_, fits)| *fits);
                fitting.for_each(|(found, _)| found.push(*pid));
            }
            Err(why) => hidden = Some(why),
        }
    }

    // A positive lookup is certain; a negative one may be stale.
    let found = found.into_iter().map(|found| match hidden {
        Some(why) if found.is_empty() => Err(why),
        _ => Ok(found),
    });

    (found.collect(), pids.len().saturating_sub(WATCH_NAMES_MAX))
}

fn numbers(listed: ReadDir) -> impl Iterator<Item = u32> {
    listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn is_called(processes: &Processes, pid: u32, comm: &[u8], name: &str) -> bool {
    let comm = comm.strip_suffix(b"\n").unwrap_or(comm);
    let name = name.as_bytes();
    // The kernel cuts longer names, which are then compared with the command line: a file more for
    // each.
    if name.len() <= KERNEL_NAME_BYTES {
        return comm == name;
    }

    let Ok(Some(arguments)) = (if name.starts_with(comm) && comm.len() == KERNEL_NAME_BYTES {
        processes.file(pid, "cmdline")
    } else {
        Ok(None)
    }) else {
        return false;
    };

    let file_name = |argument: &[u8]| argument.rsplit(|byte| *byte == b'/').next() == Some(name);
    arguments.split(|byte| *byte == 0).take(2).any(file_name)
}

/// The processes of a control group and of all below it.
pub(super) fn in_cgroup(root: &Root, group: &Path) -> Found {
    let base = root.at("sys/fs/cgroup");
    if !base.is_dir() {
        return Err(MissingReading::unsupported("no_cgroups"));
    }
    let places = HIERARCHIES.iter().map(|hierarchy| base.join(hierarchy).join(group));
    let Some(top) = places.into_iter().find(|place| place.join("cgroup.procs").is_file()) else {
        return Ok(Vec::new());
    };
    let (mut found, mut open, mut walked) = (Vec::new(), vec![top], 0);

    while let Some(folder) = open.pop() {
        if walked == WATCH_CGROUPS_MAX {
            return Err(MissingReading::failed("too_many_cgroups"));
        }
        walked += 1;
        if let Err(error) = list(&folder, &mut found, &mut open)
            && !has_no_list(&error)
        {
            return Err(missing(&error));
        }
    }

    // Version 1 may name one twice, and names those 0 that this namespace cannot name.
    found.sort_unstable();
    found.dedup();
    if found.first() == Some(&0) {
        return Err(MissingReading::failed("other_pid_namespace"));
    }
    Ok(found)
}

/// A group that was removed meanwhile, or one of threads, whose processes a group above lists.
fn has_no_list(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
        || [Errno::ENODEV, Errno::EOPNOTSUPP]
            .iter()
            .any(|errno| error.raw_os_error() == Some(*errno as i32))
}

fn list(folder: &Path, found: &mut Vec<u32>, open: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.filter_map(Result::ok) {
        if entry.file_type()?.is_dir() && open.len() <= WATCH_CGROUPS_MAX {
            open.push(entry.path());
        }
    }
    let mut text = String::new();
    let file = fs::File::open(folder.join("cgroup.procs"))?;
    let len = file.take(CGROUP_PROCESSES_BYTES_MAX as u64).read_to_string(&mut text)?;
    if len == CGROUP_PROCESSES_BYTES_MAX {
        return Err(ErrorKind::FileTooLarge.into());
    }
    found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    Ok(())
}
