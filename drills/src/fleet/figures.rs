//! The measurements of a fleet run, as JSON and as a table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::RangeInclusive;

use serde::Serialize;

use super::pair::PairStats;
use super::recovery::Recovery;
use super::restart::RestartStats;
use super::sender::SendCounts;
use super::slope::Slope;
use super::watched::LedgerSums;
use crate::processes::Usage;
use crate::spread::Spread;

/// Everything measured in one run. Times are seconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FleetStats {
    pub nodes: u32,
    /// Of those, hostile ones.
    pub hostile: u32,
    /// Of those, nodes with a wrong clock.
    pub skewed: u32,
    /// Of those, nodes that sent a hundred times a second.
    pub fast: u32,
    /// Of those, nodes that began again.
    pub restarted: u64,
    /// Connections that they share.
    pub connections: u32,
    /// Whether each is one of TLS with a key of its own.
    pub secured: bool,
    /// Length of an interval.
    pub interval_seconds: f64,
    /// What everything was drawn from.
    pub seed: u64,
    /// How long the nodes published.
    pub seconds: f64,
    #[serde(flatten)]
    pub counts: SendCounts,
    /// Messages acknowledged a second in the steady part of the run.
    pub messages_per_second: f64,
    /// Their bytes, each without its headers, on average.
    pub bytes_per_message: u64,
    pub samples: u64,
    /// Of those, samples lost.
    pub lost: u64,
    /// From a message's due time to its handing over.
    pub late: Spread,
    /// From a message's due time to its acknowledgement.
    pub acknowledgement: Spread,
    /// From a probe's due time to `/metrics` showing it.
    pub freshness: Spread,
    /// Probes that were not visible while the nodes published.
    pub probes_unseen: u64,
    /// Answers of `/metrics`.
    pub metrics: Page,
    /// Answers of `/metrics/nodes`.
    pub metrics_nodes: Page,
    /// Answers of `/metrics/nodes` to scrapers.
    pub scrapes: Page,
    /// From the last message's acknowledgement to equal ledgers.
    pub settled_seconds: Option<f64>,
    /// Processes in the steady part of the run; none of a mesh that was started elsewhere.
    pub processes: Option<Processes>,
    /// The restart of the broker, if there was one.
    pub restart: Option<RestartStats>,
    /// The faults, in the order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Recovery>,
    /// Both aggregators beside each other, if there are two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair: Option<PairStats>,
    /// What grew after the first quarter of a run with faults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slopes: Vec<Slope>,
    /// Second by second; every ten seconds of a run of ten minutes or more.
    pub timeline: Vec<Second>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Page {
    /// How long they took.
    pub took: Spread,
    /// Bytes of the latest.
    pub bytes: u64,
    /// Requests without a response.
    pub failed: u64,
}

/// One value for each process: `broker`, `aggregator`, `second_aggregator` of a pair, `generator`
/// (this process), and `pages` (its threads that request and parse pages, which are not in the
/// former).
pub type Processes<T = Cost> = BTreeMap<&'static str, T>;

/// What the processes have used, with the floors since `before` was read.
pub fn since(now: Processes<Usage>, before: &Processes<Usage>) -> Processes<Usage> {
    let one = |(name, now): (_, Usage)| (name, before.get(name).map_or(now, |was| now.since(was)));
    now.into_iter().map(one).collect()
}

/// What one process cost in the steady part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// CPU seconds a second.
    pub cores: f64,
    /// CPU microseconds for each message acknowledged.
    pub us_per_message: f64,
    /// Most resident bytes seen in the whole run.
    pub resident_bytes_max: u64,
}

/// The fleet at the end of one second.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Second {
    /// Seconds since its beginning.
    pub at: f64,
    /// Messages made so far.
    pub made: u64,
    /// Messages acknowledged so far.
    pub acknowledged: u64,
    /// Messages that wait for the broker or its response.
    pub waiting: u64,
    /// How long the oldest of those has been due.
    pub behind: f64,
    /// Messages that the aggregator had still to read at its last report.
    pub pending: f64,
    /// How long probes that became visible in this second took, or the oldest one waits.
    pub shown: f64,
    /// What limits of the aggregator had rejected at its last report.
    pub limited: f64,
    /// What the aggregator reported of its ledger; none while it is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerSums>,
    /// The same of the second one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_ledger: Option<LedgerSums>,
    /// What each process had used.
    pub usage: Option<Processes<Usage>>,
}

/// Messages acknowledged a second, and the cost of the processes, between two points in time.
/// `None` if the processes were not measured at both ends.
#[expect(clippy::cast_precision_loss, reason = "counts of messages, far below 2^53")]
pub fn steady(timeline: &[Second], span: &RangeInclusive<f64>) -> (f64, Option<Processes>) {
    let mut part = timeline.iter().filter(|second| span.contains(&second.at));
    let Some((first, last)) = part.next().zip(part.next_back()) else { return (0.0, None) };
    let seconds = last.at - first.at;
    let messages = last.acknowledged.saturating_sub(first.acknowledged) as f64;
    let Some((before, after)) = first.usage.as_ref().zip(last.usage.as_ref()) else {
        return (messages / seconds, None);
    };

    let cost = |(name, before): (&&'static str, &Usage)| {
        let used = |of: &Processes<Usage>| of.get(name).copied();
        let cpu = used(after).unwrap_or_default().cpu_seconds - before.cpu_seconds;
        let usage = timeline.iter().filter_map(|second| used(second.usage.as_ref()?));

        let cost = Cost {
            cores: cpu / seconds,
            us_per_message: cpu * 1e6 / messages.max(1.0),
            resident_bytes_max: usage.map(|usage| usage.resident_bytes).max().unwrap_or(0),
        };

        (*name, cost)
    };

    (messages / seconds, Some(before.iter().map(cost).collect()))
}

impl FleetStats {
    /// The table for people, after the expectations.
    #[expect(clippy::cast_precision_loss, reason = "figures for reading")]
    pub fn table(&self) -> String {
        let mut text = String::from("\n");
        let ms = |value: f64| format!("{:.1}", value * 1e3);

        let rows = [
            ("handed over after due", self.late, 0),
            ("acknowledged after due", self.acknowledgement, 0),
            ("shown by /metrics after due", self.freshness, 0),
            ("GET /metrics", self.metrics.took, self.metrics.bytes),
            ("GET /metrics/nodes", self.metrics_nodes.took, self.metrics_nodes.bytes),
            ("GET /metrics/nodes, scrapers", self.scrapes.took, self.scrapes.bytes),
        ];

        // Writing to a string cannot fail, here and below.
        let _written = writeln!(
            text,
            "{:<28} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "TIME", "COUNT", "P50 ms", "P99 ms", "MAX ms", "KIB"
        );

        for (name, Spread { count, p50, p99, max, .. }, bytes) in rows {
            let [p50, p99, max] = [p50, p99, max].map(ms);
            let kib = bytes / 1024;
            let _written =
                writeln!(text, "{name:<28} {count:>9} {p50:>9} {p99:>9} {max:>9} {kib:>9}");
        }

        if let Some(processes) = &self.processes {
            let _written = writeln!(
                text,
                "\n{:<28} {:>9} {:>9} {:>9}",
                "PROCESS", "CORES", "us/MSG", "RSS MIB"
            );
            for (name, cost) in processes {
                let name = name.replace('_', " ");
                let mib = cost.resident_bytes_max as f64 / 1_048_576.0;
                let _written = writeln!(
                    text,
                    "{name:<28} {:>9.3} {:>9.1} {mib:>9.1}",
                    cost.cores, cost.us_per_message
                );
            }
        }

        let _written = writeln!(
            text,
            "\n{} nodes on {} connections: {} messages of {} bytes in {:.0} s ({:.0}/s), {} resent, \
             {} known already, {} confirmations received, {} of {} samples lost",
            self.nodes,
            self.connections,
            self.counts.made,
            self.bytes_per_message,
            self.seconds,
            self.messages_per_second,
            self.counts.resent,
            self.counts.duplicates,
            self.counts.confirmations,
            self.lost,
            self.samples
        );

        if let Some(restart) = &self.restart {
            let _written = writeln!(text, "{}", restart.line());
        }
        for Slope { of, median, percent_per_hour, .. } in &self.slopes {
            let _written = writeln!(text, "{of}: {median:.0}, {percent_per_hour:+.2} % an hour");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: f64, acknowledged: u64, cpu_seconds: f64) -> Second {
        let usage = Usage { cpu_seconds, resident_bytes: 1_000 + acknowledged, ..Usage::default() };
        let usage = Some(Processes::from([("broker", usage)]));
        Second { at, acknowledged, usage, ..Second::default() }
    }

    #[test]
    fn costs_are_those_of_the_steady_part_alone() {
        let timeline = [
            second(1.0, 0, 9.0),
            second(2.0, 100, 10.0),
            second(6.0, 1_100, 11.0),
            second(7.0, 1_200, 99.0),
        ];
        let (rate, costs) = steady(&timeline, &(2.0..=6.0));
        let cost = costs.unwrap()["broker"];
        assert_eq!((rate, cost.cores, cost.us_per_message), (250.0, 0.25, 1_000.0));
        assert_eq!(cost.resident_bytes_max, 2_200);
        assert_eq!(steady(&timeline, &(3.0..=6.0)), (0.0, None));
        let unread = [Second::default(), Second { at: 1.0, ..Second::default() }];
        assert_eq!(steady(&unread, &(0.0..=6.0)), (0.0, None));
    }

    #[test]
    fn the_table_names_every_time_and_every_process() {
        let processes = ["broker", "second_aggregator"].map(|name| (name, Cost::default()));
        let figures = FleetStats { processes: Some(processes.into()), ..FleetStats::default() };
        let table = figures.table();
        for part in ["GET /metrics/nodes", "shown by /metrics", "broker", "second aggregator"] {
            assert!(table.contains(part), "{part} is not in {table}");
        }
    }
}
