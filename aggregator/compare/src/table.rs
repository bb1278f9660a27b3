//! A comparison as a table for people.

use std::fmt::Write;

use plimsoll_schemas::figure::{self, counted, quantile, span};

use crate::change::Change;
use crate::comparison::{Compared, Comparison, Extent, ShareShift, Shift};
use crate::rate::ComparedRate;
use crate::verdict::Verdict;

/// One table for each operation, and the verdict at the end.
pub fn table(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (name, compared) in &comparison.operations {
        text += &heading(name.as_str(), compared);
        text += &rows(compared, comparison.confidence);
        text.push('\n');
    }
    for (name, rate) in &comparison.rates {
        text += &sentence(name.as_str(), rate);
        text.push_str("\n\n");
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
pub(crate) fn percent(share: f64) -> String {
    format!("{}{}", if share > 0.0 { "+" } else { "" }, figure::percent(share))
}

fn heading(name: &str, compared: &Compared) -> String {
    let mut text = format!("{name}: {}", compared.verdict.words());
    if let Some(reason) = &compared.reason {
        let _written = write!(text, ": {reason}");
    }
    text.push('\n');
    for (side, extent) in [("A", compared.a), ("B", compared.b)] {
        if let Some(extent) = extent {
            text += &of_side(side, extent);
        }
    }
    text
}

fn of_side(side: &str, extent: Extent) -> String {
    let Extent { samples, slots, blocks, block_slots } = extent;
    let blocks = match blocks {
        0 => String::new(),
        _ => format!(", resampled in {} of {block_slots}", counted(blocks as u64, "block")),
    };
    let (samples, slots) = (counted(samples, "sample"), counted(slots as u64, "interval"));
    format!("  {side}: {samples} in {slots}{blocks}\n")
}

fn rows(compared: &Compared, confidence: f64) -> String {
    if compared.shifts.is_empty() {
        return String::new();
    }
    let interval = format!("{} INTERVAL", figure::percent(confidence));
    let mut text = format!(
        "  {:<12} {:>11} {:>11} {:>9} {interval:>20} {:>9}\n",
        "QUANTILE", "A", "B", "SHIFT", "FLOOR"
    );
    compared.shifts.iter().for_each(|shift| text += &shift_row(shift));
    if let Some(share) = &compared.over_limit {
        text += &share_row(share);
    }
    text
}

fn shift_row(shift: &Shift) -> String {
    let values = [shift.a_ns, shift.b_ns].map(|ns| span(ns as f64 / 1e9));
    row(&quantile(shift.quantile), values, shift.change.as_ref())
}

fn share_row(share: &ShareShift) -> String {
    let name = format!("> {}", span(share.limit_ns as f64 / 1e9));
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
        };
        let comparison = Comparison {
            verdict: Verdict::Worse,
            confidence: 0.95,
            floor_confidence: 0.99,
            tolerance: 0.01,
            operations,
            rates: BTreeMap::from([(Operation::new("train_step.tokens").unwrap(), rate)]),
        };
        let expected = "\
fetch: worse
  A: 1,000 samples in 40 intervals, resampled in 20 blocks of 2
  B: 1,000 samples in 40 intervals, resampled in 20 blocks of 2
  QUANTILE               A           B     SHIFT        95 % INTERVAL     FLOOR
  p50                10 ms     10.5 ms      +5 %       +2 % to +8.1 %       3 %  worse
  p99.9              10 ms     10.5 ms   too few
  > 18 ms            0.1 %       0.3 %      +5 %       +2 % to +8.1 %       3 %  worse

publish: not comparable: only B has it
  B: 1,000 samples in 40 intervals, resampled in 20 blocks of 2

train_step.tokens/s of train_step -9.1 % (-9.9 % to -8.4 %), worse; A 1,000, B 909

verdict: worse
";
        assert_eq!(table(&comparison), expected);
    }
}
