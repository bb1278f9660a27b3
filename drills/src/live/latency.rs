//! One job becomes slow by real work: its budget's alert fires, is published, and clears.
//!
//! One node in three is slow, so a third of the fleet's samples are over the limit, which its
//! p99 cannot hide: the fleet's alert is expected too. The other nodes must stay silent.
//!
//! DESIGN D3.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use plimsoll_schemas::alert::{AlertKey, AlertState, Scope};

use super::expectation::{Drill, Expectation, Look, Span};
use super::mesh::{Mesh, wide_limits};
use super::notifications::built_in_alert;
use super::report::Report;

const BUDGET: &str = "epoch_hook";
/// Of 200 in ten seconds at 20 epochs a second.
const SAMPLES_MIN: u64 = 100;
/// The station whose job is slowed down.
const TARGET: usize = 1;
/// Far over the limit of 18 ms, and still below the 50 ms between two epochs.
const EXTRA_WORK: &str = "extra-work-ms 30";
const NO_EXTRA_WORK: &str = "extra-work-ms 0";
/// One interval, three evaluations and the way here take about five seconds.
const FIRE_WAIT: Duration = Duration::from_secs(30);
/// The window of ten seconds must pass as well.
const CLEAR_WAIT: Duration = Duration::from_secs(45);
/// The metrics page shows the state of a notification at most one read view later.
const PAGE_WAIT: Duration = Duration::from_secs(2);

/// Options of the latency drill.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct LatencyArgs {
    /// Disable the rule, to see this drill fail with exit code 6
    #[arg(long)]
    pub without_rule: bool,
}

/// Runs the drill.
///
/// # Errors
/// When the mesh does not start.
pub async fn latency(args: LatencyArgs, dir: &Path) -> Result<Report> {
    let mut drill = Drill::begin("drill-latency");
    let mut mesh = Mesh::start(&drill, dir, &settings(args)).await?;
    let disturbed = disturb(&mut drill, &mut mesh).await;
    Ok(mesh.settle(drill, disturbed).await)
}

async fn disturb(drill: &mut Drill, mesh: &mut Mesh) -> Result<()> {
    mesh.expect_steady(drill, BUDGET, SAMPLES_MIN).await;
    let target = Scope::Node(mesh.nodes()[TARGET].clone());
    let alerts = [target, Scope::Fleet].map(|scope| built_in_alert(BUDGET, scope));

    let injected = drill.elapsed();
    command(mesh, EXTRA_WORK)?;
    let mut fired = Vec::new();
    for alert in &alerts {
        let span = Span { since: injected, within: FIRE_WAIT };
        let state = AlertState::Firing;
        fired.push(mesh.expect_notification(drill, alert, state, SAMPLES_MIN, span).await);
    }
    expect_page(drill, mesh, "metrics show the alerts", &alerts).await;

    let calmed = drill.elapsed();
    command(mesh, NO_EXTRA_WORK)?;
    for (alert, fired) in alerts.iter().zip(&fired) {
        let span = Span { since: calmed, within: CLEAR_WAIT };
        mesh.expect_clear(drill, (alert, *fired), SAMPLES_MIN, span).await;
    }
    if fired.contains(&true) {
        expect_page(drill, mesh, "metrics show no alert", &[]).await;
    }
    mesh.judge_alerts(drill, injected, &alerts);
    Ok(())
}

/// The shortest window, so that firing and clearing take seconds, and the built-in limit.
fn settings(args: LatencyArgs) -> String {
    format!(
        "{}[[budget]]\nname = \"{BUDGET}\"\nwindow = \"10s\"\nmin_samples = {SAMPLES_MIN}\n\
         enabled = {}\n",
        wide_limits(BUDGET),
        !args.without_rule
    )
}

fn command(mesh: &Mesh, command: &str) -> Result<()> {
    let station = &mesh.stack.stations()[TARGET];
    eprintln!("{}: {command}", station.name);
    station.command(command)
}

/// The metrics page must agree with the bus for every scope.
async fn expect_page(drill: &mut Drill, mesh: &Mesh, name: &str, firing: &[AlertKey]) {
    let scopes: Vec<String> = firing.iter().map(|alert| alert.scope.to_string()).collect();
    let scopes = if scopes.is_empty() { "no scope".to_owned() } else { scopes.join(" and ") };
    let expected = format!("plimsoll_alert_firing of {BUDGET} is 1 for {scopes}, else 0");
    let span = Span { since: drill.elapsed(), within: PAGE_WAIT };
    let alerts: Vec<AlertKey> =
        mesh.scopes().into_iter().map(|scope| built_in_alert(BUDGET, scope)).collect();
    let look = async || match page(mesh, &alerts).await {
        Ok(values) => {
            let wanted =
                alerts.iter().map(|alert| Some(f64::from(u8::from(firing.contains(alert)))));
            let met = wanted.eq(values.iter().map(|(_, value)| *value));
            let show = |(scope, value): &(String, Option<f64>)| {
                format!("{scope} {}", value.map_or_else(|| "absent".into(), |v| v.to_string()))
            };
            Look::new(met, values.iter().map(show).collect::<Vec<_>>().join(", "))
        }
        Err(error) => Look::from(error.context("no metrics")),
    };
    drill.expect(Expectation::new(name, expected), span, look).await;
}

async fn page(mesh: &Mesh, alerts: &[AlertKey]) -> Result<Vec<(String, Option<f64>)>> {
    let mut values = Vec::new();
    for AlertKey { rule, scope, operation } in alerts {
        let series = format!(
            "plimsoll_alert_firing{{rule=\"{rule}\",scope=\"{}\",node=\"{}\",\
             operation=\"{operation}\"}}",
            scope.as_str(),
            scope.node()
        );
        values.push((scope.to_string(), mesh.stack.api().metric(&series).await?));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::rule::file::{effective, shipped};

    use super::*;

    fn limits_ms(settings: &str) -> Vec<(String, u64)> {
        let budgets = effective(&[settings]).unwrap();
        budgets
            .into_iter()
            .map(|budget| (budget.name.to_string(), budget.limit_ns / 1_000_000))
            .collect()
    }

    #[test]
    fn the_rule_is_there_unless_taken_away() {
        assert!(settings(LatencyArgs::default()).ends_with("min_samples = 100\nenabled = true\n"));
        let without = limits_ms(&settings(LatencyArgs { without_rule: true }));
        assert_eq!(without.len() + 1, shipped().budgets.len());
        assert!(without.iter().all(|(name, _)| name != BUDGET), "{without:?}");
    }

    #[test]
    fn the_other_limits_are_wide_and_the_disturbed_one_is_built_in() {
        let mut limits = limits_ms(&settings(LatencyArgs::default()));
        limits.sort();
        let expected = [
            ("epoch_hook", 18),
            ("kernel_fetch", 400),
            ("message_delivery", 4_000),
            ("publish", 1_000),
        ];
        assert_eq!(limits, expected.map(|(name, limit)| (name.to_owned(), limit)));
    }
}
