//! Baselines of rules about regressions: their files, and how far the fleet is from them.
//!
//! A rule compares the samples of its window, from the history, with those of its baseline. What is
//! found is the metric `regression:<operation>`.
//!
//! DESIGN A83.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use plimsoll_compare::{
    BucketLayout, Compared, ComparedRate, Options, Side, Verdict, baseline, compare, history,
};
use plimsoll_schemas::ids::{Labels, Operation, RuleName};
use plimsoll_schemas::metric::Metric;
use plimsoll_schemas::rule::{Baseline, Threshold};
use plimsoll_schemas::time::Wall;
use thiserror::Error;

use super::history::{HistoryReader, ReadError};
use crate::core::fleet::Pool;
use crate::core::history::{Accumulator, HistoryQuery, Layout, NoHistory};
use crate::core::rules::Value;
use crate::limits::BASELINE_BYTES_MAX;

/// Why a rule cannot be judged.
#[derive(Debug, Error)]
pub enum BaselineError {
    #[error("{path}: {why}; `plimsoll compare --baseline save` writes one")]
    Unreadable { path: String, why: String },
    #[error("{path}: no operation {operation}; it has {}", .known.join(", "))]
    Operation {
        path: String,
        operation: Operation,
        /// Those that it has.
        known: Vec<String>,
    },
    #[error(
        "{path}: its buckets are {layout}, the mesh's are {}; save a baseline of a run or range",
        BucketLayout::MESH
    )]
    Layout { path: String, layout: BucketLayout },
    #[error("{0}")]
    History(#[from] ReadError),
    #[error("{0}")]
    Window(#[from] NoHistory),
}

fn compared(rule: &Threshold) -> Option<(&Operation, &Baseline)> {
    match (&rule.metric, &rule.baseline) {
        (Metric::Regression(operation), Some(baseline)) => Some((operation, baseline)),
        _ => None,
    }
}

/// Checks the baseline of a rule, if it has one.
///
/// # Errors
/// Names the rule, the file and the fix.
pub fn check(rule: &Threshold) -> Result<(), String> {
    let Some((operation, baseline)) = compared(rule) else { return Ok(()) };
    let name = rule.name.as_str();
    let loaded = load(operation, &baseline.path);
    loaded.map(drop).map_err(|error| format!("rule {name:?}: baseline: {error}"))
}

/// By how much the operation of a rule has regressed, or why that cannot be judged.
pub type Regression = Result<Value, String>;

/// By how much the operations of rules have regressed.
pub fn judge(
    rules: &[Threshold],
    reader: &HistoryReader,
    now: Wall,
) -> BTreeMap<RuleName, Regression> {
    let one = |rule: &Threshold| {
        let (operation, baseline) = compared(rule)?;
        let found = judge_one(operation, baseline, reader, now);
        let found = found.unwrap_or_else(|error| Err(error.to_string()));
        Some((rule.name.clone(), found))
    };
    rules.iter().filter_map(one).collect()
}

fn judge_one(
    operation: &Operation,
    Baseline { path, window }: &Baseline,
    reader: &HistoryReader,
    now: Wall,
) -> Result<Regression, BaselineError> {
    // Read anew each time: once a minute it costs little,
    // and a baseline that is saved anew counts from then on.
    let a = load(operation, path)?;
    let is_rate = a.rates.contains_key(operation);
    let b = recent(operation, is_rate, window.span(), reader, now)?;
    // The rule itself states which shift matters.
    let mut compared = compare(&a, &b, &Options::default());
    let rate = compared.rates.remove(operation).map(rate_value);
    let latency = || compared.operations.remove(operation).map(value);
    Ok(rate.or_else(latency).unwrap_or_else(|| Err("nothing was compared".to_owned())))
}

fn load(operation: &Operation, path: &str) -> Result<Side, BaselineError> {
    let unreadable = |why: String| BaselineError::Unreadable { path: path.to_owned(), why };
    let text = read(Path::new(path)).map_err(unreadable)?;
    let mut side = baseline::read(&text).map_err(|error| unreadable(error.to_string()))?;
    let Some(measured) = side.operations.remove(operation) else {
        // A name that is both is that of the latency, as a rule may have meant before.
        if let Some(rate) = side.rates.remove(operation) {
            return Ok(Side { rates: [(operation.clone(), rate)].into(), ..Side::default() });
        }
        let known = side.operations.keys().chain(side.rates.keys());
        let known = known.map(ToString::to_string).collect();
        let (path, operation) = (path.to_owned(), operation.clone());
        return Err(BaselineError::Operation { path, operation, known });
    };
    // Named at the start with its fix, where a comparison would only find it `not comparable`.
    if measured.layout != BucketLayout::MESH {
        return Err(BaselineError::Layout { path: path.to_owned(), layout: measured.layout });
    }
    Ok(Side { operations: [(operation.clone(), measured)].into(), ..Side::default() })
}

/// The text of a regular file.
fn read(path: &Path) -> Result<String, String> {
    let words = |error: std::io::Error| error.to_string();
    // Opening a pipe would block until a writer opens it.
    let open = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = open.map_err(words)?;
    if !file.metadata().map_err(words)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut text = String::new();
    file.take(BASELINE_BYTES_MAX + 1).read_to_string(&mut text).map_err(words)?;
    if text.len() as u64 > BASELINE_BYTES_MAX {
        return Err(format!("it has more than {BASELINE_BYTES_MAX} bytes"));
    }
    Ok(text)
}

/// The fleet's samples of an operation, or its rate of a counter, in the window up to now.
fn recent(
    operation: &Operation,
    is_rate: bool,
    window: Duration,
    reader: &HistoryReader,
    now: Wall,
) -> Result<Side, BaselineError> {
    let range = now.minus(window)..now;
    let step = Some(Duration::from_secs_f64(history::step(window.as_secs_f64())));
    let of_operation = HistoryQuery {
        pool: Pool::Fleet(operation.clone()),
        metrics: Vec::new(),
        range: range.clone(),
        step,
        quantiles: Vec::new(),
        limits_ns: Vec::new(),
        with_distribution: true,
        nodes: None,
    };
    let of_metric = || HistoryQuery::of_metric(operation, &[], Pool::Fleet, range, step);
    let query = if is_rate { of_metric() } else { of_operation };

    let reading = reader.read()?;
    let mut answer =
        Accumulator::new(Layout::of(&query.range, query.step, now, &reading.kept_from())?);
    let mut side = Side::default();
    if !reading.add_to(&mut answer, &query.keys())?.contains(&true) {
        return Ok(side);
    }

    if is_rate {
        let points = answer.metric_points(&query.metrics[0], &[], Wall(0), query.unit());
        let has_operation = points.iter().any(|point| point.operation_seconds.is_some());
        let by = has_operation.then(|| query.pool.operation_name());
        let rate = history::rate_of(&points, by);
        side.rates.extend(rate.map(|rate| (operation.clone(), rate)));
    } else {
        let measured = history::measured(&answer.points(&query));
        side.operations.insert(operation.clone(), measured);
    }

    Ok(side)
}

/// By how much a rate is worse, if that is shown; 0 if it is not.
fn rate_value(compared: ComparedRate) -> Regression {
    let Some(change) = compared.change else {
        let reason = compared.reason.unwrap_or_default();
        return Err(format!("{}: {reason}", compared.verdict.words()));
    };
    let worse = |share: f64| if compared.lower_is_better { share } else { -share };
    let is_worse = change.verdict == Verdict::Worse;
    let labels = [("low", worse(change.high)), ("high", worse(change.low))];
    let labels = labels.map(|(key, share)| (key, format!("{share:.4}")));
    let value = if is_worse { worse(change.estimate) } else { 0.0 };
    Ok(Value { value, labels: Labels::new(labels).unwrap_or_default() })
}

/// The greatest shift that is shown to be one, with its interval; 0 if none is.
fn value(compared: Compared) -> Regression {
    let verdict = compared.verdict;
    match verdict {
        Verdict::NotEnoughData | Verdict::NotComparable => {
            let reason = compared.reason.unwrap_or_default();
            return Err(format!("{}: {reason}", verdict.words()));
        }
        Verdict::Same | Verdict::Better | Verdict::Worse => {}
    }

    let changes = compared.shifts.iter().filter_map(|shift| Some((shift, shift.change?)));
    let worse = changes.filter(|(_, change)| change.verdict == Verdict::Worse);
    let greatest = worse.max_by(|(_, a), (_, b)| a.estimate.total_cmp(&b.estimate));
    let samples =
        |side: Option<plimsoll_compare::Extent>| side.map_or(0, |side| side.samples).to_string();
    let (samples, of_baseline) = (samples(compared.b), samples(compared.a));
    let mut labels = vec![("samples", samples), ("baseline_samples", of_baseline)];

    if let Some((shift, change)) = greatest {
        labels.push(("quantile", shift.quantile.to_string()));
        labels.push(("low", format!("{:.4}", change.low)));
        labels.push(("high", format!("{:.4}", change.high)));
    }

    let value = greatest.map_or(0.0, |(_, change)| change.estimate);
    Ok(Value { value, labels: Labels::new(labels).unwrap_or_default() })
}

#[cfg(test)]
pub(crate) mod tests;
