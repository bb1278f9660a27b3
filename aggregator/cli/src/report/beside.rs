//! `--beside`: the report's samples as B of a comparison, with another run or range as A. It is
//! the comparison of `plimsoll compare`.

use anyhow::Result;
use plimsoll_compare::table::{WITHIN_RUNS_ONLY, percent};
use plimsoll_compare::{Change, Compared, Comparison, Options, Verdict, compare_runs};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::figure::{counted, number, percent as share, quantile};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::unit::Unit;

use super::document::{Beside, Subject};
use super::limits::OPERATIONS_DRAWN_MAX;
use super::material::Material;
use super::tables::{Cell, Section, Table, Tone, figure, table, text};
use crate::compare::{Place, Stored, as_named, runs};

/// Shifts up to this share are no change: the default of `plimsoll compare`.
const TOLERANCE: f64 = 0.01;

/// How the range of a report is shown.
pub(super) const THIS_RANGE: &str = "this range";

/// Compares the samples of a report with those of another side.
///
/// # Errors
/// When one of them cannot be read.
pub(super) async fn beside(
    api: &Api,
    of: &Material,
    other: &str,
    operations: &[Operation],
) -> Result<Beside> {
    let (b, stored) = match &of.subject {
        Subject::Run(run) if !of.is_of_fleet => (run.clone(), Stored::Runs(run.clone())),
        Subject::Run(run) => (run.clone(), Stored::Range(of.range)),
        Subject::Fleet => (THIS_RANGE.to_owned(), Stored::Range(of.range)),
    };
    let api = || Ok(api.clone());
    let of_a = runs(api, other, &Place::of(other, None)?, operations).await?;
    let of_b = runs(api, &b, &Place::Stored(stored), operations).await?;
    let options = Options {
        operations: operations.iter().cloned().collect(),
        limits: of.limits(),
        tolerance: TOLERANCE,
        others: 0,
    };
    let comparison = compare_runs([&as_named(&of_a), &as_named(&of_b)], &options);
    let a = other.strip_prefix("run:").unwrap_or(other).to_owned();
    Ok(Beside { a, b, comparison })
}

pub(super) fn section(of: &Beside) -> Section {
    let Beside { a, b, comparison } = of;
    let operations = comparison.operations.len();
    let mut paragraphs = vec![format!(
        "A is {a}, B is {b}: {}. Intervals are of {} for all figures together; shifts up to {} \
         count as unchanged.",
        comparison.verdict.words(),
        share(comparison.confidence),
        share(comparison.tolerance)
    )];
    paragraphs.extend(
        comparison.within_runs_only.iter().map(|why| format!("{WITHIN_RUNS_ONLY}: {why}.")),
    );
    if operations > OPERATIONS_DRAWN_MAX {
        let more = counted((operations - OPERATIONS_DRAWN_MAX) as u64, "more operation");
        paragraphs.push(format!("{more} without a table; the JSON has all."));
    }

    let tables = comparison.operations.iter().take(OPERATIONS_DRAWN_MAX);
    let tables = tables.map(|(name, of)| of_operation(name.as_str(), of));
    let mut tables: Vec<Table> = tables.collect();
    if !comparison.rates.is_empty() {
        tables.push(rates(comparison));
    }
    Section { id: "beside", heading: "Beside another run", paragraphs, tables }
}

fn of_operation(name: &str, of: &Compared) -> Table {
    let unit = Unit::of(name);
    let reason = of.reason.iter().map(|why| format!(": {why}")).collect::<String>();
    let caption = format!("{name}, {}{reason}", of.verdict.words());
    let shifts = of.shifts.iter().map(|shift| {
        let values = [shift.a_ns, shift.b_ns].map(|raw| unit.raw_text(raw));
        row(quantile(shift.quantile), values, shift.change, None)
    });
    let over = of.over_limit.iter().map(|of| {
        let name = format!("over {}", unit.raw_text(of.limit_ns));
        row(name, [of.a, of.b].map(share), of.change, None)
    });
    let heading = ["Figure", "A", "B", "Shift", "Interval", "Floor", "Verdict"];
    table(&caption, &heading, shifts.chain(over).collect(), "")
}

fn rates(of: &Comparison) -> Table {
    let rows = of.rates.iter().map(|(name, rate)| {
        let by = rate.operation.as_ref().map_or(String::new(), |of| format!(" of {of}"));
        row(format!("{name}/s{by}"), [rate.a, rate.b].map(number), rate.change, Some(rate.verdict))
    });
    let heading = ["Rate", "A", "B", "Change", "Interval", "Floor", "Verdict"];
    table("Rates", &heading, rows.collect(), "")
}

fn row(
    name: String,
    values: [String; 2],
    change: Option<Change>,
    verdict: Option<Verdict>,
) -> Vec<Cell> {
    let verdict = change.map(|change| change.verdict).or(verdict);
    let tone = match verdict {
        Some(Verdict::Worse) => Tone::Bad,
        Some(Verdict::Better) => Tone::Good,
        Some(Verdict::Same) => Tone::Text,
        Some(Verdict::NotEnoughData | Verdict::NotComparable) | None => Tone::Open,
    };
    let words = verdict.map_or("too few", Verdict::words).to_owned();
    let change = match change {
        Some(of) => [
            percent(of.estimate),
            format!("{} to {}", percent(of.low), percent(of.high)),
            share(of.floor),
        ],
        None => ["-", "-", "-"].map(str::to_owned),
    };
    let figures = values.into_iter().chain(change).map(figure);
    std::iter::once(text(name)).chain(figures).chain([Cell { words, tone }]).collect()
}
