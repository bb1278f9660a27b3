//! What a campaign found, for people and for scripts.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::act::Shown;
use super::campaign::{Campaign, Findings};

/// Seeds from which on every branch must have been reached.
pub const SEEDS_DEMANDING: u64 = 1_000;

/// The report of one campaign.
#[derive(Clone, Debug, Serialize)]
pub struct SimulationReport {
    /// Whether nothing broke and nothing that should have been reached was missed.
    pub passed: bool,
    /// The first seed.
    pub from: u64,
    pub runs: u64,
    /// Steps in each plan.
    pub steps: usize,
    /// Events in all runs.
    pub events: u64,
    /// Virtual time of all runs.
    pub virtual_seconds: u64,
    pub took_ms: u128,
    pub runs_per_second: u64,
    pub recorded: u64,
    pub merged: u64,
    /// Of those, missing for a named reason.
    pub lost: u64,
    /// How often a sample was merged once more; more than never is a failure.
    pub duplicated: u64,
    /// Samples missing without a reason, or merged without an origin; more than none is one too.
    pub unexplained: u64,
    /// How often each fault and branch was reached.
    pub reached: BTreeMap<&'static str, u64>,
    /// Those that never were, when there were seeds enough to demand it.
    pub missed: Vec<&'static str>,
    pub failure: Option<Failed>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// The seed that shows it.
    pub seed: u64,
    pub invariant: &'static str,
    /// What was seen instead.
    pub what: String,
    /// When, in virtual nanoseconds.
    pub at_ns: u64,
    /// The mesh in which it shows.
    pub knobs: String,
    /// The shortest list of steps found that breaks the same invariant.
    pub shortest: Vec<String>,
}

impl SimulationReport {
    /// The report of a completed campaign.
    pub fn new(campaign: &Campaign, findings: &Findings) -> Self {
        let demanding = findings.runs >= SEEDS_DEMANDING;
        let missed = if demanding { findings.reached.unread() } else { Vec::new() };

        let failure = findings.failure.as_ref().map(|failure| Failed {
            seed: failure.seed,
            invariant: failure.broken.invariant,
            what: failure.broken.what.clone(),
            at_ns: failure.broken.at,
            knobs: format!("{:?}", failure.shortest.knobs),
            shortest: failure
                .shortest
                .steps
                .iter()
                .map(|step| format!("{}  {}", Shown(step.at), step.act))
                .collect(),
        });

        Self {
            passed: failure.is_none() && missed.is_empty(),
            from: campaign.from,
            runs: findings.runs,
            steps: campaign.steps,
            events: findings.events,
            virtual_seconds: findings.virtual_seconds,
            took_ms: findings.took.as_millis(),
            runs_per_second: findings.runs_per_second(),
            recorded: findings.sets.recorded,
            merged: findings.sets.merged,
            lost: findings.sets.lost,
            duplicated: findings.sets.duplicated,
            unexplained: findings.sets.unexplained(),
            reached: findings.reached.all().collect(),
            missed,
            failure,
        }
    }
}

/// The report in words.
pub fn words(report: &SimulationReport) -> String {
    let mut text = format!(
        "\n{} runs of {} steps from seed {}: {} events, {} virtual hours, {} ms \
         ({} runs a second)\nsamples: {} recorded, {} merged, {} lost for a named reason, \
         {} duplicated, {} unexplained\n",
        report.runs,
        report.steps,
        report.from,
        report.events,
        report.virtual_seconds / 3_600,
        report.took_ms,
        report.runs_per_second,
        report.recorded,
        report.merged,
        report.lost,
        report.duplicated,
        report.unexplained,
    );

    for (name, n) in &report.reached {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {n:>10}  {name}");
    }

    for name in &report.missed {
        let _ = writeln!(text, "MISSED: {name} was never reached");
    }

    if let Some(failed) = &report.failure {
        let Failed { seed, invariant, what, at_ns, knobs, shortest } = failed;

        let _ = writeln!(
            text,
            "BROKEN by seed {seed} at {}: {invariant}\n  {what}\n  replay: drill-sim --seed {seed} \
             --events {} --trace\n  {knobs}\n  shortest steps found:",
            Shown(*at_ns),
            report.steps,
        );

        for step in shortest {
            let _ = writeln!(text, "    {step}");
        }
    }

    let _ = write!(text, "{}", if report.passed { "PASSED" } else { "FAILED" });
    text
}
