//! The names under which former systems knew what is shown here anyway, for dashboards that still
//! use them: `[metrics] aliases`. Dots became underscores, as Prometheus wants; units are those of
//! the old names, milliseconds among them.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::summary::Quantiles;
use plimsoll_schemas::wire::Bus;

use super::families::Page;
use super::writer::{Family, FamilyType, Value, Writer};

/// The window whose quantiles stand under the old names.
const WINDOW: Window = Window::OneMinute;
/// What ends the name of the counter of an operation's errors.
const ERRORS: &str = ".errors";

impl Page<'_> {
    pub(super) fn aliases(&self, writer: &mut Writer) {
        let name = "tolaria_training_latency_ms";
        let help = "Alias: p99 of epoch_hook over the last minute, in milliseconds";
        self.quantile_alias(writer, (name, help), "epoch_hook", |of| of.p99_ns);
        let name = "kasmina_kernel_fetch_latency_ms";
        let help = "Alias: p50 of kernel_fetch over the last minute, in milliseconds";
        self.quantile_alias(writer, (name, help), "kernel_fetch", |of| of.p50_ns);
        let unknown = |name, help| Family { name, family_type: FamilyType::Unknown, help };
        let help = "Alias of plimsoll_node_outbox_messages_max";
        for name in ["oona_queue_depth_max", "queue_depth_max"] {
            writer.family(Family::gauge(name, help), |rows| {
                for (labels, node) in self.nodes().filter(|(_, node)| node.speaks) {
                    let of = &node.node.bus.value;
                    rows.add(&[labels], Value::Count(of.outbox_messages_max));
                }
            });
        }
        let help = "Alias: the node's messages that the broker took";
        self.bus_alias(writer, Family::counter("publish_total", help), |bus| bus.published);
        let help = "Alias: the node's messages that went by the emergency lane instead";
        self.bus_alias(writer, unknown("publish_rerouted", help), |bus| bus.rerouted);
        let help = "Alias: the node's messages that it had to drop";
        self.bus_alias(writer, unknown("publish_dropped", help), |bus| bus.dropped);
        self.function_aliases(writer);
    }

    fn quantile_alias(
        &self,
        writer: &mut Writer,
        (name, help): (&str, &str),
        operation: &str,
        of: fn(&Quantiles) -> Option<u64>,
    ) {
        writer.family(Family::gauge(name, help), |rows| {
            for (labels, row) in self.speaking().filter(|(_, row)| row.operation == operation) {
                let quantiles = row.windows.get(&WINDOW).map(|window| &window.quantiles);
                if let Some(ns) = quantiles.and_then(of) {
                    rows.add(&[labels], Value::Nanos(u128::from(ns) * 1_000));
                }
            }
        });
    }

    fn bus_alias(&self, writer: &mut Writer, family: Family<'_>, of: fn(&Bus) -> u64) {
        writer.family(family, |rows| {
            for (labels, node) in self.nodes() {
                rows.add(&[labels], Value::Count(of(&node.node.bus.value)));
            }
        });
    }

    fn function_aliases(&self, writer: &mut Writer) {
        let rows = self.view.summary.operations.iter().zip(&self.view.totals);
        let fleet: Vec<_> = rows
            .filter(|(row, _)| row.scope == Scope::Fleet)
            .map(|(row, of)| (writer.labels([("function", row.operation.as_str())]), of))
            .collect();
        let family = Family {
            name: "profiler_function_duration_seconds",
            family_type: FamilyType::Histogram,
            help: "Alias: all latencies of the fleet by operation",
        };
        writer.family(family, |rows| {
            fleet.iter().for_each(|(labels, of)| rows.add_buckets(&[labels], &of.buckets));
        });
        let help = "Alias of plimsoll_latency_samples_total of the fleet";
        writer.family(Family::counter("profiler_function_calls_total", help), |rows| {
            fleet.iter().for_each(|(labels, of)| rows.add(&[labels], Value::Count(of.exact.count)));
        });
        let help = "Alias: the node's counter named after the operation and .errors";
        // A job's counter may fall, see `jobs.rs`.
        let family = Family {
            name: "profiler_function_errors_total",
            family_type: FamilyType::Unknown,
            help,
        };
        writer.family(family, |rows| {
            for (labels, node) in self.nodes() {
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
}
