//! Whether heat holds the processors down: by a rule of our own, and as the kernel counts it.
//!
//! The rule: even the fastest core runs 20 % below what cores sustain, above 70 degrees. A core
//! that has nothing to do runs slowly as well, so the fastest is asked and not the mean.

use std::collections::BTreeSet;

use plimsoll_schemas::hardware::{
    CPU_THERMAL_THROTTLE_TOTAL, CPU_THROTTLED, CPU_THROTTLED_SECONDS_TOTAL, Missing,
};
use plimsoll_schemas::limits::node::{CORES_MAX, SENSOR_STALE_AFTER};
use plimsoll_schemas::time::Mono;

use super::frequency::Pace;
use super::gather::Gather;
use super::lifeline::Relist;
use super::root::Root;
use super::scale::Raw;
use super::table;

const SLOW_SHARE: f64 = 0.8;
const HOT_CELSIUS: f64 = 70.0;
const CORES: &str = "sys/devices/system/cpu";

/// Judges the rule and sums the time for which it held.
#[derive(Default)]
pub(super) struct Rule {
    looked: Option<Mono>,
    seconds: f64,
}

impl Rule {
    pub(super) fn gather(&mut self, now: Mono, pace: Pace, celsius: Raw, gather: &mut Gather) {
        let throttled = judge(pace, celsius);
        // What was between two looks that lie far apart is not known.
        let span = self.looked.map(|looked| now.since(looked));
        let span = span.filter(|span| *span <= SENSOR_STALE_AFTER).unwrap_or_default();
        if throttled == Ok(true) {
            self.seconds += span.as_secs_f64();
        }
        self.looked = Some(now);
        gather.put(&CPU_THROTTLED, throttled.map(|throttled| f64::from(u8::from(throttled))));
        gather.put(&CPU_THROTTLED_SECONDS_TOTAL, throttled.map(|_| self.seconds));
    }
}

fn judge(pace: Pace, celsius: Raw) -> Result<bool, Missing> {
    let is_slow = pace.fastest? < SLOW_SHARE * pace.baseline?;
    Ok(is_slow && celsius? > HOT_CELSIUS)
}

/// The kernel's counters, each once: threads of a core and cores of a package share them.
pub(super) struct Counters {
    root: Root,
    relist: Relist,
    // Files by level and package.
    files: Vec<(&'static str, String, Vec<String>)>,
}

impl Counters {
    pub(super) fn new(root: &Root) -> Self {
        Self { root: root.clone(), relist: Relist::default(), files: Vec::new() }
    }

    pub(super) fn gather(&mut self, now: Mono, gather: &mut Gather) {
        if self.relist.is_due(now) {
            self.files = list(&self.root);
        }
        if self.files.is_empty() {
            let why = Missing::unsupported("not_found");
            gather.put(&CPU_THERMAL_THROTTLE_TOTAL, Err(why));
        }
        for (level, package, files) in &self.files {
            let labels = gather.labels(&[("level", level), ("package", package)]);
            let read = |file: &String| table::count(&self.root.line(file)?).map(|n| n as f64);
            if let Some(labels) = labels {
                gather.put_of(&CPU_THERMAL_THROTTLE_TOTAL, &labels, files.iter().map(read).sum());
            }
        }
    }
}

fn list(root: &Root) -> Vec<(&'static str, String, Vec<String>)> {
    let mut cores = BTreeSet::new();
    let mut listed: Vec<(&'static str, String, Vec<String>)> = Vec::new();
    for cpu in (0..CORES_MAX).map(|core| format!("{CORES}/cpu{core}")) {
        let Ok(package) = root.line(&format!("{cpu}/topology/physical_package_id")) else {
            continue;
        };
        let core = root.line(&format!("{cpu}/topology/core_id")).unwrap_or_default();
        if !cores.insert((package.clone(), core)) {
            continue;
        }
        for level in ["core", "package"] {
            let file = format!("{cpu}/thermal_throttle/{level}_throttle_count");
            if !root.at(&file).exists() {
                continue;
            }
            match listed.iter_mut().find(|(l, p, _)| *l == level && *p == package) {
                Some((_, _, files)) if level == "core" => files.push(file),
                Some(_) => {}
                None => listed.push((level, package.clone(), vec![file])),
            }
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(fastest: f64, baseline: f64) -> Pace {
        Pace { fastest: Ok(fastest), baseline: Ok(baseline) }
    }

    #[test]
    fn processors_are_throttled_when_slow_and_hot_at_once() {
        for (fastest, celsius, throttled) in [
            (2.39e9, 70.1, true),
            (2.40e9, 90.0, false),
            (2.39e9, 70.0, false),
            (3.5e9, 95.0, false),
        ] {
            let judged = judge(pace(fastest, 3e9), Ok(celsius));
            assert_eq!(judged, Ok(throttled), "{fastest} at {celsius}");
        }
        let why = Missing::unsupported("no_sensor");
        assert_eq!(judge(pace(1e9, 3e9), Err(why)), Err(why));
        let unknown = Pace { fastest: Ok(1e9), baseline: Err(why) };
        assert_eq!(judge(unknown, Ok(90.0)), Err(why));
    }

    #[test]
    fn time_is_summed_while_throttled_and_not_over_gaps() {
        let mut rule = Rule::default();
        let mut after = |at: u64, celsius: f64| {
            let mut gather = Gather::default();
            rule.gather(Mono(at * 1_000_000_000), pace(1e9, 3e9), Ok(celsius), &mut gather);
            let readings = gather.readings();
            (readings[0].value.unwrap(), readings[1].value.unwrap())
        };
        assert_eq!(after(10, 80.0), (1.0, 0.0), "how long it had been so nobody knows");
        assert_eq!(after(11, 80.0), (1.0, 1.0));
        assert_eq!(after(12, 60.0), (0.0, 1.0));
        assert_eq!(after(14, 80.0), (1.0, 3.0));
        assert_eq!(after(99, 80.0), (1.0, 3.0), "after a hang");
    }
}
