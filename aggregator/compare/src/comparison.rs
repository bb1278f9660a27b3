//! The comparison of two sides: for each operation the shifts, the share over its limit and a
//! verdict.
//!
//! DESIGN A77, A78, A197.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::figure::counted;
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::unit::Unit;
use serde::Serialize;

use crate::blocks::{BLOCKS_MIN, Blocks, TooShort};
use crate::change::{Change, change_of, verdict};
use crate::figures::{RunFigures, figures};
use crate::grid::Range;
use crate::interval::{self, Interval};
use crate::limits::RUNS_MIN;
use crate::rate::{self, ComparedRate};
use crate::runs::{Named, missing};
use crate::side::{Measured, MeasuredRate, Side};
use crate::statistic::{Counted, Estimates, QUANTILES};
use crate::verdict::Verdict;

/// With fewer samples a side has no verdict.
const SAMPLES_MIN: u64 = 100;

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The operations; empty for all.
    pub operations: BTreeSet<Operation>,
    /// Limits in nanoseconds, for shares over them.
    pub limits: BTreeMap<Operation, u64>,
    /// Shifts up to this share of the value are no change, whatever the noise: 0.01 for 1 %.
    pub tolerance: f64,
    /// Further comparisons that are judged together with this one, as those of other arms.
    pub others: usize,
}

/// Whether side B is worse than side A.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Of all operations together.
    pub verdict: Verdict,
    /// The confidence of all intervals of the comparison together.
    pub confidence: f64,
    /// The share of comparisons of a side with itself that stay within the noise floor.
    pub floor_confidence: f64,
    /// Shifts up to this share are no change.
    pub tolerance: f64,
    /// The runs of A.
    pub a_runs: Vec<String>,
    /// The runs of B.
    pub b_runs: Vec<String>,
    /// Why intervals hold within these runs only; absent if both sides show what runs differ by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_runs_only: Option<String>,
    /// Each operation that one of the sides has.
    pub operations: BTreeMap<Operation, Compared>,
    /// The rate of each counter that both sides have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rates: BTreeMap<Operation, ComparedRate>,
}

/// One operation of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Compared {
    /// What was found.
    pub verdict: Verdict,
    /// Why there is no other verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The sides, if they have it.
    pub a: Option<Extent>,
    /// The same of B.
    pub b: Option<Extent>,
    /// The figures of each run of A, if it has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub a_runs: Vec<RunFigures>,
    /// The same of B.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub b_runs: Vec<RunFigures>,
    /// Its quantiles in ascending order; empty without a verdict.
    pub shifts: Vec<Shift>,
    /// Samples over the limit, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_limit: Option<ShareShift>,
}

/// How much of an operation a side has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(rename = "ComparedExtent"))]
pub struct Extent {
    /// Its samples.
    pub samples: u64,
    /// Slots with samples.
    pub slots: usize,
    /// Blocks that are resampled; 0 if there are none.
    pub blocks: usize,
    /// Slots in a block, of several runs in the longest.
    pub block_slots: usize,
}

/// The shift of one quantile from A to B.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Shift {
    /// Which quantile, 0 to 1.
    pub quantile: f64,
    /// The quantile of A: the upper end of its bucket.
    pub a_ns: u64,
    /// The quantile of B.
    pub b_ns: u64,
    /// B over A, less 1; `None` if too few samples lie beyond the quantile.
    pub change: Option<Change>,
}

/// The change of the share over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ShareShift {
    /// The limit in nanoseconds.
    pub limit_ns: u64,
    /// The share of A.
    pub a: f64,
    /// The share of B.
    pub b: f64,
    /// B less A; `None` if too few samples are over the limit.
    pub change: Option<Change>,
}

/// Compares B with A, one run each.
pub fn compare(a: &Side, b: &Side, options: &Options) -> Comparison {
    compare_runs([&[Named { name: "A", of: a }], &[Named { name: "B", of: b }]], options)
}

/// Compares all runs of B with all of A.
pub fn compare_runs(sides: [&[Named<Side>]; 2], options: &Options) -> Comparison {
    let chosen = |name: &&Operation| {
        options.operations.is_empty() || options.operations.contains(name.as_str())
    };
    let runs = || sides.into_iter().flatten();
    let names: BTreeSet<&Operation> =
        runs().flat_map(|run| run.of.operations.keys()).filter(chosen).collect();
    let latencies: Vec<(&Operation, Parts<Measured>)> = names
        .into_iter()
        .map(|name| (name, parts(sides, |side| side.operations.get(name.as_str()))))
        .collect();
    // A side from a log has none at all: then nothing is missing of the other one's.
    let have_both = sides.iter().all(|runs| runs.iter().any(|run| !run.of.rates.is_empty()));
    let names: BTreeSet<&Operation> =
        runs().flat_map(|run| run.of.rates.keys()).filter(|_| have_both).filter(chosen).collect();
    let rates: Vec<(&Operation, Parts<MeasuredRate>)> = names
        .into_iter()
        .map(|name| (name, parts(sides, |side| side.rates.get(name.as_str()))))
        .collect();

    // What some run does not have is not judged, and takes no share of the confidence.
    let together = latencies.iter().filter(|(_, of)| of.missing.is_none()).count()
        + rates.iter().filter(|(_, of)| of.missing.is_none()).count();
    let together = together * (1 + options.others);

    let compared = |(name, of): (&Operation, Parts<Measured>)| {
        let limit_ns = options.limits.get(name).copied();
        (name.clone(), of.compared(limit_ns, options.tolerance, together))
    };
    let operations: BTreeMap<_, _> = latencies.into_iter().map(compared).collect();

    let compared = |(name, of): (&Operation, Parts<MeasuredRate>)| {
        let sides = of.sides.each_ref().map(Vec::as_slice);
        let rate = match of.missing {
            None => rate::compared(name.as_str(), sides, options.tolerance, together),
            Some(reason) => rate::missing(name.as_str(), sides, reason),
        };
        (name.clone(), rate)
    };
    let rates: BTreeMap<_, _> = rates.into_iter().map(compared).collect();
    // A counter that hardly ever grows, or that one version alone has, must not take the verdict
    // from all others unless it was asked for.
    let counts = |name: &Operation, of: &ComparedRate| {
        let is_judged = !matches!(of.verdict, Verdict::NotEnoughData | Verdict::NotComparable);
        is_judged || options.operations.contains(name)
    };
    // Nothing is known of whether larger sizes and counts are worse.
    let of_times = operations.iter().filter(|(name, _)| {
        Unit::of(name.as_str()).is_time() || options.operations.contains(*name)
    });
    let of_times = of_times.map(|(_, of)| of.verdict);
    let of_rates = rates.iter().filter(|(name, of)| counts(name, of)).map(|(_, of)| of.verdict);

    let [a_runs, b_runs] = sides.map(|runs| runs.iter().map(|run| run.name.to_owned()).collect());
    Comparison {
        verdict: Verdict::of_all(of_times.chain(of_rates)),
        confidence: interval::CONFIDENCE,
        floor_confidence: interval::FLOOR_CONFIDENCE,
        tolerance: options.tolerance,
        within_runs_only: within_runs_only(sides.map(<[_]>::len)),
        a_runs,
        b_runs,
        operations,
        rates,
    }
}

/// Why intervals are silent about what runs differ by.
fn within_runs_only([a, b]: [usize; 2]) -> Option<String> {
    let [of_a, of_b] = [a, b].map(|runs| counted(runs as u64, "run"));
    (a.min(b) < RUNS_MIN).then(|| {
        format!("A has {of_a} and B {of_b}, and {RUNS_MIN} a side show what runs differ by")
    })
}

/// What the runs of both sides have of one name.
struct Parts<'a, T> {
    sides: [Vec<Named<'a, T>>; 2],
    /// Why they cannot be compared, if a run does not have it.
    missing: Option<String>,
}

fn parts<'a, T>(
    sides: [&[Named<'a, Side>]; 2],
    find: impl Fn(&'a Side) -> Option<&'a T>,
) -> Parts<'a, T> {
    let found = sides.map(|runs| runs.iter().filter_map(|run| run.part(&find)).collect());
    let [a, b]: &[Vec<_>; 2] = &found;
    Parts { missing: missing(sides, [a, b]), sides: found }
}

impl Parts<'_, Measured> {
    fn compared(&self, limit_ns: Option<u64>, tolerance: f64, together: usize) -> Compared {
        let [a, b] = &self.sides;
        let found = match &self.missing {
            Some(reason) => without(Verdict::NotComparable, reason.clone()),
            None => self.judged(limit_ns, tolerance, together),
        };
        let with_blocks = |runs: &[Named<Measured>], of: Option<Extent>| {
            extent(runs).map(|extent| match of {
                Some(Extent { blocks, block_slots, .. }) => {
                    Extent { blocks, block_slots, ..extent }
                }
                None => extent,
            })
        };
        let [a_runs, b_runs] = [a, b].map(|runs| figures(runs, limit_ns));
        let (a, b) = (with_blocks(a, found.a), with_blocks(b, found.b));
        Compared { a, b, a_runs, b_runs, ..found }
    }

    fn judged(&self, limit_ns: Option<u64>, tolerance: f64, together: usize) -> Compared {
        let [a, b] = &self.sides;
        // Buckets that differ move each quantile by up to a bucket
        // without any change, which resamples cannot show (A79).
        let layouts = || a.iter().map(|run| ("A", run)).chain(b.iter().map(|run| ("B", run)));
        let first = layouts().next();
        let of_others = first.zip(
            layouts()
                .find(|(_, run)| first.is_some_and(|(_, first)| first.of.layout != run.of.layout)),
        );
        if let Some(((one, first), (other, run))) = of_others {
            let [one, other] = [first.of_side(one, a), run.of_side(other, b)];
            let reason = format!(
                "buckets differ: {one} has {}, {other} has {}; record both with the same ones",
                first.of.layout, run.of.layout
            );
            return without(Verdict::NotComparable, reason);
        }

        let blocks = blocks("A", a).and_then(|one| Ok((one, blocks("B", b)?)));
        match blocks {
            Ok((one, other)) => judged(&one, &other, limit_ns, tolerance, together),
            Err(reason) => without(Verdict::NotEnoughData, reason),
        }
    }
}

fn without(verdict: Verdict, reason: String) -> Compared {
    Compared {
        verdict,
        reason: Some(reason),
        a: None,
        b: None,
        a_runs: Vec::new(),
        b_runs: Vec::new(),
        shifts: Vec::new(),
        over_limit: None,
    }
}

fn extent(runs: &[Named<Measured>]) -> Option<Extent> {
    let slots = runs.iter().flat_map(|run| &run.of.slots);
    let slots = slots.filter(|slot| !slot.samples.is_empty()).count();
    let samples = runs.iter().fold(0, |sum: u64, run| sum.saturating_add(run.of.samples()));
    (!runs.is_empty()).then_some(Extent { samples, slots, blocks: 0, block_slots: 0 })
}

fn blocks(side: &str, runs: &[Named<Measured>]) -> Result<Vec<Blocks>, String> {
    let of_run = |run: &Named<Measured>| {
        let (run_name, samples) = (run.of_side(side, runs), run.of.samples());
        if samples < SAMPLES_MIN {
            let samples = counted(samples, "sample");
            return Err(format!("{run_name} has {samples}, fewer than {SAMPLES_MIN}"));
        }

        Blocks::of(&run.of.slots, runs.len()).map_err(|error| match error {
            TooShort::Slots(slots) => format!(
                "{run_name} has {}, fewer than {BLOCKS_MIN}; record shorter intervals or for longer",
                counted(slots as u64, "interval")
            ),
            TooShort::Correlated => format!(
                "{run_name} changes too slowly for its length: its intervals depend on each other \
                 over most of it; record for longer"
            ),
        })
    };
    runs.iter().map(of_run).collect()
}

fn judged(
    one: &[Blocks],
    other: &[Blocks],
    limit_ns: Option<u64>,
    tolerance: f64,
    together: usize,
) -> Compared {
    // One range for both, so that a bucket of one side is that bucket of the other.
    let range = Range::of(one.iter().chain(other).flat_map(|run| &run.parts));
    let counted = [one, other].map(|runs| Counted::of(runs, range, limit_ns));
    // From the samples: the same files give the same verdict on
    // every machine, and swapped sides give the opposite shifts.
    let seeds = counted.each_ref().map(Counted::fingerprint);
    // Equal sides would draw equal resamples, and differ in none.
    let second = if seeds[0] == seeds[1] { !seeds[1] } else { seeds[1] };
    let (a, b) = (counted[0].estimates(seeds[0]), counted[1].estimates(second));

    let intervals = interval::intervals(&a, &b, together);
    let shifts = shifts(&a, &b, &intervals, tolerance);
    let over_limit = limit_ns.map(|limit_ns| share(&a, &b, limit_ns, &intervals));

    let changes = shifts.iter().filter_map(|shift| shift.change);
    let changes = changes.chain(over_limit.and_then(|share| share.change));
    let verdict = Verdict::of_all(changes.map(|change| change.verdict));
    let blocks = |runs: &[Blocks]| {
        let block_slots = runs.iter().map(|run| run.slots).max().unwrap_or_default();
        let blocks = runs.iter().map(|run| run.parts.len()).sum();
        Some(Extent { samples: 0, slots: 0, blocks, block_slots })
    };
    let (a, b) = (blocks(one), blocks(other));
    let (a_runs, b_runs) = (Vec::new(), Vec::new());
    Compared { verdict, reason: None, a, b, a_runs, b_runs, shifts, over_limit }
}

/// Intervals are symmetrical in logarithms; shown are shares of A.
fn shifts(
    a: &Estimates,
    b: &Estimates,
    intervals: &[Option<Interval>],
    tolerance: f64,
) -> Vec<Shift> {
    let shift = |(at, quantile): (usize, &f64)| {
        let (a, b, interval) = (&a.values[at], &b.values[at], intervals[at]);
        let change = interval.map(|interval| change_of(&interval, tolerance));
        Shift { quantile: *quantile, a_ns: a.shown_ns, b_ns: b.shown_ns, change }
    };
    QUANTILES.iter().enumerate().map(shift).collect()
}

fn share(
    a: &Estimates,
    b: &Estimates,
    limit_ns: u64,
    intervals: &[Option<Interval>],
) -> ShareShift {
    let value = |side: &Estimates| side.values.last().map_or(0.0, |estimate| estimate.value);
    let interval = intervals.last().copied().flatten();
    let change = interval.map(|interval| Change {
        estimate: interval.shift,
        low: interval.low,
        high: interval.high,
        floor: interval.floor,
        verdict: verdict(&interval, 0.0),
    });
    ShareShift { limit_ns, a: value(a), b: value(b), change }
}
