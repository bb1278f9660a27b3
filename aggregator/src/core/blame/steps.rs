//! Steps of one message as a rule reads them: of each peer how many steps it made, and the time of
//! each class that they took.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_blame::{Class, StepTimes};
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

/// Adds the operations that have phases in a message, as far as there is room for them.
pub(super) fn note_operations(known: &mut BTreeSet<Operation>, samples: &MergedSamples) {
    for (series, _) in &samples.latency.histograms {
        let Some(step) = step_of_phase(series) else { continue };
        if known.contains(step) || known.len() == STEP_OPERATIONS_MAX {
            continue;
        }
        known.extend(Operation::new(step));
    }
}

/// The operation whose step this is a phase of: DESIGN N85.
fn step_of_phase(series: &Series) -> Option<&str> {
    series.labels.get(CLASS_LABEL)?;
    series.operation.as_str().rsplit_once('.').map(|(step, _)| step)
}

impl<'m> MessageSteps<'m> {
    pub(super) fn new(
        rule: &'m JudgedRule,
        known: &'m BTreeSet<Operation>,
        samples: &'m MergedSamples,
    ) -> Self {
        let mut steps = Self { peers: BTreeMap::new(), unlabelled: 0 };

        for (series, packed) in &samples.latency.histograms {
            let step = step_of_phase(series).unwrap_or(series.operation.as_str());
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
