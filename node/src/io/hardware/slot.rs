//! The latest readings of a thread that may hang, and their age.
//!
//! The lock is held for a copy or a swap only, never while a driver is being queried.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::limits::SENSOR_STALE_SLACK;
use plimsoll_clock::Clock;
use plimsoll_schemas::hardware::{MissingReading, Reading, Sensor, SensorState};
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::time::Mono;

use super::gather::Gather;
use super::lifeline::{Lifeline, Pace};
use super::sampling::Sampling;

pub(super) struct ThreadReadings {
    thread: &'static str,
    // Represents the thread if it never stored a reading.
    witness: &'static Sensor,
    began: Mono,
    /// Time between two samples.
    every: Duration,
    latest: Mutex<Option<Latest>>,
}

struct Latest {
    taken: Mono,
    readings: Vec<Reading>,
}

impl ThreadReadings {
    pub(super) fn new(
        thread: &'static str,
        witness: &'static Sensor,
        began: Mono,
        every: Duration,
    ) -> Self {
        Self { thread, witness, began, every, latest: Mutex::new(None) }
    }

    pub(super) fn put(&self, taken: Mono, readings: Vec<Reading>) {
        let latest = Some(Latest { taken, readings });
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = latest;
    }

    /// What the readings are worth at `now`: current, or stale once they are old. When there
    /// never were any, nothing at first and then one failed reading of the witness.
    pub(super) fn seen_at(&self, now: Mono) -> Vec<Reading> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let old = |since: Mono| now.since(since) > self.every + SENSOR_STALE_SLACK;

        match &*latest {
            Some(latest) if old(latest.taken) => latest.readings.iter().map(aged).collect(),
            Some(latest) => latest.readings.clone(),
            None if old(self.began) => {
                vec![Reading::absent(
                    self.witness,
                    Labels::default(),
                    MissingReading::failed("hangs"),
                )]
            }
            None => Vec::new(),
        }
    }

    /// Fills this slot periodically and reports what that costs, until the lifeline is cut: the
    /// body of a thread. The time kept is the one at which the sample began, so a slow sample is
    /// older, not newer.
    pub(super) fn fill(
        &self,
        clock: Clock,
        lifeline: &Lifeline,
        mut sample: impl FnMut(Mono) -> Vec<Reading>,
    ) {
        let mut pace = Pace::new(clock, self.every);
        let mut sampling = Sampling::of(self.thread);
        loop {
            let began = clock.now().mono;
            let mut gather = Gather::default();
            gather.append(sampling.timed(|| sample(began)));
            sampling.gather(&mut gather);
            self.put(began, gather.finish());
            if !pace.rest(lifeline) {
                return;
            }
        }
    }
}

/// An unsupported sensor does not become stale; all others do.
fn aged(reading: &Reading) -> Reading {
    match reading.state {
        SensorState::Unsupported => reading.clone(),
        SensorState::Ok | SensorState::Stale | SensorState::Failed => {
            let reason = Some("hangs".into());
            Reading { state: SensorState::Stale, value: None, reason, ..reading.clone() }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use plimsoll_clock::Deadline;
    use plimsoll_runtime::supervision::Supervisor;
    use plimsoll_schemas::hardware::{GPU_POWER_WATTS, GPU_TEMPERATURE_CELSIUS};

    use super::*;
    use crate::limits::SENSOR_EVERY;

    const STALE_AFTER: Duration = Duration::from_secs(5);

    fn slot() -> ThreadReadings {
        of_interval(SENSOR_EVERY)
    }

    fn of_interval(every: Duration) -> ThreadReadings {
        ThreadReadings::new("test", &GPU_POWER_WATTS, Mono(0), every)
    }

    fn states(readings: &[Reading]) -> Vec<(SensorState, Option<f64>)> {
        readings.iter().map(|reading| (reading.state, reading.value)).collect()
    }

    #[test]
    fn readings_become_stale_after_the_bound_and_current_again_when_replaced() {
        let slot = slot();
        let ok = Reading::ok(&GPU_POWER_WATTS, Labels::default(), 70.0);
        let none = MissingReading::unsupported("driver");
        let absent = Reading::absent(&GPU_TEMPERATURE_CELSIUS, Labels::default(), none);
        slot.put(Mono(1), vec![ok, absent]);
        let last = Mono(1).plus(STALE_AFTER);
        assert_eq!(
            states(&slot.seen_at(last)),
            [(SensorState::Ok, Some(70.0)), (SensorState::Unsupported, None)]
        );
        assert_eq!(
            states(&slot.seen_at(Mono(last.0 + 1))),
            [(SensorState::Stale, None), (SensorState::Unsupported, None)]
        );
        slot.put(last, vec![Reading::ok(&GPU_POWER_WATTS, Labels::default(), 71.0)]);
        assert_eq!(states(&slot.seen_at(last)), [(SensorState::Ok, Some(71.0))]);
    }

    #[test]
    fn readings_of_a_slow_or_fast_sampling_are_stale_once_the_next_is_four_seconds_late() {
        for every in [Duration::from_millis(100), Duration::from_secs(60)] {
            let slot = of_interval(every);
            slot.put(Mono(0), vec![Reading::ok(&GPU_POWER_WATTS, Labels::default(), 70.0)]);
            let last = Mono(0).plus(every).plus(Duration::from_secs(4));
            assert_eq!(states(&slot.seen_at(last)), [(SensorState::Ok, Some(70.0))], "{every:?}");
            let late = slot.seen_at(Mono(last.0 + 1));
            assert_eq!(states(&late), [(SensorState::Stale, None)], "{every:?}");
        }
    }

    #[test]
    fn a_thread_that_never_answered_is_one_failed_reading_not_silence() {
        let slot = slot();
        assert_eq!(slot.seen_at(Mono(0).plus(STALE_AFTER)), []);
        let late = slot.seen_at(Mono(1).plus(STALE_AFTER));
        assert_eq!(late[0].sensor, GPU_POWER_WATTS.name);
        assert_eq!(states(&late), [(SensorState::Failed, None)]);
    }
    #[test]
    fn a_thread_that_panics_is_started_again_and_its_readings_come_again() {
        let (clock, supervisor) = (Clock::start(), Supervisor::default());
        let (slot, lifeline) = (Arc::new(slot()), Arc::new(Lifeline::default()));
        let (mut starts, filled) = (0, Arc::clone(&slot));
        lifeline.spawn(&supervisor, "hw-test", move |lifeline| {
            starts += 1;
            let (start, mut samples) = (starts, 0);
            filled.fill(clock, lifeline, |_| {
                samples += 1;
                assert!(start == 2 || samples == 1, "the first start panics in its second sample");
                vec![Reading::ok(&GPU_POWER_WATTS, Labels::default(), f64::from(start))]
            });
        });
        let deadline = Deadline::within(Duration::from_secs(60));
        let second = |slot: &ThreadReadings| {
            let readings = slot.seen_at(clock.now().mono);
            readings.iter().any(|reading| reading.value == Some(2.0))
        };
        while !second(&slot) {
            assert!(deadline.pause(Duration::from_millis(10)), "its readings do not come again");
        }
        assert_eq!(supervisor.restarts(), BTreeMap::from([("hw-test", 1)]));
        lifeline.cut();
        assert_eq!(lifeline.await_threads(Duration::from_secs(10)), 0);
    }
}
