//! The simulation kernel: virtual time, the event queue, the random numbers, and what a run has
//! found so far.
//!
//! Every room of the simulation gets the kernel as an argument. It holds no state of the mesh: it
//! orders events, draws numbers, counts reached branches, records the first broken invariant and
//! writes the trace.
//!
//! DESIGN D13.

use super::act::Shown;
use super::event::Event;
use super::plan::Knobs;
use super::reached::Reached;
use super::rng::Rng;
use super::schedule::{Schedule, Time};

/// Events in one run; a run with more does not come to an end.
const EVENTS_MAX: u64 = 1_000_000;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub invariant: &'static str,
    /// The values that broke it.
    pub what: String,
    pub at: Time,
}

/// See the module.
pub struct Kernel {
    knobs: Knobs,
    rng: Rng,
    schedule: Schedule<Event>,
    events: u64,
    reached: Reached,
    broken: Option<Broken>,
    is_healed: bool,
    trace: Option<Vec<String>>,
}

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub reached: Reached,
    pub events: u64,
    /// Virtual time of the last event.
    pub ended_at: Time,
    /// The first broken invariant.
    pub broken: Option<Broken>,
    /// The trace; empty unless requested.
    pub trace: Vec<String>,
}

impl Kernel {
    /// A kernel at time zero; `traces` to write a trace.
    pub fn new(knobs: Knobs, rng: Rng, traces: bool) -> Self {
        Self {
            knobs,
            rng,
            schedule: Schedule::default(),
            events: 0,
            reached: Reached::default(),
            broken: None,
            is_healed: false,
            trace: traces.then(Vec::new),
        }
    }

    /// What stays the same during the run.
    pub fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    /// The run's random numbers.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// The present virtual time.
    pub fn now(&self) -> Time {
        self.schedule.now()
    }

    /// Schedules an event at a time.
    pub fn at(&mut self, at: Time, event: Event) {
        self.schedule.plan(at, event);
    }

    /// Schedules an event after a span.
    pub fn after(&mut self, span: Time, event: Event) {
        self.schedule.plan(self.schedule.now().saturating_add(span), event);
    }

    /// The next event up to `until`. Without one the time advances to `until`; a broken run has
    /// no further events.
    pub fn next(&mut self, until: Time) -> Option<Event> {
        if self.broken.is_some() {
            return None;
        }
        if self.schedule.next_at().is_none_or(|at| at > until) {
            self.schedule.pass(until);
            return None;
        }
        self.events += 1;
        if self.events > EVENTS_MAX {
            self.fail("a run comes to an end", || "it does not".to_owned());
            return None;
        }
        self.schedule.take()
    }

    /// Counts a reached branch.
    pub fn reach(&mut self, name: &'static str) {
        self.reached.reach(name);
    }

    /// Counts a branch that was reached `n` times.
    pub fn reach_n(&mut self, name: &'static str, n: u64) {
        self.reached.reach_n(name, n);
    }

    /// Records a broken invariant, unless one was broken before.
    pub fn fail(&mut self, invariant: &'static str, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            let (what, at) = (what(), self.now());
            self.trace(|| format!("BROKEN: {invariant}: {what}"));
            self.broken = Some(Broken { invariant, what, at });
        }
    }

    /// Whether an invariant was broken.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Adds a line to the trace.
    pub fn trace(&mut self, line: impl FnOnce() -> String) {
        let at = self.schedule.now();
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>12}  {}", Shown(at).to_string(), line()));
        }
    }

    /// Ends all faults that the kernel draws; `checkpoint_every` is the time between checkpoints
    /// from now on.
    pub fn heal(&mut self, checkpoint_every: Time) {
        self.trace(|| "all faults end".to_owned());
        self.is_healed = true;
        self.knobs.checkpoint.0 = checkpoint_every;
    }

    /// Whether all faults are over.
    pub fn is_healed(&self) -> bool {
        self.is_healed
    }

    pub fn finish(self) -> Outcome {
        Outcome {
            reached: self.reached,
            events: self.events,
            ended_at: self.schedule.now(),
            broken: self.broken,
            trace: self.trace.unwrap_or_default(),
        }
    }
}
