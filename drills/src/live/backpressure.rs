//! The broker is stopped and resumed: queues grow, nothing is lost or duplicated, depth recovers.
//! Then it falters: it answers, and late.
//!
//! A broker that is stopped for seconds raises no page: its connections are lost, and what waited
//! for a new one is no sample of `publish`. One that falters keeps its connections, and `publish`
//! measures the delay of each acknowledgement. So that budget is breached on every node and in the
//! fleet; a drill in which its alert did not fire would have found a blind spot. It is judged over
//! ten seconds and from 8 samples, since a node sends one message a second. All limits are wide: a
//! busy machine must not breach them without a fault.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use plimsoll_mesh::stack::Station;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::alert::{AlertKey, AlertState};

use super::expectation::{Drill, Expectation, Look, Span};
use super::mesh::{Mesh, wide_limits};
use super::notifications::built_in_alert;
use super::report::Report;
use super::tally::{DEPTH, LATE, MeshCounters, STARTED, metric, of_nodes};

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
/// Interval of progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(3);

/// Options of the backpressure drill.
#[derive(Args, Clone, Copy, Debug)]
pub struct BackpressureArgs {
    /// How long the broker is stopped; from 12 s on some samples arrive too late for 10 s windows
    #[arg(long, value_name = "N", default_value_t = 12,
          value_parser = clap::value_parser!(u16).range(12..=120))]
    pub pause_seconds: u16,
}

/// Runs the drill.
///
/// # Errors
/// When the mesh does not start.
pub async fn backpressure(args: BackpressureArgs, dir: &Path) -> Result<Report> {
    let mut drill = Drill::begin("drill-backpressure");
    let mut mesh = Mesh::start(&drill, dir, &settings()).await?;
    let pause = Duration::from_secs(args.pause_seconds.into());
    let disturbed = disturb(&mut drill, &mut mesh, pause).await;
    // After every outcome: a mesh cannot be drained into a broker that is stopped.
    mesh.stack.broker().resume();
    Ok(mesh.settle(drill, disturbed).await)
}

fn settings() -> String {
    format!(
        "{}[[budget]]\nname = \"{BUDGET}\"\nwindow = \"10s\"\nmin_samples = {SAMPLES_MIN}\n\
         limit = \"{}ms\"\n",
        wide_limits(BUDGET),
        LIMIT.as_millis()
    )
}

async fn disturb(drill: &mut Drill, mesh: &mut Mesh, pause: Duration) -> Result<()> {
    mesh.expect_steady(drill, BUDGET, SAMPLES_MIN).await;
    let before = MeshCounters::take(mesh).await?;

    eprintln!("the broker is stopped");
    mesh.stack.broker().pause();
    let paused = drill.elapsed();
    expect_unready(drill, mesh, paused).await;
    pass(drill, paused, pause).await;
    let during = MeshCounters::take(mesh).await?;
    judge_growth(drill, mesh, (&before, &during), paused);

    eprintln!("the broker goes on");
    mesh.stack.broker().resume();
    let resumed = drill.elapsed();
    listen_again(drill, mesh, resumed).await;
    expect_recovery(drill, mesh, &during, resumed).await;
    judge_late(drill, mesh, &before, (paused, resumed)).await;
    let alerts: Vec<AlertKey> =
        mesh.scopes().into_iter().map(|scope| built_in_alert(BUDGET, scope)).collect();
    expect_alerts(drill, mesh, &alerts).await;
    judge_drops(drill, mesh, resumed).await;
    mesh.judge_alerts(drill, paused, &alerts);
    Ok(())
}

async fn expect_unready(drill: &mut Drill, mesh: &Mesh, paused: Duration) {
    for Station { name, api, .. } in mesh.stack.stations() {
        let expectation = Expectation::new(
            format!("{name} is not ready"),
            format!("/readyz fails within {} s, /healthz does not", UNREADY_WAIT.as_secs()),
        );
        let look = async || {
            let (ready, alive) = (api.is_ready().await, api.get("/healthz").await.is_ok());
            Look::new(!ready && alive, format!("ready {ready}, alive {alive}"))
        };
        let span = Span { since: paused, within: UNREADY_WAIT };
        drill.expect(expectation, span, look).await;
    }
}

/// Lets the fault last.
async fn pass(drill: &Drill, paused: Duration, pause: Duration) {
    loop {
        let passed = drill.elapsed().saturating_sub(paused);
        let left = pause.saturating_sub(passed);
        if left.is_zero() {
            return;
        }
        eprintln!("the broker is stopped: {} s of {} s", passed.as_secs(), pause.as_secs());
        tokio::time::sleep(left.min(PROGRESS_EVERY)).await;
    }
}

fn judge_growth(
    drill: &mut Drill,
    mesh: &Mesh,
    tallies: (&MeshCounters, &MeshCounters),
    paused: Duration,
) {
    let (before, during) = tallies;
    let seconds = drill.elapsed().saturating_sub(paused).as_secs_f64();
    let depth_min = (MESSAGES_PER_SECOND * (seconds - DEPTH_SLACK_SECONDS)).floor();
    let taken_min = (SAMPLES_PER_SECOND_MIN * seconds).floor();
    for (place, station) in mesh.stack.stations().iter().enumerate() {
        let name = &station.name;
        let depth = during.depths[place];
        let expectation = Expectation::new(
            format!("{name} queues"),
            format!("outbox depth of at least {depth_min} messages after {seconds:.0} s"),
        );
        drill.judge(
            expectation,
            paused,
            Look::new(depth >= depth_min, format!("{depth} messages")),
        );
        let taken = during.taken[place] - before.taken[place];
        let expectation = Expectation::new(
            format!("{name} keeps taking samples"),
            format!("at least {taken_min} more meanwhile"),
        );
        drill.judge(expectation, paused, Look::new(taken >= taken_min, format!("{taken} more")));
    }
}

async fn listen_again(drill: &mut Drill, mesh: &mut Mesh, resumed: Duration) {
    let connected = mesh.listen_again(drill).await;
    let seen = connected.as_ref().map_or_else(|e| format!("{e:#}"), |()| "connected".into());
    let expectation = Expectation::new("broker answers", "a new connection within 10 s");
    drill.judge(expectation, resumed, Look::new(connected.is_ok(), seen));
}

async fn expect_recovery(drill: &mut Drill, mesh: &Mesh, during: &MeshCounters, resumed: Duration) {
    let span = Span { since: resumed, within: RECOVER_WAIT };
    let within = RECOVER_WAIT.as_secs();
    for Station { name, api, .. } in mesh.stack.stations() {
        let expectation = Expectation::new(
            format!("{name} recovers"),
            format!("ready, depth of at most {DEPTH_CALM_MAX}, within {within} s"),
        );
        let look = async || calm(api).await.unwrap_or_else(Look::from);
        drill.expect(expectation, span, look).await;
    }
    let expectation = Expectation::new(
        "aggregator catches up",
        format!("all recorded before is merged within {within} s, by the same process"),
    );
    let look = async || {
        caught_up(mesh, during).await.unwrap_or_else(|error| Look::new(false, format!("{error:#}")))
    };
    drill.expect(expectation, span, look).await;
}

async fn calm(api: &Api) -> Result<Look> {
    let (depth, ready) = (metric(api, DEPTH).await?, api.is_ready().await);
    Ok(Look::new(ready && depth <= DEPTH_CALM_MAX, format!("ready {ready}, depth {depth}")))
}

async fn caught_up(mesh: &Mesh, during: &MeshCounters) -> Result<Look> {
    let started = metric(mesh.stack.api(), STARTED).await?;
    let same = (started - during.aggregator_started).abs() < f64::EPSILON;
    let mut behind = Vec::new();
    for (node, recorded) in mesh.nodes().iter().zip(&during.recorded) {
        let series = format!("plimsoll_node_merged_samples_total{{node=\"{node}\"}}");
        let merged = metric(mesh.stack.api(), &series).await?;
        if merged < *recorded {
            behind.push(format!("{node} {merged} of {recorded}"));
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
async fn expect_alerts(drill: &mut Drill, mesh: &mut Mesh, alerts: &[AlertKey]) {
    eprintln!("the broker falters");
    let faltering = mesh.stack.broker().falter(FALTERS, ANSWERS);
    let span = Span { since: drill.elapsed(), within: FIRE_WAIT };
    let mut fired = Vec::new();
    for alert in alerts {
        let state = AlertState::Firing;
        fired.push(mesh.expect_notification(drill, alert, state, SAMPLES_MIN, span).await);
    }
    faltering.abort();
    let _aborted = faltering.await;
    mesh.stack.broker().resume();
    eprintln!("the broker answers in time");
    let span = Span { since: drill.elapsed(), within: CLEAR_WAIT };
    for (alert, fired) in alerts.iter().zip(fired) {
        mesh.expect_clear(drill, (alert, fired), SAMPLES_MIN, span).await;
    }
}

async fn judge_drops(drill: &mut Drill, mesh: &Mesh, resumed: Duration) {
    let expectation = Expectation::new("nothing dropped", "no message dropped or refused anywhere");
    drill.judge(expectation, resumed, drops(mesh).await.unwrap_or_else(Look::from));
}

async fn drops(mesh: &Mesh) -> Result<Look> {
    let mut sum = 0.0;
    for outcome in ["dropped", "refused"] {
        let series = format!("plimsoll_agent_messages_total{{outcome=\"{outcome}\"}}");
        sum += of_nodes(mesh, &series).await?.iter().sum::<f64>();
    }
    Ok(Look::new(sum == 0.0, format!("{sum} messages")))
}

/// Samples taken in the pause at least ten seconds before the broker continued are always late.
async fn judge_late(
    drill: &mut Drill,
    mesh: &Mesh,
    before: &MeshCounters,
    (paused, resumed): (Duration, Duration),
) {
    let late_seconds = resumed.saturating_sub(paused).as_secs_f64() - LATE_AFTER_SECONDS;
    let nodes: f64 = mesh.nodes().iter().map(|_| 1.0).sum();
    let late_min = (nodes * SAMPLES_PER_SECOND_MIN * late_seconds).floor();
    let look = metric(mesh.stack.api(), LATE).await.map_or_else(Look::from, |late| {
        let more = late - before.late;
        Look::new(more >= late_min, format!("{more} samples"))
    });
    let expectation = Expectation::new(
        "late samples are counted",
        format!("at least {late_min} came {LATE_AFTER_SECONDS} s late or more, and are counted"),
    );
    drill.judge(expectation, resumed, look);
}
