//! Clock frequencies of the cores, and the frequency that they sustain without throttling.
//!
//! The file of a governor has the frequency of a core. Without a governor `/proc/cpuinfo` has it,
//! for which the kernel reads every core.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use crate::limits::{CORES_MAX, SENSOR_TABLE_BYTES_MAX, SENSOR_UNMOVED_EVERY};
use plimsoll_schemas::hardware::{
    CPU_FREQUENCY_BASELINE_HERTZ, CPU_FREQUENCY_HERTZ, CPU_FREQUENCY_MEAN_HERTZ, MissingReading,
};
use plimsoll_schemas::time::Mono;

use super::gather::Gather;
use super::lifeline::Relist;
use super::root::Root;
use super::scale::{self, Raw};
use super::table;

const CORES: &str = "sys/devices/system/cpu";
/// Samples for which cores must keep up a frequency that no file states.
const SUSTAINED: usize = 5;
/// A core's name is in the first lines of its kilobyte.
const NAME_WITHIN_BYTES: u64 = 1024;

/// What the throttling rule goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// Hertz of the fastest core.
    pub(super) fastest: Raw,
    /// Hertz that cores sustain.
    pub(super) baseline: Raw,
}

/// Reads the frequencies; remembers what the cores are made for.
pub(super) struct Frequencies {
    root: Root,
    relist: Relist,
    stated: Option<(&'static str, f64)>,
    seen: Sustained,
    table: Table,
}

impl Frequencies {
    pub(super) fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            relist: Relist::default(),
            stated: None,
            seen: Sustained::default(),
            table: Table::default(),
        }
    }

    pub(super) fn gather(&mut self, now: Mono, gather: &mut Gather) -> Pace {
        let online = self.root.line(&format!("{CORES}/online")).unwrap_or_default();
        let cores = core_list(&online);
        if self.relist.is_due(now) {
            self.stated = cores.first().and_then(|core| stated(&self.root, *core));
        }
        let clocks = self.clocks(now, &cores);
        for (core, clock) in cores.iter().zip(&clocks) {
            gather.put_with(&CPU_FREQUENCY_HERTZ, &[("core", &core.to_string())], *clock);
        }
        if clocks.is_empty() {
            gather.put(&CPU_FREQUENCY_HERTZ, Err(MissingReading::unsupported("not_found")));
        }
        let known = || clocks.iter().filter_map(|clock| clock.ok());
        let why = clocks.first().and_then(|clock| clock.err());
        let why = why.unwrap_or(MissingReading::unsupported("not_found"));
        let mean = known().sum::<f64>() / known().count() as f64;
        // Not the mean, which idle cores lower (N36).
        let fastest = known().max_by(f64::total_cmp).ok_or(why);
        gather.put(&CPU_FREQUENCY_MEAN_HERTZ, fastest.map(|_| mean));
        Pace { fastest, baseline: self.gather_baseline(fastest, gather) }
    }

    fn clocks(&mut self, now: Mono, cores: &[usize]) -> Vec<Raw> {
        let governed: Vec<Raw> = cores.iter().map(|core| governed(&self.root, *core)).collect();
        // The other table makes the kernel query every core.
        if governed.iter().all(Result::is_ok) {
            return governed;
        }
        self.table.look(now, &self.root);
        let measured = |core: &usize| self.table.clocks.get(core).map(|mhz| clock(*mhz));
        let cores = cores.iter().zip(governed);
        cores.map(|(core, clock)| clock.or_else(|why| measured(core).unwrap_or(Err(why)))).collect()
    }

    fn gather_baseline(&mut self, fastest: Raw, gather: &mut Gather) -> Raw {
        let seen = self.seen.after(fastest.ok()).map(|hertz| ("seen", hertz));
        let Some((source, hertz)) = self.stated.or(seen) else {
            let why = fastest.err().unwrap_or(MissingReading::unsupported("not_yet_seen"));
            gather.put(&CPU_FREQUENCY_BASELINE_HERTZ, Err(why));
            return Err(why);
        };
        gather.put_with(&CPU_FREQUENCY_BASELINE_HERTZ, &[("source", source)], Ok(hertz));
        Ok(hertz)
    }
}

/// Clocks in MHz from `/proc/cpuinfo`. On virtual machines that is one number that never changes:
/// while it does not change, it is read less often.
#[derive(Default)]
struct Table {
    clocks: BTreeMap<usize, f64>,
    next: Mono,
}

impl Table {
    fn look(&mut self, now: Mono, root: &Root) {
        if now < self.next {
            return;
        }
        let table = File::open(root.at("proc/cpuinfo"));
        let clocks = table.map(|table| core_mhz(BufReader::new(table))).unwrap_or_default();
        let moves = clocks != self.clocks;
        self.next = if moves { now } else { now.plus(SENSOR_UNMOVED_EVERY) };
        self.clocks = clocks;
    }
}

/// A frequency is sustained once it was reached in [`SUSTAINED`] samples in a row.
#[derive(Default)]
struct Sustained {
    recent: [f64; SUSTAINED],
    next: usize,
    highest: f64,
}

impl Sustained {
    fn after(&mut self, hertz: Option<f64>) -> Option<f64> {
        self.recent[self.next] = hertz.unwrap_or(0.0);
        self.next = (self.next + 1) % SUSTAINED;
        // The least of them is what was kept up in all.
        self.highest = self.recent.into_iter().fold(f64::INFINITY, f64::min).max(self.highest);
        (self.highest > 0.0).then_some(self.highest)
    }
}

/// The frequency that a core is made for, from the first source that has one. A driver's greatest
/// frequency may be a boost that no core sustains with its neighbours at work, so it comes last.
fn stated(root: &Root, core: usize) -> Option<(&'static str, f64)> {
    let file = |source, file: &str, mhz: f64| {
        let line = root.line(&format!("{CORES}/cpu{core}/{file}"));
        let hertz = line.and_then(|line| table::number(&line)).and_then(|n| clock(n * mhz));
        Some((source, hertz.ok()?))
    };
    file("base_frequency", "cpufreq/base_frequency", 1e-3)
        .or_else(|| file("nominal_freq", "acpi_cppc/nominal_freq", 1.0))
        .or_else(|| Some(("model_name", named(File::open(root.at("proc/cpuinfo")).ok()?)?)))
        .or_else(|| file("cpuinfo_max_freq", "cpufreq/cpuinfo_max_freq", 1e-3))
}

/// `Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz`: older ones report it nowhere else.
fn named(table: impl Read) -> Option<f64> {
    let lines = BufReader::new(table.take(NAME_WITHIN_BYTES)).lines().map_while(Result::ok);
    let name = lines.into_iter().find(|line| line.starts_with("model name"))?;
    let ghz = name.rsplit_once("@ ")?.1.trim_end().strip_suffix("GHz")?;
    table::number(ghz).and_then(|ghz| clock(ghz * 1e3)).ok()
}

fn governed(root: &Root, core: usize) -> Raw {
    let line = root.line(&format!("{CORES}/cpu{core}/cpufreq/scaling_cur_freq"))?;
    clock(table::number(&line)? / 1e3)
}

/// A core that runs has a clock; kernels report an unknown clock as 0.
fn clock(mhz: f64) -> Raw {
    if mhz == 0.0 {
        return Err(MissingReading::unsupported("not_found"));
    }
    scale::hertz_from_mhz(mhz)
}

/// Clock of each core in MHz, line by line: the table has a kilobyte for each core. Empty when
/// the kernel does not report it (ARM).
fn core_mhz(table: impl BufRead) -> BTreeMap<usize, f64> {
    let mut clocks = BTreeMap::new();
    let mut core: Option<usize> = None;
    let mut line = Vec::new();
    let mut table = table.take(SENSOR_TABLE_BYTES_MAX as u64);

    while table.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let text = str::from_utf8(&line).unwrap_or_default();
        match text.split_once(':').map(|(key, value)| (key.trim_end(), value.trim())) {
            Some(("processor", value)) => core = value.parse().ok(),
            Some(("cpu MHz", value)) => {
                let clock = core.zip(value.parse().ok());
                clocks.extend(clock.filter(|(core, _)| *core < CORES_MAX));
            }
            _ => {}
        }

        line.clear();
    }

    clocks
}

/// The cores of a list such as `0-3,8`, as many as are read.
fn core_list(text: &str) -> Vec<usize> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    });
    ranges.flatten().take(CORES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_core_has_its_own_clock() {
        let text = "processor\t: 0\ncpu MHz\t\t: 2596.122\n\nprocessor\t: 2\ncpu MHz\t\t: 3100.5\n";
        assert_eq!(core_mhz(text.as_bytes()), BTreeMap::from([(0, 2_596.122), (2, 3_100.5)]));
        assert_eq!(core_mhz(&b"processor\t: 0\nBogoMIPS\t: 243.75\n"[..]), BTreeMap::new());
    }

    #[test]
    fn an_unchanged_table_is_polled_every_ten_seconds_until_it_moves() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        std::fs::create_dir(root.at("proc")).unwrap();
        let mut table = Table::default();
        let mut polled = |second: u64, mhz: &str| {
            let text = format!("processor : 0\ncpu MHz : {mhz}\n");
            std::fs::write(root.at("proc/cpuinfo"), text).unwrap();
            table.look(Mono(second * 1_000_000_000), &root);
            table.clocks[&0]
        };
        assert_eq!([polled(1, "1000"), polled(2, "1100"), polled(3, "1100")], [1e3, 1.1e3, 1.1e3]);
        assert_eq!([polled(4, "900"), polled(12, "900"), polled(13, "900")], [1.1e3, 1.1e3, 900.0]);
        assert_eq!(polled(14, "800"), 800.0);
    }

    #[test]
    fn a_model_name_may_hold_its_frequency() {
        let table = |name: &str| format!("processor\t: 0\nmodel name\t: {name}\nstepping\t: 1\n");
        for (name, hertz) in [
            ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", Some(2.4e9)),
            ("AMD EPYC 7763 64-Core Processor", None),
            ("odd @ GHz", None),
            ("odd @ 2.40GHz more", None),
        ] {
            assert_eq!(named(table(name).as_bytes()), hertz, "{name}");
        }
        assert_eq!(named(&b"processor\t: 0\n"[..]), None);
    }

    #[test]
    fn core_lists_expand_within_the_bound() {
        assert_eq!(core_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(core_list("x,5-"), [0; 0]);
        assert_eq!(core_list("0-99999").len(), CORES_MAX);
    }

    #[test]
    fn a_clock_of_zero_is_unsupported_and_an_absurd_one_failed() {
        assert_eq!(clock(0.0), Err(MissingReading::unsupported("not_found")));
        assert_eq!(clock(f64::from(u32::MAX)), Err(MissingReading::failed("out_of_range")));
        assert_eq!(clock(-1.0), Err(MissingReading::failed("out_of_range")));
    }

    #[test]
    fn only_a_frequency_that_was_kept_up_is_sustained() {
        let mut seen = Sustained::default();
        let got: Vec<_> = [3.0, 3.0, 2.0, 3.0, 3.0, 9.0, 3.0, 3.0, 1.0, 1.0]
            .into_iter()
            .map(|hertz| seen.after(Some(hertz)))
            .collect();
        assert_eq!(got[..4], [None; 4]);
        assert_eq!(got[4..], [2.0, 2.0, 2.0, 3.0, 3.0, 3.0].map(Some));
        assert_eq!(seen.after(None), Some(3.0));
    }

    proptest! {
        #[test]
        fn no_text_panics_or_outgrows_its_bound(
            text in "(\\PC|[0-9:,\\-\n]|processor\t: |cpu MHz\t: ){0,200}",
        ) {
            prop_assert!(core_mhz(text.as_bytes()).len() <= CORES_MAX);
            prop_assert!(core_list(&text).len() <= CORES_MAX);
        }
    }
}
