//! A comparison as a table for people.

use std::fmt::Write;

use plimsoll_schemas::figure::{self, counted, quantile};
use plimsoll_schemas::unit::Unit;

use crate::change::Change;
use crate::comparison::{Compared, Comparison, Extent, ShareShift, Shift};
use crate::figures::RunFigures;
use crate::rate::{ComparedRate, RunRate};
use crate::verdict::Verdict;

/// What an interval is silent about.
pub const WITHIN_RUNS_ONLY: &str = "Intervals hold within these runs only";
/// Quantiles of each run; JSON has all.
const OF_RUNS: [f64; 2] = [0.5, 0.99];

/// One table for each operation, and the verdict at the end.
pub fn table(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (name, compared) in &comparison.operations {
        let unit = Unit::of(name.as_str());
        text += &heading(name.as_str(), compared, unit);
        text += &rows(compared, comparison.confidence, unit);
        text.push('\n');
    }
    for (name, rate) in &comparison.rates {
        text += &sentence(name.as_str(), rate);
        for (side, runs) in [("A", &rate.a_runs), ("B", &rate.b_runs)] {
            let run = |of: &RunRate| format!("{} {}", of.run, figure::number(of.rate));
            let runs: Vec<String> = runs.iter().map(run).collect();
            if !runs.is_empty() {
                let _written = write!(text, "\n  {side}: {}", runs.join(", "));
            }
        }
        text.push_str("\n\n");
    }
    if let Some(why) = &comparison.within_runs_only {
        let _written = writeln!(text, "{WITHIN_RUNS_ONLY}: {why}\n");
    }
    let _written = writeln!(text, "verdict: {}", comparison.verdict.words());
    text
}

/// What became of a rate, in one line.
pub fn sentence(name: &str, rate: &ComparedRate) -> String {
    let by = rate.operation.as_ref().map_or(String::new(), |of| format!(" of {of}"));
    let [a, b] = [rate.a, rate.b].map(figure::number);
    let verdict = rate.verdict.words();
    let found = match (&rate.change, &rate.reason) {
        (Some(change), _) => format!(
            "{} ({} to {}), {verdict}",
            percent(change.estimate),
            percent(change.low),
            percent(change.high)
        ),
        (None, Some(reason)) => format!("{verdict}: {reason}"),
        (None, None) => verdict.to_owned(),
    };
    let direction = if rate.lower_is_better { "; less is better" } else { "" };
    format!("{name}/s{by} {found}; A {a}, B {b}{direction}")
}

/// A shift, with its sign.
pub fn percent(share: f64) -> String {
    format!("{}{}", if share > 0.0 { "+" } else { "" }, figure::percent(share))
}

fn heading(name: &str, compared: &Compared, unit: Unit) -> String {
    let mut text = format!("{name}: {}", compared.verdict.words());
    if let Some(reason) = &compared.reason {
        let _written = write!(text, ": {reason}");
    }
    text.push('\n');
    let sides = [("A", compared.a, &compared.a_runs), ("B", compared.b, &compared.b_runs)];
    for (side, extent, runs) in sides {
        if let Some(extent) = extent {
            text += &of_side(side, extent, runs.len());
        }
        text.extend(runs.iter().map(|run| of_run(run, unit)));
    }
    text
}

/// The figures of one run of several.
fn of_run(of: &RunFigures, unit: Unit) -> String {
    let shown = of.quantiles.iter().filter(|found| OF_RUNS.contains(&found.quantile));
    let shown = shown
        .map(|found| format!(", {} {}", quantile(found.quantile), unit.raw_text(found.value_ns)));
    format!("    {}: {}{}\n", of.run, counted(of.samples, "sample"), shown.collect::<String>())
}

fn of_side(side: &str, extent: Extent, runs: usize) -> String {
    let Extent { samples, slots, blocks, block_slots } = extent;
    let blocks = match blocks {
        0 => String::new(),
        _ => format!(", resampled in {} of {block_slots}", counted(blocks as u64, "block")),
    };
    let of_runs = match runs {
        0 => String::new(),
        _ => format!(" of {}", counted(runs as u64, "run")),
    };
    let (samples, slots) = (counted(samples, "sample"), counted(slots as u64, "interval"));
    format!("  {side}: {samples} in {slots}{of_runs}{blocks}\n")
}

fn rows(compared: &Compared, confidence: f64, unit: Unit) -> String {
    if compared.shifts.is_empty() {
        return String::new();
    }
    let interval = format!("{} INTERVAL", figure::percent(confidence));
    let mut text = format!(
        "  {:<12} {:>11} {:>11} {:>9} {interval:>20} {:>9}\n",
        "QUANTILE", "A", "B", "SHIFT", "FLOOR"
    );
    compared.shifts.iter().for_each(|shift| text += &shift_row(shift, unit));
    if let Some(share) = &compared.over_limit {
        text += &share_row(share, unit);
    }
    text
}

fn shift_row(shift: &Shift, unit: Unit) -> String {
    let values = [shift.a_ns, shift.b_ns].map(|raw| unit.raw_text(raw));
    row(&quantile(shift.quantile), values, shift.change.as_ref())
}

fn share_row(share: &ShareShift, unit: Unit) -> String {
    let name = format!("> {}", unit.raw_text(share.limit_ns));
    let shares = [share.a, share.b].map(figure::percent);
    row(&name, shares, share.change.as_ref())
}

fn row(name: &str, [a, b]: [String; 2], change: Option<&Change>) -> String {
    let Some(change) = change else {
        return format!("  {name:<12} {a:>11} {b:>11} {:>9}\n", "too few");
    };
    let interval = format!("{} to {}", percent(change.low), percent(change.high));
    let mark = if change.verdict == Verdict::Same { "" } else { change.verdict.words() };
    let line = format!(
        "  {name:<12} {a:>11} {b:>11} {:>9} {interval:>20} {:>9}  {mark}",
        percent(change.estimate),
        figure::percent(change.floor),
    );
    line.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plimsoll_schemas::ids::Operation;

    use super::*;
    use crate::figures::RunQuantile;

    fn compared() -> Compared {
        let extent = Extent { samples: 1_000, slots: 40, blocks: 20, block_slots: 2 };
        let change =
            Change { estimate: 0.05, low: 0.02, high: 0.081, floor: 0.03, verdict: Verdict::Worse };
        let shift =
            |quantile, change| Shift { quantile, a_ns: 10_000_000, b_ns: 10_500_000, change };
        let share = ShareShift { limit_ns: 18_000_000, a: 0.001, b: 0.003, change: Some(change) };
        Compared {
            verdict: Verdict::Worse,
            reason: None,
            a: Some(extent),
            b: Some(extent),
            a_runs: Vec::new(),
            b_runs: ["v2-1", "v2-2"]
                .map(|run| RunFigures {
                    run: run.to_owned(),
                    samples: 500,
                    quantiles: vec![RunQuantile { quantile: 0.5, value_ns: 10_500_000 }],
                    over_limit: None,
                })
                .to_vec(),
            shifts: vec![shift(0.5, Some(change)), shift(0.999, None)],
            over_limit: Some(share),
        }
    }

    #[test]
    fn each_quantile_has_a_row_with_its_interval_and_floor() {
        let absent = Compared {
            verdict: Verdict::NotComparable,
            reason: Some("only B has it".to_owned()),
            a: None,
            b_runs: Vec::new(),
            shifts: Vec::new(),
            over_limit: None,
            ..compared()
        };
        let names = ["fetch", "publish"].map(|name| Operation::new(name).unwrap());
        let operations = names.into_iter().zip([compared(), absent]).collect::<BTreeMap<_, _>>();
        let rate = ComparedRate {
            verdict: Verdict::Worse,
            reason: None,
            operation: Some("train_step".to_owned()),
            lower_is_better: false,
            a: 1_000.0,
            b: 909.0,
            change: Some(Change {
                estimate: -0.091,
                low: -0.099,
                high: -0.084,
                floor: 0.01,
                verdict: Verdict::Worse,
            }),
            a_runs: Vec::new(),
            b_runs: ["v2-1", "v2-2"]
                .map(|run| RunRate { run: run.to_owned(), rate: 909.0 })
                .to_vec(),
        };
        let comparison = Comparison {
            verdict: Verdict::Worse,
            confidence: 0.95,
            floor_confidence: 0.99,
            tolerance: 0.01,
            a_runs: vec!["v1".to_owned()],
            b_runs: vec!["v2-1".to_owned(), "v2-2".to_owned()],
            within_runs_only: Some("A has 1 run".to_owned()),
            operations,
            rates: BTreeMap::from([(Operation::new("train_step.tokens").unwrap(), rate)]),
        };
        let expected = "\
fetch: worse
  A: 1,000 samples in 40 intervals, resampled in 20 blocks of 2
  B: 1,000 samples in 40 intervals of 2 runs, resampled in 20 blocks of 2
    v2-1: 500 samples, p50 10.5 ms
    v2-2: 500 samples, p50 10.5 ms
  QUANTILE               A           B     SHIFT        95 % INTERVAL     FLOOR
  p50                10 ms     10.5 ms      +5 %       +2 % to +8.1 %       3 %  worse
  p99.9              10 ms     10.5 ms   too few
  > 18 ms            0.1 %       0.3 %      +5 %       +2 % to +8.1 %       3 %  worse

publish: not comparable: only B has it
  B: 1,000 samples in 40 intervals, resampled in 20 blocks of 2

train_step.tokens/s of train_step -9.1 % (-9.9 % to -8.4 %), worse; A 1,000, B 909
  B: v2-1 909, v2-2 909

Intervals hold within these runs only: A has 1 run

verdict: worse
";
        assert_eq!(table(&comparison), expected);
    }
}
