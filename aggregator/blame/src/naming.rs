//! Which suspects are named: the bound on false names, over all peers and rules.
//!
//! Evidence in seconds is divided by the seconds of a week: the result is an e-value for the week.
//! They go through the procedure of Benjamini and Hochberg for e-values (Wang and Ramdas 2022),
//! which holds however peers depend on each other, and they do through the median: the `k`
//! suspects with the most evidence are named if the last of them has `hypotheses / k`. Without any
//! culprit the expected number of names in a week is at most one.

use crate::limits::{FALSE_NAMES_PER_WEEK, INTERVAL_Z, WEEK_SECONDS};

/// How many peers of how many rules are judged at once, over all cohorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hypotheses(pub usize);

/// A suspect's evidence and mean excess, with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// The member's place.
    pub(crate) place: usize,
    pub(crate) seconds: f64,
    pub(crate) excess: f64,
    pub(crate) error: f64,
}

/// Shares the evidence of candidates whose excess noise cannot tell apart: which of them is the
/// slowest is open. Returns how many are in such a tie.
pub(crate) fn share_ties(candidates: &mut [Candidate]) -> usize {
    let all = candidates.to_vec();
    let mut tied = 0;
    for candidate in candidates {
        let is_equal = |other: &&Candidate| {
            let noise = INTERVAL_Z * candidate.error.hypot(other.error);
            (candidate.excess - other.excess).abs() <= noise
        };
        let equal = all.iter().filter(is_equal).count();
        tied += usize::from(equal > 1);
        candidate.seconds /= equal.max(1) as f64;
    }
    tied
}

/// Sorts by evidence, most first, and returns how many of them are named.
pub(crate) fn named(candidates: &mut [Candidate], hypotheses: Hypotheses) -> usize {
    candidates.sort_by(|one, other| {
        other.seconds.total_cmp(&one.seconds).then(one.place.cmp(&other.place))
    });
    let passes = |count: &usize| {
        let shared = candidates[*count - 1].seconds * *count as f64;
        per_week(shared, hypotheses) <= FALSE_NAMES_PER_WEEK
    };
    (1..=candidates.len()).rev().find(passes).unwrap_or(0)
}

/// The expected number of peers in a week that noise alone brings to as much evidence.
pub(crate) fn per_week(seconds: f64, Hypotheses(hypotheses): Hypotheses) -> f64 {
    hypotheses as f64 * WEEK_SECONDS / seconds.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(all: &[(f64, f64)]) -> Vec<Candidate> {
        let of = |(place, (weeks, excess)): (usize, &(f64, f64))| Candidate {
            place,
            seconds: weeks * WEEK_SECONDS,
            excess: *excess,
            error: 0.01,
        };
        all.iter().enumerate().map(of).collect()
    }

    #[test]
    fn several_culprits_need_less_evidence_each() {
        for (weeks, expected) in [
            (vec![999.0], 0),
            (vec![1_000.0], 1),
            (vec![500.0, 499.0], 0),
            (vec![500.0, 500.0], 2),
            (vec![2_000.0, 499.0], 1),
            (vec![400.0, 10.0, 350.0, 334.0], 3),
        ] {
            let mut all = candidates(&weeks.iter().map(|weeks| (*weeks, 0.2)).collect::<Vec<_>>());
            assert_eq!(named(&mut all, Hypotheses(1_000)), expected, "{weeks:?}");
        }
    }

    #[test]
    fn equal_ones_share_their_evidence() {
        let mut all = candidates(&[(600.0, 0.2), (600.0, 0.21), (600.0, 0.4), (600.0, 0.19)]);
        assert_eq!(share_ties(&mut all), 3);
        let weeks: Vec<f64> = all.iter().map(|one| (one.seconds / WEEK_SECONDS).round()).collect();
        assert_eq!(weeks, [200.0, 200.0, 600.0, 200.0]);
    }
}
