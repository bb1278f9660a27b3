//! The measurements of a load, as JSON and as lines.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::datagrams::Datagrams;
use crate::spread::Spread;

/// Everything measured in one run. Times are seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LoadStats {
    pub nodes: u32,
    pub operations: u32,
    /// `normal` or `critical`.
    pub priority: &'static str,
    /// `unix` or `udp`.
    pub link: &'static str,
    /// Samples a second that the schedule asks for; 0 if all are due at the start.
    pub rate_scheduled: u32,
    /// Samples handed to the nodes' sockets.
    pub sent: u64,
    /// Of those, samples merged by the aggregator.
    pub merged: u64,
    /// Of those, samples lost, by the reason that a ledger names, where a node's own samples are in
    /// the counts too; `kernel_dropped` are the samples in datagrams that the kernel dropped.
    pub lost: BTreeMap<String, u64>,
    /// Sent, and neither merged nor named.
    pub unnamed: u64,
    /// Sent and not merged, of a hundred samples of the burst, or of all without one.
    pub lost_percent: f64,
    /// The datagrams that had them, over UDP.
    pub datagrams: Option<Datagrams>,
    /// Messages that took the emergency lane.
    pub rerouted: u64,
    /// From the start until the last sample was handed over.
    pub duration_seconds: f64,
    /// Samples sent a second in that time.
    pub rate: f64,
    /// From the start until the last sample was seen merged.
    pub merged_seconds: f64,
    /// From when a sample was due until the socket had it.
    pub late: Spread,
    /// From when a sample was due until the aggregator's page showed it.
    pub delivery: Spread,
}

impl LoadStats {
    /// The figures as lines.
    pub fn table(&self) -> String {
        let scheduled = match self.rate_scheduled {
            0 => "all due at the start".to_owned(),
            rate => format!("{rate} a second"),
        };

        let lost: u64 = self.lost.values().sum();
        let reasons = self.lost.iter().map(|(reason, count)| format!(", {reason} {count}"));
        let reasons: String = reasons.collect();

        let rows = [
            (
                "schedule",
                format!(
                    "{scheduled}, {} nodes, {} operations, {}, {}",
                    self.nodes, self.operations, self.priority, self.link
                ),
            ),
            ("sent", self.sent.to_string()),
            ("merged", self.merged.to_string()),
            (
                "lost",
                format!("{lost}{reasons}, unnamed {}: {:.2} %", self.unnamed, self.lost_percent),
            ),
            ("datagrams", self.datagrams.as_ref().map_or_else(String::new, datagrams)),
            ("rerouted", format!("{} messages", self.rerouted)),
            (
                "duration",
                format!(
                    "{:.3} s, merged after {:.3} s",
                    self.duration_seconds, self.merged_seconds
                ),
            ),
            ("rate", format!("{:.0} samples/s", self.rate)),
            ("late", times(&self.late)),
            ("delivery", times(&self.delivery)),
        ];

        let mut text = "\n".to_owned();
        for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "{name:<9} {value}");
        }

        text + "\n"
    }
}

fn datagrams(of: &Datagrams) -> String {
    let Datagrams { sent, read, dropped, unnamed, .. } = of;
    format!("{sent} sent, {read} read, {dropped} dropped by the kernel, unnamed {unnamed}")
}

fn times(of: &Spread) -> String {
    let Spread { p50, p95, p99, max, .. } = of;
    format!("p50 {p50:.3} s, p95 {p95:.3} s, p99 {p99:.3} s, max {max:.3} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_have_every_figure_and_name_each_loss() {
        let stats = LoadStats {
            sent: 60,
            merged: 57,
            lost: BTreeMap::from([("outbox_full".to_owned(), 2)]),
            unnamed: 1,
            lost_percent: 5.0,
            rate: 20.4,
            delivery: Spread { count: 57, p50: 0.5, p95: 0.9, p99: 1.25, max: 2.0 },
            ..LoadStats::default()
        };
        let table = stats.table();
        for line in [
            "schedule  all due at the start, 0 nodes",
            "sent      60\n",
            "merged    57\n",
            "lost      2, outbox_full 2, unnamed 1: 5.00 %\n",
            "rate      20 samples/s\n",
            "delivery  p50 0.500 s, p95 0.900 s, p99 1.250 s, max 2.000 s\n",
        ] {
            assert!(table.contains(line), "{line:?} is not in {table}");
        }
        assert!(!table.contains("datagrams"), "{table}");
        let datagrams =
            Datagrams { sent: 9, read: 6, dropped: 2, unnamed: 1, ..Datagrams::default() };
        let table = LoadStats { datagrams: Some(datagrams), ..stats }.table();
        let line = "datagrams 9 sent, 6 read, 2 dropped by the kernel, unnamed 1\n";
        assert!(table.contains(line), "{line:?} is not in {table}");
    }
}
