//! The verdict on a load.
//!
//! DESIGN D34.

use std::time::Duration;

use anyhow::Result;

use super::datagrams::{Datagrams, LOST_MAX_PERCENT};
use super::schedule::Schedule;
use super::stats::LoadStats;
use crate::live::expectation::{Drill, Expectation, Look};

/// A name, what is expected, whether it was seen, and what was seen.
type Row = (&'static str, &'static str, bool, String);

/// Samples that were not merged, of a hundred of the burst, or of all without one.
pub(super) fn lost_percent(stats: &LoadStats, schedule: Schedule) -> f64 {
    let missing = stats.sent.saturating_sub(stats.merged);
    missing as f64 * 100.0 / share_of(stats, schedule) as f64
}

/// The samples of which a share may be lost: those of the burst, whose loss is not to be diluted by
/// what was sent at rest.
fn share_of(stats: &LoadStats, schedule: Schedule) -> u64 {
    let burst = schedule.burst();
    let samples = if burst.is_empty() { stats.sent } else { burst.end - burst.start };
    samples.max(1)
}

/// Judges a load that has ended.
pub(super) fn judge(
    drill: &mut Drill,
    stats: &LoadStats,
    schedule: Schedule,
    drained: &Result<()>,
) {
    let lost: u64 = stats.lost.values().sum();
    let drained = Look::of(drained, "drained");

    let rows = [
        ("drained", "every node ends with code 0", drained.met, drained.seen),
        (
            "sent",
            "every sample of the schedule is handed to a node",
            stats.sent >= schedule.count,
            format!("{} of {}", stats.sent, schedule.count),
        ),
        (
            "every sample accounted for",
            "each is merged once, or lost for a reason that the ledger or the node's page names",
            stats.unnamed == 0 && stats.merged <= stats.sent,
            format!("{} merged, {lost} lost, {} unnamed", stats.merged, stats.unnamed),
        ),
    ];

    let rows = rows.into_iter().chain(match &stats.datagrams {
        Some(datagrams) => vec![named(datagrams), few_lost(stats, schedule)],
        None => vec![("nothing lost", "no sample is lost", lost == 0, format!("{:?}", stats.lost))],
    });

    for (name, expected, met, seen) in rows {
        drill.judge(Expectation::new(name, expected), Duration::ZERO, Look::new(met, seen));
    }
}

fn named(datagrams: &Datagrams) -> Row {
    let Datagrams { sent, read, dropped, unnamed, dropped_samples, unnamed_samples } = datagrams;
    (
        "every datagram accounted for",
        "each is read, or dropped by the kernel and counted by its node, with no more and no fewer \
         samples missing than this many datagrams can have held",
        datagrams.are_named(),
        format!(
            "{sent} sent, {read} read, {dropped} dropped with {dropped_samples} samples, {unnamed} \
             datagrams and {unnamed_samples} samples unnamed"
        ),
    )
}

fn few_lost(stats: &LoadStats, schedule: Schedule) -> Row {
    let (missing, of) = (stats.sent.saturating_sub(stats.merged), share_of(stats, schedule));
    (
        "few lost",
        "at most 5 % of the samples of the burst, or of all without one, are lost",
        missing * 100 <= of * LOST_MAX_PERCENT,
        format!("{missing} of {of}, {:.2} %", stats.lost_percent),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::live::expectation::Verdict;

    /// A burst of 1 000 samples after 10 and before 90.
    const SCHEDULE: Schedule =
        Schedule { count: 1_100, rate: 10, nodes: 1, operations: 1, burst_after: Some(1) };

    fn missed(stats: &LoadStats) -> Vec<String> {
        let mut drill = Drill::begin("test");
        judge(&mut drill, stats, SCHEDULE, &Ok(()));
        let outcomes = drill.outcomes().iter();
        let missed = outcomes.filter(|outcome| outcome.verdict == Verdict::Missed);
        missed.map(|outcome| outcome.name.clone()).collect()
    }

    /// One sample in each datagram, of which the kernel dropped some that the node counted.
    fn over_udp(dropped: u64) -> LoadStats {
        let datagrams = Datagrams {
            sent: 1_100,
            read: 1_100 - dropped,
            dropped,
            dropped_samples: dropped,
            ..Datagrams::default()
        };
        LoadStats {
            sent: 1_100,
            merged: 1_100 - dropped,
            lost: BTreeMap::from([("kernel_dropped".to_owned(), dropped)]),
            datagrams: Some(datagrams),
            ..LoadStats::default()
        }
    }

    #[test]
    fn a_named_loss_of_a_twentieth_of_the_burst_passes_over_udp_and_one_more_does_not() {
        assert_eq!(missed(&over_udp(0)), [""; 0]);
        assert_eq!(missed(&over_udp(50)), [""; 0]);
        assert_eq!(missed(&over_udp(51)), ["few lost"]);
        assert!((lost_percent(&over_udp(50), SCHEDULE) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn an_unnamed_loss_fails_however_small_it_is() {
        let mut stats = over_udp(7);
        (stats.merged, stats.unnamed) = (stats.merged - 1, 1);
        assert_eq!(missed(&stats), ["every sample accounted for"]);
        for planted in [
            Datagrams { unnamed: 1, ..stats.datagrams.unwrap() },
            Datagrams { unnamed_samples: 1, ..stats.datagrams.unwrap() },
        ] {
            let stats = LoadStats { datagrams: Some(planted), ..over_udp(7) };
            assert_eq!(missed(&stats), ["every datagram accounted for"]);
        }
    }

    #[test]
    fn over_a_unix_socket_nothing_may_be_lost() {
        let whole = LoadStats { sent: 1_100, merged: 1_100, ..LoadStats::default() };
        assert_eq!(missed(&whole), [""; 0]);
        let lost = BTreeMap::from([("outbox_full".to_owned(), 1)]);
        let stats = LoadStats { merged: 1_099, lost, ..whole };
        assert_eq!(missed(&stats), ["nothing lost"]);
    }
}
