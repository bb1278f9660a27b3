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
use plimsoll_schemas::alert::Scope;

use super::account::Terms;
use super::alerts::ProvokedAlert;
use super::expectation::{Drill, Expectation, Look, Span};
use super::report::Report;
use super::rig::{Rig, look};
use super::settings::{no_budgets_but, options};

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
pub async fn hardware(args: HardwareArgs, dir: &Path) -> Result<Report> {
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
    std::fs::write(&rules, file_of_rules(&args)).context("no file of rules")?;

    let options = StackOptions {
        nodes: NODES,
        aggregator_settings: format!("[rules]\nfiles = [{rules:?}]\n"),
        node_settings: Machine::settings(&machines, &gpus),
        ..options(dir)?
    };

    let mut rig = Rig::start(drill, options).await?;
    let disturbed = disturb(&mut rig, &machine, &gpus).await;
    Ok(rig.settle(disturbed, Terms::NOTHING).await)
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

async fn disturb(rig: &mut Rig, machine: &Machine, gpus: &Gpus) -> Result<()> {
    expect_well(rig, "steady state", gpus).await;
    let target = rig.nodes()[TARGET].clone();

    let alert = |(rule, of): (&str, Of)| {
        let (scope, gpu) = (Scope::Node(target.clone()), of.gpu());
        ProvokedAlert::of_machine(rule, scope, gpu)
    };

    let rules = RULES.into_iter().filter(|(_, of)| gpus.is_ok() || *of == Of::Memory);
    let mut alerts: Vec<ProvokedAlert> = rules.map(alert).collect();

    eprintln!("the machine of {target} suffers");
    let harmed = rig.drill.elapsed();
    machine.harm()?;
    rig.expect_fired(&mut alerts, Span { since: harmed, within: FIRE_WAIT }).await;

    eprintln!("the machine is back to normal");
    let repaired = rig.drill.elapsed();
    machine.repair()?;
    rig.expect_cleared(&alerts, Span { since: repaired, within: CLEAR_WAIT }).await;
    expect_well(rig, "back to normal", gpus).await;
    rig.judge_alerts(Duration::ZERO, &alerts);
    Ok(())
}

/// Waits until the page shows every machine as its files and its driver define it, while jobs run.
async fn expect_well(rig: &mut Rig, name: &str, gpus: &Gpus) {
    let expectation = Expectation::new(
        name,
        format!(
            "memory, control group and GPUs of {NODES} nodes as they are, {SAMPLES_MIN} samples"
        ),
    );

    let span = Span { since: rig.drill.elapsed(), within: STEADY_WAIT };

    let well = async || -> Result<Look> {
        let page = rig.stack.api().get("/metrics").await.context("no metrics")?;
        let stations = rig.stack.stations().iter();
        let wrong: Vec<_> =
            stations.flat_map(|station| machine::unwell(&page, &station.name, gpus)).collect();
        if !wrong.is_empty() {
            return Ok(Look::new(false, wrong.join(", ")));
        }

        look(&rig.stack, |summary| {
            let merged = summary.ledger.merged;
            Look::new(merged >= SAMPLES_MIN, format!("all as it is, {merged} samples"))
        })
        .await
    };

    rig.drill.expect(expectation, span, well).await;
}

#[cfg(test)]
mod tests;
