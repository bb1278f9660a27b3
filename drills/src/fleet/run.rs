//! One run of a fleet from its start to its verdict.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use plimsoll_bus::Bus;
use plimsoll_clock::Stopwatch;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::subject::PREFIX;
use plimsoll_schemas::summary::LedgerPage;
use plimsoll_schemas::time::{nanos, seconds};
use tokio::time::{MissedTickBehavior, interval};

use super::args::FleetArgs;
use super::connections::Connections;
use super::deployment::Deployment;
use super::disturbance::Faults;
use super::faults::Fault;
use super::figures::{FleetStats, Page, Processes, Second, since, steady};
use super::growth::{Halves, LEVEL_WITHIN};
use super::ledger::compare;
use super::load::Load;
use super::open_files;
use super::pages::{Glance, Pages, Requests, Seen};
use super::pair::{self, LONG, Looks, PairStats};
use super::recovery::{Lag, Recovery, judge_recovery};
use super::restart::RestartStats;
use super::scrapers::Scrapers;
use super::sender::{Ended, SendCounts};
use super::soak::{judge_slopes, slopes};
use super::watched::{LedgerSums, Watched};
use crate::live::expectation::{Drill, Expectation, Look, Span};
use crate::live::notifications::observe;
use crate::live::report::Report;
use crate::processes::Usage;
use crate::spread::Spread;

const SECOND: Duration = Duration::from_secs(1);
/// Wait for the aggregator to have merged everything.
const SETTLE_WAIT: Duration = Duration::from_secs(120);
/// Time between two looks at what is due, in a run with faults.
const TURN: Duration = Duration::from_millis(250);
/// Time between two rows of the timeline of a long run.
const LONG_ROW: Duration = Duration::from_secs(10);
/// Seconds between two lines of progress.
const PROGRESS_EVERY: u32 = 10;

/// Runs a fleet.
///
/// # Errors
/// When the mesh does not start, or the options contradict each other.
pub async fn fleet(args: FleetArgs, dir: &Path) -> Result<Report> {
    let args = FleetArgs { connections: args.connections.min(args.nodes), ..args };
    let load = load(&args)?;
    open_files::check(args.connections)?;
    let mut drill = Drill::begin("drill-fleet");
    let mut deployment = Deployment::open(&args, load, dir).await?;

    let confirmations = match args.has_own_connections() {
        true => None,
        false => Some(ConfirmationCounter::open(&deployment).await?),
    };

    eprintln!("{} connections are opened", args.connections);
    let (connections, watch) = Connections::start(&deployment, &args, load).await?;
    eprintln!("{} nodes send for {} s", args.nodes, args.seconds);
    let address = watched_address(&deployment, &args);
    let scrapers = Scrapers::start(address.clone(), args.scrapers)?;
    let pages = Pages::watch(&address, load, watch)?;
    let began = pair::begin();
    let driven = drive(&connections, &mut deployment, &args, watch, began).await?;
    let scrapes = scrapers.end()?;
    let ended = connections.end().await?;
    let settled = settle(&mut drill, &deployment, &args, load, &ended).await;
    let pair = judge_pair(&mut drill, &deployment, driven.looks, began).await;
    let seen = pages.end()?;
    let mut figures = figures(&args, load, &ended, &seen);
    figures.scrapes = page(&scrapes);
    figures.pair = pair;
    figures.timeline = with_pages(driven.timeline, load, &seen);

    if args.faults_every.is_some() {
        let lags = lags(&driven.behind, load, &seen);
        figures.faults = Recovery::of(&driven.faults, &lags);
        figures.slopes = slopes(&figures.timeline, args.length());
    }

    let steady_span = steady_from(&args).as_secs_f64()..=f64::from(args.seconds);
    (figures.messages_per_second, figures.processes) = steady(&figures.timeline, &steady_span);
    figures.settled_seconds = settled.map(|took| took.as_secs_f64());
    if let Some(counter) = &confirmations {
        figures.counts.confirmations = counter.received.load(Ordering::Relaxed);
    }
    figures.restart = driven.restart;
    judge(&mut drill, &args, load, &figures, &seen);
    let mesh = deployment.mesh.to_string();
    let (since, ended) = (drill.elapsed(), deployment.end().await);
    drill.judge_end("aggregator and broker end on a signal", since, &ended);
    Ok(Report { mesh, fleet: Some(figures), ..Report::new(&drill) })
}

fn load(args: &FleetArgs) -> Result<Load> {
    if args.hostile.saturating_add(args.skewed).saturating_add(args.fast) > args.nodes {
        bail!("--hostile, --skewed and --fast together exceed --nodes");
    }
    let length = args.length();

    for (name, at) in [("--largest", args.largest), ("--restart-nodes", args.restart_nodes)] {
        if at.is_some_and(|at| at >= length) {
            bail!("{name} is not before the end of --seconds");
        }
    }

    let interval_ns = nanos(args.interval);
    let rounds = nanos(length) / interval_ns;
    if rounds == 0 {
        bail!("--interval is longer than --seconds");
    }

    Ok(Load {
        seed: args.seed,
        samples: u64::from(args.samples),
        first_samples: args.first_samples.unwrap_or(args.samples).into(),
        interval_ns,
        rounds,
        leave: args.leave,
        largest_at_ns: args.largest.map(nanos),
        restart_at_ns: args.restart_nodes.map(nanos),
    })
}

/// Receives the confirmations for all nodes that share connections: a broker that delivered none
/// would cost less than a real one.
struct ConfirmationCounter {
    received: Arc<AtomicU64>,
    _bus: Bus,
}

impl ConfirmationCounter {
    async fn open(deployment: &Deployment) -> Result<Self> {
        let bus = observe(deployment.bus_config()).await?;
        let mut listener = bus.listen(format!("{PREFIX}.{}.confirm.*", deployment.mesh));
        let received = Arc::new(AtomicU64::new(0));
        let counted = received.clone();
        tokio::spawn(async move {
            while listener.next().await.is_some() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Self { received, _bus: bus })
    }
}

/// What was recorded of a run.
#[derive(Default)]
struct Driven {
    timeline: Vec<Second>,
    /// How long the oldest message has waited, second by second.
    behind: Vec<Lag>,
    restart: Option<RestartStats>,
    faults: Vec<Fault>,
    looks: Option<PairStats>,
}

/// Records the run row by row until every connection has ended, and lets faults happen.
async fn drive(
    connections: &Connections,
    deployment: &mut Deployment,
    args: &FleetArgs,
    watch: Stopwatch,
    began: u64,
) -> Result<Driven> {
    let mut faults = Faults::of(args);
    let row = if args.length() > LONG { LONG_ROW } else { SECOND };
    let mut ticks = interval(if args.faults_every.is_some() { TURN } else { SECOND });
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let pair = deployment.pair();
    let watched = |api: &Api| Watched::start(api.clone(), row, watch);
    let is_watched = args.pair || args.faults_every.is_some();
    let first = is_watched.then(|| watched(&deployment.api));
    let second = pair.as_ref().map(|pair| watched(&pair.second));
    let looks = pair.map(|pair| Looks::start(pair, faults.clock.clone(), began, args.length()));
    let (mut driven, mut held) = (Driven::default(), None::<Processes<Usage>>);
    let (mut next_second, mut next_row, mut next_line) = (Duration::ZERO, Duration::ZERO, 1);

    while !connections.is_over() || faults.is_on() {
        ticks.tick().await;
        let now = watch.elapsed();
        faults.step(watch, deployment).await?;
        if now < next_second {
            continue;
        }
        next_second += SECOND;
        let counts = connections.counts();
        driven.behind.push(Lag { at: now.as_secs_f64(), seconds: seconds(counts.behind_ns) });
        let used = deployment.usage();

        held = used.map(|used| match held.take() {
            Some(before) => since(used, &before),
            None => used,
        });

        if now >= next_row {
            next_row += row;
            let ledger = |of: &Option<Watched>| of.as_ref().and_then(|one| one.now(now));

            driven.timeline.push(Second {
                at: now.as_secs_f64(),
                made: counts.made,
                acknowledged: counts.acknowledged,
                waiting: counts.waiting,
                behind: seconds(counts.behind_ns),
                ledger: ledger(&first),
                second_ledger: ledger(&second),
                usage: held.take(),
                ..Second::default()
            });
        }

        if now >= SECOND * PROGRESS_EVERY * next_line {
            next_line += 1;
            print_progress(now, args, &counts);
        }
    }

    if let Some(looks) = looks {
        driven.looks = Some(looks.end().await?);
    }
    (driven.faults, driven.restart) = faults.end().await?;
    Ok(driven)
}

/// The pages that probes are looked for in: those of the aggregator that faults do not end.
fn watched_address(deployment: &Deployment, args: &FleetArgs) -> String {
    let pair = deployment.pair().filter(|_| args.faults_every.is_some());
    let api = pair.map_or_else(|| deployment.api.clone(), |pair| pair.second);
    api.url().trim_start_matches("http://").to_owned()
}

/// Compares both aggregators of a pair.
async fn judge_pair(
    drill: &mut Drill,
    deployment: &Deployment,
    looks: Option<PairStats>,
    began: u64,
) -> Option<PairStats> {
    let (pair, mut stats) = (deployment.pair()?, looks?);
    let expectation = Expectation::new(
        "pair equal",
        "both aggregators have the same ledger of each node and the same totals, and of the whole \
         run the same distribution of each operation and group, bucket by bucket; no sample is in a \
         slot more than 20 s from the other's",
    );
    let since = drill.elapsed();
    let compared = stats.compare(&pair, began).await;
    drill.judge(expectation, since, compared.map(|()| stats.look()));
    Some(stats)
}

/// Second by second the longer of two lags: of the broker, and of the pages.
fn lags(behind: &[Lag], load: Load, seen: &Seen) -> Vec<Lag> {
    let shown = |at: f64| seen.shown(load, Duration::from_secs_f64(at)).as_secs_f64();
    behind.iter().map(|lag| Lag { seconds: lag.seconds.max(shown(lag.at)), ..*lag }).collect()
}

fn print_progress(now: Duration, args: &FleetArgs, counts: &SendCounts) {
    eprintln!(
        "{} of {} s: {} messages, {} wait, {:.0} ms behind",
        now.as_secs(),
        args.seconds,
        counts.made,
        counts.waiting,
        seconds(counts.behind_ns) * 1e3
    );
}

/// Polls the aggregator until its ledger equals the fleet's; returns how long that took.
async fn settle(
    drill: &mut Drill,
    deployment: &Deployment,
    args: &FleetArgs,
    load: Load,
    ended: &Ended,
) -> Option<Duration> {
    let expectation = Expectation::new(
        "ledger exact",
        format!(
            "for each node recorded, merged, lost and its newest number as the node counts them, nothing \
             held or missing, within {} s",
            SETTLE_WAIT.as_secs()
        ),
    );

    let span = Span { since: drill.elapsed(), within: SETTLE_WAIT };
    let prefix = load.prefix();

    let one = async |api: &Api| -> Result<Look> {
        // The whole ledger is requested only when nothing is pending: it is large, and rendering it
        // costs the aggregator time that it may need.
        let pending = LedgerSums::read(&api.get("/metrics").await?).pending;
        if pending > 0.0 {
            return Ok(Look::new(false, format!("{pending} messages still to be read")));
        }
        let text = api.get("/api/v1/ledger").await?;
        let page: LedgerPage = serde_json::from_str(&text).context("the ledger cannot be read")?;
        Ok(compare(&ended.nodes, args.leave, &prefix, &page))
    };

    let pair = deployment.pair();
    let look = async || -> Result<Look> {
        let first = one(&deployment.api).await?;
        let Some(pair) = pair.as_ref().filter(|_| first.met) else { return Ok(first) };
        let second = one(&pair.second).await?;
        let seen = format!("{}; the second aggregator: {}", first.seen, second.seen);
        Ok(Look::new(second.met, seen))
    };

    let met = drill.expect(expectation, span, look).await;
    met.then(|| drill.elapsed().saturating_sub(span.since))
}

/// Start of the steady part of a run: after a fifth of it for warm-up, a quarter if it has faults,
/// or after half of what is left after a restart.
fn steady_from(args: &FleetArgs) -> Duration {
    let whole = args.length();
    match args.restart_broker {
        None if args.faults_every.is_some() => whole / 4,
        None => whole / 5,
        Some(at) => {
            let back = at + args.broker_down;
            back + whole.saturating_sub(back) / 2
        }
    }
}

fn figures(args: &FleetArgs, load: Load, ended: &Ended, seen: &Seen) -> FleetStats {
    let counts = ended.counts;
    let mut freshness = Histogram::default();
    seen.freshness.iter().for_each(|took| freshness.record(nanos(*took)));

    FleetStats {
        nodes: args.nodes,
        hostile: args.hostile,
        skewed: args.skewed,
        fast: args.fast,
        restarted: ended.nodes.iter().filter(|node| node.incarnations().count() > 1).count() as u64,
        connections: args.connections,
        secured: args.secured,
        interval_seconds: args.interval.as_secs_f64(),
        seed: args.seed,
        seconds: f64::from(args.seconds),
        counts,
        bytes_per_message: counts.bytes / counts.made.max(1),
        samples: ended.nodes.iter().map(|node| node.ledger().recorded).sum(),
        lost: ended.nodes.iter().map(|node| node.ledger().lost).sum(),
        late: Spread::from(&ended.times.late),
        acknowledgement: Spread::from(&ended.times.answered),
        freshness: Spread::from(&freshness),
        probes_unseen: load.rounds.saturating_sub(freshness.count()),
        metrics: page(&seen.metrics),
        metrics_nodes: page(&seen.nodes),
        ..FleetStats::default()
    }
}

fn page(requests: &Requests) -> Page {
    Page { took: Spread::from(&requests.took), bytes: requests.bytes, failed: requests.failed }
}

/// What the aggregator's pages showed at the end of each second, or since the row before.
fn with_pages(mut timeline: Vec<Second>, load: Load, seen: &Seen) -> Vec<Second> {
    let apart = timeline.windows(2).map(|two| two[1].at - two[0].at).fold(1.0, f64::min);
    let row_seconds = if apart > 5.0 { 10 } else { 1 };
    let (mut glances, mut latest) = (seen.glances.iter().peekable(), Glance::default());

    for second in &mut timeline {
        while let Some(glance) = glances.next_if(|one| one.at.as_secs_f64() <= second.at) {
            latest = *glance;
        }
        second.pending = latest.pending;
        second.limited = latest.limited;
        let at = Duration::from_secs_f64(second.at);
        let shown = (0..row_seconds).map(|back| seen.shown(load, at.saturating_sub(SECOND * back)));
        second.shown = shown.max().unwrap_or_default().as_secs_f64();
    }

    timeline
}

fn judge(drill: &mut Drill, args: &FleetArgs, load: Load, figures: &FleetStats, seen: &Seen) {
    let from = steady_from(args);
    let since = drill.elapsed();
    let expectation = Expectation::new("nothing lost", "every message finds room in its queue");
    let seen_text = format!("{} of {} samples lost", figures.lost, figures.samples);
    drill.judge(expectation, since, Look::new(figures.lost == 0, seen_text));

    match (&figures.restart, args.restart_broker) {
        (Some(restart), _) => restart.judge(drill),
        (None, Some(_)) => RestartStats::default().judge(drill),
        (None, None) => {}
    }

    let until = f64::from(args.seconds);
    let steady = |second: &&Second| second.at >= from.as_secs_f64() && second.at <= until;

    if args.faults_every.is_some() {
        judge_recovery(drill, &figures.faults);
        judge_slopes(drill, &figures.slopes, &figures.faults, args.length());
    }

    let behind: Vec<Duration> = figures
        .timeline
        .iter()
        .filter(steady)
        .map(|second| Duration::from_secs_f64(second.behind))
        .collect();

    if args.faults_every.is_none() {
        level(drill, "the broker keeps up", "the oldest message without an answer", &behind);
    }
    let probes = (0..).zip(&seen.freshness);
    let steady = |round: u64| Duration::from_nanos(load.probe_ns(round)) >= from;
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
        None => drill.skip(expectation, "the run was too short"),
        Some(halves) => {
            let Halves { first, second } = halves;
            let seen = format!("{} ms, then {} ms", first.as_millis(), second.as_millis());
            drill.judge(expectation, since, Look::new(halves.is_level(), seen));
        }
    }
}
