//! The broker is stopped or killed, or loses its streams, while all other processes continue to
//! run.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::account::Terms;
use super::rig::{Rig, options};
use crate::live::expectation::Drill;
use crate::live::report::Report;

const STOPPED: Duration = Duration::from_secs(30);
/// Long enough for several intervals of every node to wait.
const DEAD: Duration = Duration::from_secs(4);

/// Connections stay open and get no response.
pub(super) async fn stopped(drill: Drill, dir: &Path) -> Result<Report> {
    let mut rig = Rig::start(drill, options(dir)?).await?;
    let disturbed = stop(&mut rig).await;
    // After every outcome: a mesh cannot be drained into a broker that is stopped.
    rig.mesh.stack.broker().resume();
    Ok(rig.settle(disturbed, Terms::NOTHING).await)
}

async fn stop(rig: &mut Rig) -> Result<()> {
    rig.mesh.stack.broker().pause();
    rig.pass("the broker is stopped", STOPPED).await;
    let base = rig.merged().await?;
    rig.mesh.stack.broker().resume();
    let resumed = rig.drill.elapsed();
    rig.expect_delivery(resumed).await;
    rig.expect_recovery(&base, resumed).await;
    Ok(())
}

/// The same store exists after the restart.
pub(super) async fn killed(drill: Drill, dir: &Path) -> Result<Report> {
    let mut rig = Rig::start(drill, options(dir)?).await?;
    let disturbed = kill(&mut rig).await;
    Ok(rig.settle(disturbed, Terms::NOTHING).await)
}

/// The messages that it had acknowledged are lost, and no aggregator had read them: the aggregator
/// was killed before.
pub(super) async fn wiped(drill: Drill, dir: &Path) -> Result<Report> {
    let mut rig = Rig::start(drill, options(dir)?).await?;
    let disturbed = wipe(&mut rig).await;
    Ok(rig.settle(disturbed, Terms::NOTHING).await)
}

async fn wipe(rig: &mut Rig) -> Result<()> {
    let base = rig.merged().await?;
    rig.mesh.stack.kill_aggregator();
    rig.pass("the aggregator is dead", DEAD).await;
    rig.mesh.stack.broker().wipe()?;
    rig.mesh.stack.broker().restart().await?;
    let restarted = rig.drill.elapsed();
    rig.mesh.stack.restart_aggregator().await?;
    rig.expect_recovery(&base, restarted).await;
    Ok(())
}

async fn kill(rig: &mut Rig) -> Result<()> {
    let base = rig.merged().await?;
    rig.mesh.stack.broker().kill();
    rig.pass("the broker is dead", DEAD).await;
    rig.mesh.stack.broker().restart().await?;
    let restarted = rig.drill.elapsed();
    rig.expect_recovery(&base, restarted).await;
    Ok(())
}
