//! Old metric names for dashboards that still use them (`[metrics] aliases`). Dots are
//! underscores; units are those of the old names, milliseconds among them.
//!
//! DESIGN A58.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::ids::Series;
use plimsoll_schemas::own_operations::PUBLISH;
use plimsoll_schemas::summary::Quantiles;
use plimsoll_schemas::wire::Bus;

use crate::core::view::Total;
use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, FamilyType, LabelSet, Value, Writer};

/// The window of the quantiles under old names.
const WINDOW: Window = Window::OneMinute;
/// Suffix of the counter of an operation's errors.
const ERRORS: &str = ".errors";
/// Label of a series that names the profiler it comes from.
const PROFILER: &str = "profiler";
const SHARD_READ: &str = "shard_read";
const SHARD_COUNTERS: [(&str, &str); 4] = [
    ("profiler_shard_read_bytes_total", "shard_read.bytes"),
    ("profiler_shard_read_rows_total", "shard_read.rows"),
    ("profiler_shard_slow_reads_total", "shard_read.slow"),
    ("profiler_shard_read_errors_total", "shard_read.errors"),
];

pub(super) fn write(writer: &mut Writer, page: &LabelledView<'_>) {
    let mut quantile = |name, help, operation: &str, of: fn(&Quantiles) -> Option<u64>| {
        let operations = page.current_operations();
        let operations = operations.filter(|(_, row)| row.operation == operation);
        writer.each(Family::gauge(name, help), operations, |row| {
            let ns = of(&row.windows.get(&WINDOW)?.quantiles)?;
            Some(Value::Nanos(u128::from(ns) * 1_000))
        });
    };

    let help = "Alias: p99 of epoch_hook over the last minute, in milliseconds";
    quantile("tolaria_training_latency_ms", help, "epoch_hook", |of| of.p99_ns);
    let help = "Alias: p50 of kernel_fetch over the last minute, in milliseconds";
    quantile("kasmina_kernel_fetch_latency_ms", help, "kernel_fetch", |of| of.p50_ns);
    let help = "Alias: p99 of publish over the last minute, in milliseconds";
    quantile("oona_publish_latency_ms", help, PUBLISH, |of| of.p99_ns);
    let help = "Alias of plimsoll_node_outbox_max_depth";

    for name in ["oona_queue_depth_max", "queue_depth_max"] {
        writer.each(Family::gauge(name, help), page.up_nodes(), |node| {
            Some(node.bus.value.outbox_depth_max)
        });
    }

    let unknown = |name, help| Family { name, family_type: FamilyType::Unknown, help };
    let mut messages = |family: Family<'_>, of: fn(&Bus) -> u64| {
        writer.each(family, page.nodes(), |node| Some(of(&node.bus.value)));
    };
    let help = "Alias: messages of the node that the broker stored";
    messages(Family::counter("publish_total", help), |bus| bus.published);
    let help = "Alias: messages of the node sent on the emergency lane instead";
    messages(unknown("publish_rerouted", help), |bus| bus.rerouted);
    let help = "Alias: messages that the node dropped";
    messages(unknown("publish_dropped", help), |bus| bus.dropped);
    functions(writer, page);
    errors(writer, page);
}

/// What a function's aliases show: its name, the value of the series label `profiler`, its samples.
type Function<'v> = (&'v str, &'v str, &'v Total);

/// The fleet's operations of jobs, by the label `profiler` where a roll-up of all samples groups by
/// it alone; otherwise with an empty one.
fn by_function<'v>(page: &LabelledView<'v>) -> Vec<Function<'v>> {
    let summary = &page.view.summary;
    let groups = summary.rollups.iter().zip(&page.view.rollups);
    let mut functions: BTreeMap<&str, Vec<Function<'_>>> = BTreeMap::new();
    let mut rollups: BTreeMap<&str, &str> = BTreeMap::new();

    for (row, total) in groups {
        let [(label, profiler)] = &row.labels[..] else { continue };
        // A roll-up that leaves some samples out would show
        // fewer calls under the old name than the fleet has.
        let is_partial = page.view.partial_rollups.contains(&row.rollup);
        if label != PROFILER || is_partial || !total.unit.is_time() {
            continue;
        }
        // Two such roll-ups of one operation would show it twice.
        let first = *rollups.entry(&row.operation).or_insert(&row.rollup);

        if first == row.rollup {
            let function = (row.operation.as_str(), profiler.as_str(), total);
            functions.entry(&row.operation).or_default().push(function);
        }
    }

    for (row, total) in summary.operations.iter().zip(&page.view.totals) {
        if row.scope == Scope::Fleet && !row.own && total.unit.is_time() {
            // Without such a roll-up the profiler is unknown,
            // not absent: the old series always had the label.
            functions.entry(&row.operation).or_insert_with(|| vec![(&row.operation, "", total)]);
        }
    }

    functions.into_values().flatten().collect()
}

fn functions(writer: &mut Writer, page: &LabelledView<'_>) {
    let labels = |name, profiler| [("function_name", name), ("profiler_name", profiler)];
    let by_function = by_function(page);

    let labelled: Vec<_> = by_function
        .iter()
        .map(|(name, profiler, of)| (writer.labels(labels(*name, *profiler)), of))
        .collect();

    let help = "Alias: latencies of the fleet by operation";
    durations(writer, "profiler_function_duration_seconds", help, &labelled);
    let help = "Alias of plimsoll_latency_samples_total of the fleet";
    counts(writer, "profiler_function_calls_total", help, &labelled);

    let shards: Vec<_> = by_function
        .iter()
        .filter(|(name, ..)| *name == SHARD_READ)
        .map(|(_, profiler, of)| (writer.labels([("profiler_name", *profiler)]), of))
        .collect();

    let help = "Alias: latencies of shard_read of the fleet";
    durations(writer, "profiler_shard_read_duration_seconds", help, &shards);
    let help = "Alias: samples of shard_read of the fleet";
    counts(writer, "profiler_shard_reads_total", help, &shards);
}

type Labelled<'f, 'v> = (LabelSet, &'f &'v Total);

fn durations(writer: &mut Writer, name: &str, help: &str, of: &[Labelled<'_, '_>]) {
    let family = Family { name, family_type: FamilyType::Histogram, help };
    writer.family(family, |rows| {
        of.iter().for_each(|(labels, of)| rows.add_buckets(&[labels], &of.buckets, of.unit));
    });
}

fn counts(writer: &mut Writer, name: &str, help: &str, of: &[Labelled<'_, '_>]) {
    let all = of.iter().map(|(labels, of)| (labels, of));
    writer.each(Family::counter(name, help), all, |of| Some(of.exact.count));
}

fn errors(writer: &mut Writer, page: &LabelledView<'_>) {
    let help = "Alias: the node's counter named after the operation with the suffix .errors";
    job_counters(writer, page, "profiler_function_errors_total", help, |series| {
        let function = series.operation.as_str().strip_suffix(ERRORS)?;
        Some(Some(("function_name", function)))
    });
    for (name, counter) in SHARD_COUNTERS {
        let help = format!("Alias: {counter} of the node");
        job_counters(writer, page, name, &help, |series| {
            (series.operation.as_str() == counter).then_some(None)
        });
    }
}

/// Sums of a node's counters that `of` accepts, by the label that it returns and by profiler.
fn job_counters<'v>(
    writer: &mut Writer,
    page: &LabelledView<'v>,
    name: &str,
    help: &str,
    of: impl Fn(&'v Series) -> Option<Option<(&'static str, &'v str)>>,
) {
    // A DogStatsD counter can fall, and so does this sum, so the type counter would be wrong.
    let family = Family { name, family_type: FamilyType::Unknown, help };
    writer.family(family, |rows| {
        for (labels, node) in page.nodes() {
            let mut sums: BTreeMap<_, f64> = BTreeMap::new();
            for (series, n) in node.counters.iter() {
                if let Some(label) = of(series) {
                    let profiler = series.labels.get(PROFILER).unwrap_or_default();
                    let lowered = node.lowered.get(series).copied().unwrap_or_default();
                    *sums.entry((label, profiler)).or_default() += n - lowered;
                }
            }

            for ((label, profiler), n) in sums {
                let pairs = label.into_iter().chain([("profiler_name", profiler)]);
                let pairs = rows.labels(pairs);
                rows.add(&[labels, &pairs], Value::Float(n));
            }
        }
    });
}
