//! What a peer reports of one interval: steps, and the time that they took by class. Reports of one
//! interval add up, in any order.

use crate::limits::CLASSES_MAX;

/// One that does the same work as the others of its cohort, by a number that its caller gives. A
/// peer that is renamed is another peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u64);

/// A class of time, by its place in [`crate::Setup::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(pub usize);

/// The number of an interval of event time, such as seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval(pub u64);

/// Steps that ended in an interval, and the nanoseconds that all of them took, by class. A class
/// that was not measured is absent, which differs from a class that took no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    steps: u64,
    ns: [u64; CLASSES_MAX],
    is_measured: [bool; CLASSES_MAX],
}

impl StepTimes {
    /// Steps of which no class is measured yet.
    pub fn new(steps: u64) -> Self {
        Self { steps, ..Self::default() }
    }

    /// The same with the time of a class; without effect for a class that cannot exist.
    #[must_use]
    pub fn with(mut self, class: Class, ns: u64) -> Self {
        if let (Some(sum), Some(is_measured)) =
            (self.ns.get_mut(class.0), self.is_measured.get_mut(class.0))
        {
            *sum = sum.saturating_add(ns);
            *is_measured = true;
        }
        self
    }

    /// Adds another report of the same interval, or of the next one.
    pub fn merge(&mut self, other: &Self) {
        self.steps = self.steps.saturating_add(other.steps);
        self.ns.iter_mut().zip(other.ns).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
        let measured = self.is_measured.iter_mut().zip(other.is_measured);
        measured.for_each(|(is_measured, also)| *is_measured |= also);
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The nanoseconds of a class, if it was measured.
    pub fn ns(&self, class: Class) -> Option<u64> {
        self.is_measured.get(class.0)?.then(|| self.ns[class.0])
    }

    /// The mean over steps of a class's nanoseconds, if both are there.
    pub(crate) fn per_step(&self, class: Class) -> Option<f64> {
        let ns = self.ns(class).filter(|_| self.steps > 0)?;
        Some(ns as f64 / self.steps as f64)
    }
}
