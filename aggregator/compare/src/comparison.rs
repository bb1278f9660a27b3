//! The comparison of two sides: for each operation the shifts, the share over its limit and a
//! verdict.
//!
//! DESIGN A77, A78.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::figure::counted;
use plimsoll_schemas::ids::Operation;
use serde::Serialize;

use crate::blocks::{BLOCKS_MIN, Blocks, TooShort};
use crate::change::{Change, change_of, verdict};
use crate::grid::Range;
use crate::interval::{self, Interval};
use crate::rate::{self, ComparedRate};
use crate::side::{Measured, Side};
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
    /// Slots in a block.
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

/// Compares B with A.
pub fn compare(a: &Side, b: &Side, options: &Options) -> Comparison {
    let chosen = |name: &&Operation| {
        options.operations.is_empty() || options.operations.contains(name.as_str())
    };
    let names: BTreeSet<&Operation> =
        a.operations.keys().chain(b.operations.keys()).filter(chosen).collect();
    let pair = |name: &Operation| (a.operations.get(name), b.operations.get(name));
    // Operations that only one side has are not judged, and take no share of the confidence.
    let together = names.iter().filter(|name| matches!(pair(name), (Some(_), Some(_)))).count();
    // A side from a log has none at all: then nothing is missing of the other one's.
    let have_both = !a.rates.is_empty() && !b.rates.is_empty();
    let rates: BTreeSet<&Operation> =
        a.rates.keys().chain(b.rates.keys()).filter(|_| have_both).filter(chosen).collect();
    let rate_pair = |name: &Operation| (a.rates.get(name), b.rates.get(name));
    let of_both = rates.iter().filter(|name| matches!(rate_pair(name), (Some(_), Some(_))));
    let together = together + of_both.count();

    let compared = |name: &Operation| {
        let limit_ns = options.limits.get(name).copied();
        match pair(name) {
            (Some(a), Some(b)) => both(a, b, limit_ns, options.tolerance, together),
            (a, b) => one_sided(a, b),
        }
    };

    let operations: BTreeMap<_, _> =
        names.into_iter().map(|name| (name.clone(), compared(name))).collect();

    let compared = |name: &Operation| match rate_pair(name) {
        (Some(a), Some(b)) => rate::compared(name.as_str(), a, b, options.tolerance, together),
        (a, b) => rate::one_sided(name.as_str(), a, b),
    };
    let rates: BTreeMap<_, _> =
        rates.into_iter().map(|name| (name.clone(), compared(name))).collect();
    // A counter that hardly ever grows, or that one version alone has, must not take the verdict
    // from all others unless it was asked for.
    let counts = |name: &Operation, of: &ComparedRate| {
        let is_judged = !matches!(of.verdict, Verdict::NotEnoughData | Verdict::NotComparable);
        is_judged || options.operations.contains(name)
    };
    let of_rates = rates.iter().filter(|(name, of)| counts(name, of)).map(|(_, of)| of.verdict);

    Comparison {
        verdict: Verdict::of_all(operations.values().map(|of| of.verdict).chain(of_rates)),
        confidence: interval::CONFIDENCE,
        floor_confidence: interval::FLOOR_CONFIDENCE,
        tolerance: options.tolerance,
        operations,
        rates,
    }
}

fn one_sided(a: Option<&Measured>, b: Option<&Measured>) -> Compared {
    let side = if a.is_some() { "A" } else { "B" };
    let reason = format!("only {side} has it");
    Compared { a: a.map(extent), b: b.map(extent), ..without(Verdict::NotComparable, reason) }
}

fn without(verdict: Verdict, reason: String) -> Compared {
    let reason = Some(reason);
    Compared { verdict, reason, a: None, b: None, shifts: Vec::new(), over_limit: None }
}

fn extent(measured: &Measured) -> Extent {
    let slots = measured.slots.iter().filter(|slot| !slot.samples.is_empty()).count();
    Extent { samples: measured.samples(), slots, blocks: 0, block_slots: 0 }
}

fn both(
    a: &Measured,
    b: &Measured,
    limit_ns: Option<u64>,
    tolerance: f64,
    together: usize,
) -> Compared {
    let extents = |compared| Compared { a: Some(extent(a)), b: Some(extent(b)), ..compared };
    // Buckets that differ move each quantile by up to a bucket
    // without any change, which resamples cannot show (A79).
    if a.layout != b.layout {
        let reason = format!(
            "buckets differ: A has {}, B has {}; record both with the same ones",
            a.layout, b.layout
        );
        return extents(without(Verdict::NotComparable, reason));
    }

    let blocks = blocks("A", a).and_then(|one| Ok((one, blocks("B", b)?)));
    match blocks {
        Ok((one, other)) => {
            extents(judged(&one, &other, limit_ns, tolerance, together)).with_blocks(&one, &other)
        }
        Err(reason) => extents(without(Verdict::NotEnoughData, reason)),
    }
}

impl Compared {
    fn with_blocks(mut self, one: &Blocks, other: &Blocks) -> Self {
        for (extent, blocks) in [(&mut self.a, one), (&mut self.b, other)] {
            if let Some(extent) = extent {
                (extent.blocks, extent.block_slots) = (blocks.parts.len(), blocks.slots);
            }
        }
        self
    }
}

fn blocks(side: &str, measured: &Measured) -> Result<Blocks, String> {
    let samples = measured.samples();
    if samples < SAMPLES_MIN {
        let samples = counted(samples, "sample");
        return Err(format!("{side} has {samples}, fewer than {SAMPLES_MIN}"));
    }

    Blocks::of(&measured.slots).map_err(|error| match error {
        TooShort::Slots(slots) => format!(
            "{side} has {}, fewer than {BLOCKS_MIN}; record shorter intervals or for longer",
            counted(slots as u64, "interval")
        ),
        TooShort::Correlated => format!(
            "{side} changes too slowly for its length: its intervals depend on each other over \
             most of it; record for longer"
        ),
    })
}

fn judged(
    one: &Blocks,
    other: &Blocks,
    limit_ns: Option<u64>,
    tolerance: f64,
    together: usize,
) -> Compared {
    // One range for both, so that a bucket of one side is that bucket of the other.
    let range = Range::of(one.parts.iter().chain(&other.parts));
    let counted = [one, other].map(|blocks| Counted::of(blocks, range, limit_ns));
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
    Compared { verdict, reason: None, a: None, b: None, shifts, over_limit }
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
