//! Nodes and the aggregator are killed (SIGKILL) and started again.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_clock::Stopwatch;
use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::StackOptions;

use crate::live::account::Terms;
use crate::live::expectation::{Drill, Expectation, Look};
use crate::live::report::Report;
use crate::live::rig::{Merged, Rig};
use crate::live::settings::busy;
use crate::live::tally::metric;

/// The station whose node is killed.
const TARGET: usize = 1;
const DEAD: Duration = Duration::from_secs(4);
const READ_WAIT: Duration = Duration::from_secs(10);
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

/// While the broker is away, so that the node dies with messages that it alone has, and in the
/// middle of its job's work.
pub(super) async fn node_killed(drill: Drill, dir: &Path) -> Result<Report> {
    let disturb = async |rig: &mut Rig| -> Result<()> {
        rig.stack.broker().kill();
        rig.pass("the broker is dead", DEAD).await;
        rig.stack.kill_node(TARGET);
        rig.pass("a node is dead too", DEAD).await;
        let base = rig.merged().await?;
        rig.stack.launch_node(TARGET)?;
        rig.stack.broker().restart().await?;
        recover(rig, &base).await
    };
    let terms = Terms { unexplained_max: UNNOTED_MAX, ..Terms::CRASH };
    Rig::run(drill, busy(dir)?, terms, disturb).await
}

/// No ledger counts samples in a dead process's socket, or samples after its last note. So the job
/// pauses until its node has read and noted all of them.
pub(super) async fn hush(rig: &Rig, place: usize) -> Result<()> {
    let station = &rig.stack.stations()[place];
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
    rig.stack.await_readiness().await.context("after the restart")?;
    rig.expect_recovery(base, restarted).await;
    Ok(())
}

/// Nodes continue to publish to the broker's streams.
pub(super) async fn aggregator_killed(drill: Drill, dir: &Path) -> Result<Report> {
    let disturb = async |rig: &mut Rig| -> Result<()> {
        let base = rig.merged().await?;
        rig.stack.kill_aggregator();
        rig.pass("the aggregator is dead", DEAD).await;
        rig.stack.launch_aggregator()?;
        recover(rig, &base).await
    };
    Rig::run(drill, busy(dir)?, Terms::NOTHING, disturb).await
}

/// A power cut: the broker's store, the aggregator's state and the node's spool remain; with `wipe`
/// the broker's store does not.
pub(super) async fn all_killed(drill: Drill, dir: &Path, wipe: bool) -> Result<Report> {
    let disturb = async |rig: &mut Rig| -> Result<()> {
        let base = rig.merged().await?;

        if wipe {
            // So that there is something that the broker alone has read.
            rig.stack.kill_aggregator();
            rig.pass("the aggregator is dead", DEAD).await;
        }

        hush(rig, TARGET).await?;

        rig.stack.broker().kill();
        rig.stack.kill_node(TARGET);
        rig.stack.kill_aggregator();
        if wipe {
            rig.stack.broker().wipe()?;
        }
        rig.stack.stations()[TARGET].resume_job();
        rig.pass("broker, aggregator and a node are dead", DEAD).await;

        rig.stack.launch_aggregator()?;
        rig.stack.launch_node(TARGET)?;
        rig.stack.broker().restart().await?;
        recover(rig, &base).await
    };
    Rig::run(drill, busy(dir)?, Terms::CRASH, disturb).await
}

/// A node without confirmations holds all its messages. After its crash it sends them again to a
/// broker whose store was wiped.
pub(super) async fn deaf(drill: Drill, dir: &Path) -> Result<Report> {
    let broker_settings = DEAFENING.to_owned();
    let options = StackOptions { broker_settings, nodes: 2, ..busy(dir)? };

    let disturb = async |rig: &mut Rig| -> Result<()> {
        let before = metric(rig.stack.api(), DUPLICATES).await?;
        rig.pass("nothing is confirmed", DEAD).await;
        hush(rig, TARGET).await?;
        rig.stack.kill_node(TARGET);
        rig.stack.stations()[TARGET].resume_job();
        rig.pass("a node is dead", DEAD).await;

        let base = rig.merged().await?;
        rig.stack.broker().wipe()?;
        rig.stack.broker().restart().await?;
        rig.stack.launch_node(TARGET)?;
        recover(rig, &base).await?;

        let since = rig.drill.elapsed();
        let more = metric(rig.stack.api(), DUPLICATES).await? - before;

        let expectation = Expectation::new(
            "what comes again is recognised",
            "the aggregator counts at least 5 messages that it had merged before",
        );

        rig.drill.judge(expectation, since, Look::new(more >= 5.0, format!("{more} messages")));
        Ok(())
    };

    Rig::run(drill, options, Terms::CRASH, disturb).await
}
