//! The oracle that closes every drill: the jobs' raw samples against what was merged.
//!
//! Counts, extremes and means must be exactly equal. A quantile must lie in the same bucket as the
//! raw sample of its rank: a histogram has no finer resolution.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::histogram::layout::{MAX_NS, index_of};
use plimsoll_schemas::histogram::rank;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::{Quantiles, Summary};
use serde::Serialize;

use super::expectation::Look;

/// The samples in the raw file of each node's job: operation and nanoseconds.
pub type Raw = BTreeMap<NodeName, Vec<(String, u64)>>;

/// One operation in one scope, as sent and as merged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// A node or the fleet.
    pub scope: Scope,
    pub operation: String,
    /// Figures of the sorted raw samples.
    pub raw: Quantiles,
    /// Figures of the merged histogram.
    pub merged: Quantiles,
}

impl Comparison {
    /// Whether every value that a histogram stores exactly is equal.
    pub fn is_exact(&self) -> bool {
        let exact = |q: &Quantiles| (q.count, q.mean_ns, q.min_ns, q.max_ns);
        exact(&self.raw) == exact(&self.merged)
    }

    /// Whether p50 and p99 each lie in the bucket of the raw sample of their rank.
    pub fn is_within_resolution(&self) -> bool {
        let near = |raw: Option<u64>, merged: Option<u64>| match (raw, merged) {
            (Some(raw), Some(merged)) => {
                merged >= raw && merged <= MAX_NS && index_of(raw) == index_of(merged)
            }
            (raw, merged) => raw == merged,
        };
        let Self { raw, merged, .. } = self;
        near(raw.p50_ns, merged.p50_ns) && near(raw.p99_ns, merged.p99_ns)
    }
}

/// Puts every operation of every node and of the fleet beside the raw samples. What was merged
/// and never sent is here too, beside nothing.
pub fn compare(raw: &Raw, summary: &Summary) -> Vec<Comparison> {
    let mut rows: BTreeMap<(Scope, String), (Vec<u64>, Quantiles)> = BTreeMap::new();
    for (node, samples) in raw {
        for (operation, ns) in samples {
            for scope in [Scope::Fleet, Scope::Node(node.clone())] {
                rows.entry((scope, operation.clone())).or_default().0.push(*ns);
            }
        }
    }

    for row in summary.operations.iter().filter(|row| !row.own) {
        rows.entry((row.scope.clone(), row.operation.clone())).or_default().1 = row.total.clone();
    }

    let compared = rows.into_iter().map(|((scope, operation), (samples, merged))| Comparison {
        scope,
        operation,
        raw: figures(samples),
        merged,
    });

    compared.collect()
}

/// The figures of samples, by sorting them all.
fn figures(mut samples: Vec<u64>) -> Quantiles {
    samples.iter_mut().for_each(|ns| *ns = (*ns).min(MAX_NS));
    samples.sort_unstable();
    let (Some(min), Some(max)) = (samples.first(), samples.last()) else {
        return Quantiles::default();
    };
    let count = samples.len() as u64;
    let sum: u128 = samples.iter().map(|ns| u128::from(*ns)).sum();

    let at = |quantile| {
        let place = usize::try_from(rank(quantile, count) - 1).ok()?;
        samples.get(place).copied()
    };

    Quantiles {
        count,
        mean_ns: u64::try_from(sum / u128::from(count)).unwrap_or(u64::MAX),
        min_ns: *min,
        max_ns: *max,
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        approximate: None,
    }
}

/// Whether all counts, extremes and means are equal.
pub fn exact(comparisons: &[Comparison]) -> Look {
    let fleet = comparisons.iter().filter(|row| row.scope == Scope::Fleet);
    let all: u64 = fleet.map(|row| row.merged.count).sum();
    let unequal = comparisons.iter().filter(|row| !row.is_exact()).map(|row| {
        let Comparison { scope, operation, raw, merged } = row;
        let shown = |q: &Quantiles| {
            format!("{} of mean {} ns, {} to {} ns", q.count, q.mean_ns, q.min_ns, q.max_ns)
        };
        format!("{operation} ({scope}): sent {}; merged {}", shown(raw), shown(merged))
    });
    look(comparisons, &unequal.collect::<Vec<_>>(), &format!("{all} samples of the jobs"))
}

/// Whether all quantiles lie within the histogram's resolution.
pub fn within_resolution(comparisons: &[Comparison]) -> Look {
    let far = comparisons.iter().filter(|row| !row.is_within_resolution()).map(|row| {
        let Comparison { scope, operation, raw, merged } = row;
        let shown = |q: &Quantiles| format!("{:?} and {:?} ns", q.p50_ns, q.p99_ns);
        format!("{operation} ({scope}): raw {}; merged {}", shown(raw), shown(merged))
    });
    look(comparisons, &far.collect::<Vec<_>>(), "every p50 and p99 in its bucket")
}

fn look(comparisons: &[Comparison], faults: &[String], fine: &str) -> Look {
    if comparisons.is_empty() {
        return Look::new(false, "no samples at all");
    }
    let rows = comparisons.len();
    let seen = if faults.is_empty() { format!("{fine}, {rows} rows") } else { faults.join("; ") };
    Look::new(faults.is_empty(), seen)
}

#[cfg(test)]
mod tests;
