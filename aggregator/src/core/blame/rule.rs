//! A rule about stragglers, with its classes of time as the statistics count them.

use plimsoll_blame::{Class, ClassKind, Rule, Setup};
use plimsoll_schemas::ids::{Labels, Operation, RuleName};
use plimsoll_schemas::limits::rules::CLASSES_MAX;
use plimsoll_schemas::rule::{Straggler, StragglerMethod};

const _: () = assert!(CLASSES_MAX == plimsoll_blame::limits::CLASSES_MAX);

/// A cohort: peers of one rule that do the same work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CohortKey {
    pub(super) rule: RuleName,
    pub(super) operation: Operation,
    /// The labels that all of them share.
    pub(super) labels: Labels,
}

#[derive(Debug)]
pub(super) struct JudgedRule {
    pub(super) of: Straggler,
    pub(super) setup: Setup,
}

impl JudgedRule {
    /// `None` of a rule that can name no peer, which rule files refuse.
    pub(super) fn new(rule: &Straggler) -> Option<Self> {
        let method = match rule.method {
            StragglerMethod::WaitsLeast => Rule::WaitsLeast,
            StragglerMethod::Slowest => Rule::Slowest,
        };
        let work = rule.work.iter().map(|_| ClassKind::Work);
        let kinds: Vec<_> = work.chain(rule.wait.iter().map(|_| ClassKind::Wait)).collect();
        Some(Self { of: rule.clone(), setup: Setup::new(method, &kinds).ok()? })
    }

    /// Whether what one has learned holds for the other.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        Straggler { about: other.of.about.clone(), ..self.of.clone() } == other.of
    }

    pub(super) fn watches(&self, step: &str) -> bool {
        self.of.operation.as_ref().is_none_or(|watched| watched.as_str() == step)
    }

    /// The place of a class, if the rule reads it.
    pub(super) fn class(&self, name: &str) -> Option<Class> {
        let mut classes = self.of.work.iter().chain(&self.of.wait);
        classes.position(|class| class == name).map(Class)
    }
}
