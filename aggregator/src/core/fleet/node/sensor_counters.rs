//! What sensors count, and how often that was recently: faults, errors, kills, periods. Counters of
//! machines run for as long as the machine does, so its first reading is no event. Each device is
//! counted by itself: one that reports nothing for a while and then the same value has counted
//! nothing.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use crate::limits::{COUNTED_WITHIN, LOSSES_WITHIN, TICKING_MAX};
use plimsoll_schemas::hardware::{
    CATALOGUE, CGROUP_CPU_PERIODS_TOTAL, CGROUP_CPU_THROTTLED_PERIODS_TOTAL, GPU_ECC_ERRORS_TOTAL,
    GPU_FAULTS_TOTAL, OOM_KILLS_TOTAL, Sensor,
};
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::metric::NodeMetric;
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use super::increase::Increase;
use super::reading_table::{KnownReading, ReadingTable};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SensorCounter {
    GpuFault,
    GpuMemoryError,
    OomKill,
    CgroupPeriod,
    CgroupThrottledPeriod,
}

const SENSOR_COUNTERS: [(SensorCounter, &Sensor); 5] = [
    (SensorCounter::GpuFault, &GPU_FAULTS_TOTAL),
    (SensorCounter::GpuMemoryError, &GPU_ECC_ERRORS_TOTAL),
    (SensorCounter::OomKill, &OOM_KILLS_TOTAL),
    (SensorCounter::CgroupPeriod, &CGROUP_CPU_PERIODS_TOTAL),
    (SensorCounter::CgroupThrottledPeriod, &CGROUP_CPU_THROTTLED_PERIODS_TOTAL),
];

/// All of a node's; `None` where its sensors do not count that.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct SensorCounters([Option<DeviceCounters>; SENSOR_COUNTERS.len()]);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct DeviceCounters {
    grown: Increase,
    /// The labels of the device whose counter grew last.
    #[serde(default)]
    grew: Option<Labels>,
    /// The latest reading of each device's counter.
    stood: BTreeMap<Labels, u64>,
}

/// By the sensor's place in the catalogue.
static BY_PLACE: LazyLock<Vec<Option<SensorCounter>>> = LazyLock::new(|| {
    let of = |sensor: &&Sensor| {
        SENSOR_COUNTERS.iter().find(|(_, of)| of.name == sensor.name).map(|(counter, _)| *counter)
    };
    CATALOGUE.iter().map(of).collect()
});

impl SensorCounter {
    fn of(reading: &KnownReading<'_>) -> Option<Self> {
        let counter = BY_PLACE[reading.place]?;
        // An error that the memory has corrected itself cost nothing.
        let is_corrected = || reading.labels.get("kind") == Some("corrected");
        (counter != Self::GpuMemoryError || !is_corrected()).then_some(counter)
    }

    const fn span(self) -> Duration {
        match self {
            Self::GpuFault | Self::GpuMemoryError | Self::OomKill => LOSSES_WITHIN,
            Self::CgroupPeriod | Self::CgroupThrottledPeriod => COUNTED_WITHIN,
        }
    }
}

impl SensorCounters {
    /// Processes readings of a machine.
    pub(super) fn see(&mut self, at: Wall, readings: &ReadingTable) {
        for reading in readings.iter() {
            if let Some((counter, value)) = SensorCounter::of(&reading).zip(reading.value) {
                let devices = self.0[counter as usize].get_or_insert_default();
                devices.see(at, counter.span(), reading.labels, whole(value));
            }
        }
    }

    /// The labels of the device that counted last what a figure is computed from.
    pub(super) fn labels(&self, figure: NodeMetric) -> Option<&Labels> {
        let counter = match figure {
            NodeMetric::GpuFaults => SensorCounter::GpuFault,
            NodeMetric::GpuMemoryErrors => SensorCounter::GpuMemoryError,
            NodeMetric::OomKills => SensorCounter::OomKill,
            NodeMetric::CgroupCpuThrottledRatio => SensorCounter::CgroupThrottledPeriod,
            _ => return None,
        };
        self.0[counter as usize].as_ref()?.grew.as_ref()
    }

    pub(super) fn figure(&self, at: Wall, figure: NodeMetric) -> Option<f64> {
        let within =
            |of: SensorCounter| Some(self.0[of as usize].as_ref()?.grown.within(at, of.span()));
        match figure {
            NodeMetric::GpuFaults => within(SensorCounter::GpuFault),
            NodeMetric::GpuMemoryErrors => within(SensorCounter::GpuMemoryError),
            NodeMetric::OomKills => within(SensorCounter::OomKill),
            NodeMetric::CgroupCpuThrottledRatio => {
                let periods = within(SensorCounter::CgroupPeriod)?;
                let throttled = within(SensorCounter::CgroupThrottledPeriod)?;
                Some(if periods > 0.0 { (throttled / periods).min(1.0) } else { 0.0 })
            }
            _ => None,
        }
    }
}

impl DeviceCounters {
    /// The counter is at `stand`. One that fell is another counter from now on: what counted before
    /// is gone, and how much of it is new is unknown.
    #[expect(clippy::cast_precision_loss, reason = "to be compared with a threshold, no account")]
    fn see(&mut self, at: Wall, span: Duration, of: &Labels, stand: u64) {
        if let Some(stood) = self.stood.get_mut(of) {
            let grew = stand.saturating_sub(std::mem::replace(stood, stand));
            if grew > 0 {
                self.grown.add(at, span, grew as f64);
                self.grew = Some(of.clone());
            }
            return;
        }
        // Devices that went for good make room for others.
        if self.stood.len() >= TICKING_MAX {
            self.stood.clear();
        }
        self.stood.insert(of.clone(), stand);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count; what is none becomes 0 or the greatest"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::{MissingReading, Reading};

    use super::*;

    fn at(second: u64) -> Wall {
        Wall((1_700_000_000 + second) * 1_000_000_000)
    }

    fn see(counters: &mut SensorCounters, second: u64, readings: &[Reading]) {
        counters.see(at(second), &readings.to_vec().into());
    }

    fn read(sensor: &Sensor, label: (&str, &str), value: f64) -> Reading {
        Reading::ok(sensor, Labels::new([label]).unwrap(), value)
    }

    #[test]
    fn values_when_a_machine_is_first_seen_are_no_event() {
        let mut counters = SensorCounters::default();
        let faults = |gpu, n| read(&GPU_FAULTS_TOTAL, ("gpu", gpu), n);
        see(&mut counters, 0, &[read(&OOM_KILLS_TOTAL, ("a", "b"), 7.0)]);
        assert_eq!(counters.figure(at(0), NodeMetric::OomKills), Some(0.0));
        assert_eq!(counters.figure(at(0), NodeMetric::GpuFaults), None);
        see(&mut counters, 1, &[read(&OOM_KILLS_TOTAL, ("a", "b"), 9.0), faults("0", 4.0)]);
        assert_eq!(counters.figure(at(1), NodeMetric::OomKills), Some(2.0));
        assert_eq!(counters.figure(at(1), NodeMetric::GpuFaults), Some(0.0));
        see(&mut counters, 2, &[faults("0", 5.0), faults("1", 2.0)]);
        assert_eq!(
            counters.figure(at(2), NodeMetric::GpuFaults),
            Some(1.0),
            "the other one had two"
        );
        see(&mut counters, 3, &[faults("0", 5.0), faults("1", 4.0)]);
        assert_eq!(counters.figure(at(3), NodeMetric::GpuFaults), Some(3.0));
        let gpu = counters.labels(NodeMetric::GpuFaults).and_then(|labels| labels.get("gpu"));
        assert_eq!((gpu, counters.labels(NodeMetric::GpuMemoryErrors)), (Some("1"), None));
        assert_eq!(counters.figure(at(400), NodeMetric::GpuFaults), Some(0.0));
    }

    #[test]
    fn a_machine_that_began_anew_or_lost_a_device_has_had_no_event() {
        let mut counters = SensorCounters::default();
        for (second, kills) in [(0, 50.0), (1, 3.0), (2, 4.0)] {
            see(&mut counters, second, &[read(&OOM_KILLS_TOTAL, ("a", "b"), kills)]);
        }
        assert_eq!(counters.figure(at(2), NodeMetric::OomKills), Some(1.0));
    }

    #[test]
    fn a_device_silent_for_a_while_counts_only_what_is_new() {
        let mut counters = SensorCounters::default();
        let errors = |gpu: &str, n: f64| {
            let labels = Labels::new([("gpu", gpu), ("kind", "uncorrected")]).unwrap();
            Reading::ok(&GPU_ECC_ERRORS_TOTAL, labels, n)
        };
        let mut within = |second, readings: &[Reading]| {
            see(&mut counters, second, readings);
            counters.figure(at(second), NodeMetric::GpuMemoryErrors)
        };
        let mut failed = errors("1", 3.0);
        failed = Reading::absent(
            &GPU_ECC_ERRORS_TOTAL,
            failed.labels,
            MissingReading::failed("timeout"),
        );
        assert_eq!(within(0, &[errors("0", 2.0), errors("1", 3.0)]), Some(0.0));
        assert_eq!(within(1, &[errors("0", 2.0), failed]), Some(0.0));
        assert_eq!(within(2, &[errors("1", 3.0)]), Some(0.0));
        assert_eq!(within(3, &[errors("0", 2.0), errors("1", 3.0)]), Some(0.0));
        assert_eq!(within(4, &[errors("1", 3.0)]), Some(0.0));
        assert_eq!(within(5, &[errors("0", 3.0)]), Some(1.0), "while it was silent");
    }

    #[test]
    fn counters_of_devices_are_bounded() {
        let mut counters = SensorCounters::default();
        for n in 0..3 * TICKING_MAX as u64 {
            see(&mut counters, n, &[read(&OOM_KILLS_TOTAL, ("a", &n.to_string()), 1.0)]);
            let kept =
                counters.0[SensorCounter::OomKill as usize].as_ref().map(|of| of.stood.len());
            assert!(kept <= Some(TICKING_MAX), "{kept:?}");
        }
        assert_eq!(counters.figure(at(0), NodeMetric::OomKills), Some(0.0));
    }

    #[test]
    fn corrected_errors_do_not_count_and_throttled_periods_are_a_share_of_all() {
        let mut counters = SensorCounters::default();
        for n in 0..3 {
            let n = f64::from(n);
            see(
                &mut counters,
                1,
                &[
                    read(&GPU_ECC_ERRORS_TOTAL, ("kind", "corrected"), 100.0 * n),
                    read(&GPU_ECC_ERRORS_TOTAL, ("kind", "uncorrected"), n),
                    read(&CGROUP_CPU_PERIODS_TOTAL, ("a", "b"), 40.0 * n),
                    read(&CGROUP_CPU_THROTTLED_PERIODS_TOTAL, ("a", "b"), 10.0 * n),
                ],
            );
        }
        assert_eq!(counters.figure(at(1), NodeMetric::GpuMemoryErrors), Some(2.0));
        assert_eq!(counters.figure(at(1), NodeMetric::CgroupCpuThrottledRatio), Some(0.25));
        assert_eq!(counters.figure(at(90), NodeMetric::CgroupCpuThrottledRatio), Some(0.0));
    }
}
