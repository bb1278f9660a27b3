//! `plimsoll advise`: what to do about the bottlenecks of a run, a range or a report, and a changed
//! copy of a job's configuration. Nothing is edited in place.
//!
//! DESIGN A196.

mod apply;
mod rules;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use jiff::Zoned;
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::stdout::{print, print_line};
use plimsoll_schemas::summary::{BottleneckRow, BottleneckState, BottlenecksPage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bottlenecks::PATH;
use crate::runs::run_of;
use crate::targets::{Target, page, with_parameters};
use crate::time_range::TimeRange;
use apply::Config;
use rules::{Effect, Priority, shipped};

/// Recommend what to do about the bottlenecks of a run, a range or a report
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll advise run:v42
  plimsoll advise --last 2h --high-only
  plimsoll advise report.json
  plimsoll advise run:v42 --config job.json --output better.json
  plimsoll advise run:v42 --json | jq '.[] | {title, effect}'

It recommends for what plimsoll bottlenecks finds. What is not measured has no advice. With --config
it shows the current and the recommended value of settings that it knows, such as batch_size,
n_ctx, n_gpu_layers, num_workers, threads, quantization, at any depth of the JSON; --output writes a
changed copy and shows the difference. An effect is the share that was measured, or what follows
from the setting itself. More tokens a second are not predicted: run the copy, and compare both runs
with plimsoll compare run:A run:B.")]
pub struct AdviseArgs {
    /// run:NAME, or a report of plimsoll report (.json); without it, the fleet in a range
    subject: Option<String>,
    #[command(flatten)]
    range: TimeRange,
    /// Configuration of the job (JSON), to show current and recommended values
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// File for a changed copy of the configuration; it must not exist
    #[arg(long, value_name = "FILE", requires = "config")]
    output: Option<PathBuf>,
    /// Leave out recommendations of medium priority
    #[arg(long)]
    high_only: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: Target,
}

/// One recommendation, as JSON has it.
#[derive(Debug, Serialize)]
struct Advice {
    name: String,
    priority: Priority,
    title: String,
    /// The rule of the bottleneck, and what it found.
    because: String,
    evidence: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recommended: Option<Value>,
    #[serde(flatten)]
    effect: Effect,
    runbook: String,
}

/// Shows recommendations, and writes a changed configuration if one is requested.
///
/// # Errors
/// When the subject cannot be read, or a file cannot be read or written.
pub async fn advise(args: &AdviseArgs) -> Result<Exit> {
    let page = bottlenecks(args).await?;
    let mut config = args.config.as_deref().map(read).transpose()?;
    let (advice, notes) = recommended(&page.bottlenecks, config.as_mut(), args.high_only);

    if args.json {
        print_line(serde_json::to_string(&advice)?);
    } else {
        print(text(&advice, &page.bottlenecks));
    }
    notes.iter().for_each(|note| eprintln!("plimsoll advise: {note}"));

    if let (Some(config), Some(path)) = (config, &args.output) {
        let changed = config.finish()?;
        write(path, &changed)?;
        let changes = advice.iter().filter_map(change).collect::<String>();
        eprint!("{}\n{changes}", path.display());
    }
    Ok(Exit::Success)
}

async fn bottlenecks(args: &AdviseArgs) -> Result<BottlenecksPage> {
    let subject = args.subject.as_deref();
    if let Some(path) = subject.filter(|subject| subject.ends_with(".json")) {
        return of_report(Path::new(path));
    }
    let run = subject.map(run_of).transpose()?.map(str::to_owned);
    // Without times the range of a run is its own.
    let range = (args.range.is_given() || run.is_none()).then(|| args.range.seconds(&Zoned::now()));
    let range = range.transpose()?;
    let parameters = [
        ("run", run),
        ("from", range.map(|range| range.from.to_string())),
        ("to", range.map(|range| range.to.to_string())),
    ];
    let parameters: Vec<_> = parameters.iter().map(|(key, value)| (*key, value)).collect();
    page(&args.at.api()?, &with_parameters(PATH, &parameters)).await
}

fn of_report(path: &Path) -> Result<BottlenecksPage> {
    #[derive(Deserialize)]
    struct Report {
        bottlenecks: Option<BottlenecksPage>,
    }
    let named = || path.display().to_string();
    let text = fs::read_to_string(path).with_context(named)?;
    let report: Report = serde_json::from_str(&text).with_context(named)?;
    let why = "it has no bottlenecks: write it anew with plimsoll report -o FILE.json";
    report.bottlenecks.context(why).with_context(named)
}

fn read(path: &Path) -> Result<Config> {
    let text = fs::read_to_string(path).with_context(|| format!("--config {}", path.display()))?;
    Config::read(text).with_context(|| format!("--config {}", path.display()))
}

/// A file that exists is never replaced: it may be the configuration itself.
fn write(path: &Path, text: &str) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("--output {}", path.display()))
}

/// The recommendations for what was found, the most urgent first, and what could not be changed.
fn recommended(
    rows: &[BottleneckRow],
    mut config: Option<&mut Config>,
    high_only: bool,
) -> (Vec<Advice>, Vec<String>) {
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for of in shipped() {
        let is_wanted = !high_only || of.priority == Priority::High;
        let Some(cause) = of.cause(rows).filter(|_| is_wanted) else { continue };
        let setting = config.as_ref().and_then(|config| config.setting(&of));
        // With a configuration, advice on settings that it does not have is of no use.
        if config.is_some() && setting.is_none() && !of.keys.is_empty() {
            continue;
        }

        if let (Some(config), Some(setting)) = (config.as_mut(), &setting)
            && let Err(error) = config.apply(setting.clone())
        {
            notes.push(format!("{}: {error:#}", of.name));
        }
        all.push(Advice {
            effect: of.effect(cause),
            name: of.name,
            priority: of.priority,
            title: of.title,
            because: cause.rule.to_string(),
            evidence: cause.evidence.clone(),
            key: setting.as_ref().map(|of| of.key.clone()),
            current: setting.as_ref().map(|of| of.current.clone()),
            recommended: setting.map(|of| of.recommended),
            runbook: cause.runbook.clone(),
        });
    }
    all.sort_by_key(|advice| advice.priority);
    (all, notes)
}

fn text(advice: &[Advice], rows: &[BottleneckRow]) -> String {
    let mut text = String::new();
    for of in advice {
        let priority = if of.priority == Priority::High { "high" } else { "medium" };
        text += &format!("{priority:<7} {}\n", of.title);
        text += &format!("        because  {}: {}\n", of.because, of.evidence);
        if let Some(change) = change(of) {
            text += &format!("        change   {}", change.trim_start());
        }
        text += &format!("        expect   {}\n", of.effect.expected);
        text += &format!("        since    {}\n", of.effect.derived);
    }
    if advice.is_empty() {
        text += "nothing to recommend: no bottleneck was found that a setting helps against\n";
    }
    for row in rows.iter().filter(|row| row.state == BottleneckState::NotMeasured) {
        text += &format!("{}: {}\n", row.rule, row.evidence);
    }
    text
}

fn change(of: &Advice) -> Option<String> {
    let (key, current) = (of.key.as_ref()?, of.current.as_ref()?);
    Some(format!("  {key}: {current} -> {}\n", of.recommended.as_ref()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows() -> Vec<BottleneckRow> {
        let row = |rule: &str, state: &str, evidence: &str| {
            json!({
                "rule": rule, "state": state, "severity": null, "cycle": "train_step",
                "value": 0.58, "limit": 0.5, "evidence": evidence, "summary": "s", "runbook": "r",
            })
        };
        let rows = json!([
            row("input_wait", "found", "input 58 % of train_step"),
            row("pressure", "found", "pressure_some_ratio 0.4 on n7"),
            row("gpu_idle", "not_measured", "not measured: no node has a GPU"),
            row("sync_wait", "within", "sync 1 %"),
        ]);
        serde_json::from_value(rows).unwrap()
    }

    #[test]
    fn advice_is_for_what_was_found_the_most_urgent_first() {
        let (advice, _) = recommended(&rows(), None, false);
        let names: Vec<&str> = advice.iter().map(|of| of.name.as_str()).collect();
        assert_eq!(names, ["loader_workers_up", "threads_down"]);
        let (high, _) = recommended(&rows(), None, true);
        assert_eq!(high.len(), 1);
        let shown = text(&advice, &rows());
        assert!(shown.contains("because  input_wait: input 58 % of train_step"), "{shown}");
        assert!(shown.ends_with("gpu_idle: not measured: no node has a GPU\n"), "{shown}");
        assert!(text(&[], &[]).starts_with("nothing to recommend"));
    }

    #[test]
    fn a_configuration_is_changed_as_a_copy_and_never_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.json");
        fs::write(&path, "{\"num_workers\": 4, \"lr\": 0.1}").unwrap();
        let mut config = read(&path).unwrap();
        let (advice, notes) = recommended(&rows(), Some(&mut config), false);
        assert_eq!(change(&advice[0]).unwrap(), "  num_workers: 4 -> 8\n");
        assert_eq!((advice.len(), notes.len()), (1, 0), "it has no threads");

        let changed = config.finish().unwrap();
        let error = write(&path, &changed).unwrap_err();
        assert!(format!("{error:#}").contains("--output"), "{error:#}");
        let copy = dir.path().join("better.json");
        write(&copy, &changed).unwrap();
        assert_eq!(fs::read_to_string(copy).unwrap(), "{\"num_workers\": 8, \"lr\": 0.1}");
        assert_eq!(fs::read_to_string(path).unwrap(), "{\"num_workers\": 4, \"lr\": 0.1}");
    }
}
