//! A breach that begins and ends while the aggregator is down: the broker stores its samples, all
//! are counted later, and their alert fires late and reports its delay.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use plimsoll_mesh::stack::StackOptions;
use plimsoll_schemas::alert::{AlertState, Scope};

use super::account::Terms;
use super::rig::{Rig, words};
use crate::live::expectation::{Drill, Expectation, Look, Span};
use crate::live::mesh;
use crate::live::notifications::built_in_alert;
use crate::live::report::Report;

const BUDGET: &str = "epoch_hook";
/// Of 200 in ten seconds at 20 epochs a second.
const SAMPLES_MIN: u64 = 100;
/// The latency of publishing is not judged here: it varies with the other load of the machine.
const SETTINGS: &str = r#"
[[budget]]
name = "epoch_hook"
window = "10s"
min_samples = 100

[[budget]]
name = "publish"
enabled = false
"#;
/// The station whose job is slowed down.
const TARGET: usize = 1;
/// One and a half windows.
const BREACH: Duration = Duration::from_secs(15);
/// More than a window, so that no window that is still open holds a sample of the breach.
const CALM: Duration = Duration::from_secs(15);
const FIRE_WAIT: Duration = Duration::from_secs(20);

pub(super) async fn breach(drill: Drill, dir: &Path) -> Result<Report> {
    let aggregator_settings = SETTINGS.to_owned();
    let options = StackOptions { aggregator_settings, ..mesh::options(dir)? };
    let mut rig = Rig::start(drill, options).await?;
    let disturbed = disturb(&mut rig).await;
    Ok(rig.settle(disturbed, Terms::NOTHING).await)
}

async fn disturb(rig: &mut Rig) -> Result<()> {
    let Rig { drill, mesh, .. } = rig;
    mesh.expect_steady(drill, BUDGET, SAMPLES_MIN).await;
    let base = rig.merged().await?;
    rig.mesh.stack.kill_aggregator();
    command(rig, "extra-work-ms 30")?;
    rig.pass("a job is slow while no aggregator runs", BREACH).await;
    command(rig, "extra-work-ms 0")?;
    let ended = rig.drill.elapsed();
    rig.pass("the job is back to normal", CALM).await;
    rig.mesh.stack.launch_aggregator()?;
    let launched = rig.drill.elapsed();
    rig.expect_recovery(&base, launched).await;
    expect_alert(rig, launched, ended).await;
    Ok(())
}

fn command(rig: &Rig, command: &str) -> Result<()> {
    let station = &rig.mesh.stack.stations()[TARGET];
    eprintln!("{}: {command}", station.name);
    station.command(command)
}

async fn expect_alert(rig: &mut Rig, launched: Duration, ended: Duration) {
    let Rig { drill, mesh, .. } = rig;
    let span = Span { since: launched, within: FIRE_WAIT };
    let scope = Scope::Node(mesh.nodes()[TARGET].clone());
    let alert = built_in_alert(BUDGET, scope);
    let fired =
        mesh.expect_notification(drill, &alert, AlertState::Firing, SAMPLES_MIN, span).await;
    let late_min = launched.saturating_sub(ended);
    let expectation = Expectation::new(
        "the notification reports its delay",
        format!("late_seconds of at least {}", words(late_min)),
    );
    if !fired {
        return drill.skip(expectation, "it never fired");
    }
    let notification = mesh.notifications.find(launched, &alert, AlertState::Firing);
    let late = notification.map_or(0.0, |arrival| arrival.notification.late_seconds);
    let met = late >= late_min.as_secs_f64();
    drill.judge(expectation, launched, Look::new(met, format!("{late:.1} s")));
}
