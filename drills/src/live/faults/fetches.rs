//! Fetches of kernels become slow on one node: half of them take longer than the built-in limit of
//! 10 ms. The budget's alert fires for the node and, as they are most of the fleet's fetches, for
//! the fleet; both arrive and clear. Every fetch is merged.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use plimsoll_mesh::stack::StackOptions;
use plimsoll_schemas::alert::{AlertState, Scope};

use super::account::Terms;
use super::feeder::{Feeder, Line};
use super::rig::{Rig, options};
use crate::live::expectation::{Drill, Span};
use crate::live::mesh::no_budgets_but;
use crate::live::notifications::built_in_alert;
use crate::live::report::Report;

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
    let aggregator_settings = format!(
        "{}[[budget]]\nname = \"{BUDGET}\"\nwindow = \"10s\"\nmin_samples = {SAMPLES_MIN}\n\
         enabled = {}\n",
        no_budgets_but(BUDGET),
        is_judged
    );
    let options = StackOptions { nodes: NODES, aggregator_settings, ..options(dir)? };
    let mut rig = Rig::start(drill, options).await?;
    let disturbed = disturb(&mut rig, is_judged).await;
    Ok(rig.settle(disturbed, Terms::NOTHING).await)
}

async fn disturb(rig: &mut Rig, is_judged: bool) -> Result<()> {
    let Rig { drill, mesh, fed } = rig;
    if is_judged {
        mesh.expect_steady(drill, BUDGET, SAMPLES_MIN).await;
    }
    let target = mesh.nodes()[TARGET].clone();
    let alerts =
        [Scope::Node(target.clone()), Scope::Fleet].map(|scope| built_in_alert(BUDGET, scope));
    let since = drill.elapsed();
    let feeder = Feeder::begin(&mesh.stack.stations()[TARGET].socket, slow_fetches)?;
    let mut fired = Vec::new();
    for alert in &alerts {
        let span = Span { since, within: FIRE_WAIT };
        let state = AlertState::Firing;
        fired.push(mesh.expect_notification(drill, alert, state, SAMPLES_MIN, span).await);
    }
    fed.entry(target).or_default().extend(feeder.end()?);
    let calmed = drill.elapsed();
    for (alert, fired) in alerts.iter().zip(fired) {
        let span = Span { since: calmed, within: CLEAR_WAIT };
        mesh.expect_clear(drill, (alert, fired), SAMPLES_MIN, span).await;
    }
    mesh.judge_alerts(drill, since, &alerts);
    Ok(())
}

fn slow_fetches(_round: u64) -> Vec<Line> {
    let text = format!("{BUDGET}{}|ms", format!(":{FETCH_MS}").repeat(ROUND_FETCHES));
    let samples = vec![(BUDGET.to_owned(), FETCH_MS * 1_000_000); ROUND_FETCHES];
    vec![Line { text, samples }]
}
