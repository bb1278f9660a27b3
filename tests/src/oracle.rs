//! Compares the raw samples that the jobs recorded with the figures of the aggregator.
//!
//! Counts, sums and extremes must be equal. A quantile may differ by the width of its bucket. That
//! width is defined here a second time, so that the product's arithmetic does not judge itself.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use plimsoll_mesh::stack::Station;
use plimsoll_schemas::own_operations::PUBLISH;
use plimsoll_schemas::summary::{Quantiles, Summary};

use crate::process::{node_row, operation_row};

/// Nanoseconds by which a quantile of small values may be off.
const RESOLUTION_NS: u64 = 512;
/// The share of a larger value by which its quantile may be off: one in this many.
const RESOLUTION_SHARE: u64 = 1_000;
/// Latencies in nanoseconds, ascending, by operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawSamples(BTreeMap<String, Vec<u64>>);

impl RawSamples {
    /// The samples of one job. They are complete after the job has exited.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn of(station: &Station) -> Result<Self> {
        let mut raw = Self::default();
        for (operation, ns) in station.raw_samples()? {
            raw.0.entry(operation).or_default().push(ns);
        }
        raw.0.values_mut().for_each(|values| values.sort_unstable());
        Ok(raw)
    }

    /// Samples of one operation that a test has sent.
    pub fn sent(operation: &str, values_ns: &[u64]) -> Self {
        let mut values = values_ns.to_vec();
        values.sort_unstable();
        Self(BTreeMap::from([(operation.to_owned(), values)]))
    }

    /// The samples of all jobs.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn of_all(stations: &[Station]) -> Result<Self> {
        let mut all = Self::default();
        for station in stations {
            for (operation, values) in Self::of(station)?.0 {
                all.0.entry(operation).or_default().extend(values);
            }
        }
        all.0.values_mut().for_each(|values| values.sort_unstable());
        Ok(all)
    }

    /// Samples of one operation.
    pub fn count(&self, operation: &str) -> u64 {
        self.0.get(operation).map_or(0, |values| values.len() as u64)
    }

    /// The values of one operation in nanoseconds, in ascending order.
    pub fn values(&self, operation: &str) -> &[u64] {
        self.0.get(operation).map_or(&[], Vec::as_slice)
    }

    /// Samples of all operations.
    pub fn len(&self) -> u64 {
        self.0.values().map(|values| values.len() as u64).sum()
    }

    /// True when no job has sent a sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks that one scope (a node, or the fleet when empty) shows exactly these samples.
    ///
    /// # Errors
    /// Names the figure that differs.
    pub fn check(&self, summary: &Summary, scope: &str) -> Result<()> {
        for (name, values) in &self.0 {
            let row = operation_row(summary, scope, name).map(|row| row.total.clone());
            check_figures(&format!("{name} of {scope:?}"), &row.unwrap_or_default(), values)?;
        }
        let unknown = summary.operations.iter().find(|row| {
            let known = self.0.contains_key(&row.operation) || row.own;
            row.scope.node() == scope && !known
        });
        ensure!(unknown.is_none(), "no job sent {unknown:?}");
        Ok(())
    }
}

/// Compares the figures of one distribution with its sorted samples.
fn check_figures(what: &str, shown: &Quantiles, sorted: &[u64]) -> Result<()> {
    let sum: u128 = sorted.iter().map(|ns| u128::from(*ns)).sum();
    let (count, least, greatest) = (sorted.len() as u64, sorted[0], sorted[sorted.len() - 1]);
    let mean = u64::try_from(sum / u128::from(count))?;
    let exact = (count, mean, least, greatest);
    let seen = (shown.count, shown.mean_ns, shown.min_ns, shown.max_ns);
    ensure!(seen == exact, "{what}: count, mean, min, max are {seen:?}, not {exact:?}");
    for (percent, shown) in [(50, shown.p50_ns), (99, shown.p99_ns)] {
        // Nearest rank, in whole numbers.
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        let exact = sorted[rank - 1];
        let width = RESOLUTION_NS.max(exact / RESOLUTION_SHARE);
        let within = shown.is_some_and(|shown| shown >= exact && shown - exact <= width);
        ensure!(within, "{what}: p{percent} is {shown:?}, not {exact} to {width} ns above it");
    }
    Ok(())
}

/// Checks a drained mesh: every node and the fleet show exactly what the jobs sent, and no
/// ledger has an open sample.
///
/// # Errors
/// Names the first figure that differs.
pub fn check_drained(summary: &Summary, stations: &[Station]) -> Result<()> {
    stations.iter().try_for_each(|station| check_station(summary, station))?;
    RawSamples::of_all(stations)?.check(summary, "")
}

/// Checks one node of a drained mesh: it shows exactly what its job sent, and its ledger has no
/// open sample.
///
/// # Errors
/// Names the first figure that differs.
pub fn check_station(summary: &Summary, station: &Station) -> Result<()> {
    let raw = RawSamples::of(station)?;
    ensure!(!raw.is_empty(), "the job of {} sent nothing", station.name);
    raw.check(summary, &station.name)?;
    let ledger = &node_row(summary, &station.name)?.ledger;
    ensure!(ledger.is_settled(), "{} is not settled: {ledger:?}", station.name);
    ensure!(ledger.lost.is_empty(), "{} lost samples: {ledger:?}", station.name);
    let own = operation_row(summary, &station.name, PUBLISH).map_or(0, |row| row.total.count);
    let all = raw.len() + own;
    ensure!(ledger.merged == all, "{}: {all} samples, but {ledger:?}", station.name);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(p50: u64, p99: u64) -> Quantiles {
        Quantiles {
            count: 3,
            mean_ns: 1_000_700,
            min_ns: 100,
            max_ns: 3_000_000,
            p50_ns: Some(p50),
            p99_ns: Some(p99),
            approximate: None,
        }
    }

    #[test]
    fn figures_are_held_against_the_samples_to_the_nanosecond_or_the_bucket() {
        let sorted = [100, 2_000, 3_000_000];
        for (shown, right) in [
            (figures(2_512, 3_003_000), true),
            (figures(2_513, 3_003_000), false),
            (figures(1_999, 3_003_000), false),
            (figures(2_000, 3_003_001), false),
            (Quantiles { count: 4, ..figures(2_000, 3_000_000) }, false),
            (Quantiles { max_ns: 3_000_001, ..figures(2_000, 3_000_000) }, false),
            (Quantiles { mean_ns: 1_000_701, ..figures(2_000, 3_000_000) }, false),
        ] {
            assert_eq!(check_figures("x", &shown, &sorted).is_ok(), right, "{shown:?}");
        }
    }
}
