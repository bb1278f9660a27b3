//! One machine of two gets hot, loses a GPU and runs out of memory: the rules about machines fire
//! for its node, their notifications arrive, and they clear.
//!
//! The node's real sampler reads a machine of files (`hardware.root`) and a stub of NVML, since a
//! drill cannot heat a real machine. The other machine stays healthy, and its node must raise no
//! alert. The shipped rules judge; a rule file overrides their durations.
//!
//! DESIGN D10.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use plimsoll_mesh::stack::StackOptions;
use plimsoll_schemas::alert::{AlertKey, AlertState, Evidence, Notification, Scope};

use super::expectation::{Drill, Expectation, Look, Span};
use super::mesh::{Mesh, no_budgets_but, options};
use super::notifications::Arrival;
use super::report::Report;
use super::threshold::shipped_alert;

mod machine;
mod stub;

use machine::{Gpus, Machine};

/// Rules that fire, and what each watches.
const RULES: [(&str, Of); 7] = [
    ("gpu_hot", Of::Gpu(Some("0"))),
    ("gpu_throttled", Of::Gpu(Some("0"))),
    ("gpu_lost", Of::Gpu(None)),
    ("memory_high", Of::Memory),
    ("memory_critical", Of::Memory),
    ("cgroup_memory_high", Of::Memory),
    ("cgroup_memory_critical", Of::Memory),
];
const NODES: usize = 2;
/// The node whose machine suffers.
const TARGET: usize = 0;
/// Evaluations in a row, where up to 60 are shipped.
const PATIENCE: u32 = 3;
/// Samples of the whole mesh that show that jobs run.
const SAMPLES_MIN: u64 = 100;
/// A node lists its GPUs once a minute, and may have listed them before the stub was ready.
const STEADY_WAIT: Duration = Duration::from_secs(90);
/// A sample, its way here, and the evaluations take about six seconds.
const FIRE_WAIT: Duration = Duration::from_secs(30);
const CLEAR_WAIT: Duration = Duration::from_secs(30);

/// What a rule watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Memory,
    /// The GPU that an alert names, where it is about one.
    Gpu(Option<&'static str>),
}

impl Of {
    fn gpu(self) -> Option<&'static str> {
        match self {
            Self::Gpu(gpu) => gpu,
            Self::Memory => None,
        }
    }
}

/// Options of the hardware drill.
#[derive(Args, Clone, Debug, Default)]
pub struct HardwareArgs {
    /// Set this rule's limit out of reach, to see this drill fail: it must end with exit code 6
    #[arg(long, value_name = "RULE", value_parser = PossibleValuesParser::new(RULES.map(|r| r.0)))]
    pub plant_miss: Option<String>,
}

/// Runs the drill. Without `rustc` there are no GPUs, and that part is passed over.
///
/// # Errors
/// When the mesh does not start, or a machine cannot be made.
pub async fn hardware(args: &HardwareArgs, dir: &Path) -> Result<Report> {
    let mut drill = Drill::begin("drill-hardware");
    eprintln!("making {NODES} machines");
    let machines = dir.join("machines");
    let (machine, gpus) = Machine::make(machines.join("node-1"))?;
    let (_neighbour, _same) = Machine::make(machines.join("node-2"))?;
    if let Err(error) = &gpus {
        // Nothing would miss that alert.
        if args.plant_miss.as_ref().is_some_and(|rule| rule.starts_with("gpu")) {
            bail!("no GPU, so --plant-miss must name another rule: {error:#}");
        }
        let expectation = Expectation::new("GPUs", "a stand-in for NVML can be built");
        drill.skip(expectation, &format!("{error:#}"));
    }
    let rules = dir.join("rules.toml");
    std::fs::write(&rules, file_of_rules(args)).context("no file of rules")?;
    let options = StackOptions {
        nodes: NODES,
        aggregator_settings: format!("[rules]\nfiles = [{rules:?}]\n"),
        node_settings: Machine::settings(&machines, &gpus),
        ..options(dir)?
    };
    let mut mesh = Mesh::start_with(&drill, options).await?;
    let disturbed = disturb(&mut drill, &mut mesh, &machine, &gpus).await;
    Ok(mesh.settle(drill, disturbed).await)
}

/// Overrides of the shipped rules, key by key. Budgets are disabled: they depend on the other load
/// of this machine.
fn file_of_rules(args: &HardwareArgs) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    for (rule, _) in RULES {
        let _written =
            writeln!(text, "[[rule]]\nname = \"{rule}\"\nfor = {PATIENCE}\nclear_for = {PATIENCE}");
        if args.plant_miss.as_deref() == Some(rule) {
            text.push_str("greater = 1000000\n");
        }
    }
    text + &no_budgets_but("")
}

async fn disturb(drill: &mut Drill, mesh: &mut Mesh, machine: &Machine, gpus: &Gpus) -> Result<()> {
    expect_well(drill, mesh, "steady state", gpus).await;
    let target = mesh.nodes()[TARGET].clone();
    let alerts = RULES.into_iter().filter(|(_, of)| gpus.is_ok() || *of == Of::Memory);
    let alerts: Vec<_> =
        alerts.map(|(rule, of)| (shipped_alert(rule, Scope::Node(target.clone())), of)).collect();

    eprintln!("the machine of {target} suffers");
    let (harmed, mut fired) = (drill.elapsed(), Vec::new());
    machine.harm()?;
    for alert in &alerts {
        let span = Span { since: harmed, within: FIRE_WAIT };
        fired.push(expect_notification(drill, mesh, alert, AlertState::Firing, span).await);
    }

    eprintln!("the machine is back to normal");
    let repaired = drill.elapsed();
    machine.repair()?;
    for (alert, fired) in alerts.iter().zip(fired) {
        let span = Span { since: repaired, within: CLEAR_WAIT };
        if fired {
            expect_notification(drill, mesh, alert, AlertState::Resolved, span).await;
        } else {
            drill.skip(notification(alert, AlertState::Resolved, span), "it never fired");
        }
    }
    expect_well(drill, mesh, "back to normal", gpus).await;
    let expected: Vec<AlertKey> = alerts.into_iter().map(|(key, _)| key).collect();
    mesh.judge_alerts(drill, Duration::ZERO, &expected);
    Ok(())
}

/// Waits until the page shows every machine as its files and its driver define it, while jobs run.
async fn expect_well(drill: &mut Drill, mesh: &Mesh, name: &str, gpus: &Gpus) {
    let expectation = Expectation::new(
        name,
        format!(
            "memory, control group and GPUs of {NODES} nodes as they are, {SAMPLES_MIN} samples"
        ),
    );
    let span = Span { since: drill.elapsed(), within: STEADY_WAIT };
    let look = async || match mesh.stack.api().get("/metrics").await {
        Ok(page) => {
            let nodes = mesh.nodes().iter();
            let wrong: Vec<_> =
                nodes.flat_map(|node| machine::unwell(&page, node.as_str(), gpus)).collect();
            if !wrong.is_empty() {
                return Look::new(false, wrong.join(", "));
            }
            mesh.look(|summary| {
                let merged = summary.ledger.merged;
                Look::new(merged >= SAMPLES_MIN, format!("all as it is, {merged} samples"))
            })
            .await
        }
        Err(error) => Look::from(error.context("no metrics")),
    };
    drill.expect(expectation, span, look).await;
}

async fn expect_notification(
    drill: &mut Drill,
    mesh: &mut Mesh,
    alert: &(AlertKey, Of),
    state: AlertState,
    span: Span,
) -> bool {
    let (key, of) = alert;
    let notifications = &mut mesh.notifications;
    let look = async || match notifications.find(span.since, key, state) {
        Some(arrival) => judge_arrival(arrival, *of),
        None => Look::new(false, "no such notification"),
    };
    drill.expect(notification(alert, state, span), span, look).await
}

fn notification((key, of): &(AlertKey, Of), state: AlertState, span: Span) -> Expectation {
    let gpu = of.gpu().map_or_else(String::new, |gpu| format!(" of GPU {gpu}"));
    let outcome = match state {
        AlertState::Firing => {
            format!("{}{gpu} beyond the limit, its node beside it", key.operation)
        }
        _ => format!("{} within the limit", key.operation),
    };
    Expectation::new(
        format!("{} {} ({})", key.rule, state.as_str(), key.scope),
        format!("a notification on the bus within {} s, {outcome}", span.within.as_secs()),
    )
}

/// Judges a notification by its own evidence.
fn judge_arrival(Arrival { at, notification }: &Arrival, of: Of) -> Look {
    let Evidence::Value(evidence) = &notification.evidence else {
        return Look { at: Some(*at), ..Look::new(false, "no evidence of a value") };
    };
    let fires = notification.state == AlertState::Firing;
    let beyond = evidence.comparison.holds(evidence.value, evidence.threshold);
    let gpu = evidence.labels.get("gpu");
    let (wanted, blamed) = (of.gpu(), blamed(notification));
    let names = gpu == wanted && blamed == Some(notification.key.scope.node());
    let gpu = gpu.map_or_else(String::new, |gpu| format!(" of GPU {gpu}"));
    let mut seen = format!(
        "{}, {} {}{gpu}, limit {}",
        notification.state.as_str(),
        evidence.metric,
        evidence.value,
        evidence.threshold,
    );
    if fires {
        let _written = write!(seen, ", beside it {}", blamed.unwrap_or("no node"));
    }
    let met = beyond == fires && (names || !fires);
    Look { at: Some(*at), ..Look::new(met, seen) }
}

/// The node that an alert shows first.
fn blamed(notification: &Notification) -> Option<&str> {
    notification.context.as_ref()?.worst.first().map(|worst| worst.node.as_str())
}

#[cfg(test)]
mod tests;
