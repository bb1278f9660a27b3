//! The families about latencies: quantiles, counts and buckets, for the fleet and for nodes.
//!
//! Gauges of a node that does not speak are left out, so that Prometheus marks them as stale with
//! the next scrape; what only grows stays until the node is hidden.

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::summary::{OperationRow, Quantiles, RollupRow, WindowRow};

use super::families::Page;
use super::writer::{Family, FamilyType, LabelSet, Value, Writer};

impl Page<'_> {
    pub(super) fn latencies(&self, writer: &mut Writer) {
        let help = "Median latency from merged counts, upper end of its bucket";
        self.quantile(writer, "plimsoll_latency_p50_seconds", help, |q| q.p50_ns);
        let help = "99th percentile of latency from merged counts, upper end of its bucket";
        self.quantile(writer, "plimsoll_latency_p99_seconds", help, |q| q.p99_ns);
        self.approximate(writer);
        let family = Family::gauge("plimsoll_latency_window_samples", "Samples in the window");
        writer.family(family, |rows| {
            for (labels, row) in self.speaking() {
                for (window, figures) in &row.windows {
                    let value = Value::Count(figures.quantiles.count);
                    rows.add(&[labels, &self.sets.windows[window]], value);
                }
            }
            for (labels, row) in self.rollups() {
                for (window, quantiles) in &row.windows {
                    let value = Value::Count(quantiles.count);
                    rows.add(&[labels, &self.sets.windows[window]], value);
                }
            }
        });
        self.totals(writer);
        self.completeness(writer);
    }

    /// Operations of the fleet and of nodes that speak.
    pub(super) fn speaking(&self) -> impl Iterator<Item = (&LabelSet, &OperationRow)> {
        let rows = self.sets.operations.iter().zip(&self.view.summary.operations);
        rows.filter(|(_, row)| !self.sets.quiet.contains(row.scope.node()))
    }

    fn rollups(&self) -> impl Iterator<Item = (&LabelSet, &RollupRow)> {
        self.sets.rollups.iter().zip(&self.view.summary.rollups)
    }

    /// One quantile of all time and of every window.
    fn quantile(
        &self,
        writer: &mut Writer,
        name: &str,
        help: &str,
        of: fn(&Quantiles) -> Option<u64>,
    ) {
        writer.family(Family::gauge(name, help), |rows| {
            for (labels, row) in self.speaking() {
                if let Some(ns) = of(&row.total) {
                    rows.add(&[labels, &self.sets.total], Value::nanos(ns));
                }
                for (window, figures) in &row.windows {
                    if let Some(ns) = of(&figures.quantiles) {
                        rows.add(&[labels, &self.sets.windows[window]], Value::nanos(ns));
                    }
                }
            }
            for (labels, row) in self.rollups() {
                let total = of(&row.total).map(|ns| (&self.sets.total, ns));
                let windows = row.windows.iter();
                let windows =
                    windows.filter_map(|(window, at)| Some((&self.sets.windows[window], of(at)?)));
                for (window, ns) in total.into_iter().chain(windows) {
                    rows.add(&[labels, window], Value::nanos(ns));
                }
            }
        });
    }

    /// Within what the quantiles surely lie where producers' wide buckets leave that open.
    fn approximate(&self, writer: &mut Writer) {
        let help = "The least that the approximate median may be";
        let name = "plimsoll_latency_p50_low_seconds";
        self.quantile(writer, name, help, |q| Some(q.approximate?.p50_ns.0));
        let help = "The most that the approximate median may be";
        let name = "plimsoll_latency_p50_high_seconds";
        self.quantile(writer, name, help, |q| Some(q.approximate?.p50_ns.1));
        let help = "The least that the approximate 99th percentile may be";
        let name = "plimsoll_latency_p99_low_seconds";
        self.quantile(writer, name, help, |q| Some(q.approximate?.p99_ns.0));
        let help = "The most that the approximate 99th percentile may be";
        let name = "plimsoll_latency_p99_high_seconds";
        self.quantile(writer, name, help, |q| Some(q.approximate?.p99_ns.1));
        let help = "1 where a window holds samples that are known by their producer's wide buckets";
        writer.family(Family::gauge("plimsoll_operation_approximate", help), |rows| {
            for (labels, row) in self.speaking() {
                if row.windows.values().any(|window| window.quantiles.approximate.is_some()) {
                    rows.add(&[labels], Value::flag(true));
                }
            }
        });
    }

    fn totals(&self, writer: &mut Writer) {
        let rollups = || self.sets.rollups.iter().zip(&self.view.rollups);
        let operations = || self.sets.operations.iter().zip(&self.view.totals);
        let all = || operations().chain(rollups());
        let family = Family::counter("plimsoll_latency_samples_total", "Samples merged");
        writer.family(family, |rows| {
            all().for_each(|(labels, of)| rows.add(&[labels], Value::Count(of.exact.count)));
        });
        let family = Family {
            name: "plimsoll_latency_seconds_total",
            family_type: FamilyType::CounterBeside,
            help: "Sum of all latencies",
        };
        writer.family(family, |rows| {
            all().for_each(|(labels, of)| rows.add(&[labels], Value::Nanos(of.exact.sum_ns)));
        });
        let family = Family {
            name: "plimsoll_latency_seconds",
            family_type: FamilyType::Histogram,
            help: "All latencies by bucket; of nodes only where the format has native histograms",
        };
        writer.family(family, |rows| {
            all().for_each(|(labels, of)| rows.add_buckets(&[labels], &of.buckets));
        });
    }

    /// How much of the fleet its windows hold.
    fn completeness(&self, writer: &mut Writer) {
        let mut family = |name: &str, help: &str, of: fn(&WindowRow) -> u64| {
            writer.family(Family::gauge(name, help), |rows| {
                let fleet = self.view.summary.operations.iter();
                for row in fleet.filter(|row| row.scope == Scope::Fleet) {
                    let operation = rows.labels([("operation", row.operation.as_str())]);
                    for (window, figures) in &row.windows {
                        let value = Value::Count(of(figures));
                        rows.add(&[&operation, &self.sets.windows[window]], value);
                    }
                }
            });
        };
        let help = "Nodes whose samples are in the fleet's window";
        family("plimsoll_latency_window_nodes", help, |row| row.nodes);
        let help = "Nodes that have not left and ever had a sample of the operation";
        family("plimsoll_latency_window_nodes_expected", help, |row| row.nodes_expected);
        let help = "Of these, nodes heard within the window whose newest sample is older than it";
        family("plimsoll_latency_window_nodes_late", help, |row| row.nodes_late);
    }
}
