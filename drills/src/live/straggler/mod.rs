//! A job of eight ranks on two nodes: one computes longer, and its alert fires with its rank and
//! class, is published, and clears. Before that none is named.
//!
//! Ranks are threads that wait for each other by sleep and barrier; nodes, broker and aggregator
//! are real. The shipped rule judges.
//!
//! DESIGN D3.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use plimsoll_mesh::stack::StackOptions;
use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::summary::{BlamePage, CohortState};

use super::account::Terms;
use super::alerts::ProvokedAlert;
use super::expectation::{Drill, Expectation, Look, Span};
use super::report::Report;
use super::rig::Rig;
use super::settings::{no_budgets_but, options};

mod ranks;

use ranks::{Place, Ranks, STEP};

const RULE: &str = "straggler";
const NODES: usize = 2;
const RANKS: usize = 8;
/// On the second node, as every odd rank.
const SLOW: usize = 5;
const LONGER: Duration = Duration::from_millis(20);
/// 200 blocks of five seconds for eight ranks take 125 s.
const LEARN_WAIT: Duration = Duration::from_secs(240);
/// Ranks that are alike must not be named for as long.
const CONTROL: Duration = Duration::from_secs(60);
/// `aggregator/blame/RESULTS.md`: 95 of 100 at ten steps a second within 22 s.
const FIRE_WAIT: Duration = Duration::from_secs(30);
/// A name ends after 30 bins at the least; 108 s were measured.
const CLEAR_WAIT: Duration = Duration::from_secs(300);

/// What the drill is to miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlantedMiss {
    /// The rank stays as fast as the others: its alert must be missed
    NotSlow,
    /// The rank is slow from the start of the control on: the control must be missed
    SlowControl,
}

/// Options of the drill of a straggler.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct StragglerArgs {
    /// Miss an expectation, to see this drill fail with exit code 6
    #[arg(long, value_enum)]
    pub plant_miss: Option<PlantedMiss>,
}

/// Runs the drill.
///
/// # Errors
/// When the mesh does not start.
pub async fn straggler(args: StragglerArgs, dir: &Path) -> Result<Report> {
    let aggregator_settings = no_budgets_but("");
    let options = StackOptions { nodes: NODES, aggregator_settings, ..options(dir)? };
    let drill = Drill::begin("drill-straggler");
    let disturb = async |rig: &mut Rig| disturb(rig, args).await;
    Rig::run(drill, options, Terms::NOTHING, disturb).await
}

async fn disturb(rig: &mut Rig, args: StragglerArgs) -> Result<()> {
    let stations = rig.nodes().iter().zip(rig.stack.stations());
    let places = stations.map(|(node, of)| (node.clone(), of.socket.clone()));
    let places: Vec<_> = places.cycle().take(RANKS).collect();
    let target = Scope::Node(places[SLOW].0.clone());
    let places = places.into_iter().map(|(node, socket)| Place { node, socket });
    let ranks = Ranks::start(places.collect(), SLOW, LONGER)?;

    let judged = judge(rig, &ranks, target, args).await;
    let mut sent = std::mem::take(&mut rig.fed);
    let stopped = ranks.stop(&mut sent);
    rig.fed = sent;
    judged.and(stopped)
}

async fn judge(
    rig: &mut Rig,
    ranks: &Ranks,
    target: Scope,
    StragglerArgs { plant_miss }: StragglerArgs,
) -> Result<()> {
    let mut alerts = [ProvokedAlert::of_straggler(RULE, STEP, target, SLOW)];
    expect_known(rig).await;

    let since = rig.drill.elapsed();
    ranks.set_slow(plant_miss == Some(PlantedMiss::SlowControl));
    rig.pass("ranks that are alike", CONTROL).await;
    expect_none(rig, since);

    let slowed = rig.drill.elapsed();
    ranks.set_slow(plant_miss != Some(PlantedMiss::NotSlow));
    rig.expect_fired(&mut alerts, Span { since: slowed, within: FIRE_WAIT }).await;

    let calmed = rig.drill.elapsed();
    ranks.set_slow(false);
    rig.expect_cleared(&alerts, Span { since: calmed, within: CLEAR_WAIT }).await;
    rig.judge_alerts(slowed, &alerts);
    Ok(())
}

/// Waits until a rank can be named.
async fn expect_known(rig: &mut Rig) {
    let expected = format!("{RANKS} ranks judged within {} s", LEARN_WAIT.as_secs());
    let span = Span { since: rig.drill.elapsed(), within: LEARN_WAIT };

    let known = async || -> Result<Look> {
        let page = rig.stack.api().get("/api/v1/blame").await.context("no page")?;
        let page: BlamePage = serde_json::from_str(&page)?;
        let cohort = page.cohorts.first().map(|cohort| (cohort.state, cohort.peers));
        Ok(match cohort {
            Some((state, peers)) => {
                let met = (state, peers) == (CohortState::Judged, RANKS as u64);
                Look::new(met, format!("{state:?}, {peers} ranks"))
            }
            None => Look::new(false, "no phases are seen"),
        })
    };

    rig.drill.expect(Expectation::new("ranks are known", expected), span, known).await;
}

fn expect_none(rig: &mut Rig, since: Duration) {
    let expected = format!("no alert fires in {} s", CONTROL.as_secs());
    let fired = rig.notifications.unexpected(since, &[]);
    let seen = if fired.is_empty() { "none".to_owned() } else { fired.join("; ") };
    let look = Look::new(fired.is_empty(), seen);
    rig.drill.judge(Expectation::new("none is named while all are alike", expected), since, look);
}
