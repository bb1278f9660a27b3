//! Latency limits received from aggregators, by operation: samples over them are counted exactly. A
//! limit that is no longer repeated is evicted after a while.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{LIMIT_EVICTED_AFTER, LIMITS_OPERATIONS_MAX};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::limits::wire::LIMITS_MAX;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::Latency;
use plimsoll_schemas::wire::confirmation::LatencyLimit;

#[derive(Debug, Default)]
pub(crate) struct LatencyLimits {
    /// By operation and limit in nanoseconds.
    by_operation: BTreeMap<Operation, BTreeMap<u64, Received>>,
}

/// How a limit was last received.
#[derive(Clone, Copy, Debug)]
struct Received {
    at: Mono,
    /// The share of samples that may exceed it, in millionths.
    allowed_ppm: u32,
}

impl LatencyLimits {
    /// Adds limits, and returns the operations whose limits changed. Two aggregators may send
    /// different ones in turn: both are kept; of too many, those received last.
    pub(crate) fn update(&mut self, now: Mono, received: &[LatencyLimit]) -> BTreeSet<Operation> {
        let mut changed = BTreeSet::new();
        for LatencyLimit { operation, limit_ns, allowed_ppm } in received {
            let is_known = self.by_operation.contains_key(operation);
            // Those that are known stay: an aggregator with too many must not displace what another
            // one judges.
            if !is_known && self.by_operation.len() >= LIMITS_OPERATIONS_MAX {
                continue;
            }
            let limits = self.by_operation.entry(operation.clone()).or_default();
            let latest = Received { at: now, allowed_ppm: *allowed_ppm };
            if limits.insert(*limit_ns, latest).is_none() {
                changed.insert(operation.clone());
            }

            while limits.len() > LIMITS_MAX {
                // All limits of a confirmation have one time, so the one just added could be the
                // oldest as well.
                let oldest = limits.iter().filter(|(limit, _)| *limit != limit_ns);
                let Some((oldest, _)) = oldest.min_by_key(|(_, of)| of.at) else { break };
                let oldest = *oldest;
                limits.remove(&oldest);
            }
        }

        self.evict(now, &mut changed);
        changed
    }

    fn evict(&mut self, now: Mono, changed: &mut BTreeSet<Operation>) {
        self.by_operation.retain(|operation, limits| {
            let before = limits.len();
            limits.retain(|_, of| now.since(of.at) <= LIMIT_EVICTED_AFTER);
            if limits.len() < before {
                changed.insert(operation.clone());
            }
            !limits.is_empty()
        });
    }

    /// The limits of one operation, ascending.
    pub(crate) fn of(&self, operation: &Operation) -> Vec<u64> {
        let limits = self.by_operation.get(operation);
        limits.into_iter().flat_map(|limits| limits.keys().copied()).collect()
    }

    /// All limits, by operation and ascending.
    pub(crate) fn all(&self) -> Vec<LatencyLimit> {
        let each = self.by_operation.iter().flat_map(|(operation, limits)| {
            limits.iter().map(move |(limit_ns, received)| LatencyLimit {
                operation: operation.clone(),
                limit_ns: *limit_ns,
                allowed_ppm: received.allowed_ppm,
            })
        });
        each.collect()
    }

    /// The operations of which more samples than allowed exceed a limit in this interval.
    pub(crate) fn breached(&self, latency: &Latency) -> BTreeSet<Operation> {
        let mut counts: BTreeMap<(&Operation, u64), (u64, u64)> = BTreeMap::new();
        for (series, histogram) in &latency.histograms {
            let limits = self.by_operation.get(&series.operation);
            for limit_ns in limits.into_iter().flat_map(BTreeMap::keys) {
                let (over, all) = counts.entry((&series.operation, *limit_ns)).or_default();
                let watched = histogram.overs().get(*limit_ns).unwrap_or_default();
                *over = over.saturating_add(watched.over);
                *all = all.saturating_add(histogram.count());
            }
        }

        let is_breached = |operation: &Operation, limit_ns: u64, over: u64, all: u64| {
            let limit = self.by_operation.get(operation).and_then(|limits| limits.get(&limit_ns));
            let allowed = limit.map_or(u128::MAX, |limit| u128::from(limit.allowed_ppm));
            u128::from(over) * 1_000_000 > allowed.saturating_mul(all.into())
        };

        let breached = counts.into_iter().filter(|((operation, limit_ns), (over, all))| {
            is_breached(operation, *limit_ns, *over, *all)
        });
        breached.map(|((operation, _), _)| operation.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::histogram::Histogram;
    use plimsoll_schemas::ids::{Labels, Series};

    use super::*;

    fn p99(limits: &[(&str, u64)]) -> Vec<LatencyLimit> {
        let limit = |(name, limit_ns): &(&str, u64)| LatencyLimit {
            operation: Operation::new(*name).unwrap(),
            limit_ns: *limit_ns,
            allowed_ppm: 10_000,
        };
        limits.iter().map(limit).collect()
    }

    fn changed(limits: &mut LatencyLimits, at: Mono, limits_ns: &[(&str, u64)]) -> Vec<String> {
        limits.update(at, &p99(limits_ns)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_operation_is_breached_by_all_its_series_together() {
        let mut limits = LatencyLimits::default();
        limits.update(Mono(0), &p99(&[("a", 1_000), ("b", 1_000)]));
        let series = |operation: &str, label: &str, over: u64, within: u64| {
            let labels = Labels::new([("k", label)]).unwrap();
            let series = Series { operation: Operation::new(operation).unwrap(), labels };
            let mut histogram = Histogram::default();
            histogram.watch(&limits.of(&series.operation));
            histogram.record_n(5_000, over);
            histogram.record_n(10, within);
            (series, histogram)
        };
        let latency = |within| Latency {
            histograms: vec![
                series("a", "1", 1, 0),
                series("a", "2", 0, within),
                series("b", "1", 0, 9),
                series("c", "1", 9, 0),
            ],
            ..Latency::default()
        };
        assert_eq!(limits.breached(&latency(99)), BTreeSet::new(), "one in a hundred is allowed");
        let a = Operation::new("a").unwrap();
        assert_eq!(limits.breached(&latency(98)), BTreeSet::from([a]));
    }

    #[test]
    fn limits_of_two_aggregators_are_kept_and_unrepeated_ones_evicted() {
        let (mut limits, start) = (LatencyLimits::default(), Mono(0));
        assert_eq!(changed(&mut limits, start, &[("a", 9), ("b", 1)]), ["a", "b"]);
        assert_eq!(changed(&mut limits, start, &[("a", 7)]), ["a"]);
        assert_eq!(changed(&mut limits, start, &[("a", 9)]), [""; 0]);
        assert_eq!(limits.all(), p99(&[("a", 7), ("a", 9), ("b", 1)]));
        let later = start.plus(LIMIT_EVICTED_AFTER);
        assert_eq!(changed(&mut limits, later, &[("a", 9)]), [""; 0]);
        let later = later.plus(std::time::Duration::from_nanos(1));
        assert_eq!(changed(&mut limits, later, &[]), ["a", "b"]);
        assert_eq!(limits.all(), p99(&[("a", 9)]));
    }

    #[test]
    fn the_latest_limits_of_a_bounded_number_of_operations_are_kept() {
        let mut limits = LatencyLimits::default();
        for n in 1..100 {
            assert_eq!(changed(&mut limits, Mono(n), &[("a", n)]), ["a"]);
        }
        assert_eq!(limits.of(&Operation::new("a").unwrap()), [96, 97, 98, 99]);
        for n in 0..2 * LIMITS_OPERATIONS_MAX {
            changed(&mut limits, Mono(100), &[(&format!("o{n}"), 5)]);
        }
        assert_eq!(limits.by_operation.len(), LIMITS_OPERATIONS_MAX);
        let later = Mono(101).plus(LIMIT_EVICTED_AFTER);
        changed(&mut limits, later, &[("new", 5)]);
        assert_eq!(limits.all(), p99(&[]));
        changed(&mut limits, later, &[("new", 5)]);
        assert_eq!(limits.all(), p99(&[("new", 5)]));
    }
}
