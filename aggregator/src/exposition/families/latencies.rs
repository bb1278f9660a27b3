//! Latencies and other distributions: quantiles, counts and buckets, of the fleet, of roll-ups and
//! of nodes. Gauges that are stale are left out, so that Prometheus marks them as such; counters
//! stay until a node expires.

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::summary::{Quantiles, WindowRow};
use plimsoll_schemas::unit::Unit;

use crate::exposition::labelled_view::{LabelledQuantiles, LabelledView};
use crate::exposition::writer::{Family, FamilyType, Value, Writer};

/// What the names of families end with.
const SECONDS: &str = Unit::Nanoseconds.shown_as();
const BYTES: &str = Unit::Bytes.shown_as();
const COUNT: &str = Unit::Count.shown_as();

pub(super) fn write(writer: &mut Writer, page: &LabelledView<'_>) {
    write_quantiles(writer, page);
    let help = "1 for an operation with a window that holds samples from producers' wide buckets";
    let family = Family::gauge("plimsoll_operation_approximate", help);
    writer.each(family, page.current_operations(), |row| {
        let mut windows = row.windows.values();
        // A series only where it is 1: nearly all producers count in the buckets of the mesh.
        windows.any(|window| window.quantiles.approximate.is_some()).then_some(true)
    });

    let family = Family::gauge("plimsoll_latency_window_samples", "Samples in the window");
    writer.family(family, |rows| {
        page.window_quantiles().for_each(|of| rows.add(&of.labels, of.of.count.into()));
    });

    write_totals(writer, page);
    write_completeness(writer, page);
}

/// Each quantile of all time and of every window, and the interval that contains it where wide
/// buckets of producers leave it open.
fn write_quantiles(writer: &mut Writer, page: &LabelledView<'_>) {
    let mut quantile_in = |shown_as, name: &str, help: &str, of: fn(&Quantiles) -> Option<u64>| {
        writer.family(Family::gauge(name, help), |rows| {
            let all = page.total_quantiles().chain(page.window_quantiles());
            for LabelledQuantiles { labels, unit, of: quantiles } in all {
                if let Some(raw) = of(quantiles).filter(|_| shown_as == unit.shown_as()) {
                    rows.add(&labels, Value::of(unit, raw.into()));
                }
            }
        });
    };

    let help = "Median from merged counts, as the upper end of its bucket";
    quantile_in(BYTES, "plimsoll_distribution_p50_bytes", help, |of| of.p50_ns);
    quantile_in(COUNT, "plimsoll_distribution_p50_count", help, |of| of.p50_ns);
    let help = "99th percentile from merged counts, as the upper end of its bucket";
    quantile_in(BYTES, "plimsoll_distribution_p99_bytes", help, |of| of.p99_ns);
    quantile_in(COUNT, "plimsoll_distribution_p99_count", help, |of| of.p99_ns);

    let mut quantile = |name: &str, help: &str, of| quantile_in(SECONDS, name, help, of);
    let help = "Median latency from merged counts, as the upper end of its bucket";
    quantile("plimsoll_latency_p50_seconds", help, |of| of.p50_ns);
    let help = "99th percentile of latency from merged counts, as the upper end of its bucket";
    quantile("plimsoll_latency_p99_seconds", help, |of| of.p99_ns);
    let help = "Lowest possible median, given the producers' bucket bounds";
    quantile("plimsoll_latency_p50_low_seconds", help, |of| Some(of.approximate?.p50_ns.0));
    let help = "Highest possible median, given the producers' bucket bounds";
    quantile("plimsoll_latency_p50_high_seconds", help, |of| Some(of.approximate?.p50_ns.1));
    let help = "Lowest possible 99th percentile, given the producers' bucket bounds";
    quantile("plimsoll_latency_p99_low_seconds", help, |of| Some(of.approximate?.p99_ns.0));
    let help = "Highest possible 99th percentile, given the producers' bucket bounds";
    quantile("plimsoll_latency_p99_high_seconds", help, |of| Some(of.approximate?.p99_ns.1));
}

fn write_totals(writer: &mut Writer, page: &LabelledView<'_>) {
    let family = Family::counter("plimsoll_latency_samples_total", "Samples merged");
    writer.each(family, page.totals(), |of| Some(of.exact.count));
    for (shown_as, name, help) in [
        (SECONDS, "plimsoll_latency_sum_seconds_total", "Sum of all latencies"),
        (BYTES, "plimsoll_distribution_sum_bytes_total", "Sum of all sizes"),
        (COUNT, "plimsoll_distribution_sum_count_total", "Sum of all counts"),
    ] {
        let of_unit = page.totals().filter(|(_, of)| of.unit.shown_as() == shown_as);
        writer.each(Family::counter(name, help), of_unit, |of| {
            Some(Value::of(of.unit, of.exact.sum_ns))
        });
    }

    for (shown_as, name, help) in [
        (
            SECONDS,
            "plimsoll_latency_seconds",
            "Latencies by bucket; of nodes only in formats with native histograms",
        ),
        (BYTES, "plimsoll_distribution_bytes", "Sizes by bucket, not of nodes"),
        (COUNT, "plimsoll_distribution_count", "Counts by bucket, not of nodes"),
    ] {
        let family = Family { name, family_type: FamilyType::Histogram, help };
        writer.family(family, |rows| {
            let of_unit = page.totals().filter(|(_, of)| of.unit.shown_as() == shown_as);
            of_unit.for_each(|(labels, of)| rows.add_buckets(&[labels], &of.buckets, of.unit));
        });
    }
}

/// How many of the fleet's nodes the fleet's windows cover.
fn write_completeness(writer: &mut Writer, page: &LabelledView<'_>) {
    let mut family = |name: &str, help: &str, of: fn(&WindowRow) -> u64| {
        writer.family(Family::gauge(name, help), |rows| {
            let operations = page.current_operations();
            for (_, row) in operations.filter(|(_, row)| row.scope == Scope::Fleet) {
                let operation = rows.labels([("operation", row.operation.as_str())]);
                for (window, figures) in &row.windows {
                    rows.add(&[&operation, page.window(*window)], of(figures).into());
                }
            }
        });
    };

    let help = "Nodes with samples in the fleet's window";
    family("plimsoll_latency_window_nodes", help, |row| row.nodes);
    let help = "Nodes that have not left and ever had a sample of the operation";
    family("plimsoll_latency_window_expected_nodes", help, |row| row.nodes_expected);
    let help = "Expected nodes seen within the window whose newest sample is older than it";
    family("plimsoll_latency_window_late_nodes", help, |row| row.nodes_late);
}
