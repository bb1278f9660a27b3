//! A job breaks its isolation five times and compiles anew twice: both alerts fire for its node,
//! arrive, and clear a minute later. The neighbour's job stays at both limits, and its node raises
//! none.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_mesh::stack::StackOptions;
use plimsoll_schemas::alert::{AlertKey, AlertState, Scope};

use super::account::Terms;
use super::rig::{Rig, options};
use crate::live::expectation::{Drill, Span};
use crate::live::mesh::no_budgets_but;
use crate::live::report::Report;
use crate::live::threshold::{expect_cleared, expect_value, planted_miss, shipped_alert};

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
    let options = StackOptions { nodes: NODES, aggregator_settings, ..options(dir)? };
    let mut rig = Rig::start(drill, options).await?;
    let disturbed = disturb(&mut rig).await;
    Ok(rig.settle(disturbed, Terms::NOTHING).await)
}

async fn disturb(rig: &mut Rig) -> Result<()> {
    let Rig { drill, mesh, .. } = rig;
    let target = mesh.nodes()[TARGET].clone();
    let since = drill.elapsed();
    for (place, station) in mesh.stack.stations().iter().enumerate() {
        for (_, counter, many, few) in RULES {
            let count = if place == TARGET { many } else { few };
            send(&station.socket, &format!("{counter}:{count}|c"))?;
        }
    }
    let alerts: Vec<AlertKey> =
        RULES.map(|rule| shipped_alert(rule.0, Scope::Node(target.clone()))).into();
    let mut fired = Vec::new();
    for alert in &alerts {
        let span = Span { since, within: FIRE_WAIT };
        fired.push(expect_value(drill, mesh, alert, AlertState::Firing, span).await);
    }
    for (alert, fired) in alerts.iter().zip(fired) {
        let span = Span { since, within: CLEAR_WAIT };
        expect_cleared(drill, mesh, (alert, fired), span).await;
    }
    mesh.judge_alerts(drill, since, &alerts);
    Ok(())
}

/// Sends one line to a node's socket.
fn send(socket: &Path, line: &str) -> Result<()> {
    let link = UnixDatagram::unbound()?;
    link.send_to(line.as_bytes(), socket)
        .with_context(|| format!("{} is not read", socket.display()))?;
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
