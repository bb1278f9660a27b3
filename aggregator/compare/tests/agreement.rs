//! The targets of a comparison: a program compared with itself is `same`, and a shift of 5 % is
//! found. `cargo bench -p plimsoll-compare --bench power` has the same for more kinds of runs.

mod runs;

use plimsoll_compare::{Compared, Options, Verdict, compare};
use runs::{Run, operation};

const PAIRS: u64 = 100;

fn judged(a: &Run, b: &Run, seed: u64) -> Compared {
    let (a, b) = (a.side(2 * seed), b.side(2 * seed + 1));
    let options = Options { tolerance: 0.0, ..Options::default() };
    compare(&a, &b, &options).operations.remove(&operation()).unwrap()
}

fn verdict_of(compared: &Compared, quantile: f64) -> Option<Verdict> {
    let shift = compared.shifts.iter().find(|shift| shift.quantile == quantile)?;
    Some(shift.change?.verdict)
}

#[test]
fn a_correlated_run_compared_with_itself_is_the_same() {
    let run = Run {
        slots: 300,
        per_slot: 33,
        correlation: 0.8,
        level_sigma: 0.1,
        level_correlation: 0.8,
        ..Run::PLAIN
    };
    let same = (0..PAIRS).filter(|seed| judged(&run, &run, *seed).verdict == Verdict::Same).count();
    assert!(same >= 95, "{same} of {PAIRS}");
}

#[test]
fn five_percent_of_p99_are_found_in_ten_thousand_samples() {
    let run = Run { sigma: 0.15, ..Run::PLAIN };
    let slower = Run { scale: 1.05, ..run };
    let all: Vec<Compared> = (0..PAIRS).map(|seed| judged(&run, &slower, seed)).collect();
    let found = all.iter().filter(|one| verdict_of(one, 0.99) == Some(Verdict::Worse)).count();
    assert!(found >= 95, "{found} of {PAIRS}");
}

#[test]
fn five_percent_of_all_samples_are_found_despite_a_wide_distribution() {
    let run = Run { sigma: 0.4, ..Run::PLAIN };
    let slower = Run { scale: 1.05, ..run };
    let worse = |seed: &u64| judged(&run, &slower, *seed).verdict == Verdict::Worse;
    let found = (0..PAIRS).filter(worse).count();
    assert!(found >= 95, "{found} of {PAIRS}");
}
