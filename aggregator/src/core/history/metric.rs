//! A job's counters and gauges in the past: what a slot has of one, and under what name.
//!
//! A counter's increments and a gauge's values are added up exactly, so that neither the order of
//! messages nor that of slots changes a sum. Of a gauge each interval in which its job sets it is
//! one value.

use std::fmt;

use plimsoll_schemas::summary::MetricKind;
use plimsoll_schemas::wire::history::MetricValues;
use serde::{Deserialize, Serialize};

use super::exact_sum::ExactSum;
use crate::core::fleet::Pool;

/// What the history has slots of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HistoryKey {
    /// The samples of a pool.
    Samples(Pool),
    Metric(MetricKey),
}

/// A counter or gauge of the fleet or of a group; the operation of its pool is its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricKey {
    pub kind: MetricKind,
    pub pool: Pool,
}

/// The values of one metric in a slot or several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricTotals {
    pub sum: ExactSum,
    /// Values: intervals of nodes that have one.
    pub count: u64,
    pub min: f64,
    pub max: f64,
}

impl HistoryKey {
    /// The key of that name.
    pub fn named(name: &str) -> Option<Self> {
        let kinds = [MetricKind::Counter, MetricKind::Gauge];
        let of_metric = kinds.into_iter().find_map(|kind| {
            let pool = name.strip_prefix(kind.as_str())?.strip_prefix(' ')?;
            Some(Self::Metric(MetricKey { kind, pool: Pool::named(pool)?.0 }))
        });
        of_metric.or_else(|| Some(Self::Samples(Pool::named(name)?.0)))
    }

    pub fn pool(&self) -> &Pool {
        match self {
            Self::Samples(pool) | Self::Metric(MetricKey { pool, .. }) => pool,
        }
    }
}

/// A version that knows no metrics reads these names as no pool, and leaves them alone.
impl fmt::Display for HistoryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Samples(pool) => pool.fmt(f),
            Self::Metric(MetricKey { kind, pool }) => write!(f, "{} {pool}", kind.as_str()),
        }
    }
}

impl MetricTotals {
    pub fn of(value: f64) -> Self {
        let mut totals = Self::default();
        totals.add_value(value);
        totals
    }

    /// What a node answers of a slot; its sum is rounded there.
    pub fn of_node(values: &MetricValues) -> Self {
        let MetricValues { count, sum, min, max, .. } = *values;
        Self { sum: ExactSum::of(sum), count, min, max }
    }

    pub fn add_value(&mut self, value: f64) {
        let is_first = self.count == 0;
        self.min = if is_first { value } else { self.min.min(value) };
        self.max = if is_first { value } else { self.max.max(value) };
        self.sum.push(value);
        self.count = self.count.saturating_add(1);
    }

    pub fn add(&mut self, other: &Self) {
        // Without a value it has no ends either.
        if other.count == 0 {
            return;
        }
        let is_first = self.count == 0;
        self.min = if is_first { other.min } else { self.min.min(other.min) };
        self.max = if is_first { other.max } else { self.max.max(other.max) };
        self.sum.add(&other.sum);
        self.count = self.count.saturating_add(other.count);
    }

    pub fn mean(&self) -> Option<f64> {
        // A rounded quotient must not leave the range.
        let mean = || (self.sum.value() / self.count as f64).clamp(self.min, self.max);
        (self.count > 0).then(mean)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::Operation;
    use proptest::prelude::*;

    use super::*;
    use crate::core::fleet::Group;

    #[test]
    fn each_name_returns_its_key() {
        let operation = Operation::new("train_step.tokens").unwrap();
        let group = Group { operation: operation.clone(), values: vec!["a b]".into()] };
        for pool in [Pool::Fleet(operation), Pool::Group("run".to_owned(), group)] {
            for kind in [MetricKind::Counter, MetricKind::Gauge] {
                let key = HistoryKey::Metric(MetricKey { kind, pool: pool.clone() });
                assert_eq!(HistoryKey::named(&key.to_string()), Some(key));
            }
            let key = HistoryKey::Samples(pool);
            assert_eq!(HistoryKey::named(&key.to_string()), Some(key));
        }
        assert_eq!(HistoryKey::named("later fleet x"), None);
    }

    proptest! {
        #[test]
        fn neither_order_nor_grouping_changes_totals(
            values in prop::collection::vec(-1e9_f64..1e9, 1..40), cut in any::<prop::sample::Index>(),
        ) {
            let total = |values: &[f64]| {
                let mut total = MetricTotals::default();
                values.iter().for_each(|value| total.add(&MetricTotals::of(*value)));
                total
            };
            let (first, rest) = values.split_at(cut.index(values.len()));
            let mut grouped = total(rest);
            grouped.add(&total(first));
            let all = total(&values);
            prop_assert_eq!(all.sum.value().to_bits(), grouped.sum.value().to_bits());
            prop_assert_eq!((all.count, all.min, all.max), (grouped.count, grouped.min, grouped.max));
            prop_assert_eq!(all.mean(), grouped.mean());
        }
    }
}
