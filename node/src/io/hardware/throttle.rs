//! Whether heat holds the processors down: by a rule of our own, and as the kernel counts it.
//!
//! The rule: even the fastest core runs 20 % below what cores sustain, above 70 degrees. A core
//! that has nothing to do runs slowly as well, so the rule uses the fastest and not the mean.
//!
//! DESIGN N36.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{CORES_MAX, SENSOR_STALE_SLACK};
use plimsoll_schemas::hardware::{
    CPU_THERMAL_THROTTLE_TOTAL, CPU_THROTTLED, CPU_THROTTLED_SECONDS_TOTAL, MissingReading,
};
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
const NOT_FOUND: MissingReading = MissingReading::unsupported("not_found");

/// Judges the rule and sums the time for which it held.
pub(super) struct Rule {
    /// Time between two samples.
    every: Duration,
    polled_at: Option<Mono>,
    seconds: f64,
}

impl Rule {
    pub(super) fn new(every: Duration) -> Self {
        Self { every, polled_at: None, seconds: 0.0 }
    }

    pub(super) fn gather(&mut self, now: Mono, pace: Pace, celsius: Raw, gather: &mut Gather) {
        let throttled = judge(pace, celsius);
        // Nothing was measured between two samples that lie far apart.
        let span = self.polled_at.map(|polled_at| now.since(polled_at));
        let longest = self.every + SENSOR_STALE_SLACK;
        let span = span.filter(|span| *span <= longest).unwrap_or_default();
        if throttled == Ok(true) {
            self.seconds += span.as_secs_f64();
        }
        self.polled_at = Some(now);
        gather.put(&CPU_THROTTLED, throttled.map(|throttled| f64::from(u8::from(throttled))));
        gather.put(&CPU_THROTTLED_SECONDS_TOTAL, throttled.map(|_| self.seconds));
    }
}

fn judge(pace: Pace, celsius: Raw) -> Result<bool, MissingReading> {
    let is_hot = celsius? > HOT_CELSIUS;
    Ok(pace.fastest? < SLOW_SHARE * pace.baseline? && is_hot)
}

/// The kernel's counters, each once: threads of a core and cores of a package share them.
pub(super) struct Counters {
    root: Root,
    relist: Relist,
    files: BTreeMap<Counted, Counter>,
}

/// Level, package, and core where the level has several.
type Counted = (&'static str, String, String);

/// A core that goes offline takes its file along, and begins at nothing when it comes back: what
/// it had counted stays.
#[derive(Default)]
struct Counter {
    file: String,
    seen: u64,
    total: u64,
}

impl Counters {
    pub(super) fn new(root: &Root) -> Self {
        Self { root: root.clone(), relist: Relist::default(), files: BTreeMap::new() }
    }

    pub(super) fn gather(&mut self, now: Mono, gather: &mut Gather) {
        if self.relist.is_due(now) {
            for (counted, file) in list(&self.root) {
                self.files.entry(counted).or_insert(Counter { file, ..Counter::default() });
            }
        }

        let mut sums: BTreeMap<(&str, &str), Raw> = BTreeMap::new();
        for ((level, package, _), counter) in &mut self.files {
            let sum = sums.entry((level, package)).or_insert(Ok(0.0));
            *sum = sum.and_then(|sum| counter.read(&self.root).map(|total| sum + total as f64));
        }

        if sums.is_empty() {
            gather.put(&CPU_THERMAL_THROTTLE_TOTAL, Err(NOT_FOUND));
        }

        for ((level, package), sum) in sums {
            let labels = [("level", level), ("package", package)];
            gather.put_with(&CPU_THERMAL_THROTTLE_TOTAL, &labels, sum);
        }
    }
}

impl Counter {
    fn read(&mut self, root: &Root) -> Result<u64, MissingReading> {
        match root.line(&self.file).and_then(|line| table::count(&line)) {
            Ok(count) => {
                self.total = self.total.saturating_add(count.saturating_sub(self.seen));
                self.seen = count;
            }
            Err(NOT_FOUND) => {}
            Err(why) => return Err(why),
        }
        Ok(self.total)
    }
}

fn list(root: &Root) -> Vec<(Counted, String)> {
    let mut listed = Vec::new();
    for cpu in (0..CORES_MAX).map(|core| format!("{CORES}/cpu{core}")) {
        // Threads of a core and cores of a package share a counter, which must be summed once.
        let topology = |file: &str| root.line(&format!("{cpu}/topology/{file}"));
        let Ok(package) = topology("physical_package_id") else { continue };
        let core = topology("core_id").unwrap_or_default();
        for (level, core) in [("core", core), ("package", String::new())] {
            let file = format!("{cpu}/thermal_throttle/{level}_throttle_count");
            if root.at(&file).exists() {
                listed.push(((level, package.clone(), core), file));
            }
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SENSOR_EVERY;

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
        let why = MissingReading::unsupported("no_sensor");
        assert_eq!(judge(pace(1e9, 3e9), Err(why)), Err(why));
        let unknown = Pace { fastest: Ok(1e9), baseline: Err(why) };
        assert_eq!(judge(unknown, Ok(90.0)), Err(why));
    }

    #[test]
    fn time_is_summed_while_throttled_and_not_over_gaps() {
        let mut rule = Rule::new(SENSOR_EVERY);
        let mut after = |at: u64, celsius: f64| {
            let mut gather = Gather::default();
            rule.gather(Mono(at * 1_000_000_000), pace(1e9, 3e9), Ok(celsius), &mut gather);
            let readings = gather.finish();
            (readings[0].value.unwrap(), readings[1].value.unwrap())
        };
        assert_eq!(after(10, 80.0), (1.0, 0.0), "its duration before that is unknown");
        assert_eq!(after(11, 80.0), (1.0, 1.0));
        assert_eq!(after(12, 60.0), (0.0, 1.0));
        assert_eq!(after(14, 80.0), (1.0, 3.0));
        assert_eq!(after(99, 80.0), (1.0, 3.0), "after a hang");
    }

    #[test]
    fn time_is_summed_between_samples_that_lie_a_minute_apart() {
        let mut rule = Rule::new(Duration::from_secs(60));
        let mut seconds = |at: u64| {
            let mut gather = Gather::default();
            rule.gather(Mono(at * 1_000_000_000), pace(1e9, 3e9), Ok(80.0), &mut gather);
            gather.finish()[1].value.unwrap()
        };
        assert_eq!([0, 60, 121, 186].map(&mut seconds), [0.0, 60.0, 121.0, 121.0]);
    }

    #[test]
    fn what_a_core_counted_stays_while_it_is_offline_and_when_it_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let mut counter = Counter { file: "count".to_owned(), ..Counter::default() };
        for (count, total) in [("7", 7), ("9", 9), ("", 9), ("0", 9), ("2", 11)] {
            let _ = std::fs::remove_file(root.at("count"));
            if !count.is_empty() {
                std::fs::write(root.at("count"), count).unwrap();
            }
            assert_eq!(counter.read(&root), Ok(total), "{count}");
        }
        std::fs::write(root.at("count"), "x").unwrap();
        assert_eq!(counter.read(&root), Err(MissingReading::failed("not_a_number")));
    }
}
