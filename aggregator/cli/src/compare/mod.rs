//! `plimsoll compare`: reads two sides, compares them, and shows the result as a table, JSON and
//! SVG. The comparison itself is `plimsoll-compare`.

mod aggregator;
mod arms;
mod baselines;
mod loaded;
mod place;
mod source;

use plimsoll_runtime::stdout::{print, print_line};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use plimsoll_compare::{Comparison, Named, Options, Side, Verdict, compare_runs, plot, table};
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::rule::WrittenLimit;
use plimsoll_schemas::unit;

use crate::interval_log::Unit;
use crate::targets::Target;
use aggregator::Source;
pub(crate) use aggregator::Stored;
use arms::{Arms, ComparedArms, arms};
use baselines::{Baselines, Request};
pub(crate) use loaded::{LoadedRun, as_named};
pub(crate) use place::{Place, runs};
pub(crate) use source::load;

/// Operations that an error lists.
const LISTED_MAX: usize = 20;

/// Compare latencies and rates of two runs: shifts with intervals, noise floor, verdict
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll compare run:v41 run:v42 --limit fetch=18ms --svg shift.svg
  plimsoll compare range:09:00/09:30 range:10:00/10:30 --operation fetch
  plimsoll compare 'run:v1-*' 'run:v2-*'
  plimsoll compare range:09:00/10:00 --arms variant=blue
  plimsoll compare before.hlog after.hlog
  plimsoll compare --baseline save v1.4 run:v41
  plimsoll compare --baseline check v1.4 after.hlog --operation fetch --json

Runs and ranges have slots of at least 10 s: they need about four minutes for a verdict. Ranges take
the times of `plimsoll query --from`. SHIFT is B / A - 1. FLOOR is the noise floor: 99 of 100
comparisons of a side with itself stay below it, so smaller shifts give no verdict.

A side may be several runs: run:v1-*, or run:v1,v2, 16 at most. From three a side on, intervals hold
for further runs too, since what runs differ by is then known. --arms splits a run or a range by the
values of a label and compares each with the first: by the roll-up of this name (rollup_labels), or
for a run by the nodes' own histories (plimsoll-node --history), with its values named as in --arms
variant=blue,green. The first is A: of the values in order, or of those that are named.

Counters are compared as rates: by the time of the operation that their name starts with, as
train_step.tokens by that of train_step, otherwise by wall time. A lower rate is worse, unless the
name is that of errors, misses, drops and the like. Sizes and counts (read:bytes) are shown, and
take part in the verdict only where --operation names them: then larger is worse.

The exit code is 0 for same and better, 7 for worse, 8 for not comparable, 9 for not enough data.")]
pub struct CompareArgs {
    /// A: run:NAME, with * and commas for several, or range:FROM/TO of an aggregator's history, an
    /// interval log (.hlog), a baseline or a report (.json); required alone with --baseline
    a: String,
    /// B: the side that is judged
    b: Option<String>,
    #[command(flatten)]
    at: Target,
    /// Save the samples of A as the baseline NAME, or judge A by it; plimsoll baseline list names
    /// all
    #[arg(long, num_args = 2, value_names = ["save|check", "NAME"])]
    baseline: Option<Vec<String>>,
    /// Directory of baselines [default: $XDG_DATA_HOME/plimsoll/baselines]
    #[arg(long, value_name = "DIR")]
    baseline_dir: Option<PathBuf>,
    /// Compare the values of a label within A, each with the first; =A names the first, =A,B all
    #[arg(
        long,
        value_name = "LABEL",
        value_parser = arms,
        conflicts_with_all = ["b", "baseline", "svg"]
    )]
    arms: Option<Arms>,
    /// Compare only this operation or counter; may be repeated
    #[arg(long, value_name = "NAME")]
    operation: Vec<Operation>,
    /// Also compare the share of samples over a limit, such as fetch=18ms; may be repeated
    #[arg(long, value_name = "NAME=TIME", value_parser = limit)]
    limit: Vec<(Operation, u64)>,
    /// Shifts up to this percentage count as unchanged
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = percentage)]
    tolerance: f64,
    /// Unit of the values in logs: ns, us or ms [default: the one in the log, or ns]
    #[arg(long)]
    unit: Option<Unit>,
    /// Draw both distributions and the shifts
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The names of the baselines that were saved in a directory, or in the user's.
pub(crate) fn saved_baselines(dir: Option<PathBuf>) -> Vec<String> {
    Baselines::find(dir).map(|baselines| baselines.names()).unwrap_or_default()
}

fn limit(text: &str) -> Result<(Operation, u64), String> {
    let (name, time) = text.split_once('=').ok_or("write it as NAME=TIME, such as fetch=18ms")?;
    let operation = Operation::new(name).map_err(|error| error.to_string())?;
    let of = unit::Unit::of(name);
    if of != unit::Unit::Nanoseconds {
        return Ok((operation, WrittenLimit::of(time).raw(of)?));
    }
    let time = humantime::parse_duration(time)
        .map_err(|error| format!("{error}; write a time with its unit, such as 18ms"))?;
    let ns = u64::try_from(time.as_nanos()).map_err(|_| "the limit is too long")?;
    Ok((operation, ns))
}

fn percentage(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('%').parse().map_err(|_| "it is not a number")?;
    if (0.0..=1_000.0).contains(&number) {
        Ok(number / 100.0)
    } else {
        Err("it is not between 0 and 1000".to_owned())
    }
}

/// Compares, or saves a baseline.
///
/// # Errors
/// When a side cannot be read, a file cannot be written, or something is named that no side has.
pub async fn compare(args: &CompareArgs) -> Result<Exit> {
    let request = match args.baseline.as_deref().map(Request::parse).transpose() {
        Ok(request) => request,
        Err(error) => return Ok(usage(&error)),
    };

    if let Some(arms) = &args.arms {
        return compare_arms(args, arms).await;
    }

    let baselines = || Baselines::find(args.baseline_dir.clone());
    let (a, b) = match (request, &args.b) {
        (None, Some(b)) => (side_of(args, &args.a).await?, side_of(args, b).await?),
        (Some(Request::Check(name)), None) => {
            let side = baselines()?.load(&name)?;
            (vec![LoadedRun { name, side }], side_of(args, &args.a).await?)
        }
        (Some(Request::Save(name)), None) => {
            let runs = side_of(args, &args.a).await?;
            let [run] = runs.as_slice() else {
                bail!("a baseline is of one run, and {} are {}", args.a, runs.len());
            };
            let path = baselines()?.save(&name, &run.side)?;
            print_line(format_args!("saved {}", path.display()));
            return Ok(Exit::Success);
        }
        (None, None) => return Ok(usage("give two sides, or use --baseline check NAME")),
        (Some(_), Some(_)) => return Ok(usage("--baseline takes one side")),
    };

    let sides: [&[_]; 2] = [&as_named(&a), &as_named(&b)];
    let comparison = compare_runs(sides, &options(args, sides)?);
    show(args, &comparison, sides)?;
    Ok(exit(comparison.verdict))
}

/// Compares the arms of A with each other.
async fn compare_arms(args: &CompareArgs, arms: &Arms) -> Result<Exit> {
    let Place::Stored(stored) = Place::of(&args.a, args.unit)? else {
        bail!("--arms: {} is a file; split run:NAME or range:FROM/TO", args.a);
    };
    let api = args.at.api()?;
    let source = Source::of(&api, &args.operation).await?;
    let runs = source.arms(&stored, arms).await.with_context(|| args.a.clone())?;
    let named = as_named(&runs);
    let found = ComparedArms::of(&named, options(args, [&named, &[]])?);

    if args.json {
        print_line(serde_json::to_string(&found)?);
    } else {
        print(found.table());
    }
    Ok(exit(found.verdict))
}

/// A side from an aggregator or from a file.
async fn side_of(args: &CompareArgs, text: &str) -> Result<Vec<LoadedRun>> {
    runs(|| args.at.api(), text, &Place::of(text, args.unit)?, &args.operation).await
}

fn usage(error: &str) -> Exit {
    eprintln!("plimsoll compare: {error}");
    Exit::Usage
}

fn options(args: &CompareArgs, sides: [&[Named<Side>]; 2]) -> Result<Options> {
    let runs = sides.into_iter().flatten().map(|run| run.of);
    let known: BTreeSet<&Operation> =
        runs.flat_map(|side| side.operations.keys().chain(side.rates.keys())).collect();
    let limited = args.limit.iter().map(|(name, _)| ("--limit", name));
    let named = args.operation.iter().map(|name| ("--operation", name));

    for (option, name) in named.chain(limited) {
        if !known.contains(name) {
            let names: Vec<&str> =
                known.iter().map(|name| name.as_str()).take(LISTED_MAX).collect();
            bail!(
                "{option} {name}: neither side has this operation; they have {}",
                names.join(", ")
            );
        }
    }

    Ok(Options {
        operations: args.operation.iter().cloned().collect(),
        limits: args.limit.iter().cloned().collect::<BTreeMap<_, _>>(),
        tolerance: args.tolerance,
        others: 0,
    })
}

fn show(args: &CompareArgs, comparison: &Comparison, sides: [&[Named<Side>]; 2]) -> Result<()> {
    if let Some(path) = &args.svg {
        let svg = plot::svg(comparison, sides);
        std::fs::write(path, svg).with_context(|| format!("--svg {}", path.display()))?;
    }
    if args.json {
        print_line(serde_json::to_string(comparison)?);
    } else {
        print(table::table(comparison));
    }
    Ok(())
}

fn exit(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Same | Verdict::Better => Exit::Success,
        Verdict::Worse => Exit::Worse,
        Verdict::NotComparable => Exit::NotComparable,
        Verdict::NotEnoughData => Exit::NotEnoughData,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_tolerances_are_read_with_their_units() {
        assert_eq!(limit("fetch=18ms"), Ok((Operation::new("fetch").unwrap(), 18_000_000)));
        let size = Operation::new("read:bytes").unwrap();
        assert_eq!(limit("read:bytes=12 MB"), Ok((size, 12_000_000)));
        for (text, words) in
            [("fetch", "NAME=TIME"), ("a b=1ms", "contains a space"), ("fetch=18", "with its unit")]
        {
            let error = limit(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!((percentage("2.5%"), percentage("0")), (Ok(0.025), Ok(0.0)));
        assert!(percentage("-1").is_err() && percentage("x").is_err());
    }

    #[test]
    fn each_verdict_that_a_gate_stops_for_has_its_exit_code() {
        let codes = [
            (Verdict::Same, 0),
            (Verdict::Better, 0),
            (Verdict::Worse, 7),
            (Verdict::NotComparable, 8),
            (Verdict::NotEnoughData, 9),
        ];
        for (verdict, code) in codes {
            assert_eq!(exit(verdict) as u8, code, "{verdict:?}");
        }
    }
}
