//! One run of a fleet from its start to its verdict.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use plimsoll_bus::Bus;
use plimsoll_clock::{Clock, Stopwatch};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::subject::PREFIX;
use plimsoll_schemas::summary::LedgerPage;
use plimsoll_schemas::time::{nanos, seconds};
use tokio::time::{MissedTickBehavior, interval};

use super::FleetArgs;
use super::crew::Crew;
use super::figures::{Figures, Page, Second, Spread, steady};
use super::growth::{Halves, LEVEL_WITHIN};
use super::ledger::compare;
use super::node::Regime;
use super::pages::{Pages, Requests, Seen, pending};
use super::sender::{Ended, Tally};
use super::site::Site;
use crate::live::expectation::{Drill, Expectation, Look, Span};
use crate::live::report::Report;

const SECOND: Duration = Duration::from_secs(1);
/// How long a broker that was killed is away.
const BROKER_DOWN: Duration = Duration::from_secs(3);
/// Wait for the aggregator to have merged everything.
const SETTLE_WAIT: Duration = Duration::from_secs(120);
/// Seconds between two lines of progress.
const TELL_EVERY: usize = 10;

/// Runs a fleet.
///
/// # Errors
/// When the mesh does not start, or the options contradict each other.
pub async fn fleet(args: FleetArgs, dir: &Path) -> Result<Report> {
    let regime = regime(&args)?;
    let mut drill = Drill::begin("drill-fleet");
    let mut site = Site::open(&args, dir).await?;
    let ear = Ear::open(&site)?;
    let (crew, watch) = Crew::start(&site, &args, regime).await?;
    eprintln!("{} nodes speak for {} s", args.nodes, args.seconds);
    let address = site.api.url().trim_start_matches("http://").to_owned();
    let pages = Pages::watch(address, regime, watch)?;
    let timeline = sail(&crew, &mut site, &args, watch).await?;
    let ended = crew.end().await?;
    let settled = settle(&mut drill, &site, &args, regime, &ended).await;
    let seen = pages.end()?;
    let mut figures = figures(&args, regime, &ended, &seen);
    figures.timeline = with_pending(timeline, &seen);
    let spoken = (steady_from(&args).as_secs_f64(), f64::from(args.seconds));
    (figures.messages_per_second, figures.processes) = steady(&figures.timeline, spoken);
    figures.settled_seconds = settled.map(|took| took.as_secs_f64());
    figures.confirmations = ear.heard.load(Ordering::Relaxed);
    judge(&mut drill, &args, regime, &figures, &seen);
    let mesh = site.mesh.to_string();
    let (since, end) = (drill.elapsed(), site.end().await);
    let told = end.as_ref().map_or_else(|error| format!("{error:#}"), |()| "ended".to_owned());
    let expectation = Expectation::new("ended", "aggregator and broker end when asked");
    drill.judge(expectation, since, Look::new(end.is_ok(), told));
    Ok(Report { mesh, fleet: Some(figures), ..Report::new(&drill, Vec::new(), Vec::new()) })
}

fn regime(args: &FleetArgs) -> Result<Regime> {
    if args.hostile + args.skewed > args.nodes {
        bail!("--hostile and --skewed together exceed --nodes");
    }
    let interval_ns = nanos(args.interval);
    let rounds = nanos(SECOND * args.seconds) / interval_ns;
    if rounds == 0 {
        bail!("--interval is longer than --seconds");
    }
    Ok(Regime {
        seed: args.seed,
        samples: u64::from(args.samples),
        interval_ns,
        other_rounds: (nanos(args.other_every) / interval_ns).max(1),
        rounds,
        leave: args.leave,
    })
}

/// Confirmations are said to every node; a broker that delivered none would look cheaper than it
/// is.
struct Ear {
    heard: Arc<AtomicU64>,
    _bus: Bus,
}

impl Ear {
    fn open(site: &Site) -> Result<Self> {
        let (bus, mut events) = site.connect(Clock::start())?;
        tokio::spawn(async move { while events.next().await.is_some() {} });
        let mut listener = bus.listen(format!("{PREFIX}.{}.confirm.*", site.mesh));
        let heard = Arc::new(AtomicU64::new(0));
        let counted = heard.clone();
        tokio::spawn(async move {
            while listener.next().await.is_some() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Self { heard, _bus: bus })
    }
}

/// Looks on once a second until every connection has ended.
async fn sail(
    crew: &Crew,
    site: &mut Site,
    args: &FleetArgs,
    watch: Stopwatch,
) -> Result<Vec<Second>> {
    let mut ticks = interval(SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut timeline = Vec::new();
    let mut kill_at = args.restart_broker_at.map(|at| SECOND * at);
    let mut start_at = None;
    while !crew.is_over() {
        ticks.tick().await;
        let now = watch.elapsed();
        if kill_at.take_if(|at| *at <= now).is_some() {
            eprintln!("the broker is killed");
            site.kill_broker();
            start_at = Some(now + BROKER_DOWN);
        }
        if start_at.take_if(|at| *at <= now).is_some() {
            site.restart_broker().await.context("the broker does not come back")?;
            eprintln!("the broker is back");
        }
        let tally = crew.tally();
        timeline.push(Second {
            at: now.as_secs_f64(),
            made: tally.made,
            acknowledged: tally.acknowledged,
            waiting: tally.waiting,
            behind: seconds(tally.behind_ns),
            pending: 0.0,
            usage: site.usage(),
        });
        if timeline.len().is_multiple_of(TELL_EVERY) {
            tell(now, args, &tally);
        }
    }
    Ok(timeline)
}

fn tell(now: Duration, args: &FleetArgs, tally: &Tally) {
    eprintln!(
        "{} of {} s: {} messages, {} wait, {:.0} ms behind",
        now.as_secs(),
        args.seconds,
        tally.made,
        tally.waiting,
        seconds(tally.behind_ns) * 1e3
    );
}

/// Asks the aggregator until its ledger is the fleet's, and tells how long that took.
async fn settle(
    drill: &mut Drill,
    site: &Site,
    args: &FleetArgs,
    regime: Regime,
    ended: &Ended,
) -> Option<Duration> {
    let expectation = Expectation::new(
        "ledger exact",
        format!(
            "for each node recorded, merged, lost and its newest number as it says itself, nothing \
             held or missing, within {} s",
            SETTLE_WAIT.as_secs()
        ),
    );
    let span = Span { since: drill.elapsed(), within: SETTLE_WAIT };
    let prefix = regime.prefix();
    let look = async || match ledger(site).await {
        Ok(Ok(page)) => compare(&ended.nodes, args.leave, &prefix, &page),
        Ok(Err(waiting)) => Look::new(false, waiting),
        Err(error) => Look::from(error),
    };
    let met = drill.expect(expectation, span, look).await;
    met.then(|| drill.elapsed().saturating_sub(span.since))
}

/// The whole ledger, once nothing is pending: it is large, and to ask for it costs the aggregator
/// time that it may need.
async fn ledger(site: &Site) -> Result<Result<LedgerPage, String>> {
    let pending = pending(&site.api.get("/metrics").await?);
    if pending > 0.0 {
        return Ok(Err(format!("{pending} messages still to be read")));
    }
    let text = site.api.get("/api/v1/ledger").await?;
    Ok(Ok(serde_json::from_str(&text).context("the ledger cannot be read")?))
}

/// From when on a run counts as steady: a fifth of it for everything to warm up, or half of what
/// is left after a restart.
fn steady_from(args: &FleetArgs) -> Duration {
    let whole = SECOND * args.seconds;
    match args.restart_broker_at {
        None => whole / 5,
        Some(at) => {
            let back = SECOND * at + BROKER_DOWN;
            back + whole.saturating_sub(back) / 2
        }
    }
}

fn figures(args: &FleetArgs, regime: Regime, ended: &Ended, seen: &Seen) -> Figures {
    let tally = ended.tally;
    let page = |requests: &Requests| Page {
        took: Spread::from(&requests.took),
        bytes: requests.bytes,
        failed: requests.failed,
    };
    let mut freshness = Histogram::default();
    seen.freshness.iter().for_each(|took| freshness.record(nanos(*took)));
    Figures {
        nodes: args.nodes,
        hostile: args.hostile,
        skewed: args.skewed,
        connections: args.connections,
        interval_seconds: args.interval.as_secs_f64(),
        other_intervals: regime.other_rounds,
        seed: args.seed,
        seconds: f64::from(args.seconds),
        messages: tally.made,
        bytes_per_message: tally.bytes / tally.made.max(1),
        samples: ended.nodes.iter().map(|node| node.ledger().recorded).sum(),
        lost: ended.nodes.iter().map(|node| node.ledger().lost).sum(),
        acknowledged: tally.acknowledged,
        resent: tally.resent,
        duplicates: tally.duplicates,
        refused: tally.refused,
        late: Spread::from(&ended.late),
        acknowledgement: Spread::from(&ended.answered),
        freshness: Spread::from(&freshness),
        probes_unseen: regime.rounds.saturating_sub(freshness.count()),
        metrics: page(&seen.metrics),
        metrics_nodes: page(&seen.nodes),
        ..Figures::default()
    }
}

/// What the aggregator last said of its lag by the end of each second.
fn with_pending(mut timeline: Vec<Second>, seen: &Seen) -> Vec<Second> {
    let (mut glances, mut pending) = (seen.glances.iter().peekable(), 0.0);
    for second in &mut timeline {
        while let Some(glance) = glances.next_if(|one| one.at.as_secs_f64() <= second.at) {
            pending = glance.pending;
        }
        second.pending = pending;
    }
    timeline
}

fn judge(drill: &mut Drill, args: &FleetArgs, regime: Regime, figures: &Figures, seen: &Seen) {
    let from = steady_from(args);
    let since = drill.elapsed();
    let expectation = Expectation::new("nothing lost", "every message finds room in its queue");
    let told = format!("{} of {} samples lost", figures.lost, figures.samples);
    drill.judge(expectation, since, Look::new(figures.lost == 0, told));
    let until = f64::from(args.seconds);
    let steady = |second: &&Second| second.at >= from.as_secs_f64() && second.at <= until;
    let behind: Vec<Duration> = figures
        .timeline
        .iter()
        .filter(steady)
        .map(|second| Duration::from_secs_f64(second.behind))
        .collect();
    level(drill, "the broker keeps up", "the oldest message without an answer", &behind);
    let probes = (0..).zip(&seen.freshness);
    let steady = |round: u64| Duration::from_nanos(regime.probe_ns(round)) >= from;
    let fresh: Vec<Duration> =
        probes.filter(|(round, _)| steady(*round)).map(|(_, took)| *took).collect();
    level(drill, "the aggregator keeps up", "a sample's way to /metrics", &fresh);
}

fn level(drill: &mut Drill, name: &str, what: &str, lags: &[Duration]) {
    let expectation = Expectation::new(
        name,
        format!(
            "in the second half of the steady time {what} takes at most {} ms longer than in the \
             first",
            LEVEL_WITHIN.as_millis()
        ),
    );
    let since = drill.elapsed();
    match Halves::of(lags) {
        None => drill.skip(expectation, "the run was too short to tell"),
        Some(halves) => {
            let Halves { first, second } = halves;
            let seen = format!("{} ms, then {} ms", first.as_millis(), second.as_millis());
            drill.judge(expectation, since, Look::new(halves.is_level(), seen));
        }
    }
}
