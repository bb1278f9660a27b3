//! Steps of one message as a rule reads them: of each peer how many steps it made, and the time of
//! each class that they took.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_blame::{Class, StepTimes};
use plimsoll_schemas::ids::Series;
use plimsoll_schemas::limits::rules::CLASSES_MAX;
use plimsoll_schemas::run::RUN_LABEL;
use plimsoll_schemas::straggler::{CLASS_LABEL, step_of};
use plimsoll_schemas::unit::Unit;

use super::rule::JudgedRule;
use crate::core::fleet::MergedSamples;

/// A peer of a message, by references: tens of thousands of series come in a second.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PeerKey<'m> {
    pub(super) operation: &'m str,
    /// The labels that all peers of its cohort share.
    pub(super) cohort: BTreeMap<&'m str, &'m str>,
    pub(super) peer: &'m str,
}

/// What a message reports of a peer.
#[derive(Default)]
pub(super) struct PeerSteps {
    steps: u64,
    /// Nanoseconds of classes with samples.
    pub(super) ns: [Option<u64>; CLASSES_MAX],
}

/// Steps by peer, and samples that name no peer.
#[derive(Default)]
pub(super) struct MessageSteps<'m> {
    pub(super) peers: BTreeMap<PeerKey<'m>, PeerSteps>,
    pub(super) unlabelled: u64,
}

/// A part of a step.
struct Phase<'m> {
    step: &'m str,
    class: &'m str,
}

fn phase(series: &Series) -> Option<Phase<'_>> {
    let class = series.labels.get(CLASS_LABEL)?;
    // Sizes and numbers of a step are no part of its time.
    Unit::of(series.operation.as_str()).nanoseconds(0)?;
    step_of(series.operation.as_str()).map(|step| Phase { step, class })
}

impl<'m> MessageSteps<'m> {
    /// Of the operations that have phases of a class that the rule reads: `known` have had some.
    pub(super) fn new<'k>(
        rule: &'m JudgedRule,
        known: impl Iterator<Item = &'k str>,
        samples: &'m MergedSamples,
    ) -> Self
    where
        'm: 'k,
    {
        let histograms = &samples.latency.histograms;
        let phases = histograms.iter().filter_map(|(series, _)| phase(series));
        let read = phases.filter(|of| rule.class(of.class).is_some()).map(|of| of.step);
        let operations: BTreeSet<&str> = known.chain(read.filter(|of| rule.watches(of))).collect();

        let mut steps = Self::default();
        for (series, packed) in histograms {
            let operation = phase(series).map_or(series.operation.as_str(), |phase| phase.step);
            let class = series.labels.get(CLASS_LABEL).map(|class| rule.class(class));
            if !operations.contains(operation) || class == Some(None) {
                continue;
            }

            let label = |key: &str| series.labels.get(key).or_else(|| samples.node_labels.get(key));
            let exact = packed.exact();
            let Some(peer) = label(&rule.of.by) else {
                steps.unlabelled = steps.unlabelled.saturating_add(exact.count);
                continue;
            };

            let shared = rule.of.cohort.iter().map(String::as_str).chain([RUN_LABEL]);
            let cohort = shared.filter_map(|key| Some((key, label(key)?))).collect();
            let of = steps.peers.entry(PeerKey { operation, cohort, peer }).or_default();
            match class.flatten() {
                Some(Class(place)) => {
                    let unit = Unit::of(series.operation.as_str());
                    let ns = unit.nanoseconds(exact.sum_ns).unwrap_or_default();
                    let ns = u64::try_from(ns).unwrap_or(u64::MAX);
                    of.ns[place] = Some(of.ns[place].unwrap_or_default().saturating_add(ns));
                }
                None => of.steps = of.steps.saturating_add(exact.count),
            }
        }

        steps
    }
}

impl PeerSteps {
    /// As the statistics take them: a class that the peer measures took no time if there are no
    /// samples of it.
    pub(super) fn times(&self, measured: &[bool; CLASSES_MAX]) -> StepTimes {
        let classes = self.ns.iter().zip(measured).enumerate();
        let measured = classes.filter(|(_, (_, is_measured))| **is_measured);
        measured.fold(StepTimes::new(self.steps), |times, (place, (ns, _))| {
            times.with(Class(place), ns.unwrap_or_default())
        })
    }
}
