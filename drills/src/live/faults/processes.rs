//! Nodes and the aggregator are killed (SIGKILL) and started again.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_clock::Stopwatch;
use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::StackOptions;

use super::account::Terms;
use super::rig::{Merged, Rig, options};
use crate::live::expectation::{Drill, Expectation, Look};
use crate::live::report::Report;
use crate::live::tally::metric;

/// The station whose node is killed.
const TARGET: usize = 1;
const DEAD: Duration = Duration::from_secs(4);
const READ_WAIT: Duration = Duration::from_secs(10);
/// The loss reason for samples of an interval that had not been closed.
pub(super) const CRASH: &[&str] = &["crash"];
/// A node notes every 100 ms how many samples its open interval has. Samples after the last note,
/// or in its socket, are lost without a reason. They are never more than the interval has: 100
/// samples at 50 epochs a second, however slow the disk is.
const UNNOTED_MAX: u64 = 100;
/// Anonymous clients are mapped to this user, who may not receive confirmations.
const DEAFENING: &str = "authorization: { users: [ { user: mesh, password: x, permissions: {
    subscribe: { deny: \"plimsoll.v1.drill.confirm.>\" } } } ] }
no_auth_user: mesh
";
const DUPLICATES: &str = "plimsoll_aggregator_duplicate_snapshots_total";
/// Longer than the time between two notes.
const QUIET: Duration = Duration::from_millis(500);

fn with_spools(dir: &Path) -> Result<StackOptions> {
    Ok(StackOptions { spools: Some(dir.join("spools")), ..options(dir)? })
}

/// While the broker is away, so that the node dies with messages that it alone has, and in the
/// middle of its job's work.
pub(super) async fn node_killed(drill: Drill, dir: &Path) -> Result<Report> {
    let mut rig = Rig::start(drill, with_spools(dir)?).await?;
    let disturbed = kill_node(&mut rig).await;
    Ok(rig.settle(disturbed, Terms { reasons: CRASH, unexplained_max: UNNOTED_MAX }).await)
}

async fn kill_node(rig: &mut Rig) -> Result<()> {
    rig.mesh.stack.broker().kill();
    rig.pass("the broker is dead", DEAD).await;
    rig.mesh.stack.kill_node(TARGET);
    rig.pass("a node is dead too", DEAD).await;
    let base = rig.merged().await?;
    rig.mesh.stack.launch_node(TARGET)?;
    rig.mesh.stack.broker().restart().await?;
    recover(rig, &base).await
}

/// No ledger counts samples in a dead process's socket, or samples after its last note. So the job
/// pauses until its node has read and noted all of them.
pub(super) async fn hush(rig: &Rig, place: usize) -> Result<()> {
    let station = &rig.mesh.stack.stations()[place];
    station.pause_job();
    let before = Cell::new((-1.0, Stopwatch::start()));
    let noted = until("the node has noted what its job sent", READ_WAIT, async || {
        let now = metric(&station.api, "plimsoll_agent_samples_total").await.ok()?;
        let (seen, since) = before.get();
        if now > seen {
            before.set((now, Stopwatch::start()));
        }
        (now <= seen && since.elapsed() >= QUIET).then_some(())
    });
    let noted = noted.await;
    if noted.is_err() {
        station.resume_job();
    }
    noted
}

async fn recover(rig: &mut Rig, base: &Merged) -> Result<()> {
    let restarted = rig.drill.elapsed();
    rig.mesh.stack.await_readiness().await.context("after the restart")?;
    rig.expect_recovery(base, restarted).await;
    Ok(())
}

/// Nodes continue to publish to the broker's streams.
pub(super) async fn aggregator_killed(drill: Drill, dir: &Path) -> Result<Report> {
    let mut rig = Rig::start(drill, options(dir)?).await?;
    let disturbed = kill_aggregator(&mut rig).await;
    Ok(rig.settle(disturbed, Terms::NOTHING).await)
}

async fn kill_aggregator(rig: &mut Rig) -> Result<()> {
    let base = rig.merged().await?;
    rig.mesh.stack.kill_aggregator();
    rig.pass("the aggregator is dead", DEAD).await;
    rig.mesh.stack.launch_aggregator()?;
    recover(rig, &base).await
}

/// A power cut: the broker's store, the aggregator's state and the node's spool remain; with `wipe`
/// the broker's store does not.
pub(super) async fn all_killed(drill: Drill, dir: &Path, wipe: bool) -> Result<Report> {
    let mut rig = Rig::start(drill, with_spools(dir)?).await?;
    let disturbed = kill_all(&mut rig, wipe).await;
    Ok(rig.settle(disturbed, Terms { reasons: CRASH, unexplained_max: 0 }).await)
}

async fn kill_all(rig: &mut Rig, wipe: bool) -> Result<()> {
    let base = rig.merged().await?;
    if wipe {
        // So that there is something that the broker alone has read.
        rig.mesh.stack.kill_aggregator();
        rig.pass("the aggregator is dead", DEAD).await;
    }
    hush(rig, TARGET).await?;
    rig.mesh.stack.broker().kill();
    rig.mesh.stack.kill_node(TARGET);
    rig.mesh.stack.kill_aggregator();
    if wipe {
        rig.mesh.stack.broker().wipe()?;
    }
    rig.mesh.stack.stations()[TARGET].resume_job();
    rig.pass("broker, aggregator and a node are dead", DEAD).await;
    rig.mesh.stack.launch_aggregator()?;
    rig.mesh.stack.launch_node(TARGET)?;
    rig.mesh.stack.broker().restart().await?;
    recover(rig, &base).await
}

/// A node without confirmations holds all its messages. After its crash it sends them again to a
/// broker whose store was wiped.
pub(super) async fn deaf(drill: Drill, dir: &Path) -> Result<Report> {
    let broker_settings = DEAFENING.to_owned();
    let options = StackOptions { broker_settings, nodes: 2, ..with_spools(dir)? };
    let mut rig = Rig::start(drill, options).await?;
    let disturbed = repeat(&mut rig).await;
    Ok(rig.settle(disturbed, Terms { reasons: CRASH, unexplained_max: 0 }).await)
}

async fn repeat(rig: &mut Rig) -> Result<()> {
    let before = metric(rig.mesh.stack.api(), DUPLICATES).await?;
    rig.pass("nothing is confirmed", DEAD).await;
    hush(rig, TARGET).await?;
    rig.mesh.stack.kill_node(TARGET);
    rig.mesh.stack.stations()[TARGET].resume_job();
    rig.pass("a node is dead", DEAD).await;
    let base = rig.merged().await?;
    rig.mesh.stack.broker().wipe()?;
    rig.mesh.stack.broker().restart().await?;
    rig.mesh.stack.launch_node(TARGET)?;
    recover(rig, &base).await?;
    let since = rig.drill.elapsed();
    let more = metric(rig.mesh.stack.api(), DUPLICATES).await? - before;
    let expectation = Expectation::new(
        "what comes again is recognised",
        "the aggregator counts at least 5 messages that it had merged before",
    );
    rig.drill.judge(expectation, since, Look::new(more >= 5.0, format!("{more} messages")));
    Ok(())
}
