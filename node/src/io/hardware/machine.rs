//! Reads what the kernel reports about the machine as a whole: load, open files, time since its
//! start, memory and swap, and TCP segments sent again.

use nix::unistd::{SysconfVar, sysconf};
use plimsoll_schemas::hardware::{
    FILE_HANDLES, FILE_HANDLES_LIMIT, LOAD1, LOAD5, LOAD15, MEMORY_AVAILABLE_BYTES,
    MEMORY_CACHED_BYTES, MEMORY_DIRTY_BYTES, MEMORY_TOTAL_BYTES, MEMORY_USED_BYTES, MissingReading,
    OOM_KILLS_TOTAL, PAGE_FAULTS_MAJOR_TOTAL, SWAP_IN_BYTES_TOTAL, SWAP_OUT_BYTES_TOTAL,
    SWAP_TOTAL_BYTES, SWAP_USED_BYTES, Sensor, TCP_RETRANSMITS_TOTAL, UPTIME_SECONDS,
};

use super::gather::Gather;
use super::root::{Kept, Root};
use super::scale::{self, Raw};
use super::table::{self, figure};

/// A sensor, and how it is read from the text of a file.
type Figure = (&'static Sensor, fn(&str) -> Raw);

/// Each file, and what is read from it.
const FILES: [(&str, &[Figure]); 6] = [
    (
        "proc/meminfo",
        &[
            (&MEMORY_TOTAL_BYTES, |table| size(table, "MemTotal")),
            (&MEMORY_USED_BYTES, |table| rest(table, "MemTotal", "MemAvailable")),
            (&MEMORY_AVAILABLE_BYTES, |table| size(table, "MemAvailable")),
            (&MEMORY_CACHED_BYTES, |table| size(table, "Cached")),
            (&MEMORY_DIRTY_BYTES, |table| size(table, "Dirty")),
            (&SWAP_TOTAL_BYTES, |table| size(table, "SwapTotal")),
            (&SWAP_USED_BYTES, |table| rest(table, "SwapTotal", "SwapFree")),
        ],
    ),
    (
        "proc/vmstat",
        &[
            (&SWAP_IN_BYTES_TOTAL, |table| pages(table, "pswpin")),
            (&SWAP_OUT_BYTES_TOTAL, |table| pages(table, "pswpout")),
            (&PAGE_FAULTS_MAJOR_TOTAL, |table| Ok(figure(table, "pgmajfault")? as f64)),
            (&OOM_KILLS_TOTAL, |table| Ok(figure(table, "oom_kill")? as f64)),
        ],
    ),
    (
        "proc/loadavg",
        &[
            (&LOAD1, |line| decimal(line, 0)),
            (&LOAD5, |line| decimal(line, 1)),
            (&LOAD15, |line| decimal(line, 2)),
        ],
    ),
    (
        "proc/sys/fs/file-nr",
        &[
            (&FILE_HANDLES, |line| Ok(table::count(nth(line, 0))? as f64)),
            (&FILE_HANDLES_LIMIT, |line| table::limit(nth(line, 2))),
        ],
    ),
    ("proc/uptime", &[(&UPTIME_SECONDS, |line| decimal(line, 0))]),
    ("proc/net/snmp", &[(&TCP_RETRANSMITS_TOTAL, |table| Ok(retransmits(table)? as f64))]),
];

pub(super) struct Machine([Kept; FILES.len()]);

impl Machine {
    pub(super) fn new(root: &Root) -> Self {
        Self(FILES.map(|(path, _)| root.kept(path)))
    }

    pub(super) fn gather(&mut self, space: &mut Vec<u8>, gather: &mut Gather) {
        for ((_, figures), file) in FILES.iter().zip(&mut self.0) {
            let text = file.read(space);
            for (sensor, read) in *figures {
                gather.put(sensor, text.and_then(read));
            }
        }
    }
}

fn nth(line: &str, index: usize) -> &str {
    line.split_ascii_whitespace().nth(index).unwrap_or_default()
}

fn decimal(line: &str, index: usize) -> Raw {
    table::number(nth(line, index)).and_then(scale::at_least_nothing)
}

/// A size that the table has in KiB, in bytes.
fn bytes(table: &str, key: &str) -> Result<u64, MissingReading> {
    figure(table, key)?.checked_mul(1_024).ok_or(MissingReading::failed("out_of_range"))
}

fn size(table: &str, key: &str) -> Raw {
    bytes(table, key).and_then(scale::bytes)
}

/// What of a whole is not this part. Inside a container, what is available may be the host's and
/// more than there is in all.
fn rest(table: &str, whole: &str, part: &str) -> Raw {
    let rest = bytes(table, whole)?.checked_sub(bytes(table, part)?);
    scale::bytes(rest.ok_or(MissingReading::failed("out_of_range"))?)
}

/// A number of pages, in bytes.
fn pages(table: &str, key: &str) -> Raw {
    Ok(figure(table, key)? as f64 * page_bytes() as f64)
}

fn page_bytes() -> u64 {
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    page.and_then(|page| u64::try_from(page).ok()).unwrap_or(4_096)
}

/// A line of names, and under it one of their values.
fn retransmits(table: &str) -> Result<u64, MissingReading> {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let mut words = || lines.next().unwrap_or_default().split_ascii_whitespace();
    let column = words().position(|name| name == "RetransSegs");
    let column = column.ok_or(MissingReading::unsupported("not_found"))?;
    table::count(words().nth(column).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn swapped_pages_are_counted_in_bytes() {
        let table = "pswpin 3\npswpout 0\npgmajfault 7\n";
        assert_eq!(pages(table, "pswpin"), Ok(3.0 * page_bytes() as f64));
        assert_eq!(pages(table, "pswpout"), Ok(0.0));
        let (_, figures) = FILES[1];
        let rest: Vec<Raw> = figures[2..].iter().map(|(_, read)| read(table)).collect();
        assert_eq!(rest, [Ok(7.0), Err(MissingReading::unsupported("not_found"))]);
    }

    #[test]
    fn segments_sent_again_are_found_by_the_name_of_their_column() {
        let table = "Ip: A\nIp: 1\nTcp: RtoMin InSegs RetransSegs InErrs\nTcp: 200 -1 46 0\n";
        assert_eq!(retransmits(table), Ok(46));
        assert_eq!(retransmits("Ip: A\nIp: 1\n"), Err(MissingReading::unsupported("not_found")));
        assert_eq!(retransmits("Tcp: RetransSegs"), Err(MissingReading::failed("not_a_number")));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\PC|[0-9: \n]|Tcp: |MemTotal: ){0,200}") {
            for (_, read) in FILES.iter().flat_map(|(_, figures)| *figures) {
                let _ = read(&text);
            }
        }
    }
}
