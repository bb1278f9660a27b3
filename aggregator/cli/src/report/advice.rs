//! One line of advice on an operation or a node: where to look first, and what shows it.
//!
//! DESIGN A86.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use plimsoll_schemas::figure::{counted, number, percent};
use serde_json::Value;

use super::document::{Column, OperationResult};
use super::words::value;
use crate::time_range::shown;

/// This share of the samples over the limit in few columns makes it a matter of their time.
const MOST: f64 = 0.66;
/// Few: one in this many columns with samples.
const FEW: usize = 5;
/// With fewer columns, some always have most of the samples.
const COLUMNS_MIN: usize = 10;
/// A node with this share of all samples over the limit is apart from the others.
const NODE_SHARE: f64 = 0.5;
/// With fewer samples over limits, nodes differ by chance.
const NODE_SAMPLES_MIN: u64 = 10;
/// Readings, from what each is worth a look, and what to look at.
const READINGS: [(&str, f64, &str); 11] = [
    ("gpu_throttled", 1.0, "a GPU's clocks are throttled: look at its cooling and power limit"),
    ("cpu_throttled", 1.0, "its processors are hot and throttled: look at its cooling"),
    ("memory_stalled_ratio", 0.05, "all its tasks wait for memory: look at what uses it"),
    ("pressure_full_ratio", 0.1, "all its tasks wait for memory, disks or CPU time"),
    ("cgroup_cpu_throttled_ratio", 0.05, "its control group waits for CPU time: raise its quota"),
    ("cgroup_memory_used_ratio", 0.9, "its control group's memory is nearly full: raise its limit"),
    ("cpu_steal_ratio", 0.05, "its hypervisor steals CPU time: look at the host"),
    ("memory_used_ratio", 0.9, "its memory is nearly full: look at what uses it"),
    ("cpu_usage_ratio", 0.9, "its processors are busy: look at what else runs there"),
    ("gpu_temperature_celsius", 85.0, "a GPU is hot: look at its cooling"),
    ("cpu_temperature_celsius", 85.0, "its processors are hot: look at its cooling"),
];

/// Advice on an operation that has a limit and is over its budget by these seconds.
pub(super) fn on_operation(
    of: &OperationResult,
    limit: f64,
    over_seconds: f64,
    zone: &TimeZone,
) -> String {
    let at = |quantile: f64| {
        of.quantiles.iter().find(|found| found.quantile == quantile).map(|found| found.value)
    };
    let (median, p99) = (at(0.5).unwrap_or_default(), at(0.99).unwrap_or_default());
    let max = of.max.unwrap_or_default();
    if max <= limit {
        return "All samples are within the limit.".to_owned();
    }
    if over_seconds <= 0.0 {
        return "Its budget allows the samples that are over the limit.".to_owned();
    }

    if median > limit {
        return "The median is over the limit: the usual case is too slow, not an exception. \
                Profile the job itself, or set a limit that it can meet."
            .to_owned();
    }

    if let Some((share, columns, worst)) = concentrated(&of.over_time.columns) {
        let (share, columns) = (percent(share), counted(columns as u64, "column"));
        return format!(
            "{share} of the samples over the limit are in {columns}; the worst starts at {}. Look \
             at the events, alerts and deployments of that time.",
            shown(worst, zone)
        );
    }

    if p99 > limit {
        let times = if median > 0.0 { p99 / median } else { 0.0 };
        return format!(
            "The median is within the limit and p99 is not ({} times the median). Look for \
             occasional interruptions: garbage collection, locks, retries, storage.",
            number(times)
        );
    }

    format!(
        "p99 is within the limit; single samples are over it (up to {}). Look at the columns with \
         the highest maximum.",
        value(&of.operation, Some(max))
    )
}

/// If few columns have most of the samples over the limit: their share, how many they are, and
/// when the worst of them starts.
fn concentrated(columns: &[Column]) -> Option<(f64, usize, f64)> {
    let mut with_samples: Vec<(u64, f64)> = columns
        .iter()
        .filter(|column| column.count > 0)
        .map(|column| (column.over.map_or(0, |over| over.over), column.from_seconds))
        .collect();

    let total: u64 = with_samples.iter().map(|(over, _)| over).sum();
    if with_samples.len() < COLUMNS_MIN || total == 0 {
        return None;
    }
    with_samples.sort_by_key(|(over, _)| std::cmp::Reverse(*over));
    let few = (with_samples.len() / FEW).max(1);
    let of_few: u64 = with_samples.iter().take(few).map(|(over, _)| over).sum();
    let share = of_few as f64 / total as f64;
    let used = with_samples.iter().take(few).filter(|(over, _)| *over > 0).count();
    (share >= MOST).then(|| (share, used, with_samples[0].1))
}

/// Advice on one of some nodes, with its samples over limits and its share of all time over them.
pub(super) fn on_node(
    over: u64,
    share: f64,
    nodes: usize,
    machine: &BTreeMap<String, Value>,
) -> String {
    let number = |value: &Value| match value {
        Value::Bool(is) => Some(f64::from(u8::from(*is))),
        other => other.as_f64(),
    };

    // A machine may have several sensors of a name: their labels follow it.
    let readings = |wanted: &'static str| {
        let of_name = move |name: &str| name.split(' ').next() == Some(wanted);
        machine.iter().filter(move |(name, _)| of_name(name)).filter_map(|(_, of)| number(of))
    };

    let found = READINGS.iter().find(|(name, from, _)| readings(name).any(|n| n >= *from));
    if let Some((name, _, words)) = found {
        return format!("{name}: {words}.");
    }
    if over < NODE_SAMPLES_MIN {
        return "Too few samples over limits to distinguish it from other nodes.".to_owned();
    }

    if nodes > 1 && share >= NODE_SHARE {
        return "Most of it is on this node: compare its machine and jobs with the others."
            .to_owned();
    }

    if nodes > 1 && share < 1.5 / nodes as f64 {
        return "No worse than other nodes: look at what all nodes have in common.".to_owned();
    }
    "Nothing on the machine explains it; look at the job.".to_owned()
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::summary::{OverLimit, QuantileValue};

    use super::super::document::OverTime;
    use super::*;

    fn operation(median: f64, p99: f64, max: f64, over: &[u64]) -> OperationResult {
        let quantile =
            |quantile, value| QuantileValue { quantile, value, lower: value, upper: value };
        let column = |(at, over): (usize, &u64)| Column {
            from_seconds: at as f64 * 10.0,
            to_seconds: at as f64 * 10.0 + 10.0,
            count: 100,
            p50: Some(median),
            p99: Some(p99),
            max: Some(max),
            over: Some(OverLimit { limit: 0.018, over: *over, uncertain: 0 }),
            completeness: Some(1.0),
        };
        OperationResult {
            operation: "fetch".to_owned(),
            unit: None,
            own: false,
            count: 100 * over.len() as u64,
            mean: Some(median),
            min: Some(0.0),
            max: Some(max),
            approximate: false,
            quantiles: vec![quantile(0.5, median), quantile(0.99, p99)],
            completeness: Some(1.0),
            limit_seconds: Some(0.018),
            over: Vec::new(),
            distribution: Vec::new(),
            over_time: OverTime {
                step_seconds: 10.0,
                columns: over.iter().enumerate().map(column).collect(),
                bands: Vec::new(),
                counts: Vec::new(),
            },
        }
    }

    #[test]
    fn advice_follows_from_where_the_samples_over_the_limit_are() {
        let even = [5; 20];
        let mut burst = [0; 20];
        burst[7] = 90;
        burst[3] = 2;
        for (operation, words) in [
            (operation(0.010, 0.015, 0.017, &[0; 20]), "All samples are within"),
            (operation(0.020, 0.030, 0.040, &burst), "The median is over the limit"),
            (
                operation(0.010, 0.030, 0.040, &burst),
                "the worst starts at 1970-01-01 00:01:10+00:00",
            ),
            (operation(0.010, 0.030, 0.040, &even), "p99 is not (3 times the median)"),
            (operation(0.010, 0.017, 0.040, &even), "single samples are over it (up to 40 ms)"),
            (operation(0.010, 0.030, 0.040, &burst[..8]), "p99 is not"),
        ] {
            let advice = on_operation(&operation, 0.018, 0.5, &TimeZone::UTC);
            assert!(advice.contains(words), "{advice}");
        }
        let advice =
            on_operation(&operation(0.010, 0.030, 0.040, &even), 0.018, 0.0, &TimeZone::UTC);
        assert_eq!(advice, "Its budget allows the samples that are over the limit.");
    }

    #[test]
    fn a_machine_in_trouble_comes_before_the_nodes_share() {
        let machine = |name: &str, value: Value| BTreeMap::from([(name.to_owned(), value)]);
        let calm = machine("cpu_usage_ratio", 0.2.into());
        for (over, share, nodes, machine, words) in [
            (90, 0.9, 3, machine("gpu_throttled", true.into()), "gpu_throttled: a GPU's clocks"),
            (90, 0.9, 3, machine("gpu_throttled", false.into()), "Most of it is on this node"),
            (1, 0.1, 3, machine("memory_used_ratio", 0.95.into()), "its memory is nearly full"),
            (90, 0.9, 3, calm.clone(), "Most of it is on this node"),
            (2, 0.9, 3, calm.clone(), "Too few samples"),
            (35, 0.35, 3, calm.clone(), "what all nodes have in common"),
            (90, 1.0, 1, calm, "look at the job"),
        ] {
            let advice = on_node(over, share, nodes, &machine);
            assert!(advice.contains(words), "{advice}");
        }
    }
}
