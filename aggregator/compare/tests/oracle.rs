//! The shift beside that of `pragmastat`, an independent implementation which computes from
//! samples: its ratio is the median of all pairwise ratios. For scaled samples it estimates the
//! same number. Its bounds assume independent samples, so they are no oracle for those of
//! correlated runs.

mod runs;

use plimsoll_compare::{Options, compare};
use pragmastat::estimators::raw;
use runs::{Run, operation};

fn flat(run: &Run, seed: u64) -> Vec<f64> {
    run.samples(seed).into_iter().flat_map(|(_, _, values)| values).map(|ns| ns as f64).collect()
}

#[test]
fn the_shift_of_the_median_agrees_with_the_ratio_of_an_independent_implementation() {
    for scale in [0.8, 1.0, 1.1, 2.0] {
        let run = Run { sigma: 0.1, ..Run::PLAIN };
        let other = Run { scale, ..run };
        let ratio = raw::ratio(&flat(&other, 2), &flat(&run, 1), false).unwrap();
        let comparison = compare(&run.side(1), &other.side(2), &Options::default());
        let median = comparison.operations[&operation()].shifts[4].change.unwrap();
        let expected = ratio - 1.0;
        assert!((median.estimate - expected).abs() < 0.006, "{median:?} and {expected}");
        assert!((median.low..median.high).contains(&expected), "{median:?} and {expected}");
    }
}

#[test]
fn intervals_of_correlated_runs_hold_when_those_for_independent_samples_do_not() {
    let run = Run {
        slots: 300,
        per_slot: 10,
        correlation: 0.8,
        level_sigma: 0.1,
        level_correlation: 0.8,
        ..Run::PLAIN
    };
    let (mut ours, mut independent) = (0, 0);
    for seed in 0..20 {
        let (a, b) = (2 * seed, 2 * seed + 1);
        let comparison = compare(&run.side(a), &run.side(b), &Options::default());
        let median = comparison.operations[&operation()].shifts[4].change.unwrap();
        ours += u32::from(median.low <= 0.0 && median.high >= 0.0);
        let bounds = raw::ratio_bounds(&flat(&run, b), &flat(&run, a), 0.05, false).unwrap();
        independent += u32::from(bounds.lower <= 1.0 && bounds.upper >= 1.0);
    }
    assert!(ours >= 19, "{ours} of 20");
    assert!(independent <= 12, "{independent} of 20");
}
