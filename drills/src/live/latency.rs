//! One job becomes slow by real work: its budget's alert fires, is published, and clears.
//!
//! One node in three is slow, so a third of the fleet's samples are over the limit, which its
//! p99 cannot hide: the fleet's alert is expected too. The other nodes must stay silent.
//!
//! DESIGN D3.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use plimsoll_mesh::stack::StackOptions;
use plimsoll_schemas::alert::{AlertKey, Scope};

use super::account::Terms;
use super::alerts::ProvokedAlert;
use super::expectation::{Drill, Expectation, Look, Span};
use super::report::Report;
use super::rig::Rig;
use super::settings::{options, soon, wide_limits};

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
    let options = StackOptions { aggregator_settings: settings(args), ..options(dir)? };
    Rig::run(Drill::begin("drill-latency"), options, Terms::NOTHING, disturb).await
}

async fn disturb(rig: &mut Rig) -> Result<()> {
    rig.expect_steady(BUDGET, SAMPLES_MIN).await;
    let target = Scope::Node(rig.nodes()[TARGET].clone());
    let mut alerts = [target, Scope::Fleet].map(alert);

    let since = rig.drill.elapsed();
    command(rig, EXTRA_WORK)?;
    rig.expect_fired(&mut alerts, Span { since, within: FIRE_WAIT }).await;
    let firing = alerts.each_ref().map(|alert| alert.key.clone());
    expect_page(rig, "metrics show the alerts", &firing).await;

    let calmed = rig.drill.elapsed();
    command(rig, NO_EXTRA_WORK)?;
    rig.expect_cleared(&alerts, Span { since: calmed, within: CLEAR_WAIT }).await;
    if alerts.iter().any(|alert| alert.has_fired) {
        expect_page(rig, "metrics show no alert", &[]).await;
    }
    rig.judge_alerts(since, &alerts);
    Ok(())
}

/// The shortest window, so that firing and clearing take seconds, and the built-in limit.
fn settings(args: LatencyArgs) -> String {
    wide_limits(BUDGET) + &soon(BUDGET, SAMPLES_MIN, !args.without_rule)
}

fn alert(scope: Scope) -> ProvokedAlert {
    ProvokedAlert::of_budget(BUDGET, scope, SAMPLES_MIN)
}

fn command(rig: &Rig, command: &str) -> Result<()> {
    let station = &rig.stack.stations()[TARGET];
    eprintln!("{}: {command}", station.name);
    station.command(command)
}

/// The metrics page must agree with the bus for every scope.
async fn expect_page(rig: &mut Rig, name: &str, firing: &[AlertKey]) {
    let scopes: Vec<String> = firing.iter().map(|alert| alert.scope.to_string()).collect();
    let scopes = if scopes.is_empty() { "no scope".to_owned() } else { scopes.join(" and ") };
    let expected = format!("plimsoll_alert_firing of {BUDGET} is 1 for {scopes}, else 0");
    let span = Span { since: rig.drill.elapsed(), within: PAGE_WAIT };
    let alerts: Vec<AlertKey> = rig.scopes().into_iter().map(|scope| alert(scope).key).collect();

    let look = async || -> Result<Look> {
        let (mut met, mut seen) = (true, Vec::new());

        for alert in &alerts {
            let value = rig.stack.api().metric(&series(alert)).await.context("no metrics")?;
            met &= value == Some(f64::from(u8::from(firing.contains(alert))));
            let shown = value.map_or_else(|| "absent".into(), |value| value.to_string());
            seen.push(format!("{} {shown}", alert.scope));
        }

        Ok(Look::new(met, seen.join(", ")))
    };

    rig.drill.expect(Expectation::new(name, expected), span, look).await;
}

fn series(AlertKey { rule, scope, operation }: &AlertKey) -> String {
    format!(
        "plimsoll_alert_firing{{rule=\"{rule}\",scope=\"{}\",node=\"{}\",\
         operation=\"{operation}\"}}",
        scope.as_str(),
        scope.node()
    )
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
