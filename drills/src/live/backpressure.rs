//! The broker is stopped and resumed: queues grow, nothing is lost or duplicated, depth recovers.
//! Then it falters: it answers, and late.
//!
//! A broker that is stopped for seconds raises no page: its connections are lost, and what waited
//! for a new one is no sample of `publish`. One that falters keeps its connections, and `publish`
//! measures the delay of each acknowledgement. So that budget is breached on every node and in the
//! fleet; a drill in which its alert did not fire would have found a blind spot. It is judged over
//! ten seconds and from 8 samples, since a node sends one message a second. All limits are wide: a
//! busy machine must not breach them without a fault.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use plimsoll_mesh::stack::{Stack, StackOptions, Station};

use super::account::Terms;
use super::alerts::ProvokedAlert;
use super::expectation::{Drill, Expectation, Look, Span};
use super::report::Report;
use super::rig::Rig;
use super::settings::{options, soon, wide_limits};
use super::tally::{DEPTH, metric, of_nodes};

/// Samples that reached the aggregator too late for its shortest window.
const LATE: &str = "plimsoll_aggregator_late_samples_total";
/// Identifies a process; seconds since 1970.
const STARTED: &str = "process_start_time_seconds";
const BUDGET: &str = "publish";
const SAMPLES_MIN: u64 = 8;
/// Ten times the built-in limit. While the broker falters, a third of the messages takes longer.
const LIMIT: Duration = Duration::from_millis(250);
/// How long a broker that falters does not answer: less than the half second of `broker_slow`.
const FALTERS: Duration = Duration::from_millis(425);
/// How long it answers in between. Both together do not divide a second: nodes publish at a fixed
/// time of each second, which must not always fall on the same moment of a stop.
const ANSWERS: Duration = Duration::from_millis(100);

/// A node holds latencies, hardware and its bus report of each second apart until it sends them.
const MESSAGES_PER_SECOND: f64 = 3.0;
/// Intervals that straddle the ends of the pause, and a sensor that is late.
const DEPTH_SLACK_SECONDS: f64 = 2.0;
/// Half of what two operations at 20 epochs a second make, for machines that have other work.
const SAMPLES_PER_SECOND_MIN: f64 = 20.0;
const DEPTH_CALM_MAX: f64 = 3.0;
/// Age from which samples count as late, in seconds.
const LATE_AFTER_SECONDS: f64 = 10.0;
/// A probe every second and three seconds of silence, with room to spare.
const UNREADY_WAIT: Duration = Duration::from_secs(6);
const RECOVER_WAIT: Duration = Duration::from_secs(30);
const FIRE_WAIT: Duration = Duration::from_secs(30);
/// A breach ends by as much evidence as it took: 27 samples in time end one in which 4 of 10 were
/// late, 64 one in which 2 of 10 were, at one sample a second. So few samples vary that much.
const CLEAR_WAIT: Duration = Duration::from_secs(120);
/// Options of the backpressure drill.
#[derive(Args, Clone, Copy, Debug)]
pub struct BackpressureArgs {
    /// How long the broker is stopped; from 12 s on some samples arrive too late for 10 s windows
    #[arg(long, value_name = "N", default_value_t = 12,
          value_parser = clap::value_parser!(u16).range(12..=120))]
    pub pause_seconds: u16,
}

/// The counters at one time; a value for each node, in the order of the mesh's nodes.
#[derive(Clone, Debug, PartialEq)]
struct MeshCounters {
    taken: Vec<f64>,
    /// Of those, samples put into snapshots.
    recorded: Vec<f64>,
    /// Messages in the outbox.
    depths: Vec<f64>,
    /// When the aggregator's process was started.
    aggregator_started: f64,
    /// Samples that came late.
    late: f64,
}

impl MeshCounters {
    async fn take(stack: &Stack) -> Result<Self> {
        let aggregator = stack.api();
        Ok(Self {
            taken: of_nodes(stack, "plimsoll_agent_samples_total").await?,
            recorded: of_nodes(stack, "plimsoll_agent_recorded_samples_total").await?,
            depths: of_nodes(stack, DEPTH).await?,
            aggregator_started: metric(aggregator, STARTED).await?,
            late: metric(aggregator, LATE).await?,
        })
    }
}

/// Runs the drill.
///
/// # Errors
/// When the mesh does not start.
pub async fn backpressure(args: BackpressureArgs, dir: &Path) -> Result<Report> {
    let drill = Drill::begin("drill-backpressure");
    let options = StackOptions { aggregator_settings: settings(), ..options(dir)? };
    let pause = Duration::from_secs(args.pause_seconds.into());
    Rig::run(drill, options, Terms::NOTHING, async |rig: &mut Rig| disturb(rig, pause).await).await
}

fn settings() -> String {
    let (limits, budget) = (wide_limits(BUDGET), soon(BUDGET, SAMPLES_MIN, true));
    format!("{limits}{budget}limit = \"{}ms\"\n", LIMIT.as_millis())
}

async fn disturb(rig: &mut Rig, pause: Duration) -> Result<()> {
    rig.expect_steady(BUDGET, SAMPLES_MIN).await;
    let before = MeshCounters::take(&rig.stack).await?;

    rig.stack.broker().pause();
    let paused = rig.drill.elapsed();
    expect_unready(rig, paused).await;
    let left = pause.saturating_sub(rig.drill.elapsed().saturating_sub(paused));
    rig.pass("the broker is stopped", left).await;
    let during = MeshCounters::take(&rig.stack).await?;
    judge_growth(rig, &before, &during, paused);

    eprintln!("the broker goes on");
    rig.stack.broker().resume();
    let resumed = rig.drill.elapsed();
    let connected = rig.listen_again().await;
    let expectation = Expectation::new("broker answers", "a new connection within 10 s");
    rig.drill.judge(expectation, resumed, Look::of(&connected, "connected"));
    expect_recovery(rig, &during, resumed).await;
    judge_late(rig, &before, paused..resumed).await;

    let alert = |scope| ProvokedAlert::of_budget(BUDGET, scope, SAMPLES_MIN);
    let mut alerts: Vec<ProvokedAlert> = rig.scopes().into_iter().map(alert).collect();
    expect_alerts(rig, &mut alerts).await;
    let expectation = Expectation::new("nothing dropped", "no message dropped or refused anywhere");
    rig.drill.judge(expectation, resumed, drops(&rig.stack).await);
    rig.judge_alerts(paused, &alerts);
    Ok(())
}

async fn expect_unready(rig: &mut Rig, paused: Duration) {
    for Station { name, api, .. } in rig.stack.stations() {
        let expectation = Expectation::new(
            format!("{name} is not ready"),
            format!("/readyz fails within {} s, /healthz does not", UNREADY_WAIT.as_secs()),
        );
        let look = async || -> Result<Look> {
            let (ready, alive) = (api.is_ready().await, api.get("/healthz").await.is_ok());
            Ok(Look::new(!ready && alive, format!("ready {ready}, alive {alive}")))
        };
        let span = Span { since: paused, within: UNREADY_WAIT };
        rig.drill.expect(expectation, span, look).await;
    }
}

fn judge_growth(rig: &mut Rig, before: &MeshCounters, during: &MeshCounters, paused: Duration) {
    let seconds = rig.drill.elapsed().saturating_sub(paused).as_secs_f64();
    let depth_min = (MESSAGES_PER_SECOND * (seconds - DEPTH_SLACK_SECONDS)).floor();
    let taken_min = (SAMPLES_PER_SECOND_MIN * seconds).floor();

    for (place, Station { name, .. }) in rig.stack.stations().iter().enumerate() {
        let depth = during.depths[place];
        let expectation = Expectation::new(
            format!("{name} queues"),
            format!("outbox depth of at least {depth_min} messages after {seconds:.0} s"),
        );

        let look = Look::new(depth >= depth_min, format!("{depth} messages"));
        rig.drill.judge(expectation, paused, look);

        let taken = during.taken[place] - before.taken[place];

        let expectation = Expectation::new(
            format!("{name} keeps taking samples"),
            format!("at least {taken_min} more meanwhile"),
        );

        let look = Look::new(taken >= taken_min, format!("{taken} more"));
        rig.drill.judge(expectation, paused, look);
    }
}

async fn expect_recovery(rig: &mut Rig, during: &MeshCounters, resumed: Duration) {
    let span = Span { since: resumed, within: RECOVER_WAIT };
    let within = RECOVER_WAIT.as_secs();

    for Station { name, api, .. } in rig.stack.stations() {
        let expectation = Expectation::new(
            format!("{name} recovers"),
            format!("ready, depth of at most {DEPTH_CALM_MAX}, within {within} s"),
        );

        let look = async || -> Result<Look> {
            let (depth, ready) = (metric(api, DEPTH).await?, api.is_ready().await);
            let calm = ready && depth <= DEPTH_CALM_MAX;
            Ok(Look::new(calm, format!("ready {ready}, depth {depth}")))
        };

        rig.drill.expect(expectation, span, look).await;
    }

    let expectation = Expectation::new(
        "aggregator catches up",
        format!("all recorded before is merged within {within} s, by the same process"),
    );

    rig.drill.expect(expectation, span, async || caught_up(&rig.stack, during).await).await;
}

async fn caught_up(stack: &Stack, during: &MeshCounters) -> Result<Look> {
    let started = metric(stack.api(), STARTED).await?;
    let same = (started - during.aggregator_started).abs() < f64::EPSILON;
    let mut behind = Vec::new();

    for (Station { name, .. }, recorded) in stack.stations().iter().zip(&during.recorded) {
        let series = format!("plimsoll_node_merged_samples_total{{node=\"{name}\"}}");
        let merged = metric(stack.api(), &series).await?;
        if merged < *recorded {
            behind.push(format!("{name} {merged} of {recorded}"));
        }
    }

    let seen = match (behind.is_empty(), same) {
        (true, true) => "all merged, same process".to_owned(),
        (true, false) => "all merged, by another process".to_owned(),
        (false, _) => format!("merged {}", behind.join(", ")),
    };

    Ok(Look::new(behind.is_empty() && same, seen))
}

/// The broker falters until every alert fires.
async fn expect_alerts(rig: &mut Rig, alerts: &mut [ProvokedAlert]) {
    eprintln!("the broker falters");
    let faltering = rig.stack.broker().falter(FALTERS, ANSWERS);
    let span = Span { since: rig.drill.elapsed(), within: FIRE_WAIT };
    rig.expect_fired(alerts, span).await;
    faltering.abort();
    let _aborted = faltering.await;
    rig.stack.broker().resume();
    eprintln!("the broker answers in time");
    let span = Span { since: rig.drill.elapsed(), within: CLEAR_WAIT };
    rig.expect_cleared(alerts, span).await;
}

async fn drops(stack: &Stack) -> Result<Look> {
    let mut sum = 0.0;
    for outcome in ["dropped", "refused"] {
        let series = format!("plimsoll_agent_messages_total{{outcome=\"{outcome}\"}}");
        sum += of_nodes(stack, &series).await?.iter().sum::<f64>();
    }
    Ok(Look::new(sum == 0.0, format!("{sum} messages")))
}

/// Samples taken in the pause at least ten seconds before the broker continued are always late.
async fn judge_late(rig: &mut Rig, before: &MeshCounters, pause: Range<Duration>) {
    let Range { start: paused, end: resumed } = pause;
    let late_seconds = resumed.saturating_sub(paused).as_secs_f64() - LATE_AFTER_SECONDS;
    let nodes: f64 = rig.nodes().iter().map(|_| 1.0).sum();
    let late_min = (nodes * SAMPLES_PER_SECOND_MIN * late_seconds).floor();
    let look = metric(rig.stack.api(), LATE).await.map(|late| {
        let more = late - before.late;
        Look::new(more >= late_min, format!("{more} samples"))
    });
    let expectation = Expectation::new(
        "late samples are counted",
        format!("at least {late_min} came {LATE_AFTER_SECONDS} s late or more, and are counted"),
    );
    rig.drill.judge(expectation, resumed, look);
}
