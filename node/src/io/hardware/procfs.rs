//! Parsers for the three kernel files that are read here and not through sysinfo.
//!
//! sysinfo turns a counter that it cannot read into 0 and gives every core the first core's
//! clock (BogoMIPS where there is none); these files say what is so, and network counters take
//! one read in place of four files an interface and a walk over all addresses.

use std::collections::BTreeMap;

use plimsoll_schemas::limits::node::CORES_MAX;

/// Counters of one network interface since it came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InterfaceCounters {
    pub(super) receive_bytes: u64,
    pub(super) receive_errors: u64,
    pub(super) transmit_bytes: u64,
    pub(super) transmit_errors: u64,
}

/// `/proc/net/dev`: the interfaces by name. A line that does not parse is left out.
pub(super) fn interfaces(text: &str) -> impl Iterator<Item = (String, InterfaceCounters)> {
    text.lines().filter_map(interface)
}

fn interface(line: &str) -> Option<(String, InterfaceCounters)> {
    let (name, figures) = line.split_once(':')?;
    let figures: Vec<u64> = figures
        .split_ascii_whitespace()
        .map(|figure| figure.parse().ok())
        .collect::<Option<_>>()?;
    let counters = InterfaceCounters {
        receive_bytes: *figures.first()?,
        receive_errors: *figures.get(2)?,
        transmit_bytes: *figures.get(8)?,
        transmit_errors: *figures.get(10)?,
    };
    Some((name.trim().to_owned(), counters))
}

/// `/proc/cpuinfo`: clock of each core in MHz; empty where the kernel does not say (ARM).
pub(super) fn core_mhz(text: &str) -> BTreeMap<usize, f64> {
    let mut clocks = BTreeMap::new();
    let mut core: Option<usize> = None;
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        match key.trim() {
            "processor" => core = value.trim().parse().ok(),
            "cpu MHz" => {
                let clock = core.zip(value.trim().parse().ok());
                clocks.extend(clock.filter(|(core, _)| *core < CORES_MAX));
            }
            _ => {}
        }
    }
    clocks
}

/// `/sys/devices/system/cpu/online`: the cores of a list such as `0-3,8`, and how many over
/// the bound were left out.
pub(super) fn core_list(text: &str) -> (Vec<usize>, usize) {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
    });
    let (mut cores, mut over) = (Vec::new(), 0usize);
    for (first, last) in ranges {
        let count = last.saturating_add(1).saturating_sub(first);
        let taken = count.min(CORES_MAX - cores.len());
        cores.extend((first..).take(taken));
        over = over.saturating_add(count - taken);
    }
    (cores, over)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn interfaces_have_their_bytes_and_errors() {
        let text = "Inter-|   Receive    |  Transmit\n face |bytes packets errs|bytes\n    \
                    lo:  3193 29 0 0 0 0 0 0 3193 29 0 0 0 0 0 0\n  \
                    eth0:208931896 7282 5 1 0 0 0 9 444395 4301 7 0 0 0 0 0\n  bad: 1 2\n";
        let got: Vec<_> = interfaces(text).collect();
        let lo = InterfaceCounters {
            receive_bytes: 3_193,
            receive_errors: 0,
            transmit_bytes: 3_193,
            transmit_errors: 0,
        };
        let eth0 = InterfaceCounters {
            receive_bytes: 208_931_896,
            receive_errors: 5,
            transmit_bytes: 444_395,
            transmit_errors: 7,
        };
        assert_eq!(got, [("lo".to_owned(), lo), ("eth0".to_owned(), eth0)]);
    }

    #[test]
    fn every_core_has_its_own_clock() {
        let text = "processor\t: 0\ncpu MHz\t\t: 2596.122\n\nprocessor\t: 2\ncpu MHz\t\t: 3100.5\n";
        assert_eq!(core_mhz(text), BTreeMap::from([(0, 2_596.122), (2, 3_100.5)]));
        assert_eq!(core_mhz("processor\t: 0\nBogoMIPS\t: 243.75\n"), BTreeMap::new());
    }

    #[test]
    fn core_lists_expand_within_the_bound() {
        assert_eq!(core_list("0-3,8\n"), (vec![0, 1, 2, 3, 8], 0));
        assert_eq!(core_list("x,5-"), (vec![], 0));
        let (cores, over) = core_list("0-99999");
        assert_eq!((cores.len(), over), (CORES_MAX, 100_000 - CORES_MAX));
    }

    proptest! {
        #[test]
        fn no_text_panics_or_outgrows_its_bound(
            text in "(\\PC|[0-9:,\\-\n]|processor\t: |cpu MHz\t: ){0,200}",
        ) {
            prop_assert!(interfaces(&text).count() <= text.lines().count());
            prop_assert!(core_mhz(&text).len() <= CORES_MAX);
            prop_assert!(core_list(&text).0.len() <= CORES_MAX);
        }
    }
}
