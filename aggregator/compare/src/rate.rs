//! Rates of counters: by wall time, or by the time of the operation that they belong to. They are
//! compared as quantiles are: blocks of slots are resampled, and a change is judged as a share.
//!
//! DESIGN A77, A195.

use plimsoll_schemas::figure::counted;
use plimsoll_schemas::random::SplitMix64;
use serde::Serialize;

use crate::blocks::{BLOCKS_MIN, Bounds, block_slots, blocks_max, seen_enough};
use crate::change::{Change, change_of};
use crate::correlation::Correlation;
use crate::interval;
use crate::resample::{Levels, RunBlocks, spread};
use crate::runs::Named;
use crate::side::{MeasuredRate, RateSlot};
use crate::statistic::{Estimate, Estimates};
use crate::verdict::Verdict;

/// Words of a name of which more is worse. More of anything else is better.
const WORSE: [&str; 26] = [
    "error",
    "errors",
    "failure",
    "failures",
    "failed",
    "miss",
    "misses",
    "missed",
    "drop",
    "drops",
    "dropped",
    "retry",
    "retries",
    "timeout",
    "timeouts",
    "lost",
    "reject",
    "rejects",
    "rejected",
    "evicted",
    "evictions",
    "throttled",
    "stall",
    "stalls",
    "stalled",
    "skipped",
];
/// Slots with an amount that a side needs: resamples of fewer may have none at all.
const AMOUNTS_MIN: usize = 10;

/// The rate of one counter on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ComparedRate {
    /// What was found.
    pub verdict: Verdict,
    /// Why there is no other verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The operation by whose time it is divided; by wall time without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Whether a lower rate is better, by the counter's name.
    pub lower_is_better: bool,
    /// The rate of A, a second.
    pub a: f64,
    /// The rate of B, a second.
    pub b: f64,
    /// B over A, less 1; `None` without a verdict.
    pub change: Option<Change>,
    /// The rate of each run of A, if it has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub a_runs: Vec<RunRate>,
    /// The same of B.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub b_runs: Vec<RunRate>,
}

/// The rate of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RunRate {
    /// The run.
    pub run: String,
    /// Its rate, a second.
    pub rate: f64,
}

/// Slots of the runs of a side in blocks.
struct RateBlocks {
    parts: Vec<RateSlot>,
    levels: Levels,
}

/// Why a rate has no blocks.
enum NoBlocks {
    /// Slots enough, and nothing in any of them.
    None,
    Few(String),
}

impl MeasuredRate {
    /// All of the amount by all of the time.
    fn rate(&self) -> f64 {
        total(&self.slots).rate()
    }

    /// Its blocks, and how much of the long-run variance these show.
    fn blocks(&self, runs: usize) -> Result<(Vec<RateSlot>, f64), &'static str> {
        let (slots, rate) = (&self.slots, self.rate());
        // What moves a ratio: how much more of the amount a slot has than its time gives.
        let moved = slots.iter().map(|slot| slot.amount - rate * slot.seconds).collect();
        let correlation = Correlation::of(&[moved]);
        let bounds = Bounds { len: slots.len(), most: blocks_max(runs) };
        let length = block_slots(correlation.block_slots(), bounds);
        let seen = seen_enough(correlation.seen(length), runs)
            .ok_or("changes too slowly for its length")?;
        Ok((slots.chunks(length).map(total).collect(), seen))
    }
}

impl RateSlot {
    fn rate(self) -> f64 {
        if self.seconds > 0.0 { self.amount / self.seconds } else { 0.0 }
    }
}

/// The rate of all runs of a side together.
fn rate_of(runs: &[Named<MeasuredRate>]) -> f64 {
    total(&runs.iter().map(|run| total(&run.of.slots)).collect::<Vec<_>>()).rate()
}

fn rates_of(runs: &[Named<MeasuredRate>]) -> Vec<RunRate> {
    let rate =
        |run: &Named<MeasuredRate>| RunRate { run: run.name.to_owned(), rate: run.of.rate() };
    if runs.len() > 1 { runs.iter().map(rate).collect() } else { Vec::new() }
}

fn blocks(side: &str, runs: &[Named<MeasuredRate>]) -> Result<RateBlocks, NoBlocks> {
    let (mut parts, mut levels) = (Vec::new(), Vec::new());
    let slots = || runs.iter().flat_map(|run| &run.of.slots);
    let with_amount = slots().filter(|slot| slot.amount > 0.0).count();
    let few = |of: &str, why: String| Err(NoBlocks::Few(format!("{of} {why}; record for longer")));

    for run in runs {
        let slots = run.of.slots.len();
        if slots < BLOCKS_MIN {
            let slots = counted(slots as u64, "interval");
            return few(&run.of_side(side, runs), format!("has {slots}, fewer than {BLOCKS_MIN}"));
        }
    }
    if slots().all(|slot| slot.amount == 0.0) {
        return Err(NoBlocks::None);
    }
    let rate = rate_of(runs);
    if with_amount < AMOUNTS_MIN || rate <= 0.0 || !rate.is_finite() {
        let slots = counted(with_amount as u64, "interval");
        return few(side, format!("has it in {slots}, fewer than {AMOUNTS_MIN}"));
    }

    for run in runs {
        let found = run.of.blocks(runs.len());
        let (of_run, seen) = match found {
            Ok(found) => found,
            Err(why) => return few(&run.of_side(side, runs), why.to_owned()),
        };
        levels.push(RunBlocks { blocks: of_run.len(), seen });
        parts.extend(of_run);
    }
    Ok(RateBlocks { parts, levels: Levels::of(levels.into_iter()) })
}

impl RateBlocks {
    fn estimates(&self, seed: u64) -> Option<Estimates> {
        let value = total(&self.parts).rate().ln();
        let weighted = |weights: &[f64]| {
            let parts = self.parts.iter().zip(weights).map(|(part, weight)| RateSlot {
                amount: part.amount * weight,
                seconds: part.seconds * weight,
            });
            let all = total(&parts.collect::<Vec<_>>());
            // A resample without an amount has no logarithm,
            // and without it the spread is not known.
            (all.amount > 0.0 && all.seconds > 0.0).then(|| vec![all.rate().ln()])
        };

        let deviations = self.levels.deviations(seed, &[value], weighted)?.pop()?;
        let (spread, blocks) = (spread(&deviations), self.parts.len());
        let beyond = blocks as f64;
        let value = Estimate { value, uncertainty: 0.0, deviations, spread, beyond, shown_ns: 0 };
        let freedom = self.levels.freedom();
        Some(Estimates { values: vec![value], freedom, samples: blocks as u64 })
    }

    /// From the slots, so that the same sides always have the same verdict.
    fn fingerprint(&self) -> u64 {
        let bits =
            self.parts.iter().flat_map(|part| [part.amount.to_bits(), part.seconds.to_bits()]);
        bits.fold(0, |seed, bits| SplitMix64(seed ^ bits).bits())
    }
}

/// Compares the rates of one counter; `together` are judged with one confidence.
pub(crate) fn compared(
    name: &str,
    [a, b]: [&[Named<MeasuredRate>]; 2],
    tolerance: f64,
    together: usize,
) -> ComparedRate {
    let lower_is_better = is_worse_with_more(name);
    let of = |verdict, reason, change| ComparedRate {
        verdict,
        reason,
        operation: a.first().and_then(|run| run.of.operation.clone()),
        lower_is_better,
        a: rate_of(a),
        b: rate_of(b),
        change,
        a_runs: rates_of(a),
        b_runs: rates_of(b),
    };
    let mut by = a.iter().chain(b).map(|run| &run.of.operation);
    let first = by.next();
    if by.any(|of| Some(of) != first) {
        let reason = "only one side has the operation by whose time it is divided".to_owned();
        return of(Verdict::NotComparable, Some(reason), None);
    }

    let (one, other) = match (blocks("A", a), blocks("B", b)) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(NoBlocks::Few(reason)), _) | (_, Err(NoBlocks::Few(reason))) => {
            return of(Verdict::NotEnoughData, Some(reason), None);
        }
        (Err(NoBlocks::None), Err(NoBlocks::None)) => return of(Verdict::Same, None, None),
        (Err(NoBlocks::None), Ok(_)) => {
            return of(one_has_all(lower_is_better), Some("A has none of it".to_owned()), None);
        }
        (Ok(_), Err(NoBlocks::None)) => {
            return of(one_has_all(!lower_is_better), Some("B has none of it".to_owned()), None);
        }
    };

    let seeds = [one.fingerprint(), other.fingerprint()];
    // Equal sides would draw equal resamples, and differ in none.
    let second = if seeds[0] == seeds[1] { !seeds[1] } else { seeds[1] };
    let (Some(of_a), Some(of_b)) = (one.estimates(seeds[0]), other.estimates(second)) else {
        let reason = "too few intervals have it; record for longer".to_owned();
        return of(Verdict::NotEnoughData, Some(reason), None);
    };

    let intervals = interval::intervals(&of_a, &of_b, together);
    let change = intervals.first().copied().flatten().map(|interval| {
        let change = change_of(&interval, tolerance);
        // A quantile is worse where it is higher.
        let verdict = if lower_is_better { change.verdict } else { change.verdict.reversed() };
        Change { verdict, ..change }
    });
    of(change.map_or(Verdict::NotEnoughData, |change| change.verdict), None, change)
}

/// One that some runs do not have.
pub(crate) fn missing(
    name: &str,
    [a, b]: [&[Named<MeasuredRate>]; 2],
    reason: String,
) -> ComparedRate {
    ComparedRate {
        verdict: Verdict::NotComparable,
        reason: Some(reason),
        operation: a.iter().chain(b).find_map(|run| run.of.operation.clone()),
        lower_is_better: is_worse_with_more(name),
        a: rate_of(a),
        b: rate_of(b),
        change: None,
        a_runs: rates_of(a),
        b_runs: rates_of(b),
    }
}

/// The verdict where one side has nothing of what the other has.
fn one_has_all(is_worse: bool) -> Verdict {
    if is_worse { Verdict::Worse } else { Verdict::Better }
}

fn is_worse_with_more(name: &str) -> bool {
    let mut words = name.split(|of: char| !of.is_ascii_alphanumeric());
    words.any(|word| WORSE.contains(&word.to_ascii_lowercase().as_str()))
}

fn total(slots: &[RateSlot]) -> RateSlot {
    slots.iter().fold(RateSlot { amount: 0.0, seconds: 0.0 }, |sum, slot| RateSlot {
        amount: sum.amount + slot.amount,
        seconds: sum.seconds + slot.seconds,
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::Operation;
    use proptest::prelude::*;

    use super::*;
    use crate::{Options, Side, compare};

    /// One run a side.
    fn compared(
        name: &str,
        a: &MeasuredRate,
        b: &MeasuredRate,
        tolerance: f64,
        together: usize,
    ) -> ComparedRate {
        let [a, b] = [a, b].map(|of| [Named { name: "v1", of }]);
        super::compared(name, [&a, &b], tolerance, together)
    }

    /// Steps of about 60 ms in slots of 10 s, each of 512 tokens; `slower` takes so much longer.
    fn side(slots: u64, seed: u64, slower: f64) -> MeasuredRate {
        let mut rng = SplitMix64(seed);
        let mut noise = move || (rng.bits() >> 40) as f64 / (1u64 << 24) as f64 - 0.5;
        let slot = |_| {
            let steps = 160.0 + (10.0 * noise()).round();
            let seconds = steps * 0.06 * slower * (1.0 + 0.02 * noise());
            RateSlot { amount: 512.0 * steps, seconds }
        };
        let operation = Some("train_step".to_owned());
        MeasuredRate { operation, slots: (0..slots).map(slot).collect() }
    }

    #[test]
    fn a_version_that_is_a_tenth_slower_is_worse_by_that() {
        let found = compared("train_step.tokens", &side(60, 1, 1.0), &side(60, 2, 1.1), 0.01, 1);
        let change = found.change.unwrap();
        assert_eq!((found.verdict, found.lower_is_better), (Verdict::Worse, false));
        assert!((change.estimate - (1.0 / 1.1 - 1.0)).abs() < 0.005, "{change:?}");
        assert!(change.low < change.estimate && change.estimate < change.high, "{change:?}");
        assert!(change.high - change.low < 0.02, "{change:?}");
        let errors = compared("fetch.errors", &side(60, 1, 1.1), &side(60, 2, 1.0), 0.01, 1);
        assert_eq!((errors.verdict, errors.lower_is_better), (Verdict::Worse, true));
    }

    #[test]
    fn sides_without_a_rate_state_why() {
        let whole = side(60, 1, 1.0);
        for (b, verdict, words) in [
            (side(19, 2, 1.0), Verdict::NotEnoughData, "B has 19 intervals"),
            (
                MeasuredRate { operation: None, ..whole.clone() },
                Verdict::NotComparable,
                "operation",
            ),
        ] {
            let found = compared("train_step.tokens", &whole, &b, 0.01, 1);
            assert_eq!(found.verdict, verdict);
            assert!(found.reason.as_ref().unwrap().contains(words), "{found:?}");
        }
    }

    #[test]
    fn what_stops_or_begins_is_worse_or_better_and_what_neither_has_is_the_same() {
        let some = side(60, 1, 1.0);
        let slots = some.slots.iter().map(|slot| RateSlot { amount: 0.0, ..*slot }).collect();
        let none = MeasuredRate { slots, ..some.clone() };
        for (name, a, b, verdict) in [
            ("step.tokens", &some, &none, Verdict::Worse),
            ("step.tokens", &none, &some, Verdict::Better),
            ("fetch.errors", &none, &some, Verdict::Worse),
            ("fetch.errors", &some, &none, Verdict::Better),
            ("fetch.errors", &none, &none, Verdict::Same),
        ] {
            assert_eq!(compared(name, a, b, 0.01, 1).verdict, verdict, "{name}");
        }
        // Once in a run is no rate.
        let mut once = none.clone();
        once.slots[7].amount = 1.0;
        let found = compared("model.loads", &once, &some, 0.01, 1);
        assert_eq!(found.verdict, Verdict::NotEnoughData);
        assert!(found.reason.unwrap().contains("in 1 interval, fewer than 10"));
    }

    #[test]
    fn a_counter_that_hardly_grows_takes_no_verdict_from_others_unless_it_is_named() {
        let name = |text: &str| Operation::new(text).unwrap();
        let mut once = side(60, 3, 1.0);
        once.slots.iter_mut().skip(1).for_each(|slot| slot.amount = 0.0);
        let of = |seed| Side {
            rates: [
                (name("step.tokens"), side(60, seed, 1.0)),
                (name("model.loads"), once.clone()),
            ]
            .into(),
            ..Side::default()
        };

        let judged = compare(&of(1), &of(2), &Options::default());
        assert_eq!((judged.verdict, judged.rates.len()), (Verdict::Same, 2));
        let operations = [name("model.loads")].into();
        let named = compare(&of(1), &of(2), &Options { operations, ..Options::default() });
        assert_eq!((named.verdict, named.rates.len()), (Verdict::NotEnoughData, 1));
    }

    #[test]
    fn whole_words_of_a_name_state_that_more_is_worse() {
        for (name, is_worse) in [
            ("fetch.errors", true),
            ("errors.fetch", true),
            ("cache_misses", true),
            ("db.Retries", true),
            ("rows.retrieved", false),
            ("transmissions", false),
            ("installs", false),
            ("train_step.tokens", false),
        ] {
            assert_eq!(is_worse_with_more(name), is_worse, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_change_is_that_of_both_rates_and_finite(
            a in prop::collection::vec((0.0_f64..1e6, 0.0_f64..10.0), 20..60),
            b in prop::collection::vec((0.0_f64..1e6, 0.0_f64..10.0), 20..60),
        ) {
            let side = |slots: &[(f64, f64)]| {
                let slot = |(amount, seconds): &(f64, f64)| RateSlot {
                    amount: *amount,
                    seconds: *seconds,
                };
                MeasuredRate { operation: None, slots: slots.iter().map(slot).collect() }
            };
            let found = compared("x", &side(&a), &side(&b), 0.01, 1);
            if let Some(change) = found.change {
                let expected = found.b / found.a - 1.0;
                prop_assert!((change.estimate - expected).abs() <= 1e-9 * (1.0 + expected.abs()));
                prop_assert!(change.low.is_finite() && change.high.is_finite(), "{:?}", change);
            }
        }
    }

    #[test]
    fn equal_versions_are_hardly_ever_different() {
        let wrong = (0..200).filter(|seed| {
            let (a, b) = (side(40, 2 * seed, 1.0), side(40, 2 * seed + 1, 1.0));
            compared("train_step.tokens", &a, &b, 0.0, 1).verdict != Verdict::Same
        });
        // 99 of 100 stay within the noise floor.
        assert!(wrong.count() <= 6);
    }

    #[test]
    fn an_interval_holds_what_it_states_to() {
        let truth = 1.0 / 1.03 - 1.0;
        let holds = (0..200).filter(|seed| {
            let (a, b) = (side(40, 2 * seed, 1.0), side(40, 2 * seed + 1, 1.03));
            let change = compared("train_step.tokens", &a, &b, 0.0, 1).change.unwrap();
            (change.low..=change.high).contains(&truth)
        });
        assert!(holds.count() >= 184);
    }
}
