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
use plimsoll_schemas::alert::Scope;

use super::feeder::{Feeder, event, ever_new};
use crate::live::account::Terms;
use crate::live::alerts::ProvokedAlert;
use crate::live::expectation::{Drill, Expectation, Look, Span};
use crate::live::report::Report;
use crate::live::rig::{Merged, Rig, look, words};
use crate::live::settings::{busy, no_budgets_but, planted_miss, soon};
use crate::live::tally::{DEPTH, metric};

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
/// What the byte bound may cost.
const OUTBOX_FULL: Terms = Terms { reasons: &["outbox_full"], unexplained_max: 0 };
const LOST: &str = "plimsoll_agent_lost_samples_total{reason=\"outbox_full\"}";
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

/// One node behind a proxy.
fn options(dir: &Path, node_settings: &str, rules: String) -> Result<StackOptions> {
    let (node_settings, aggregator_settings) = (node_settings.to_owned(), rules);
    let usual = busy(dir)?;
    Ok(StackOptions { nodes: 1, through_proxy: true, node_settings, aggregator_settings, ..usual })
}

fn slow(bytes_per_second: u64) -> NetworkConditions {
    let up = Direction { bytes_per_second: Some(bytes_per_second), ..Direction::default() };
    NetworkConditions { up, ..NetworkConditions::default() }
}

fn stalled(link: NetworkConditions) -> NetworkConditions {
    NetworkConditions { stalled: true, ..link }
}

fn link(rig: &Rig) -> Result<&Proxy> {
    rig.stack.proxy().context("the mesh has no proxy")
}

/// The alert of a shipped rule about the only node.
fn alert(rig: &Rig, rule: &str) -> [ProvokedAlert; 1] {
    [ProvokedAlert::of_rule(rule, Scope::Node(rig.nodes()[0].clone()))]
}

/// Opens the link, and waits until the mesh has recovered.
async fn open(rig: &mut Rig, base: &Merged) -> Result<Duration> {
    link(rig)?.set(NetworkConditions::default());
    let opened = rig.drill.elapsed();
    rig.expect_recovery(base, opened).await;
    Ok(opened)
}

/// What a series must come to.
#[derive(Clone, Copy)]
enum Bound {
    Above(f64),
    AtMost(f64),
}

/// Waits until a series of the node's page does.
async fn expect_metric(rig: &mut Rig, name: &str, series: &str, bound: Bound, span: Span) {
    let sought = match bound {
        Bound::Above(bound) => format!("above {bound}"),
        Bound::AtMost(bound) => format!("at most {bound}"),
    };

    let within = words(span.within);
    let expectation = Expectation::new(name, format!("{series} {sought} within {within}"));
    let api = &rig.stack.stations()[0].api;

    let look = async || -> Result<Look> {
        let value = metric(api, series).await?;
        let met = match bound {
            Bound::Above(bound) => value > bound,
            Bound::AtMost(bound) => value <= bound,
        };
        Ok(Look::new(met, format!("{value}")))
    };

    rig.drill.expect(expectation, span, look).await;
}

/// Depth past its mark and back, with reroutes and the alert.
pub(super) async fn queue_depth(mut drill: Drill, dir: &Path) -> Result<Report> {
    let rules = format!("{}{}", no_budgets_but(""), planted_miss(&mut drill, "queue_depth"));
    Rig::run(drill, options(dir, SHORT_INTERVAL, rules)?, Terms::NOTHING, deepen).await
}

async fn deepen(rig: &mut Rig) -> Result<()> {
    let base = rig.merged().await?;
    let mut alert = alert(rig, "queue_depth");
    link(rig)?.set(slow(SLOW_BYTES));
    let slowed = rig.drill.elapsed();
    // Events double the messages of each interval.
    let feeder = Feeder::begin(&rig.stack.stations()[0].socket, event)?;
    let span = Span { since: slowed, within: DEEP_WAIT };
    expect_metric(rig, "depth passes its mark", DEPTH, Bound::Above(DEPTH_MARK), span).await;
    feeder.end()?;

    let deep = rig.drill.elapsed();
    // The alert may be there before the page is read.
    let within = deep + FIRE_WAIT - slowed;
    rig.expect_fired(&mut alert, Span { since: slowed, within }).await;
    expect_rerouted(rig, Span { since: deep, within: FIRE_WAIT }).await;

    let opened = open(rig, &base).await?;
    rig.expect_cleared(&alert, Span { since: opened, within: CLEAR_WAIT }).await;
    Ok(())
}

async fn expect_rerouted(rig: &mut Rig, span: Span) {
    let expectation = Expectation::new("rerouted", "the aggregator counts rerouted messages");
    let rerouted = async || {
        look(&rig.stack, |summary| {
            let rerouted: u64 = summary.nodes.iter().map(|row| row.rerouted).sum();
            Look::new(rerouted > 0, format!("{rerouted} messages"))
        })
        .await
    };
    rig.drill.expect(expectation, span, rerouted).await;
}

/// A stalled link, and a job that fills the byte bound: what is dropped is dropped by name.
pub(super) async fn byte_bound(mut drill: Drill, dir: &Path) -> Result<Report> {
    let rules = format!("{}{}", no_budgets_but(""), planted_miss(&mut drill, "dropped"));
    let settings = format!("{SHORT_INTERVAL}{BYTE_BOUND}");
    Rig::run(drill, options(dir, &settings, rules)?, OUTBOX_FULL, overfill).await
}

async fn overfill(rig: &mut Rig) -> Result<()> {
    let base = rig.merged().await?;
    link(rig)?.set(stalled(NetworkConditions::default()));
    let since = rig.drill.elapsed();
    let feeder = Feeder::begin(&rig.stack.stations()[0].socket, ever_new)?;
    let span = Span { since, within: FULL_WAIT };
    expect_metric(rig, "drops are named", LOST, Bound::Above(0.0), span).await;
    let span = Span { since: rig.drill.elapsed(), within: FIRE_WAIT };
    expect_metric(rig, "dropping", DROPPING, Bound::Above(0.0), span).await;
    let node = rig.nodes()[0].clone();
    rig.fed.entry(node).or_default().extend(feeder.end()?);

    let opened = open(rig, &base).await?;
    let mut alert = alert(rig, "dropped");
    rig.expect_fired(&mut alert, Span { since, within: opened - since + FIRE_WAIT }).await;
    rig.expect_cleared(&alert, Span { since: opened, within: CLEAR_WAIT }).await;
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
    let budget = soon(BUDGET, BUDGET_SAMPLES_MIN, !drill.take_planted_miss());
    let options = options(dir, "", no_budgets_but(BUDGET) + &budget)?;
    let disturb = async |rig: &mut Rig| breach(rig, stall, within).await;
    Rig::run(drill, options, Terms::NOTHING, disturb).await
}

async fn breach(rig: &mut Rig, stall: Duration, within: Duration) -> Result<()> {
    let base = rig.merged().await?;
    link(rig)?.set(stalled(NetworkConditions::default()));
    rig.pass("the link is stalled", stall).await;
    link(rig)?.set(slow(DRAIN_BYTES));
    // The connection was given up meanwhile, and a new one takes a moment.
    rig.stack.await_readiness().await.context("after the stall")?;

    let begun = rig.drill.elapsed();
    rig.stack.stations()[0].command("extra-work-ms 30")?;
    let scope = Scope::Node(rig.nodes()[0].clone());
    let mut alert = [ProvokedAlert::of_budget(BUDGET, scope, BUDGET_SAMPLES_MIN)];
    rig.expect_fired(&mut alert, Span { since: begun, within }).await;
    judge_backlog(rig).await?;
    rig.stack.stations()[0].command("extra-work-ms 0")?;
    open(rig, &base).await.map(drop)
}

/// An alert that came after the backlog would show nothing.
async fn judge_backlog(rig: &mut Rig) -> Result<()> {
    let depth = metric(&rig.stack.stations()[0].api, DEPTH).await?;
    let expectation = Expectation::new(
        "the backlog still drains",
        format!("at least {BACKLOG_MIN} messages wait when the alert is judged"),
    );
    let (since, look) = (rig.drill.elapsed(), Look::new(depth >= BACKLOG_MIN, format!("{depth}")));
    rig.drill.judge(expectation, since, look);
    Ok(())
}

/// A long link that has room for all is kept up with, and a backlog behind it drains.
pub(super) async fn long_link(drill: Drill, dir: &Path) -> Result<Report> {
    Rig::run(drill, options(dir, "", no_budgets_but(""))?, Terms::NOTHING, lengthen).await
}

async fn lengthen(rig: &mut Rig) -> Result<()> {
    let base = rig.merged().await?;
    let way = Direction { delay: LONG_DELAY, ..Direction::default() };
    let long = NetworkConditions { up: way, down: way, stalled: false };
    link(rig)?.set(long);
    tokio::time::sleep(LONG_WAIT).await;
    expect_shallow(rig, "the node keeps up with a long link").await;

    link(rig)?.set(stalled(long));
    tokio::time::sleep(LONG_WAIT).await;
    link(rig)?.cut();
    link(rig)?.set(long);
    expect_shallow(rig, "a backlog drains through a long link").await;
    open(rig, &base).await.map(drop)
}

/// Waits until no more is held than a long link has on its way.
async fn expect_shallow(rig: &mut Rig, name: &str) {
    let span = Span { since: rig.drill.elapsed(), within: LONG_WAIT };
    expect_metric(rig, name, DEPTH, Bound::AtMost(LONG_DEPTH_MAX), span).await;
}
