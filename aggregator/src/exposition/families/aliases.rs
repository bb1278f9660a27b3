//! Old metric names for dashboards that still use them (`[metrics] aliases`). Dots are
//! underscores; units are those of the old names, milliseconds among them.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::summary::Quantiles;
use plimsoll_schemas::wire::Bus;

use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, FamilyType, Value, Writer};

/// The window of the quantiles under old names.
const WINDOW: Window = Window::OneMinute;
/// Suffix of the counter of an operation's errors.
const ERRORS: &str = ".errors";

pub(super) fn write(writer: &mut Writer, page: &LabelledView<'_>) {
    let name = "tolaria_training_latency_ms";
    let help = "Alias: p99 of epoch_hook over the last minute, in milliseconds";
    quantile(writer, page, (name, help), "epoch_hook", |of| of.p99_ns);
    let name = "kasmina_kernel_fetch_latency_ms";
    let help = "Alias: p50 of kernel_fetch over the last minute, in milliseconds";
    quantile(writer, page, (name, help), "kernel_fetch", |of| of.p50_ns);
    let unknown = |name, help| Family { name, family_type: FamilyType::Unknown, help };
    let help = "Alias of plimsoll_node_outbox_max_depth";
    for name in ["oona_queue_depth_max", "queue_depth_max"] {
        writer.family(Family::gauge(name, help), |rows| {
            for (labels, node) in page.up_nodes() {
                let of = &node.node.bus.value;
                rows.add(&[labels], Value::Count(of.outbox_depth_max));
            }
        });
    }
    let help = "Alias: messages of the node that the broker stored";
    messages(writer, page, Family::counter("publish_total", help), |bus| bus.published);
    let help = "Alias: messages of the node sent on the emergency lane instead";
    messages(writer, page, unknown("publish_rerouted", help), |bus| bus.rerouted);
    let help = "Alias: messages that the node dropped";
    messages(writer, page, unknown("publish_dropped", help), |bus| bus.dropped);
    functions(writer, page);
    errors(writer, page);
}

fn quantile(
    writer: &mut Writer,
    page: &LabelledView<'_>,
    (name, help): (&str, &str),
    operation: &str,
    of: fn(&Quantiles) -> Option<u64>,
) {
    writer.family(Family::gauge(name, help), |rows| {
        let operations = page.current_operations();
        for (labels, row) in operations.filter(|(_, row)| row.operation == operation) {
            let quantiles = row.windows.get(&WINDOW).map(|window| &window.quantiles);
            if let Some(ns) = quantiles.and_then(of) {
                rows.add(&[labels], Value::Nanos(u128::from(ns) * 1_000));
            }
        }
    });
}

fn messages(writer: &mut Writer, page: &LabelledView<'_>, family: Family<'_>, of: fn(&Bus) -> u64) {
    writer.family(family, |rows| {
        for (labels, node) in page.nodes() {
            rows.add(&[labels], Value::Count(of(&node.node.bus.value)));
        }
    });
}

fn functions(writer: &mut Writer, page: &LabelledView<'_>) {
    let rows = page.view.summary.operations.iter().zip(&page.view.totals);
    let fleet: Vec<_> = rows
        .filter(|(row, _)| row.scope == Scope::Fleet)
        .map(|(row, of)| (writer.labels([("function", row.operation.as_str())]), of))
        .collect();
    let family = Family {
        name: "profiler_function_duration_seconds",
        family_type: FamilyType::Histogram,
        help: "Alias: latencies of the fleet by operation",
    };
    writer.family(family, |rows| {
        fleet.iter().for_each(|(labels, of)| rows.add_buckets(&[labels], &of.buckets));
    });
    let help = "Alias of plimsoll_latency_samples_total of the fleet";
    writer.family(Family::counter("profiler_function_calls_total", help), |rows| {
        fleet.iter().for_each(|(labels, of)| rows.add(&[labels], Value::Count(of.exact.count)));
    });
}

fn errors(writer: &mut Writer, page: &LabelledView<'_>) {
    let help = "Alias: the node's counter named after the operation with the suffix .errors";
    // A DogStatsD counter can fall, so the type counter would be wrong.
    let (name, family_type) = ("profiler_function_errors_total", FamilyType::Unknown);
    writer.family(Family { name, family_type, help }, |rows| {
        for (labels, node) in page.nodes() {
            let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
            for (series, n) in &node.node.counters {
                if let Some(function) = series.operation.as_str().strip_suffix(ERRORS) {
                    *sums.entry(function).or_default() += n;
                }
            }
            for (function, n) in sums {
                let function = rows.labels([("function", function)]);
                rows.add(&[labels, &function], Value::Float(n));
            }
        }
    });
}
