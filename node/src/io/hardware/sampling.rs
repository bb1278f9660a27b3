//! What reading the sensors costs, thread by thread.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::hardware::{
    MissingReading, SAMPLING_CPU_SECONDS_TOTAL, SAMPLING_WORST_SECONDS,
};

use super::gather::Gather;

/// The cost of one thread, which alone may use it: CPU time is the calling thread's.
pub(super) struct Sampling {
    thread: &'static str,
    worst: Duration,
}

impl Sampling {
    pub(super) fn of(thread: &'static str) -> Self {
        Self { thread, worst: Duration::ZERO }
    }

    /// One sample at the sensors, whose time counts.
    pub(super) fn timed<T>(&mut self, look: impl FnOnce() -> T) -> T {
        let watch = Stopwatch::start();
        let seen = look();
        self.worst = self.worst.max(watch.elapsed());
        seen
    }

    /// Two readings; the longest sample is reset with them.
    pub(super) fn gather(&mut self, gather: &mut Gather) {
        let Some(labels) = gather.labels(&[("thread", self.thread)]) else { return };
        let worst = std::mem::take(&mut self.worst);
        let spent = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
        let spent = spent.map_err(|_| MissingReading::unsupported("not_supported"));
        gather.put_of(&SAMPLING_CPU_SECONDS_TOTAL, &labels, spent.map(|cpu| cpu.as_secs_f64()));
        gather.put_of(&SAMPLING_WORST_SECONDS, &labels, Ok(worst.as_secs_f64()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_poll_is_reported_once_and_cpu_time_grows() {
        let mut sampling = Sampling::of("test");
        let mut got = || {
            let mut gather = Gather::default();
            sampling.gather(&mut gather);
            let readings = gather.finish();
            let value = |sensor: &str| {
                let of = readings.iter().find(|reading| reading.sensor == sensor).unwrap();
                assert_eq!(of.labels.get("thread"), Some("test"));
                of.value.unwrap()
            };
            let got = (value(SAMPLING_CPU_SECONDS_TOTAL.name), value(SAMPLING_WORST_SECONDS.name));
            (got, sampling.timed(|| std::hint::black_box((0..9_999u64).sum::<u64>())))
        };
        let ((first_cpu, none), _) = got();
        let ((cpu, worst), _) = got();
        assert_eq!(none, 0.0);
        assert!(cpu >= first_cpu && worst > 0.0, "{cpu} after {first_cpu}, {worst}");
    }
}
