//! One load from its start to its report.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use plimsoll_clock::{Deadline, Stopwatch};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::summary::Summary;

use super::args::LoadArgs;
use super::datagrams::{Datagrams, KERNEL_DROPPED, Received};
use super::delivery::Delivery;
use super::judge::{judge, lost_percent};
use super::nodes::LoadNodes;
use super::schedule::Schedule;
use super::sender::{self, Sender, Sent, Task};
use super::stats::LoadStats;
use crate::live::expectation::Drill;
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
    let LoadArgs { count, rate, operations, nodes, burst_after, .. } = args;
    let schedule = Schedule { count, rate, nodes, operations, burst_after };

    anyhow::ensure!(
        schedule.due(count) <= HOURS_MAX,
        "--count {count} at --rate {rate} takes longer than a day; give another rate"
    );

    anyhow::ensure!(
        burst_after.is_none() || rate > 0 && count >= schedule.burst().end,
        "--count {count} ends before the burst does; --rate {rate} with --burst-after needs a rate, \
         and at least --count {}",
        schedule.burst().end
    );

    let mut drill = Drill::begin("drill-load");
    let mut nodes = LoadNodes::start(&args, dir).await?;
    let before = nodes.api.summary().await?;
    let names = nodes.names();
    let mut delivery = Delivery::new(schedule, &names, &before);
    let watch = Stopwatch::start();
    let senders = start(&nodes, schedule, &args, watch)?;
    let mut pages = Pages { api: &nodes.api, delivery: &mut delivery, watch, last: Duration::ZERO };
    let sent = pages.until_sent(senders).await?;
    let received = pages.until_merged(&sent, args.udp.then(|| nodes.pages())).await;
    let merged_after = pages.last;
    let drained = nodes.drain().await;
    let after = nodes.api.summary().await?;
    delivery.on_summary(watch.elapsed(), &after);
    let mut stats = stats(&args, &total(&sent), &delivery);
    stats.merged_seconds = merged_after.as_secs_f64();
    (stats.lost, stats.rerouted) = lost(&names, &before, &after);
    stats.sent += u64::from(args.plant_miss);
    stats.datagrams = args.udp.then(|| datagrams(&sent, &received));
    add_kernel_drops(&mut stats);
    let named: u64 = stats.lost.values().sum();
    stats.unnamed = stats.sent.saturating_sub(stats.merged + named);
    stats.lost_percent = lost_percent(&stats, schedule);
    judge(&mut drill, &stats, schedule, &drained);
    let mesh = nodes.mesh.to_string();
    drill.judge_end("what was started ends on a signal", drill.elapsed(), &nodes.end().await);
    Ok(Report { mesh, load: Some(stats), ..Report::new(&drill) })
}

/// Starts a sender for each node.
fn start(
    nodes: &LoadNodes,
    schedule: Schedule,
    args: &LoadArgs,
    watch: Stopwatch,
) -> Result<Vec<Sender>> {
    let (ms, per_datagram) = (args.priority.ms(), args.per_datagram.map_or(u64::MAX, u64::from));
    let links = (0..).zip(nodes.links(args.udp)?);
    let tasks = links.map(|(node, link)| Task { schedule, node, ms, link, per_datagram });
    tasks.map(|task| sender::start(task, watch)).collect()
}

/// The aggregator's pages in the course of a load.
struct Pages<'a> {
    api: &'a Api,
    delivery: &'a mut Delivery,
    watch: Stopwatch,
    /// From the start until a page showed more than the one before.
    last: Duration,
}

impl Pages<'_> {
    /// Reads pages until everything is sent. Returns what each sender has done.
    async fn until_sent(&mut self, senders: Vec<Sender>) -> Result<Vec<Sent>> {
        let (count, mut log_at) = (self.delivery.scheduled(), PROGRESS_EVERY);
        // Senders end, or wait for a socket for a bounded time.
        while !senders.iter().all(JoinHandle::is_finished) {
            self.read().await;
            if self.watch.elapsed() >= log_at {
                log_at += PROGRESS_EVERY;
                let (now, merged) = (self.watch.elapsed().as_secs(), self.delivery.merged());
                eprintln!("{now} s: {merged} of {count} samples merged");
            }
            tokio::time::sleep(PAGE_EVERY).await;
        }
        senders.into_iter().map(sender::end).collect()
    }

    /// Reads pages until all that was sent is merged, or over UDP all that nodes have accepted once
    /// every datagram was read or dropped, or the time for that is over. Returns what the nodes'
    /// own `pages` show at last.
    async fn until_merged(&mut self, sent: &[Sent], pages: Option<Vec<Api>>) -> Vec<Received> {
        let (deadline, pages) = (Deadline::within(SETTLE_WAIT), pages.unwrap_or_default());
        let mut received = vec![Received::default(); pages.len()];

        loop {
            self.read().await;

            for (received, page) in received.iter_mut().zip(&pages) {
                // A page that does not come leaves what the one before has shown.
                *received = Received::of(page).await.unwrap_or(*received);
            }

            let mut pairs = sent.iter().zip(&received);
            let are_read = pairs.all(|(sent, received)| received.is_all_of(&sent.sizes));

            let expected = match pages.is_empty() {
                true => sent.iter().map(|sent| sent.samples).sum(),
                false => received.iter().map(|received| received.samples).sum::<u64>(),
            };

            let is_merged = self.delivery.merged() >= expected;
            if are_read && is_merged || deadline.has_passed() {
                return received;
            }
            tokio::time::sleep(PAGE_EVERY).await;
        }
    }

    async fn read(&mut self) {
        let Ok(summary) = self.api.summary().await else { return };
        let (at, merged) = (self.watch.elapsed(), self.delivery.merged());
        self.delivery.on_summary(at, &summary);
        if self.delivery.merged() > merged {
            self.last = at;
        }
    }
}

/// What all senders have done.
fn total(of_nodes: &[Sent]) -> Sent {
    let mut all = Sent::default();
    for Sent { samples, late, took, .. } in of_nodes {
        all.samples += samples;
        all.late.merge(late);
        all.took = all.took.max(*took);
    }
    all
}

/// The account of datagrams over UDP.
fn datagrams(sent: &[Sent], received: &[Received]) -> Datagrams {
    let mut datagrams = Datagrams::default();
    for (sent, received) in sent.iter().zip(received) {
        datagrams.add(&sent.sizes, received);
    }
    datagrams
}

/// Samples in datagrams that the kernel dropped are lost for that reason.
fn add_kernel_drops(stats: &mut LoadStats) {
    let samples = stats.datagrams.map_or(0, |datagrams| datagrams.dropped_samples);
    if samples > 0 {
        stats.lost.insert(KERNEL_DROPPED.to_owned(), samples);
    }
}

fn stats(args: &LoadArgs, sent: &Sent, delivery: &Delivery) -> LoadStats {
    let took = sent.took.as_secs_f64();
    LoadStats {
        nodes: args.nodes,
        operations: args.operations,
        priority: args.priority.as_str(),
        link: if args.udp { "udp" } else { "unix" },
        rate_scheduled: args.rate,
        sent: sent.samples,
        merged: delivery.merged(),
        duration_seconds: took,
        rate: sent.samples as f64 / took.max(1e-9),
        late: (&sent.late).into(),
        delivery: delivery.took().into(),
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
