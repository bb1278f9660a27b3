//! `plimsoll report`: what an aggregator has of a run or a range, as HTML, Markdown or JSON.
//!
//! `ask` collects the `material`, and nothing else asks; `compose` turns it into the `document`,
//! which is the JSON; `redact` replaces the names in it; `html` and `markdown` write its `sections`
//! for people. `samples` is what `compare` reads of a JSON.
//!
//! DESIGN A85.

mod advice;
mod ask;
mod beside;
mod compose;
mod document;
mod drill;
mod epochs;
mod headline;
mod html;
mod limits;
mod machines;
mod markdown;
mod material;
mod metrics;
pub(crate) mod pseudonyms;
mod redact;
mod samples;
mod sections;
mod shares;
mod tables;
#[cfg(test)]
mod tests;
mod time_over;
mod wanted;
mod words;

use plimsoll_runtime::stdout::print;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use jiff::Zoned;
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::ids::Operation;

use crate::run_results::{RecordedEpochs, RunResults};
use crate::runs::run_of;
use crate::targets::Target;
use crate::time_range::TimeRange;
use ask::Request;
use compose::compose;
use document::DrillResult;
use drill::read;
use headline::headline;
use material::Material;
use redact::redact;
pub(crate) use samples::side_of;
use wanted::Wanted;

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One self-contained page.
    Html,
    /// Text with tables.
    Markdown,
    /// All figures, and what `plimsoll compare` needs.
    Json,
}

/// Write a report of a run or a range: HTML, Markdown or JSON
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll report --last 1h --output report.html
  plimsoll report run:v42 --output v42.html
  plimsoll report run:v42 --beside run:v41 --output v42.html
  plimsoll report --from 10:05 --to 10:10 --operation fetch           Markdown on standard output
  plimsoll report run:v42 --output v42.json && plimsoll compare v41.json v42.json
  drill-faults --json > drill.json; plimsoll report --drill drill.json --output report.html
  plimsoll report run:v42 --results v42-results.json --output v42.html
  plimsoll report run:v42 --redact --output to-share.html

Without --format, the suffix of --output decides: .html, .md or .json. Ranges are widened to whole
slots of the history; the range of a run is from its start to its end (`plimsoll runs` lists them).
Alerts and events are those of the range that the aggregator still has; the ledger has totals since
the start. Times without a time zone are in the time zone of this machine ($TZ).

With --redact, a name has the same pseudonym (node-1, value-3) everywhere in one report and another
in the next. Numbers, times, and names of operations, budgets, rules and sensors stay. In texts of
events and drills names are found that the aggregator knows, paths, addresses and key=value; read
their other words before you share them.")]
pub struct ReportArgs {
    /// run:NAME; without it, the fleet in a range
    subject: Option<String>,
    #[command(flatten)]
    range: TimeRange,
    /// Report only this operation; may be repeated
    #[arg(long, value_name = "NAME")]
    operation: Vec<Operation>,
    /// Format of the report [default: by the suffix of --output, or markdown]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Report of a drill, as printed by --json of any drill but drill-sim; may be repeated
    #[arg(long, value_name = "FILE")]
    drill: Vec<PathBuf>,
    /// Compare with another run, range or file, as A of `plimsoll compare`; the report is B
    #[arg(long, value_name = "SIDE")]
    beside: Option<String>,
    /// Results of the run, as `plimsoll run --results` wrote them: its epochs as recorded
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Replace names of nodes, hosts, users, runs and the mesh, values of labels, and paths by
    /// pseudonyms
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    at: Target,
}

/// Writes a report.
///
/// # Errors
/// When the aggregator does not answer or has no history, when a run or an operation is unknown, or
/// a file cannot be read or written.
pub async fn report(args: &ReportArgs) -> Result<Exit> {
    let now = Zoned::now();
    let (format, wanted) = match (format(args), wanted(args, &now)) {
        (Ok(format), Ok(wanted)) => (format, wanted),
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("plimsoll report: {error:#}");
            return Ok(Exit::Usage);
        }
    };

    let drills: Vec<DrillResult> =
        args.drill.iter().map(|path| read(path)).collect::<Result<_>>()?;
    let recorded = args.results.as_deref().map(|path| recorded(path, &wanted)).transpose()?;
    let api = args.at.api()?;
    let with_slots = format == Format::Json;
    let with_epochs = recorded.as_ref().is_none_or(|of| of.epoch_operation.is_none());
    let (named, beside) = (&args.operation, args.beside.as_deref());
    let request = Request { api: &api, wanted, named, with_slots, with_epochs, beside };
    let material = Material { recorded, ..request.send(drills).await? };
    let text = rendered(&material, &now, Form { format, redact: args.redact })?;

    match &args.output {
        Some(path) => write(path, &text)?,
        None => print(text),
    }

    Ok(Exit::Success)
}

/// The epochs in the results of the run that is wanted.
fn recorded(path: &Path, wanted: &Wanted) -> Result<RecordedEpochs> {
    let found = RunResults::read(path)?;
    let Wanted::Run(name) = wanted else {
        bail!("--results {}: give run:{} too", path.display(), found.run);
    };
    ensure!(found.run == *name, "--results {}: of run {}, not {name}", path.display(), found.run);
    Ok(found.epochs)
}

/// How a report is written, and whether with its names.
#[derive(Clone, Copy)]
struct Form {
    format: Format,
    redact: bool,
}

/// The text of a report.
fn rendered(material: &Material, now: &Zoned, form: Form) -> Result<String> {
    let zone = now.time_zone();
    let mut document = compose(material, zone)?;
    if form.redact {
        redact(&mut document, material)?;
    }
    let sentence = headline(&document, zone);
    document.summary = match material.is_of_fleet {
        true => format!("Of the fleet, since no sample has the label of the run: {sentence}"),
        false => sentence,
    };
    Ok(match form.format {
        Format::Html => html::page(&document, zone),
        Format::Markdown => markdown::text(&document, zone),
        Format::Json => serde_json::to_string_pretty(&document)? + "\n",
    })
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("--output {}", path.display()))
}

fn format(args: &ReportArgs) -> Result<Format> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    let Some(path) = &args.output else { return Ok(Format::Markdown) };
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();

    let known = match ending {
        "html" | "htm" => Some(Format::Html),
        "md" | "markdown" => Some(Format::Markdown),
        "json" => Some(Format::Json),
        _ => None,
    };

    known.with_context(|| {
        format!("--output {}: end it with .html, .md or .json, or use --format", path.display())
    })
}

fn wanted(args: &ReportArgs, now: &Zoned) -> Result<Wanted> {
    let Some(subject) = &args.subject else {
        let range = args.range.seconds(now)?;
        ensure!(
            range.from < range.to,
            "the range ends before it starts: --from must be earlier than --to"
        );
        return Ok(Wanted::Range(range));
    };
    let name = run_of(subject)?;
    ensure!(!args.range.is_given(), "{subject}: a run has its own range; leave the times out");
    Ok(Wanted::Run(name.to_owned()))
}
