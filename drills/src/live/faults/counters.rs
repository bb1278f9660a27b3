//! A job breaks its isolation five times and compiles anew twice: both alerts fire for its node,
//! arrive, and clear a minute later. The neighbour's job stays at both limits, and its node raises
//! none.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use plimsoll_mesh::stack::StackOptions;
use plimsoll_mesh::statsd::StatsdSender;
use plimsoll_schemas::alert::Scope;

use crate::live::account::Terms;
use crate::live::alerts::ProvokedAlert;
use crate::live::expectation::{Drill, Span};
use crate::live::report::Report;
use crate::live::rig::Rig;
use crate::live::settings::{busy, no_budgets_but, planted_miss};

/// Rules with the counter of each, what the job counts and what its neighbour does.
const RULES: [(&str, &str, u32, u32); 2] = [
    ("isolation_violations", "isolation.violations", 5, 3),
    ("compile_retries", "compile.retries", 2, 1),
];
const NODES: usize = 2;
const TARGET: usize = 0;
/// One interval, the evaluation and the way here.
const FIRE_WAIT: Duration = Duration::from_secs(30);
/// The last minute must pass, and five evaluations.
const CLEAR_WAIT: Duration = Duration::from_secs(100);

pub(super) async fn counters(mut drill: Drill, dir: &Path) -> Result<Report> {
    let planted = planted_miss(&mut drill, RULES[0].0);
    let aggregator_settings = format!("{}{planted}", no_budgets_but(""));
    let options = StackOptions { nodes: NODES, aggregator_settings, ..busy(dir)? };
    Rig::run(drill, options, Terms::NOTHING, disturb).await
}

async fn disturb(rig: &mut Rig) -> Result<()> {
    let since = rig.drill.elapsed();
    for (place, station) in rig.stack.stations().iter().enumerate() {
        for (_, counter, many, few) in RULES {
            let count = if place == TARGET { many } else { few };
            StatsdSender::unix(&station.socket)?.send(format!("{counter}:{count}|c"))?;
        }
    }
    let target = Scope::Node(rig.nodes()[TARGET].clone());
    let mut alerts = RULES.map(|rule| ProvokedAlert::of_rule(rule.0, target.clone()));
    rig.expect_fired(&mut alerts, Span { since, within: FIRE_WAIT }).await;
    rig.expect_cleared(&alerts, Span { since, within: CLEAR_WAIT }).await;
    rig.judge_alerts(since, &alerts);
    Ok(())
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::rule::file::shipped;

    use super::*;

    #[test]
    fn the_job_is_beyond_the_shipped_limits_and_its_neighbour_is_at_them() {
        for (rule, _, many, few) in RULES {
            let thresholds = shipped().thresholds;
            let of = thresholds.iter().find(|known| known.name.as_str() == rule).unwrap();
            let breaks = |count: u32| of.comparison.holds(f64::from(count), of.value);
            assert_eq!((breaks(many), breaks(few)), (true, false), "{rule}");
        }
    }
}
