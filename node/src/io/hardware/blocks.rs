//! I/O counters of each whole block device, from `/proc/diskstats`.
//!
//! Partitions are in their device's counters already. Loop and RAM devices are no devices of the
//! machine. A device without any I/O has no readings.

use std::collections::BTreeMap;

use crate::limits::BLOCK_DEVICES_MAX;
use plimsoll_schemas::hardware::{
    DISK_BUSY_SECONDS_TOTAL, DISK_READ_BYTES_TOTAL, DISK_READ_SECONDS_TOTAL, DISK_READS_TOTAL,
    DISK_WRITE_BYTES_TOTAL, DISK_WRITE_SECONDS_TOTAL, DISK_WRITES_TOTAL, MissingReading, Sensor,
};
use plimsoll_schemas::time::Mono;

use super::gather::{Gather, List};
use super::lifeline::Relist;
use super::root::{Kept, Root};
use super::table;

/// The kernel counts in sectors of this size, whatever the device's are.
const SECTOR: f64 = 512.0;
const MILLI: f64 = 1e-3;

/// Each counter's sensor, its column behind the device's name, and its unit.
const COLUMNS: [(&Sensor, usize, f64); 7] = [
    (&DISK_READS_TOTAL, 0, 1.0),
    (&DISK_READ_BYTES_TOTAL, 2, SECTOR),
    (&DISK_READ_SECONDS_TOTAL, 3, MILLI),
    (&DISK_WRITES_TOTAL, 4, 1.0),
    (&DISK_WRITE_BYTES_TOTAL, 6, SECTOR),
    (&DISK_WRITE_SECONDS_TOTAL, 7, MILLI),
    (&DISK_BUSY_SECONDS_TOTAL, 9, MILLI),
];

/// Reads the counters, and remembers which devices are whole.
pub(super) struct Blocks {
    root: Root,
    counters: Kept,
    whole: BTreeMap<String, bool>,
    relist: Relist,
}

impl Blocks {
    pub(super) fn new(root: &Root) -> Self {
        let counters = root.kept("proc/diskstats");
        Self { root: root.clone(), counters, whole: BTreeMap::new(), relist: Relist::default() }
    }

    pub(super) fn gather(&mut self, now: Mono, space: &mut Vec<u8>, gather: &mut Gather) {
        gather.leave_out(List::BlockDevices, 0);
        if self.relist.is_due(now) {
            self.whole.clear();
        }

        let table = match self.counters.read(space) {
            Ok(table) => table,
            Err(why) => return absent(why, gather),
        };

        let (root, whole) = (&self.root, &mut self.whole);

        let devices = devices(table).filter(|(name, _)| match whole.get(name) {
            Some(whole) => *whole,
            None => *whole.entry(name.clone()).or_insert(is_whole(root, name)),
        });

        let devices = gather.named(List::BlockDevices, devices, BLOCK_DEVICES_MAX);
        if devices.is_empty() {
            return absent(MissingReading::unsupported("no_device"), gather);
        }

        for (name, counters) in devices {
            let Some(labels) = gather.labels(&[("device", &name)]) else { continue };
            for ((sensor, _, unit), counter) in COLUMNS.iter().zip(counters) {
                gather.put_of(sensor, &labels, counter.map(|counter| counter as f64 * unit));
            }
        }
    }
}

fn absent(why: MissingReading, gather: &mut Gather) {
    COLUMNS.iter().for_each(|(sensor, ..)| gather.put(sensor, Err(why)));
}

/// Only whole devices have a folder there; a name's slash is a mark of exclamation in it.
fn is_whole(root: &Root, name: &str) -> bool {
    root.at("sys/block").join(name.replace('/', "!")).exists()
}

type Counters = [Result<u64, MissingReading>; COLUMNS.len()];

/// Devices and partitions that did something, by name.
fn devices(table: &str) -> impl Iterator<Item = (String, Counters)> {
    table.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(2);
        let name = words.next().filter(|name| !is_made_of_memory(name))?;
        let mut columns = [""; 10];
        columns.iter_mut().zip(words).for_each(|(to, word)| *to = word);
        let counters = COLUMNS.map(|(_, column, _)| table::count(columns[column]));
        // A kernel lists devices that nothing is attached to; they would take the room of others.
        let idle = counters.iter().all(|counter| *counter == Ok(0));
        (!idle).then(|| (name.to_owned(), counters))
    })
}

fn is_made_of_memory(name: &str) -> bool {
    ["loop", "ram", "zram"].iter().any(|prefix| {
        let number = name.strip_prefix(prefix).unwrap_or("x");
        number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stand_in_their_columns_and_idle_or_unreal_devices_are_left_out() {
        let table = "   7       0 loop0 5 0 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n \
                     252       0 zram0 5 0 9 0 0 0 0 0 0 0 0\n \
                     259       0 nvme0n1 11 22 33 44 55 66 77 88 0 99 132 0 0 0 0 0 0\n \
                      43       0 nbd0 0 0 0 0 0 0 0 0 0 0 0\n   8       0 sda 1 x\n";
        let got: Vec<_> = devices(table).collect();
        let bad = Err(MissingReading::failed("not_a_number"));
        let want = [
            ("nvme0n1", [11, 33, 44, 55, 77, 88, 99].map(Ok)),
            ("sda", [Ok(1), bad, bad, bad, bad, bad, bad]),
        ];
        assert_eq!(got, want.map(|(name, counters)| (name.to_owned(), counters)));
    }

    #[test]
    fn only_names_with_a_number_behind_are_devices_made_of_memory() {
        for (name, memory) in [("ram15", true), ("zram0", true), ("rambler", false), ("md0", false)]
        {
            assert_eq!(is_made_of_memory(name), memory, "{name}");
        }
    }
}
