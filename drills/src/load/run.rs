//! One load from its start to its verdict.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use plimsoll_clock::{Deadline, Stopwatch};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::summary::Summary;

use super::args::LoadArgs;
use super::delivery::Delivery;
use super::nodes::LoadNodes;
use super::schedule::Schedule;
use super::sender::{self, Sent, Task};
use super::stats::LoadStats;
use crate::live::expectation::{Drill, Expectation, Look};
use crate::live::report::Report;

/// Time between two pages: the resolution of deliveries, beside the aggregator's own read view.
const PAGE_EVERY: Duration = Duration::from_millis(20);
/// Time for samples to arrive after the last was sent.
const SETTLE_WAIT: Duration = Duration::from_secs(60);
/// Interval of progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// Slower loads measure a second's wait for the schedule and not the mesh.
const HOURS_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Runs a load.
///
/// # Errors
/// When the mesh does not start, or the options contradict each other.
pub async fn load(args: LoadArgs, dir: &Path) -> Result<Report> {
    let LoadArgs { count, rate, operations, nodes, .. } = args;
    let schedule = Schedule { count, rate, nodes, operations };
    anyhow::ensure!(
        schedule.due(count) <= HOURS_MAX,
        "--count {count} at --rate {rate} takes longer than a day; give another rate"
    );
    let mut drill = Drill::begin("drill-load");
    let mut nodes = LoadNodes::start(&args, dir).await?;
    let before = nodes.api.summary().await?;
    let names: Vec<String> = nodes.sockets().into_iter().map(|(name, _)| name).collect();
    let mut delivery = Delivery::new(schedule, &names, &before);
    let watch = Stopwatch::start();
    let (sent, merged_after) =
        send(&nodes, &mut delivery, (schedule, args.priority.ms()), watch).await?;
    let drained = nodes.drain().await;
    let after = nodes.api.summary().await?;
    delivery.on_summary(watch.elapsed(), &after);
    let mut stats = stats(&args, &sent, &delivery);
    stats.merged_seconds = merged_after.as_secs_f64();
    (stats.lost, stats.rerouted) = lost(&names, &before, &after);
    stats.sent += u64::from(args.plant_miss);
    let named: u64 = stats.lost.values().sum();
    stats.unnamed = stats.sent.saturating_sub(stats.merged + named);
    judge(&mut drill, &stats, schedule, drained);
    let mesh = nodes.mesh.to_string();
    let (since, ended) = (drill.elapsed(), nodes.end().await);
    let seen = ended.as_ref().map_or_else(|error| format!("{error:#}"), |()| "ended".to_owned());
    let expectation = Expectation::new("ended", "what was started ends on a signal");
    drill.judge(expectation, since, Look::new(ended.is_ok(), seen));
    Ok(Report { mesh, load: Some(stats), ..Report::new(&drill, Vec::new(), Vec::new()) })
}

/// Sends everything and reads pages until all of it is merged, or the time for that is over.
async fn send(
    nodes: &LoadNodes,
    delivery: &mut Delivery,
    (schedule, ms): (Schedule, u64),
    watch: Stopwatch,
) -> Result<(Sent, Duration)> {
    let sockets = nodes.sockets().into_iter().map(|(_, socket)| socket);
    let tasks = (0..).zip(sockets).map(|(node, socket)| Task { schedule, node, ms, socket });
    let mut senders: Vec<_> =
        tasks.map(|task| sender::start(task, watch)).collect::<Result<_>>()?;
    let (mut merged_after, mut settle, mut log_at) = (Duration::ZERO, None, PROGRESS_EVERY);
    loop {
        if let Ok(summary) = nodes.api.summary().await {
            let (at, merged) = (watch.elapsed(), delivery.merged());
            delivery.on_summary(at, &summary);
            merged_after = if delivery.merged() > merged { at } else { merged_after };
        }
        let all_sent = senders.iter().all(std::thread::JoinHandle::is_finished);
        if all_sent {
            settle.get_or_insert_with(|| Deadline::within(SETTLE_WAIT));
        }
        let over = settle.as_ref().is_some_and(Deadline::has_passed);
        if over || all_sent && delivery.merged() >= schedule.count {
            break;
        }
        if watch.elapsed() >= log_at {
            log_at += PROGRESS_EVERY;
            let (now, merged) = (watch.elapsed().as_secs(), delivery.merged());
            eprintln!("{now} s: {merged} of {} samples merged", schedule.count);
        }
        tokio::time::sleep(PAGE_EVERY).await;
    }
    let mut all = Sent::default();
    for sender in senders.drain(..) {
        // Senders have ended, or wait for a socket for a bounded time.
        let Sent { samples, late, took } = sender::end(sender)?;
        all.samples += samples;
        all.late.merge(&late);
        all.took = all.took.max(took);
    }
    Ok((all, merged_after))
}

fn stats(args: &LoadArgs, sent: &Sent, delivery: &Delivery) -> LoadStats {
    let took = sent.took.as_secs_f64();
    let percentiles = |histogram: &Histogram| histogram.into();
    LoadStats {
        nodes: args.nodes,
        operations: args.operations,
        priority: args.priority.as_str(),
        rate_scheduled: args.rate,
        sent: sent.samples,
        merged: delivery.merged(),
        duration_seconds: took,
        rate: sent.samples as f64 / took.max(1e-9),
        late: percentiles(&sent.late),
        delivery: percentiles(delivery.took()),
        ..LoadStats::default()
    }
}

/// What these nodes have lost since `before`, and the messages that they rerouted.
fn lost(names: &[String], before: &Summary, after: &Summary) -> (BTreeMap<String, u64>, u64) {
    let (mut lost, mut rerouted) = (BTreeMap::new(), 0);
    for row in after.nodes.iter().filter(|row| names.contains(&row.node)) {
        let known = before.nodes.iter().find(|known| known.node == row.node);
        for (reason, count) in &row.ledger.lost {
            let had = known.and_then(|row| row.ledger.lost.get(reason)).copied().unwrap_or(0);
            let more = count.saturating_sub(had);
            if more > 0 {
                *lost.entry(reason.clone()).or_default() += more;
            }
        }
        rerouted += row.rerouted.saturating_sub(known.map_or(0, |row| row.rerouted));
    }
    (lost, rerouted)
}

fn judge(drill: &mut Drill, stats: &LoadStats, schedule: Schedule, drained: Result<()>) {
    let since = Duration::ZERO;
    let lost: u64 = stats.lost.values().sum();
    let seen = drained.map_or_else(|error| format!("{error:#}"), |()| "drained".to_owned());
    let rows = [
        ("drained", "every node ends with code 0", seen == "drained", seen),
        (
            "sent",
            "every sample of the schedule is handed to a node",
            stats.sent >= schedule.count,
            format!("{} of {}", stats.sent, schedule.count),
        ),
        (
            "every sample accounted for",
            "each is merged once, or lost for a reason that the ledger names",
            stats.unnamed == 0 && stats.merged <= stats.sent,
            format!("{} merged, {lost} lost, {} unnamed", stats.merged, stats.unnamed),
        ),
        ("nothing lost", "no sample is lost", lost == 0, format!("{:?}", stats.lost)),
    ];
    for (name, expected, met, seen) in rows {
        drill.judge(Expectation::new(name, expected), since, Look::new(met, seen));
    }
}
