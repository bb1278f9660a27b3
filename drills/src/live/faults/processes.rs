//! Nodes and the aggregator are killed without a chance to say anything, and started again.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_cli::child::until;
use plimsoll_cli::stack::StackOptions;

use super::rig::{Merged, Rig, options};
use crate::live::expectation::Drill;
use crate::live::report::Report;
use crate::live::tally::metric;

/// The station whose node is killed.
const TARGET: usize = 1;
const DEAD: Duration = Duration::from_secs(4);
const READ_WAIT: Duration = Duration::from_secs(10);
/// What a node counts under this reason was in an interval that had not been sealed.
const CRASH: &str = "crash";

fn with_spools(dir: &Path) -> StackOptions {
    StackOptions { spools: Some(dir.join("spools")), ..options(dir) }
}

/// While the broker is away, so that the node dies with messages that it alone has.
pub(super) async fn node_killed(drill: Drill, dir: &Path) -> Result<Report> {
    let mut rig = Rig::start(drill, with_spools(dir)).await?;
    let disturbed = kill_node(&mut rig).await;
    Ok(rig.settle(disturbed, &[CRASH]).await)
}

async fn kill_node(rig: &mut Rig) -> Result<()> {
    let base = rig.merged().await?;
    rig.mesh.stack.broker().kill();
    rig.pass("the broker is dead", DEAD).await;
    hush(rig).await?;
    rig.mesh.stack.kill_node(TARGET);
    rig.mesh.stack.stations()[TARGET].resume_job();
    rig.pass("a node is dead too", DEAD).await;
    rig.mesh.stack.launch_node(TARGET)?;
    rig.mesh.stack.broker().restart().await?;
    recover(rig, &base).await
}

/// What lies in a dead process's socket no ledger can know of, so the job pauses until its
/// node has read all of it.
async fn hush(rig: &Rig) -> Result<()> {
    let station = &rig.mesh.stack.stations()[TARGET];
    station.pause_job();
    let before = Cell::new(-1.0);
    let read = until("the node has read what its job sent", READ_WAIT, async || {
        let now = metric(&station.api, "plimsoll_agent_samples_total").await.ok()?;
        (before.replace(now) >= now).then_some(())
    });
    let read = read.await;
    if read.is_err() {
        station.resume_job();
    }
    read
}

async fn recover(rig: &mut Rig, base: &Merged) -> Result<()> {
    let restarted = rig.drill.elapsed();
    rig.mesh.stack.await_readiness().await.context("after the restart")?;
    rig.expect_recovery(base, restarted).await;
    Ok(())
}

/// Nodes go on into the broker's streams.
pub(super) async fn aggregator_killed(drill: Drill, dir: &Path) -> Result<Report> {
    let mut rig = Rig::start(drill, options(dir)).await?;
    let disturbed = kill_aggregator(&mut rig).await;
    Ok(rig.settle(disturbed, &[]).await)
}

async fn kill_aggregator(rig: &mut Rig) -> Result<()> {
    let base = rig.merged().await?;
    rig.mesh.stack.kill_aggregator();
    rig.pass("the aggregator is dead", DEAD).await;
    rig.mesh.stack.launch_aggregator()?;
    recover(rig, &base).await
}

/// A power cut: the broker's store, the aggregator's state and the node's spool are what is left.
pub(super) async fn all_killed(drill: Drill, dir: &Path) -> Result<Report> {
    let mut rig = Rig::start(drill, with_spools(dir)).await?;
    let disturbed = kill_all(&mut rig).await;
    Ok(rig.settle(disturbed, &[CRASH]).await)
}

async fn kill_all(rig: &mut Rig) -> Result<()> {
    let base = rig.merged().await?;
    hush(rig).await?;
    rig.mesh.stack.broker().kill();
    rig.mesh.stack.kill_node(TARGET);
    rig.mesh.stack.kill_aggregator();
    rig.mesh.stack.stations()[TARGET].resume_job();
    rig.pass("broker, aggregator and a node are dead", DEAD).await;
    rig.mesh.stack.launch_aggregator()?;
    rig.mesh.stack.launch_node(TARGET)?;
    rig.mesh.stack.broker().restart().await?;
    recover(rig, &base).await
}
