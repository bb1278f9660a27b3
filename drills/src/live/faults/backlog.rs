//! A slow, long or stalled link between a node and its broker, made by the proxy: depth passes its
//! marks and comes back, drops at the byte bound are named, a breach that begins while a backlog
//! drains is reported at once, and a long round trip is kept up with.
//!
//! One node; where depth is filled it has short intervals, so that minutes of a usual node pass in
//! seconds. All marks are the default ones, save the byte bound.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_mesh::proxy::{Direction, NetworkConditions, Proxy};
use plimsoll_mesh::stack::StackOptions;
use plimsoll_schemas::alert::{AlertKey, AlertState, Scope};

use super::account::Terms;
use super::feeder::{Feeder, event, ever_new};
use super::rig::{Rig, options, words};
use crate::live::expectation::{Drill, Expectation, Look, Span};
use crate::live::mesh::no_budgets_but;
use crate::live::notifications::built_in_alert;
use crate::live::report::Report;
use crate::live::tally::{DEPTH, metric};
use crate::live::threshold::{expect_cleared, expect_value, planted_miss, shipped_alert};

/// The shortest interval: ten times as many messages as by default.
const SHORT_INTERVAL: &str = "[interval]\nlength_ms = 100\n";
/// The shipped limit of `queue_depth`, and the default mark from which messages are rerouted.
const DEPTH_MARK: f64 = 4_000.0;
/// Some 30 messages are produced a second.
const DEEP_WAIT: Duration = Duration::from_secs(240);
/// Bytes a second of the slow link: a tenth of what the node produces.
const SLOW_BYTES: u64 = 2_000;
const FIRE_WAIT: Duration = Duration::from_secs(30);
const CLEAR_WAIT: Duration = Duration::from_secs(150);
/// A scaled byte bound, which a wide job fills in a few seconds.
const BYTE_BOUND: &str = "[outbox]\nbytes_max = 2097152\ncoalesce_bytes = 1048576\n";
const DROPPING: &str = "plimsoll_agent_dropping";
const OUTBOX_FULL: &str = "outbox_full";
const FULL_WAIT: Duration = Duration::from_secs(120);
/// Bytes a second at which a backlog drains: some three times what the node produces.
const DRAIN_BYTES: u64 = 8_000;
const BACKLOG_MIN: f64 = 20.0;
/// Half of the round trip of the long link.
const LONG_DELAY: Duration = Duration::from_millis(1_500);
/// The most that waits when the node keeps up: six messages are on their way.
const LONG_DEPTH_MAX: f64 = 12.0;
const LONG_WAIT: Duration = Duration::from_secs(60);
const BUDGET: &str = "epoch_hook";
const BUDGET_SAMPLES_MIN: u64 = 20;

async fn start(drill: Drill, dir: &Path, settings: (String, String)) -> Result<Rig> {
    let (node_settings, aggregator_settings) = settings;
    let options = StackOptions {
        nodes: 1,
        through_proxy: true,
        node_settings,
        aggregator_settings,
        ..options(dir)?
    };
    Rig::start(drill, options).await
}

fn slow(bytes_per_second: u64) -> NetworkConditions {
    let up = Direction { bytes_per_second: Some(bytes_per_second), ..Direction::default() };
    NetworkConditions { up, ..NetworkConditions::default() }
}

fn link(rig: &Rig) -> Result<&Proxy> {
    rig.mesh.stack.proxy().context("the mesh has no proxy")
}

/// The alert of a shipped rule about the only node.
fn alert(rig: &Rig, rule: &str) -> AlertKey {
    shipped_alert(rule, Scope::Node(rig.mesh.nodes()[0].clone()))
}

/// Depth past its mark and back, with reroutes and the alert.
pub(super) async fn queue_depth(mut drill: Drill, dir: &Path) -> Result<Report> {
    let rules = format!("{}{}", no_budgets_but(""), planted_miss(&mut drill, "queue_depth"));
    let mut rig = start(drill, dir, (SHORT_INTERVAL.to_owned(), rules)).await?;
    let disturbed = deepen(&mut rig).await;
    link(&rig)?.set(NetworkConditions::default());
    Ok(rig.settle(disturbed, Terms::NOTHING).await)
}

async fn deepen(rig: &mut Rig) -> Result<()> {
    let base = rig.merged().await?;
    let alert = alert(rig, "queue_depth");
    link(rig)?.set(slow(SLOW_BYTES));
    let slowed = rig.drill.elapsed();
    // Events double the messages of each interval.
    let feeder = Feeder::begin(&rig.mesh.stack.stations()[0].socket, event)?;
    let span = Span { since: slowed, within: DEEP_WAIT };
    expect_metric(rig, "depth passes its mark", (DEPTH, DEPTH_MARK), span).await;
    feeder.end()?;
    let span = Span { since: rig.drill.elapsed(), within: FIRE_WAIT };
    let fired = {
        let Rig { drill, mesh, .. } = rig;
        // The alert may be there before the page is read.
        let since = Span { since: slowed, within: span.since + span.within - slowed };
        expect_value(drill, mesh, &alert, AlertState::Firing, since).await
    };
    expect_rerouted(rig, span).await;
    link(rig)?.set(NetworkConditions::default());
    let opened = rig.drill.elapsed();
    rig.expect_recovery(&base, opened).await;
    let Rig { drill, mesh, .. } = rig;
    let span = Span { since: opened, within: CLEAR_WAIT };
    expect_cleared(drill, mesh, (&alert, fired), span).await;
    Ok(())
}

/// Waits until the node's page shows more than a bound.
async fn expect_metric(
    rig: &mut Rig,
    name: &str,
    (series, bound): (&str, f64),
    span: Span,
) -> bool {
    let within = words(span.within);
    let expectation = Expectation::new(name, format!("{series} above {bound} within {within}"));
    let api = &rig.mesh.stack.stations()[0].api;
    let look = async || match metric(api, series).await {
        Ok(value) => Look::new(value > bound, format!("{value}")),
        Err(error) => Look::from(error),
    };
    rig.drill.expect(expectation, span, look).await
}

async fn expect_rerouted(rig: &mut Rig, span: Span) {
    let expectation = Expectation::new("rerouted", "the aggregator counts rerouted messages");
    let mesh = &rig.mesh;
    let look = async || {
        mesh.look(|summary| {
            let rerouted: u64 = summary.nodes.iter().map(|row| row.rerouted).sum();
            Look::new(rerouted > 0, format!("{rerouted} messages"))
        })
        .await
    };
    rig.drill.expect(expectation, span, look).await;
}

/// A stalled link, and a job that fills the byte bound: what is dropped is dropped by name.
pub(super) async fn byte_bound(mut drill: Drill, dir: &Path) -> Result<Report> {
    let rules = format!("{}{}", no_budgets_but(""), planted_miss(&mut drill, "dropped"));
    let mut rig = start(drill, dir, (format!("{SHORT_INTERVAL}{BYTE_BOUND}"), rules)).await?;
    let disturbed = overfill(&mut rig).await;
    link(&rig)?.set(NetworkConditions::default());
    Ok(rig.settle(disturbed, Terms { reasons: &[OUTBOX_FULL], unexplained_max: 0 }).await)
}

async fn overfill(rig: &mut Rig) -> Result<()> {
    let base = rig.merged().await?;
    link(rig)?.set(NetworkConditions { stalled: true, ..NetworkConditions::default() });
    let stalled = rig.drill.elapsed();
    let feeder = Feeder::begin(&rig.mesh.stack.stations()[0].socket, ever_new)?;
    let lost = format!("plimsoll_agent_lost_samples_total{{reason=\"{OUTBOX_FULL}\"}}");
    let span = Span { since: stalled, within: FULL_WAIT };
    expect_metric(rig, "drops are named", (&lost, 0.0), span).await;
    let span = Span { since: rig.drill.elapsed(), within: FIRE_WAIT };
    expect_metric(rig, "dropping", (DROPPING, 0.0), span).await;
    let node = rig.mesh.nodes()[0].clone();
    rig.fed.entry(node).or_default().extend(feeder.end()?);
    link(rig)?.set(NetworkConditions::default());
    let opened = rig.drill.elapsed();
    rig.expect_recovery(&base, opened).await;
    let alert = alert(rig, "dropped");
    let Rig { drill, mesh, .. } = rig;
    let span = Span { since: stalled, within: opened - stalled + FIRE_WAIT };
    let fired = expect_value(drill, mesh, &alert, AlertState::Firing, span).await;
    let span = Span { since: opened, within: CLEAR_WAIT };
    expect_cleared(drill, mesh, (&alert, fired), span).await;
    Ok(())
}

/// A breach that begins while the backlog of a stall drains through a slow link is alerted within a
/// span, by the built-in budget over a window that the few samples of one node fill.
pub(super) async fn fresh_breach(
    mut drill: Drill,
    dir: &Path,
    stall: Duration,
    within: Duration,
) -> Result<Report> {
    let rules = format!(
        "{}[[budget]]\nname = \"{BUDGET}\"\nwindow = \"10s\"\nmin_samples = {BUDGET_SAMPLES_MIN}\n\
         enabled = {}\n",
        no_budgets_but(BUDGET),
        !drill.take_planted_miss()
    );
    let mut rig = start(drill, dir, (String::new(), rules)).await?;
    let disturbed = breach(&mut rig, stall, within).await;
    link(&rig)?.set(NetworkConditions::default());
    Ok(rig.settle(disturbed, Terms::NOTHING).await)
}

/// A long link that has room for all is kept up with, and a backlog behind it drains.
pub(super) async fn long_link(drill: Drill, dir: &Path) -> Result<Report> {
    let mut rig = start(drill, dir, (String::new(), no_budgets_but(""))).await?;
    let disturbed = lengthen(&mut rig).await;
    link(&rig)?.set(NetworkConditions::default());
    Ok(rig.settle(disturbed, Terms::NOTHING).await)
}

async fn lengthen(rig: &mut Rig) -> Result<()> {
    let base = rig.merged().await?;
    let way = Direction { delay: LONG_DELAY, ..Direction::default() };
    let long = NetworkConditions { up: way, down: way, stalled: false };
    link(rig)?.set(long);
    tokio::time::sleep(LONG_WAIT).await;
    expect_shallow(rig, "the node keeps up with a long link", LONG_WAIT).await;

    link(rig)?.set(NetworkConditions { stalled: true, ..long });
    tokio::time::sleep(LONG_WAIT).await;
    link(rig)?.cut();
    link(rig)?.set(long);
    expect_shallow(rig, "a backlog drains through a long link", LONG_WAIT).await;

    link(rig)?.set(NetworkConditions::default());
    let opened = rig.drill.elapsed();
    rig.expect_recovery(&base, opened).await;
    Ok(())
}

/// Waits until no more is held than a long link has on its way.
async fn expect_shallow(rig: &mut Rig, name: &str, within: Duration) {
    let sought = format!("{DEPTH} at most {LONG_DEPTH_MAX} within {}", words(within));
    let span = Span { since: rig.drill.elapsed(), within };
    let api = &rig.mesh.stack.stations()[0].api;
    let look = async || match metric(api, DEPTH).await {
        Ok(value) => Look::new(value <= LONG_DEPTH_MAX, format!("{value}")),
        Err(error) => Look::from(error),
    };
    rig.drill.expect(Expectation::new(name, sought), span, look).await;
}

/// An alert that came after the backlog would show nothing.
async fn judge_backlog(rig: &mut Rig) -> Result<()> {
    let depth = metric(&rig.mesh.stack.stations()[0].api, DEPTH).await?;
    let expectation = Expectation::new(
        "the backlog still drains",
        format!("at least {BACKLOG_MIN} messages wait when the alert is judged"),
    );
    let (since, look) = (rig.drill.elapsed(), Look::new(depth >= BACKLOG_MIN, format!("{depth}")));
    rig.drill.judge(expectation, since, look);
    Ok(())
}

async fn breach(rig: &mut Rig, stall: Duration, within: Duration) -> Result<()> {
    let base = rig.merged().await?;
    link(rig)?.set(NetworkConditions { stalled: true, ..NetworkConditions::default() });
    rig.pass("the link is stalled", stall).await;
    link(rig)?.set(slow(DRAIN_BYTES));
    // The connection was given up meanwhile, and a new one takes a moment.
    rig.mesh.stack.await_readiness().await.context("after the stall")?;
    let begun = rig.drill.elapsed();
    rig.mesh.stack.stations()[0].command("extra-work-ms 30")?;
    let alert = built_in_alert(BUDGET, Scope::Node(rig.mesh.nodes()[0].clone()));
    let span = Span { since: begun, within };
    {
        let Rig { drill, mesh, .. } = rig;
        let firing = AlertState::Firing;
        mesh.expect_notification(drill, &alert, firing, BUDGET_SAMPLES_MIN, span).await;
    }
    judge_backlog(rig).await?;
    rig.mesh.stack.stations()[0].command("extra-work-ms 0")?;
    link(rig)?.set(NetworkConditions::default());
    let opened = rig.drill.elapsed();
    rig.expect_recovery(&base, opened).await;
    Ok(())
}
