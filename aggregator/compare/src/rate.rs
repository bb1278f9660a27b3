//! Rates of counters: by wall time, or by the time of the operation that they belong to. They are
//! compared as quantiles are: blocks of slots are resampled, and a change is judged as a share.
//!
//! DESIGN A77, A195.

use plimsoll_schemas::figure::counted;
use plimsoll_schemas::random::SplitMix64;
use serde::Serialize;

use crate::blocks::{BLOCKS_MAX, BLOCKS_MIN, SEEN_MIN};
use crate::change::{Change, change_of};
use crate::correlation::Correlation;
use crate::interval;
use crate::side::{MeasuredRate, RateSlot};
use crate::statistic::{Estimate, Estimates, RESAMPLES, drawn, spread};
use crate::verdict::Verdict;

/// Parts of the last word of a name of which more is worse. More of anything else is better.
const WORSE: [&str; 11] = [
    "error", "fail", "miss", "drop", "retr", "timeout", "lost", "reject", "evict", "throttl",
    "stall",
];

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
}

/// Slots in blocks, and how much of the long-run variance these show.
struct RateBlocks {
    parts: Vec<RateSlot>,
    seen: f64,
}

impl MeasuredRate {
    /// All of the amount by all of the time.
    fn rate(&self) -> f64 {
        let total = total(&self.slots);
        if total.seconds > 0.0 { total.amount / total.seconds } else { 0.0 }
    }

    fn blocks(&self, side: &str) -> Result<RateBlocks, String> {
        let slots: Vec<RateSlot> =
            self.slots.iter().copied().filter(|slot| slot.seconds > 0.0).collect();
        let rate = self.rate();
        if rate <= 0.0 {
            return Err(format!("{side} has none of it"));
        }
        if slots.len() < BLOCKS_MIN {
            let slots = counted(slots.len() as u64, "interval");
            return Err(format!("{side} has {slots}, fewer than {BLOCKS_MIN}; record for longer"));
        }

        // What moves a ratio: how much more of the amount a slot has than its time gives.
        let moved = slots.iter().map(|slot| slot.amount - rate * slot.seconds).collect();
        let correlation = Correlation::of(&[moved]);
        let longest = slots.len() / BLOCKS_MIN;
        let least = slots.len().div_ceil(BLOCKS_MAX);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at least 1 and, clamped, at most the number of slots"
        )]
        let length = (correlation.block_slots().ceil() as usize).max(least).clamp(1, longest);
        let seen = correlation.seen(length);
        if seen < SEEN_MIN {
            return Err(format!("{side} changes too slowly for its length; record for longer"));
        }
        Ok(RateBlocks { parts: slots.chunks(length).map(total).collect(), seen: seen.min(1.0) })
    }
}

impl RateBlocks {
    fn estimates(&self, seed: u64) -> Estimates {
        let blocks = self.parts.len();
        let all = total(&self.parts);
        let value = (all.amount / all.seconds).ln();
        // As for quantiles: blocks that are few, and that end somewhere.
        let scale = (blocks as f64 / (blocks as f64 - 1.0) / self.seen).sqrt();
        let mut rng = SplitMix64(seed);

        let deviation = |_| {
            let drawn = (0..blocks).map(|_| self.parts[drawn(blocks, rng.bits())]);
            let RateSlot { amount, seconds } = total(&drawn.collect::<Vec<_>>());
            // A resample without any amount has no logarithm; it is as far off as the least has.
            let amount = amount.max(f64::MIN_POSITIVE);
            ((amount / seconds).ln() - value) * scale
        };

        let deviations: Vec<f64> = (0..RESAMPLES).map(deviation).collect();
        let spread = spread(&deviations);
        let beyond = blocks as f64;
        let value = Estimate { value, uncertainty: 0.0, deviations, spread, beyond, shown_ns: 0 };
        Estimates { values: vec![value], blocks, samples: blocks as u64 }
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
    a: &MeasuredRate,
    b: &MeasuredRate,
    tolerance: f64,
    together: usize,
) -> ComparedRate {
    let lower_is_better = is_worse_with_more(name);
    let of = |verdict, reason, change| ComparedRate {
        verdict,
        reason,
        operation: a.operation.clone(),
        lower_is_better,
        a: a.rate(),
        b: b.rate(),
        change,
    };
    if a.operation != b.operation {
        let reason = "only one side has the operation by whose time it is divided".to_owned();
        return of(Verdict::NotComparable, Some(reason), None);
    }

    let (one, other) = match (a.blocks("A"), b.blocks("B")) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(reason), _) | (_, Err(reason)) => {
            return of(Verdict::NotEnoughData, Some(reason), None);
        }
    };

    let seeds = [one.fingerprint(), other.fingerprint()];
    // Equal sides would draw equal resamples, and differ in none.
    let second = if seeds[0] == seeds[1] { !seeds[1] } else { seeds[1] };
    let intervals =
        interval::intervals(&one.estimates(seeds[0]), &other.estimates(second), together);
    let change = intervals.first().copied().flatten().map(|interval| {
        let change = change_of(&interval, tolerance);
        // A quantile is worse where it is higher.
        let verdict = if lower_is_better { change.verdict } else { change.verdict.reversed() };
        Change { verdict, ..change }
    });
    of(change.map_or(Verdict::NotEnoughData, |change| change.verdict), None, change)
}

fn is_worse_with_more(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    WORSE.iter().any(|part| last.contains(part))
}

fn total(slots: &[RateSlot]) -> RateSlot {
    slots.iter().fold(RateSlot { amount: 0.0, seconds: 0.0 }, |sum, slot| RateSlot {
        amount: sum.amount + slot.amount,
        seconds: sum.seconds + slot.seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
                MeasuredRate { slots: Vec::new(), ..whole.clone() },
                Verdict::NotEnoughData,
                "none of it",
            ),
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
