//! Steps of one message as a rule reads them: of each peer how many steps it made, and the time of
//! each class that they took.

use std::collections::BTreeMap;

use plimsoll_blame::limits::FORGOTTEN_INTERVALS;
use plimsoll_blame::{Class, Interval, StepTimes};
use plimsoll_schemas::ids::{Labels, Operation, Series};
use plimsoll_schemas::limits::rules::{CLASSES_MAX, COHORT_LABELS_MAX};
use plimsoll_schemas::run::RUN_LABEL;
use plimsoll_schemas::straggler::CLASS_LABEL;

use super::rule::JudgedRule;
use crate::core::fleet::MergedSamples;
use crate::limits::blame::STEP_OPERATIONS_MAX;

/// Values of the rule's cohort labels, and of the run.
type CohortValues<'m> = [Option<&'m str>; COHORT_LABELS_MAX + 1];

/// A peer of a message, by references: tens of thousands of series come in a second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PeerKey<'m> {
    pub(super) operation: &'m Operation,
    values: CohortValues<'m>,
    pub(super) peer: &'m str,
}

/// What a message reports of a peer.
#[derive(Clone, Copy, Default)]
pub(super) struct PeerSteps {
    steps: u64,
    ns: [u64; CLASSES_MAX],
    /// Classes with samples.
    pub(super) measured: [bool; CLASSES_MAX],
}

/// Steps by peer, and samples that name no peer.
pub(super) struct MessageSteps<'m> {
    pub(super) peers: BTreeMap<PeerKey<'m>, PeerSteps>,
    pub(super) unlabelled: u64,
}

/// Operations that have phases of a class that a rule reads, each with its newest report.
#[derive(Debug, Default)]
pub(super) struct StepOperations(BTreeMap<Operation, Interval>);

impl StepOperations {
    /// Adds those that a rule reads in a message; returns how many phases found no room.
    pub(super) fn note(
        &mut self,
        now: Interval,
        rule: &JudgedRule,
        samples: &MergedSamples,
    ) -> u64 {
        let mut without_room = 0;
        for (series, _) in &samples.latency.histograms {
            let Some(Phase { step, class }) = phase(series) else { continue };
            if rule.class(class).is_none() {
                continue;
            }

            if let Some(seen) = self.0.get_mut(step) {
                *seen = now.max(*seen);
                continue;
            }

            let Ok(step) = Operation::new(step) else { continue };
            if !rule.watches(&step) {
                continue;
            }

            // None is pushed out for another: a peer's history would start over each time.
            if self.0.len() == STEP_OPERATIONS_MAX {
                without_room += 1;
                continue;
            }
            self.0.insert(step, now);
        }

        without_room
    }

    /// Drops those without a report for so long that their peers are forgotten too.
    pub(super) fn expire(&mut self, now: Interval) {
        // What a clock that was set back has noted is noted again with the next report.
        self.0.retain(|_, seen| *seen <= now && now.0 - seen.0 <= FORGOTTEN_INTERVALS);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, step: &str) -> Option<&Operation> {
        self.0.get_key_value(step).map(|(operation, _)| operation)
    }
}

/// A part of a step.
struct Phase<'m> {
    step: &'m str,
    class: &'m str,
}

/// The step that a series is a phase of: DESIGN N85.
fn phase(series: &Series) -> Option<Phase<'_>> {
    let class = series.labels.get(CLASS_LABEL)?;
    series.operation.as_str().rsplit_once('.').map(|(step, _)| Phase { step, class })
}

impl<'m> MessageSteps<'m> {
    pub(super) fn new(
        rule: &'m JudgedRule,
        known: &'m StepOperations,
        samples: &'m MergedSamples,
    ) -> Self {
        let mut steps = Self { peers: BTreeMap::new(), unlabelled: 0 };

        for (series, packed) in &samples.latency.histograms {
            let step = phase(series).map_or(series.operation.as_str(), |phase| phase.step);
            let Some(operation) = known.get(step).filter(|of| rule.watches(of)) else { continue };
            let class = series.labels.get(CLASS_LABEL);
            let place = class.map(|class| rule.class(class));
            if place == Some(None) {
                continue;
            }

            let label = |key: &str| series.labels.get(key).or_else(|| samples.node_labels.get(key));
            let exact = packed.exact();
            let Some(peer) = label(rule.by()) else {
                steps.unlabelled = steps.unlabelled.saturating_add(exact.count);
                continue;
            };

            let mut values = [None; COHORT_LABELS_MAX + 1];
            let labels = rule.cohort().chain([RUN_LABEL]);
            values.iter_mut().zip(labels).for_each(|(value, key)| *value = label(key));
            let of = steps.peers.entry(PeerKey { operation, values, peer }).or_default();
            match place.flatten() {
                Some(Class(place)) => {
                    let ns = u64::try_from(exact.sum_ns).unwrap_or(u64::MAX);
                    of.ns[place] = of.ns[place].saturating_add(ns);
                    of.measured[place] = true;
                }
                None => of.steps = of.steps.saturating_add(exact.count),
            }
        }

        steps
    }
}

impl PeerKey<'_> {
    /// The labels that all peers of its cohort share.
    pub(super) fn cohort(&self, rule: &JudgedRule) -> Labels {
        let labels = rule.cohort().chain([RUN_LABEL]).zip(self.values);
        let pairs: BTreeMap<&str, &str> = labels.filter_map(|(key, of)| Some((key, of?))).collect();
        Labels::new(pairs).expect("distinct keys, with values of labels")
    }
}

impl PeerSteps {
    /// As the statistics take them: a class that the peer measures took no time if there are no
    /// samples of it.
    pub(super) fn times(&self, measured: &[bool; CLASSES_MAX]) -> StepTimes {
        let classes = self.ns.iter().zip(measured).enumerate();
        let measured = classes.filter(|(_, (_, is_measured))| **is_measured);
        measured.fold(StepTimes::new(self.steps), |times, (place, (ns, _))| {
            times.with(Class(place), *ns)
        })
    }
}
