//! Counters and gauges of the jobs on a node: one family for each name that jobs chose, behind a
//! prefix that no family of ours has.
//!
//! DESIGN A42.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Series;

use super::external_numbers::ExternalNumbers;
use crate::core::fleet::Node;
use crate::exposition::external_labels::valid_name;
use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, LabelSet, Rows, Writer};

#[derive(Clone, Copy)]
struct JobNumber<'v> {
    /// The node's place on the page.
    index: usize,
    node: &'v LabelSet,
    series: &'v Series,
    value: f64,
}

pub(super) fn write(writer: &mut Writer, page: &LabelledView<'_>) {
    // DogStatsD permits negative amounts; to `rate` a fall is a restart of the counter, and strict
    // readers reject a page with a counter below zero.
    let help = "Sum of the amounts that jobs added to a counter";
    write_counters(writer, page, counter_name, help, |node| &node.counters);
    let help = "Sum of the amounts that jobs subtracted from a counter";
    write_counters(writer, page, lowered_name, help, |node| &node.lowered);

    let gauges = page.up_nodes().enumerate().flat_map(|(index, (node, of))| {
        let gauges = of.fresh_gauges(page.view.at);
        gauges.map(move |(series, latest)| JobNumber { index, node, series, value: latest.value })
    });

    for (name, numbers) in by_name(gauges, gauge_name) {
        writer.family(Family::gauge(&name, "Latest value of a job's gauge"), |rows| {
            write_numbers(rows, &numbers, |_, latest| latest);
        });
    }
}

fn write_counters(
    writer: &mut Writer,
    page: &LabelledView<'_>,
    family: fn(&str) -> String,
    help: &str,
    sums: fn(&Node) -> &BTreeMap<Series, f64>,
) {
    let counters = page.nodes().enumerate().flat_map(|(index, (node, of))| {
        let sums = sums(of).iter();
        sums.map(move |(series, n)| JobNumber { index, node, series, value: n.max(0.0) })
    });
    for (name, numbers) in by_name(counters, family) {
        writer.family(Family::counter(&name, help), |rows| {
            write_numbers(rows, &numbers, |sum, n| (sum + n).min(f64::MAX));
        });
    }
}

/// The family of a job's counter. OpenMetrics calls it by this name without `_total`, so it would
/// be the family of a gauge with the same name, were it not for the prefixes.
fn counter_name(name: &str) -> String {
    format!("plimsoll_job_count_{}_total", counter_base(name))
}

/// The family of what was subtracted from a job's counter.
fn lowered_name(name: &str) -> String {
    format!("plimsoll_job_lowered_{}_total", counter_base(name))
}

/// A job's name for a counter as that of an OpenMetrics counter, which ends in no `_total`. It does
/// not end in `_created` either: a reader takes that for a sample of the counter without it.
fn counter_base(name: &str) -> String {
    let mut name = valid_name(name);
    name.truncate(name.trim_end_matches("_total").len());
    if name.ends_with("_created") {
        name.push('_');
    }
    name
}

fn gauge_name(name: &str) -> String {
    format!("plimsoll_job_value_{}", valid_name(name))
}

/// The numbers of each family, node by node. Names that become equal share a family.
fn by_name<'v>(
    numbers: impl Iterator<Item = JobNumber<'v>>,
    family: fn(&str) -> String,
) -> BTreeMap<String, Vec<JobNumber<'v>>> {
    let mut by_operation: BTreeMap<&str, Vec<JobNumber<'v>>> = BTreeMap::new();
    for number in numbers {
        by_operation.entry(number.series.operation.as_str()).or_default().push(number);
    }
    let mut by_name: BTreeMap<String, Vec<JobNumber<'v>>> = BTreeMap::new();
    for (operation, mut numbers) in by_operation {
        by_name.entry(family(operation)).or_default().append(&mut numbers);
    }
    // Stable, so that of gauges which share a family the last by name stays last (A42).
    by_name.values_mut().for_each(|numbers| numbers.sort_by_key(|number| number.index));
    by_name
}

fn write_numbers(rows: &mut Rows<'_>, numbers: &[JobNumber<'_>], merge: fn(f64, f64) -> f64) {
    for of_node in numbers.chunk_by(|one, two| one.index == two.index) {
        let mut merged = ExternalNumbers::default();
        for number in of_node {
            let entry = merged.entry(&number.series.labels);
            *entry = merge(*entry, number.value);
        }
        merged.write(rows, of_node[0].node);
    }
}
