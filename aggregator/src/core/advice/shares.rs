//! Shares of the time of a cycle and of the nodes, from exact sums.
//!
//! DESIGN A185.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::straggler::step_of;
use plimsoll_schemas::summary::{ClassShare, CycleShares, OperationShare, WallTime};
use plimsoll_schemas::time::seconds;

/// The class of an operation that had several in the range: its time cannot be divided.
pub const MIXED: &str = "mixed";
/// Phases that take more than this many thousandths of their cycles run side by side. Producers
/// round each of them.
const PARALLEL_PER_MILLE: u128 = 1_001;

/// The samples of one operation in a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationSamples {
    pub operation: Operation,
    /// Its class of time, or [`MIXED`]; `None` without one.
    pub class: Option<&'static str>,
    pub count: u64,
    pub sum_ns: u128,
    pub p99_ns: Option<u64>,
    pub max_ns: u64,
}

/// Where the time goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    /// The longest first.
    pub cycles: Vec<CycleShares>,
    /// Of the time of the nodes, the largest first.
    pub classes: Vec<ClassShare>,
    /// Of the time of the nodes, the largest first.
    pub operations: Vec<OperationShare>,
}

impl Shares {
    /// The shares of all operations. Each step with phases is a cycle; the operation `named` is one
    /// as well, of its phases, or else of all operations with a class that are phases of no step.
    pub fn of(samples: &[OperationSamples], wall: WallTime, named: Option<&Operation>) -> Self {
        let mut phases: BTreeMap<&str, Vec<&OperationSamples>> = BTreeMap::new();
        let mut free = Vec::new();

        for of in samples.iter().filter(|of| of.class.is_some()) {
            match step_in(samples, of) {
                Some(step) => phases.entry(step).or_default().push(of),
                None => free.push(of),
            }
        }

        let named = named.map(Operation::as_str);
        let cycles = samples.iter().filter_map(|of| {
            let name = of.operation.as_str();
            match phases.get(name) {
                Some(parts) => Some(cycle(of, parts)),
                None if Some(name) == named => Some(cycle(of, &free)),
                None => None,
            }
        });
        // Steps of jobs that ended before the range have neither.
        let cycles = cycles.filter(|of| of.count > 0 || !of.phases.is_empty());
        let mut cycles: Vec<CycleShares> = cycles.collect();
        cycles.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));

        let all: Vec<&OperationSamples> = samples.iter().filter(|of| of.count > 0).collect();
        let of_nodes = |ns: u128| {
            let whole = wall.node_seconds.filter(|seconds| *seconds > 0.0)?;
            Some(ns as f64 / 1e9 / whole)
        };
        Self { cycles, classes: classes(&all, of_nodes), operations: operations(all, of_nodes) }
    }
}

/// The step among the operations that one with a class is a phase of.
fn step_in<'s>(all: &'s [OperationSamples], of: &'s OperationSamples) -> Option<&'s str> {
    let step = step_of(of.operation.as_str())?;
    all.iter().any(|other| other.operation.as_str() == step).then_some(step)
}

fn cycle(of: &OperationSamples, parts: &[&OperationSamples]) -> CycleShares {
    let has_ended = of.count > 0;
    let share = |ns: u128| (of.sum_ns > 0).then(|| ns as f64 / of.sum_ns as f64);
    // An operation that runs within itself would be a part of itself.
    let parts = parts.iter().copied().filter(|part| part.operation != of.operation);
    let parts: Vec<&OperationSamples> = parts.filter(|part| part.count > 0).collect();
    let whole = parts.iter().fold(0_u128, |sum, part| sum.saturating_add(part.sum_ns));
    let parallel_from = of.sum_ns.saturating_mul(PARALLEL_PER_MILLE);

    CycleShares {
        operation: of.operation.to_string(),
        count: of.count,
        seconds: of.sum_ns as f64 / 1e9,
        mean: has_ended.then(|| of.sum_ns as f64 / of.count as f64 / 1e9),
        p99: of.p99_ns.map(seconds),
        max: has_ended.then(|| seconds(of.max_ns)),
        classes: classes(&parts, share),
        phases: operations(parts, share),
        parallel: has_ended && whole.saturating_mul(1_000) > parallel_from,
    }
}

/// The sum of each class and its share, the largest first.
fn classes(of: &[&OperationSamples], share: impl Fn(u128) -> Option<f64>) -> Vec<ClassShare> {
    let mut sums: BTreeMap<&str, u128> = BTreeMap::new();
    for (class, ns) in of.iter().filter_map(|of| Some((of.class?, of.sum_ns))) {
        let sum = sums.entry(class).or_default();
        *sum = sum.saturating_add(ns);
    }

    let mut sums: Vec<(&str, u128)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, ns)| Reverse(*ns));
    let row = |(class, ns): (&str, u128)| ClassShare {
        class: class.to_owned(),
        seconds: ns as f64 / 1e9,
        share: share(ns),
    };
    sums.into_iter().map(row).collect()
}

fn operations(
    mut of: Vec<&OperationSamples>,
    share: impl Fn(u128) -> Option<f64>,
) -> Vec<OperationShare> {
    of.sort_by(|a, b| b.sum_ns.cmp(&a.sum_ns).then_with(|| a.operation.cmp(&b.operation)));
    let row = |of: &OperationSamples| OperationShare {
        operation: of.operation.to_string(),
        class: of.class.map(str::to_owned),
        count: of.count,
        seconds: of.sum_ns as f64 / 1e9,
        share: share(of.sum_ns),
    };
    of.into_iter().map(row).collect()
}
