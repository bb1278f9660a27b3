//! Steps: how long one turn of a loop takes, and the phases in which its time was spent.
//!
//! Handles are made once, as those of operations, so that a step takes no lock and allocates
//! nothing. At its end a step records one sample of its own and one of each phase. A step is found
//! by its guard alone, never by a global: each task and thread has its own.
//!
//! DESIGN N85.

use std::sync::atomic::Ordering::Relaxed;

use plimsoll_clock::Stopwatch;
use plimsoll_schemas::labelled;
use plimsoll_schemas::time::nanos;
use plimsoll_schemas::unit::Unit;

use crate::directory::NO_LABELS;
use crate::exclusive::{ExclusiveTimes, PhaseNumber};
use crate::operation::Operation;
use crate::switches::Profiler;
use crate::{incidents, process, recording};

/// The label of a phase's class.
const CLASS: &str = "class";
/// The phase of what is outside of all phases.
const REST: &str = "other";

labelled! {
    /// What the time of a phase is good for: its label `class`.
    pub enum Class {
        /// Waits for data.
        Input = "input",
        /// Does the work.
        Compute = "compute",
        /// Waits for other processes of the job.
        Sync = "sync",
        /// Saves its state.
        Checkpoint = "checkpoint",
        /// Waits for a language model.
        Llm = "llm",
        /// Waits for a database.
        Database = "database",
        /// Changes from one mode of work to another.
        Mode = "mode",
        /// Anything else.
        Other = "other",
    }
}

impl Class {
    fn of_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|class| class.as_str() == name).unwrap_or(Self::Other)
    }
}

/// The steps of a loop, as one operation with its phases. Made once, cheap to copy, used from any
/// thread.
///
/// ```
/// use plimsoll_client::{Class, Steps};
///
/// let steps = Steps::new("train_step");
/// let input = steps.phase("input");
/// let reduce = steps.phase_of("all_reduce", Class::Sync);
///
/// let mut step = steps.start();
/// let reading = step.phase(input);
/// // read a batch
/// reading.stop();
/// let mut reducing = step.phase(reduce);
/// // A phase within it, whose time is not counted in it.
/// reducing.phase(input).stop();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    operation: Operation,
    rest: Phase,
}

/// A part of the steps of one loop; see [`Steps::phase`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase(Operation);

impl Steps {
    /// The steps of this name, an operation as of [`Operation::new`].
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::with_labels(name, NO_LABELS)
    }

    /// Steps with labels, which their phases have too; see [`Operation::with_labels`].
    #[must_use]
    pub fn with_labels<K: AsRef<str>, V: AsRef<str>>(
        name: &str,
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let operation = Operation::with_labels(name, labels);
        Self { operation, rest: phase(operation, REST, Class::Other) }
    }

    /// A part of these steps: the operation `<step>.<name>`. Its label `class` is the name, if it
    /// is that of a [`Class`], or else `other`.
    ///
    /// A name that leaves no room for both, or a seventeenth label, folds as with
    /// [`Operation::new`].
    #[must_use]
    pub fn phase(&self, name: &str) -> Phase {
        self.phase_of(name, Class::of_name(name))
    }

    /// A part of these steps, with this class.
    #[must_use]
    pub fn phase_of(&self, name: &str, class: Class) -> Phase {
        phase(self.operation, name, class)
    }

    /// A step from here until the returned guard goes out of scope, also by `?` or a panic.
    #[inline]
    pub fn start(&self) -> Step {
        let is_on = recording::is_on(Profiler::Timers);
        Step { operation: self.operation, running: is_on.then(|| Running::start(self.rest)) }
    }
}

fn phase(step: Operation, name: &str, class: Class) -> Phase {
    let series = process::state().directory.series(step.index());
    let own = series.labels.iter().filter(|(key, _)| *key != CLASS);
    let labels = own.chain([(CLASS, class.as_str())]);
    // A step records its phases in nanoseconds, whatever their names end with.
    let bare = match Unit::of(name) {
        Unit::Nanoseconds => name.to_owned(),
        _ => name.replace(':', "_"),
    };
    let name = format!("{}.{bare}", series.operation);
    Phase(Operation::with_labels(&name, labels))
}

/// A step that goes on; see [`Steps::start`].
///
/// When it ends, it records its time, the time of each phase that was entered, as one sample
/// however often that was, and as the phase `other` the time outside of all phases: the phases add
/// up to the step. In a forked child it records nothing, since it is the parent's.
#[derive(Debug)]
#[must_use = "it records when it is dropped, which is now"]
pub struct Step {
    operation: Operation,
    /// Absent once there is nothing to record.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    watch: Stopwatch,
    times: ExclusiveTimes,
    /// Whether the step counts as an error too.
    is_failed: bool,
    forks: u32,
}

impl Running {
    fn start(Phase(rest): Phase) -> Self {
        Self {
            times: ExclusiveTimes::new(rest.index()),
            is_failed: false,
            forks: process::forks(),
            watch: Stopwatch::start(),
        }
    }

    fn now_ns(&self) -> u64 {
        nanos(self.watch.elapsed())
    }
}

impl Step {
    /// Times a phase of this step until the returned guard goes out of scope. A phase beyond the
    /// 31st different one counts in what is around it, and as
    /// [`Stats::phases_cut`](crate::Stats::phases_cut).
    #[inline]
    pub fn phase(&mut self, phase: Phase) -> PhaseTimer<'_> {
        PhaseTimer::enter(self.running.as_mut(), phase)
    }

    /// Ends the step and records it.
    pub fn stop(self) {}

    /// Marks the step as failed: once it ends, it also counts in the counter `<step>.errors` with
    /// the labels of the step.
    pub fn fail(&mut self) {
        if let Some(running) = &mut self.running {
            running.is_failed = true;
        }
    }
}

impl Drop for Step {
    #[inline]
    fn drop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let took_ns = running.now_ns();
        // A forked child drops what its parent had begun.
        if running.forks != process::forks() {
            return;
        }

        self.operation.record_ns(took_ns);
        if running.is_failed {
            self.operation.count_one("errors");
        }

        for time in running.times.end(took_ns) {
            Operation::of_index(time.operation).record_ns(time.ns);
        }
    }
}

/// A phase that goes on; see [`Step::phase`].
#[derive(Debug)]
#[must_use = "the phase ends when it is dropped, which is now"]
pub struct PhaseTimer<'a> {
    /// Absent when the step is not recorded.
    running: Option<&'a mut Running>,
    /// Absent when the step has no room for this phase.
    around: Option<PhaseNumber>,
}

impl<'a> PhaseTimer<'a> {
    #[inline]
    fn enter(mut running: Option<&'a mut Running>, Phase(operation): Phase) -> Self {
        let around = running.as_mut().and_then(|running| {
            let around = running.times.enter(running.now_ns(), operation.index());
            if around.is_none() {
                incidents::PHASES_CUT.fetch_add(1, Relaxed);
            }
            around
        });
        Self { running, around }
    }

    /// Times a phase within this one, which does not count meanwhile.
    #[inline]
    pub fn phase(&mut self, phase: Phase) -> PhaseTimer<'_> {
        PhaseTimer::enter(self.running.as_deref_mut(), phase)
    }

    /// Ends the phase.
    pub fn stop(self) {}
}

impl Drop for PhaseTimer<'_> {
    #[inline]
    fn drop(&mut self) {
        if let (Some(running), Some(around)) = (&mut self.running, self.around) {
            let now_ns = running.now_ns();
            running.times.leave(now_ns, around);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_has_the_class_of_its_name_or_other() {
        for class in Class::ALL {
            assert_eq!(Class::of_name(class.as_str()), class);
        }
        for name in ["Sync", "all_reduce", ""] {
            assert_eq!(Class::of_name(name), Class::Other, "{name}");
        }
    }

    #[test]
    fn phases_are_series_of_their_step_with_its_labels() {
        let steps = Steps::with_labels("s", [("class", "mine"), ("zone", "a")]);
        let series = |Phase(operation): Phase| {
            process::state().directory.series(operation.index()).to_string()
        };
        assert_eq!(series(steps.phase("input")), "s.input{class=input,zone=a}");
        assert_eq!(series(steps.phase_of("input", Class::Sync)), "s.input{class=sync,zone=a}");
        assert_eq!(series(steps.phase("load")), "s.load{class=other,zone=a}");
        assert_eq!(steps.phase("other"), steps.rest);
        assert_ne!(steps.phase_of("other", Class::Sync), steps.rest);
    }
}
