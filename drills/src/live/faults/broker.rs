//! The broker is stopped or killed, or loses its streams, while all other processes continue to
//! run.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::live::account::Terms;
use crate::live::expectation::Drill;
use crate::live::report::Report;
use crate::live::rig::Rig;
use crate::live::settings::busy;

const STOPPED: Duration = Duration::from_secs(30);
/// Long enough for several intervals of every node to wait.
const DEAD: Duration = Duration::from_secs(4);

/// Connections stay open and get no response.
pub(super) async fn stopped(drill: Drill, dir: &Path) -> Result<Report> {
    let disturb = async |rig: &mut Rig| -> Result<()> {
        rig.stack.broker().pause();
        rig.pass("the broker is stopped", STOPPED).await;
        let base = rig.merged().await?;
        rig.stack.broker().resume();
        let resumed = rig.drill.elapsed();
        rig.expect_delivery(resumed).await;
        rig.expect_recovery(&base, resumed).await;
        Ok(())
    };
    Rig::run(drill, busy(dir)?, Terms::NOTHING, disturb).await
}

/// The same store exists after the restart.
pub(super) async fn killed(drill: Drill, dir: &Path) -> Result<Report> {
    let disturb = async |rig: &mut Rig| -> Result<()> {
        let base = rig.merged().await?;
        rig.stack.broker().kill();
        rig.pass("the broker is dead", DEAD).await;
        rig.stack.broker().restart().await?;
        rig.expect_recovery(&base, rig.drill.elapsed()).await;
        Ok(())
    };
    Rig::run(drill, busy(dir)?, Terms::NOTHING, disturb).await
}

/// The messages that it had acknowledged are lost, and no aggregator had read them: the aggregator
/// was killed before.
pub(super) async fn wiped(drill: Drill, dir: &Path) -> Result<Report> {
    let disturb = async |rig: &mut Rig| -> Result<()> {
        let base = rig.merged().await?;
        rig.stack.kill_aggregator();
        rig.pass("the aggregator is dead", DEAD).await;
        rig.stack.broker().wipe()?;
        rig.stack.broker().restart().await?;
        let restarted = rig.drill.elapsed();
        rig.stack.restart_aggregator().await?;
        rig.expect_recovery(&base, restarted).await;
        Ok(())
    };
    Rig::run(drill, busy(dir)?, Terms::NOTHING, disturb).await
}
