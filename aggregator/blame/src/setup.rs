//! What a cohort does and how its culprit shows: its rule and its classes of time.

use crate::limits::CLASSES_MAX;
use crate::report::{Class, StepTimes};

/// How a cohort finds its culprit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Steps end at a barrier, so all take the same time: the culprit waits least for others.
    WaitsLeast,
    /// Operations are independent: the culprit's take longest.
    Slowest,
}

/// What time of a class is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassKind {
    /// Own work: input, compute, checkpoints.
    Work,
    /// Waiting for other peers.
    Wait,
}

/// Why a cohort cannot be judged as set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    #[error("{0} classes of time: at most {CLASSES_MAX} are judged")]
    TooManyClasses(usize),
    #[error("no class of work: name one, such as compute")]
    NoWork,
    #[error("rule `waits least` without a class of waiting: name one, such as sync")]
    NoWait,
}

/// A rule and the classes of time that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    rule: Rule,
    kinds: [Option<ClassKind>; CLASSES_MAX],
}

/// A peer's step in one bin, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) work_ns: f64,
    pub(crate) wait_ns: f64,
    /// What is higher the slower the peer is, and differs between peers by their work alone.
    pub(crate) load_ns: f64,
}

impl Setup {
    /// A rule over classes of these kinds.
    pub fn new(rule: Rule, classes: &[ClassKind]) -> Result<Self, SetupError> {
        if classes.len() > CLASSES_MAX {
            return Err(SetupError::TooManyClasses(classes.len()));
        }
        if !classes.contains(&ClassKind::Work) {
            return Err(SetupError::NoWork);
        }
        if rule == Rule::WaitsLeast && !classes.contains(&ClassKind::Wait) {
            return Err(SetupError::NoWait);
        }
        let mut kinds = [None; CLASSES_MAX];
        kinds.iter_mut().zip(classes).for_each(|(kind, class)| *kind = Some(*class));
        Ok(Self { rule, kinds })
    }

    pub(crate) fn rule(&self) -> Rule {
        self.rule
    }

    pub(crate) fn work_classes(&self) -> impl Iterator<Item = Class> + '_ {
        self.of_kind(ClassKind::Work)
    }

    fn of_kind(&self, wanted: ClassKind) -> impl Iterator<Item = Class> + '_ {
        let kinds = self.kinds.iter().enumerate();
        kinds.filter(move |(_, kind)| **kind == Some(wanted)).map(|(at, _)| Class(at))
    }

    /// The mean step; `None` without steps, or if a class that the rule reads was not measured.
    pub(crate) fn step(&self, times: &StepTimes) -> Option<Step> {
        let work_ns = self.mean(times, ClassKind::Work)?;
        let wait_ns = self.mean(times, ClassKind::Wait);
        let load_ns = match self.rule {
            // Work that no class measures shortens the waiting all the same.
            Rule::WaitsLeast => -wait_ns?,
            Rule::Slowest => work_ns,
        };
        Some(Step { work_ns, wait_ns: wait_ns.unwrap_or_default(), load_ns })
    }

    /// The mean over steps of all measured classes of a kind.
    fn mean(&self, times: &StepTimes, kind: ClassKind) -> Option<f64> {
        self.of_kind(kind).filter_map(|class| times.per_step(class)).reduce(|sum, one| sum + one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setups_that_show_no_culprit_are_refused() {
        use ClassKind::{Wait, Work};
        for (rule, classes, refused) in [
            (Rule::WaitsLeast, vec![Work, Wait], None),
            (Rule::Slowest, vec![Work], None),
            (Rule::WaitsLeast, vec![Work], Some(SetupError::NoWait)),
            (Rule::Slowest, vec![Wait], Some(SetupError::NoWork)),
            (Rule::Slowest, vec![Work; 7], Some(SetupError::TooManyClasses(7))),
        ] {
            assert_eq!(Setup::new(rule, &classes).err(), refused, "{classes:?}");
        }
    }

    #[test]
    fn a_step_is_the_mean_of_measured_classes() {
        let kinds = [ClassKind::Work, ClassKind::Wait, ClassKind::Work];
        let setup = Setup::new(Rule::WaitsLeast, &kinds).unwrap();
        let times = StepTimes::new(4).with(Class(0), 400).with(Class(1), 80);
        let step = setup.step(&times).unwrap();
        assert_eq!((step.work_ns, step.wait_ns, step.load_ns), (100.0, 20.0, -20.0));
        assert_eq!(setup.step(&StepTimes::new(4).with(Class(0), 400)), None);
        assert_eq!(setup.step(&StepTimes::new(0).with(Class(0), 400).with(Class(1), 80)), None);
    }
}
