//! A breach that begins and ends while the aggregator is down: the broker stores its samples, all
//! are counted later, and their alert fires late and reports its delay.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use plimsoll_mesh::stack::StackOptions;
use plimsoll_schemas::alert::{AlertState, Scope};

use crate::live::account::Terms;
use crate::live::alerts::ProvokedAlert;
use crate::live::expectation::{Drill, Expectation, Look, Span};
use crate::live::report::Report;
use crate::live::rig::{Rig, words};
use crate::live::settings::{options, soon};

const BUDGET: &str = "epoch_hook";
/// Of 200 in ten seconds at 20 epochs a second.
const SAMPLES_MIN: u64 = 100;
/// The latency of publishing is not judged here: it varies with the other load of the machine.
const NO_PUBLISH: &str = "[[budget]]\nname = \"publish\"\nenabled = false\n";
/// The station whose job is slowed down.
const TARGET: usize = 1;
/// One and a half windows.
const BREACH: Duration = Duration::from_secs(15);
/// More than a window, so that no window that is still open holds a sample of the breach.
const CALM: Duration = Duration::from_secs(15);
const FIRE_WAIT: Duration = Duration::from_secs(20);

pub(super) async fn breach(drill: Drill, dir: &Path) -> Result<Report> {
    let aggregator_settings = soon(BUDGET, SAMPLES_MIN, true) + NO_PUBLISH;
    let options = StackOptions { aggregator_settings, ..options(dir)? };

    let disturb = async |rig: &mut Rig| -> Result<()> {
        rig.expect_steady(BUDGET, SAMPLES_MIN).await;
        let base = rig.merged().await?;
        rig.stack.kill_aggregator();
        command(rig, "extra-work-ms 30")?;
        rig.pass("a job is slow while no aggregator runs", BREACH).await;
        command(rig, "extra-work-ms 0")?;
        let ended = rig.drill.elapsed();
        rig.pass("the job is back to normal", CALM).await;
        rig.stack.launch_aggregator()?;
        let launched = rig.drill.elapsed();
        rig.expect_recovery(&base, launched).await;
        expect_alert(rig, launched, ended).await;
        Ok(())
    };

    Rig::run(drill, options, Terms::NOTHING, disturb).await
}

fn command(rig: &Rig, command: &str) -> Result<()> {
    let station = &rig.stack.stations()[TARGET];
    eprintln!("{}: {command}", station.name);
    station.command(command)
}

async fn expect_alert(rig: &mut Rig, launched: Duration, ended: Duration) {
    let span = Span { since: launched, within: FIRE_WAIT };
    let scope = Scope::Node(rig.nodes()[TARGET].clone());
    let mut alerts = [ProvokedAlert::of_budget(BUDGET, scope, SAMPLES_MIN)];
    rig.expect_fired(&mut alerts, span).await;

    let late_min = launched.saturating_sub(ended);
    let expectation = Expectation::new(
        "the notification reports its delay",
        format!("late_seconds of at least {}", words(late_min)),
    );

    let [alert] = alerts;
    if !alert.has_fired {
        return rig.drill.skip(expectation, "it never fired");
    }
    let arrival = rig.notifications.find(launched, &alert.key, AlertState::Firing);
    let late = arrival.map_or(0.0, |arrival| arrival.notification.late_seconds);
    let met = late >= late_min.as_secs_f64();
    rig.drill.judge(expectation, launched, Look::new(met, format!("{late:.1} s")));
}
