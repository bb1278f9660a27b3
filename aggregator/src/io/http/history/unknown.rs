//! What is answered where a history has nothing of a name: what is similar, what is known, and
//! where its samples may be.

use std::collections::BTreeMap;

use plimsoll_schemas::unit::is_overflow;

use crate::core::fleet::{OVERFLOW, Pool};
use crate::core::history::{HistoryKey, MetricKey};
use crate::io::http::refusal::{Refusal, near};
use crate::limits::{OPERATIONS_MAX, ROLLUP_GROUPS_MAX};

/// Values of a roll-up that an error names.
const VALUES_NAMED_MAX: usize = 5;

/// Names what is unknown, what is similar or known, and whether its samples may be in the overflow.
pub(super) fn unknown(pool: &Pool, known: &[Pool]) -> Refusal {
    let wanted = in_words(pool);
    let similar = near(&wanted, known.iter().map(in_words));
    let hint = if similar.is_empty() { known_values(pool, known) } else { similar };
    let others = others(pool, known).unwrap_or_default();
    let error = format!("no samples of {wanted}{hint}{others}. /api/v1/operations lists all names");
    Refusal::not_found(error)
}

fn in_words(pool: &Pool) -> String {
    match pool {
        Pool::Fleet(operation) => operation.to_string(),
        Pool::Selected(budget) => format!("budget {budget}"),
        Pool::Group(rollup, group) => {
            format!("{} with {rollup}={}", group.operation, group.values.join(","))
        }
    }
}

/// Some values that the group's roll-up has for its operation.
fn known_values(pool: &Pool, known: &[Pool]) -> String {
    let Pool::Group(rollup, wanted) = pool else { return String::new() };
    let values = known.iter().filter_map(|of| match of {
        Pool::Group(name, group) if name == rollup && !group.is_overflow() => {
            (group.operation == wanted.operation).then(|| group.values.join(","))
        }
        _ => None,
    });
    let shown: Vec<String> = values.take(VALUES_NAMED_MAX).collect();
    if shown.is_empty() { String::new() } else { format!("; known {rollup}: {}", shown.join(", ")) }
}

/// The bound of the table that a pool is not in, if that table has left out any.
fn others(pool: &Pool, known: &[Pool]) -> Option<String> {
    let is_folded = |of: &Pool| match (pool, of) {
        (Pool::Fleet(_), Pool::Fleet(operation)) => is_overflow(operation.as_str()),
        (Pool::Group(wanted, _), Pool::Group(rollup, group)) => {
            wanted == rollup && group.is_overflow()
        }
        _ => false,
    };

    let (most, what) = match pool {
        Pool::Group(..) => (ROLLUP_GROUPS_MAX, "groups of a roll-up"),
        Pool::Fleet(_) | Pool::Selected(_) => (OPERATIONS_MAX, "operations"),
    };

    let text =
        || format!("; {most} {what} are kept by name, samples of all others are in {OVERFLOW:?}");
    known.iter().any(is_folded).then(text)
}

/// Names the metric that is unknown, or what one is to be divided by, and what is similar or known.
pub(super) fn unknown_metric(metrics: &[MetricKey], known: &[HistoryKey]) -> Refusal {
    let is_known = |of: &MetricKey| known.contains(&HistoryKey::Metric(of.clone()));
    // The first two are one name, as a counter and as a gauge.
    let (by_kind, per) = metrics.split_at(metrics.len().min(2));
    let of_per = per.iter().find(|of| by_kind.iter().any(is_known) && !is_known(of));
    let Some(metric) = of_per.or(metrics.first()) else { return Refusal::not_found(String::new()) };
    let what = if of_per.is_some() { "per: no counter" } else { "no values of" };

    let mut pools: BTreeMap<String, Pool> = BTreeMap::new();
    for key in known {
        if let HistoryKey::Metric(MetricKey { pool, .. }) = key {
            pools.insert(in_words(pool), pool.clone());
        }
    }

    let wanted = in_words(&metric.pool);
    let similar = near(&wanted, pools.keys().cloned());
    let pools: Vec<Pool> = pools.into_values().collect();
    let hint = if similar.is_empty() { known_values(&metric.pool, &pools) } else { similar };
    let lists = "/api/v1/metrics lists all names, and whether each is kept";
    Refusal::not_found(format!("{what} {wanted}{hint}. {lists}"))
}

/// Where no operation has a name that a metric has, what to ask instead.
pub(super) fn metric_instead(pool: &Pool, known: &[HistoryKey]) -> Option<Refusal> {
    let is_it = |key: &HistoryKey| matches!(key, HistoryKey::Metric(of) if of.pool == *pool);
    let name = pool.operation_name();
    let why = format!("{name:?} is a metric: use metric={name}, or plimsoll metrics {name}");
    known.iter().any(is_it).then(|| Refusal::not_found(why))
}
