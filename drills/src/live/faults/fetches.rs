//! Fetches of kernels become slow on one node: half of them take longer than the built-in limit of
//! 10 ms. The budget's alert fires for the node and, as they are most of the fleet's fetches, for
//! the fleet; both arrive and clear. Every fetch is merged.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use plimsoll_mesh::stack::StackOptions;
use plimsoll_schemas::alert::Scope;

use super::feeder::{Feeder, Line};
use crate::live::account::Terms;
use crate::live::alerts::ProvokedAlert;
use crate::live::expectation::{Drill, Span};
use crate::live::report::Report;
use crate::live::rig::Rig;
use crate::live::settings::{busy, no_budgets_but, soon};

const BUDGET: &str = "kernel_fetch";
const NODES: usize = 2;
const TARGET: usize = 0;
const SAMPLES_MIN: u64 = 100;
/// In a tenth of a second: three times as many as the jobs of both nodes fetch, so that the median
/// is one of these.
const ROUND_FETCHES: usize = 30;
const FETCH_MS: u64 = 25;
const FIRE_WAIT: Duration = Duration::from_secs(30);
/// The window of ten seconds must pass as well.
const CLEAR_WAIT: Duration = Duration::from_secs(45);

pub(super) async fn slow(mut drill: Drill, dir: &Path) -> Result<Report> {
    let is_judged = !drill.take_planted_miss();
    let aggregator_settings = no_budgets_but(BUDGET) + &soon(BUDGET, SAMPLES_MIN, is_judged);
    let options = StackOptions { nodes: NODES, aggregator_settings, ..busy(dir)? };
    let disturb = async |rig: &mut Rig| disturb(rig, is_judged).await;
    Rig::run(drill, options, Terms::NOTHING, disturb).await
}

async fn disturb(rig: &mut Rig, is_judged: bool) -> Result<()> {
    if is_judged {
        rig.expect_steady(BUDGET, SAMPLES_MIN).await;
    }
    let target = rig.nodes()[TARGET].clone();
    let mut alerts = [Scope::Node(target.clone()), Scope::Fleet]
        .map(|scope| ProvokedAlert::of_budget(BUDGET, scope, SAMPLES_MIN));

    let since = rig.drill.elapsed();
    let feeder = Feeder::begin(&rig.stack.stations()[TARGET].socket, slow_fetches)?;
    rig.expect_fired(&mut alerts, Span { since, within: FIRE_WAIT }).await;
    rig.fed.entry(target).or_default().extend(feeder.end()?);
    let calmed = rig.drill.elapsed();
    rig.expect_cleared(&alerts, Span { since: calmed, within: CLEAR_WAIT }).await;
    rig.judge_alerts(since, &alerts);
    Ok(())
}

fn slow_fetches(_round: u64) -> Vec<Line> {
    let text = format!("{BUDGET}{}|ms", format!(":{FETCH_MS}").repeat(ROUND_FETCHES));
    let samples = vec![(BUDGET.to_owned(), FETCH_MS * 1_000_000); ROUND_FETCHES];
    vec![Line { text, samples }]
}
