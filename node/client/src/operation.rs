//! Handles of operations: what a job times.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::limits::CORRECTIONS_MAX;
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::histogram::layout::MAX_NS;
use plimsoll_schemas::ids::{IdError, Series};
use plimsoll_schemas::time::nanos;
use plimsoll_schemas::unit::Unit;

use crate::directory::{NO_LABELS, series};
use crate::number::Counter;
use crate::switches::Profiler;
use crate::{incidents, process, recording};

/// An operation, perhaps with labels, whose latencies are recorded. Made once, cheap to copy,
/// used from any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    index: u32,
    /// Zero for none.
    interval_ns: u64,
    /// What is recorded for a nanosecond: 1, or 1 000 if the name ends with `:ps`.
    raw_per_ns: u64,
}

impl Operation {
    /// The operation of this name: up to 128 letters, digits, and `_.:/-`.
    ///
    /// Of one that ends with `:ps`, for operations below a microsecond, picoseconds are counted, up
    /// to 3.6 s; of any other nanoseconds.
    ///
    /// A name that is not valid or that of a [`Distribution`](crate::Distribution), or one beyond
    /// 1 024 series, folds into the operation `other` and counts as
    /// [`Stats::folded`](crate::Stats::folded); use [`Operation::try_new`] to get the error.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::of(series(name, NO_LABELS).ok())
    }

    /// An operation with labels, such as `[("outcome", "hit")]`: at most 16, keys of letters,
    /// digits and `_.-`, values of up to 128 bytes without control characters. What is not
    /// valid folds as with [`Operation::new`].
    ///
    /// Each set of labels is a series of its own; make the handles once, not for each call.
    #[must_use]
    pub fn with_labels<K: AsRef<str>, V: AsRef<str>>(
        name: &str,
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        Self::of(series(name, labels).ok())
    }

    /// As [`Operation::with_labels`], for names from outside.
    ///
    /// # Errors
    /// When the name or a label is not valid.
    pub fn try_new<K: AsRef<str>, V: AsRef<str>>(
        name: &str,
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, IdError> {
        Ok(Self::of(Some(series(name, labels)?)))
    }

    pub(crate) fn index(self) -> u32 {
        self.index
    }

    /// The operation of a known number, in nanoseconds.
    pub(crate) const fn of_index(index: u32) -> Self {
        Self { index, interval_ns: 0, raw_per_ns: 1 }
    }

    fn of(wanted: Option<Series>) -> Self {
        let unit_of = |series: &Series| Unit::of(series.operation.as_str());
        let wanted = wanted.filter(|series| unit_of(series).is_time());
        let unit = wanted.as_ref().map(unit_of).unwrap_or_default();
        let index = process::state().directory.operation(wanted, unit);
        let raw_per_ns = if unit == Unit::Picoseconds { 1_000 } else { 1 };
        Self { raw_per_ns, ..Self::of_index(index) }
    }

    /// The same operation, whose caller waits for one call before it begins the next, though
    /// calls were due every `interval`. A call longer than that then also records the waiting of
    /// those that it held up: for a latency `v` also `v - interval`, `v - 2 * interval` and so
    /// on while they are no shorter than `interval`, as HdrHistogram's correction for
    /// coordinated omission does; at most 10 000 of them, the rest counts as
    /// [`Stats::corrections_cut`](crate::Stats::corrections_cut).
    #[must_use]
    pub fn expected_interval(self, interval: Duration) -> Self {
        Self { interval_ns: nanos(interval), ..self }
    }

    /// Records one latency. Above one hour it counts as one hour, and as
    /// [`Stats::clamped`](crate::Stats::clamped).
    #[inline]
    pub fn record(&self, latency: Duration) {
        self.record_ns(nanos(latency));
    }

    /// Records one latency in nanoseconds.
    #[inline]
    pub fn record_ns(&self, ns: u64) {
        recording::record(self.index, ns.saturating_mul(self.raw_per_ns));
        if self.interval_ns != 0 && ns > self.interval_ns {
            self.correct(ns.min(MAX_NS));
        }
    }

    #[cold]
    fn correct(&self, ns: u64) {
        if !recording::ready() {
            return;
        }
        let omitted = (ns / self.interval_ns).saturating_sub(1);
        let made = omitted.min(CORRECTIONS_MAX);
        for n in 1..=made {
            let waited_ns = ns - n * self.interval_ns;
            recording::record(self.index, waited_ns.saturating_mul(self.raw_per_ns));
        }
        if made < omitted {
            incidents::CORRECTIONS_CUT.fetch_add(omitted - made, Relaxed);
        }
    }

    /// Times from here until the returned guard goes out of scope, also by `?` or a panic.
    #[inline]
    pub fn start(&self) -> Timer {
        let is_on = recording::is_on(Profiler::Timers);
        Timer { operation: *self, begun: is_on.then(Stopwatch::start), is_failed: false }
    }

    /// Times `work`. An error or a panic also counts in the counter `<operation>.errors` with the
    /// operation's labels.
    ///
    /// # Errors
    /// That of `work`.
    pub fn time<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        // Failed unless it succeeds, so that a panic counts too.
        let mut timer = self.start();
        timer.fail();
        let outcome = work();
        timer.is_failed = outcome.is_err();
        outcome
    }

    /// Times `future` from its first poll until it is done. Dropped before, it records no
    /// latency: it counts in the counter `<operation>.cancelled` with the operation's labels,
    /// and as [`Stats::cancelled`](crate::Stats::cancelled).
    pub async fn time_future<F: Future>(self, future: F) -> F::Output {
        let mut guard = Unfinished(Some(self.start()));
        let output = future.await;
        // Taken out, because the guard counts what it still holds as cancelled.
        drop(guard.0.take());
        output
    }

    #[cold]
    fn count_cancelled(self) {
        if !recording::ready() {
            return;
        }
        incidents::CANCELLED.fetch_add(1, Relaxed);
        self.count_one("cancelled");
    }

    /// Counts one in the counter `<operation>.<what>` with the operation's labels.
    #[cold]
    pub(crate) fn count_one(self, what: &str) {
        let Series { operation, labels } = process::state().directory.series(self.index);
        Counter::with_labels(&format!("{operation}.{what}"), labels.iter()).add(1);
    }
}

/// A span being timed; see [`Operation::start`].
#[derive(Debug)]
#[must_use = "it records when it is dropped, which is now"]
pub struct Timer {
    operation: Operation,
    /// Absent once there is nothing to record.
    begun: Option<Stopwatch>,
    /// Whether the span counts as an error too.
    is_failed: bool,
}

impl Timer {
    /// Ends the span and records it.
    pub fn stop(self) {}

    /// Marks the span as failed: once it ends, it also counts in the counter `<operation>.errors`
    /// with the operation's labels.
    pub fn fail(&mut self) {
        self.is_failed = true;
    }

    /// Ends the span without recording it.
    pub fn cancel(mut self) {
        self.begun = None;
    }
}

impl Drop for Timer {
    #[inline]
    fn drop(&mut self) {
        if let Some(begun) = self.begun {
            self.operation.record(begun.elapsed());
            if self.is_failed {
                self.operation.count_one("errors");
            }
        }
    }
}

/// The timer of a future that may be dropped before it is done.
struct Unfinished(Option<Timer>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(timer) = self.0.take() {
            timer.operation.count_cancelled();
            timer.cancel();
        }
    }
}
