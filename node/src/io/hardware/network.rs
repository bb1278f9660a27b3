//! What went over each network interface, from `/proc/net/dev`: one read for all of them, where
//! sysfs has a file for each counter.

use crate::limits::INTERFACES_MAX;
use plimsoll_schemas::hardware::{
    MissingReading, NETWORK_RECEIVE_BYTES_TOTAL, NETWORK_RECEIVE_DROPS_TOTAL,
    NETWORK_RECEIVE_ERRORS_TOTAL, NETWORK_RECEIVE_PACKETS_TOTAL, NETWORK_TRANSMIT_BYTES_TOTAL,
    NETWORK_TRANSMIT_DROPS_TOTAL, NETWORK_TRANSMIT_ERRORS_TOTAL, NETWORK_TRANSMIT_PACKETS_TOTAL,
    Sensor,
};

use super::gather::{Gather, List};
use super::root::{Kept, Root};
use super::table;

/// Each counter's sensor and its column behind the interface's name.
const COLUMNS: [(&Sensor, usize); 8] = [
    (&NETWORK_RECEIVE_BYTES_TOTAL, 0),
    (&NETWORK_RECEIVE_PACKETS_TOTAL, 1),
    (&NETWORK_RECEIVE_ERRORS_TOTAL, 2),
    (&NETWORK_RECEIVE_DROPS_TOTAL, 3),
    (&NETWORK_TRANSMIT_BYTES_TOTAL, 8),
    (&NETWORK_TRANSMIT_PACKETS_TOTAL, 9),
    (&NETWORK_TRANSMIT_ERRORS_TOTAL, 10),
    (&NETWORK_TRANSMIT_DROPS_TOTAL, 11),
];

pub(super) struct Network(Kept);

impl Network {
    pub(super) fn new(root: &Root) -> Self {
        Self(root.kept("proc/net/dev"))
    }

    pub(super) fn gather(&mut self, space: &mut Vec<u8>, gather: &mut Gather) {
        gather.leave_out(List::Interfaces, 0);
        let table = match self.0.read(space) {
            Ok(table) => table,
            Err(why) => return COLUMNS.iter().for_each(|(sensor, _)| gather.put(sensor, Err(why))),
        };
        for (name, counters) in gather.named(List::Interfaces, interfaces(table), INTERFACES_MAX) {
            let Some(labels) = gather.labels(&[("interface", &name)]) else { continue };
            for ((sensor, _), counter) in COLUMNS.iter().zip(counters) {
                gather.put_of(sensor, &labels, counter.map(|counter| counter as f64));
            }
        }
    }
}

type Counters = [Result<u64, MissingReading>; COLUMNS.len()];

/// The interfaces by name, without the ends of containers.
fn interfaces(table: &str) -> impl Iterator<Item = (String, Counters)> {
    let lines = table.lines().filter_map(|line| line.split_once(':'));
    let lines = lines.map(|(name, counters)| (name.trim(), counters));
    lines.filter(|(name, _)| !is_container_end(name)).map(|(name, counters)| {
        let mut words = [""; 16];
        words.iter_mut().zip(counters.split_ascii_whitespace()).for_each(|(to, word)| *to = word);
        (name.to_owned(), COLUMNS.map(|(_, column)| table::count(words[column])))
    })
}

/// The host's end of a container's interface: as many as there are containers, new names with
/// each of them, and their bytes are counted on the real interface already.
fn is_container_end(interface: &str) -> bool {
    ["veth", "cali", "lxc"].iter().any(|prefix| interface.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn interfaces_have_their_counters_whatever_the_blanks() {
        let table = "Inter-|   Receive    |  Transmit\n face |bytes packets errs|bytes\n    \
                     lo:  3193 29 0 0 0 0 0 0 3193 29 0 0 0 0 0 0\n  \
                     eth0:208931896 7282 5 1 0 0 0 9 444395 4301 7 2 0 0 0 0\n\
                     veth12ab: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  bad: 1 x\n";
        let got: Vec<_> = interfaces(table).collect();
        let bad = Err(MissingReading::failed("not_a_number"));
        let want = [
            ("lo", [3_193, 29, 0, 0, 3_193, 29, 0, 0].map(Ok)),
            ("eth0", [208_931_896, 7_282, 5, 1, 444_395, 4_301, 7, 2].map(Ok)),
            ("bad", [Ok(1), bad, bad, bad, bad, bad, bad, bad]),
        ];
        assert_eq!(got, want.map(|(name, counters)| (name.to_owned(), counters)));
    }

    #[test]
    fn ends_of_containers_are_not_interfaces_of_the_machine() {
        for (name, end) in [("veth12ab", true), ("cali0", true), ("eth0", false), ("ib0", false)] {
            assert_eq!(is_container_end(name), end, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\PC|[0-9: \n]|Tcp: |eth0: ){0,200}") {
            prop_assert!(interfaces(&text).count() <= text.lines().count());
        }
    }
}
