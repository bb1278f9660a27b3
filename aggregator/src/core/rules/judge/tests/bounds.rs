//! Confidence bounds, against slow and obvious ones.

use plimsoll_schemas::histogram::rank;
use proptest::prelude::*;

use crate::core::rules::judge::bounds::normal_quantile;
use crate::core::rules::judge::{lower_rank, upper_rank};

/// P(Bin(n, q) >= r), summed in logarithms: slow and obviously right.
fn at_least(n: u64, quantile: f64, rank: u64) -> f64 {
    let ln_factorial =
        |n: u64| (1..=n).map(|i| f64::from(u32::try_from(i).unwrap()).ln()).sum::<f64>();
    (rank..=n)
        .map(|k| {
            let (below, above) = (u32::try_from(k).unwrap(), u32::try_from(n - k).unwrap());
            (ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
                + f64::from(below) * quantile.ln()
                + f64::from(above) * (1.0 - quantile).ln())
            .exp()
        })
        .sum()
}

#[test]
fn the_bounds_hold_and_no_closer_ranks_do() {
    for n in [1, 5, 59, 100, 299, 400] {
        for quantile in [0.3, 0.5, 0.9, 0.99] {
            for confidence in [0.5, 0.95, 0.99] {
                let what = format!("{n} {quantile} {confidence}");
                let lower = lower_rank(n, quantile, confidence);
                assert!(lower == 0 || at_least(n, quantile, lower) >= confidence - 1e-9, "{what}");
                assert!(at_least(n, quantile, lower + 1) < confidence + 1e-9, "{what}");
                // At most `rank - 1` samples lie below.
                let sure = |rank: u64| 1.0 - at_least(n, quantile, rank);
                let upper = upper_rank(n, quantile, confidence);
                assert!(upper.is_none_or(|rank| sure(rank) >= confidence - 1e-9), "{what}");
                let closer = upper.unwrap_or(n + 1) - 1;
                assert!(sure(closer) < confidence + 1e-9, "{what}: {closer}");
            }
        }
    }
}

/// P(Bin(n, p) >= k) for each k, from the greatest on, where it is rare.
fn tails(n: u64, p: f64) -> Vec<f64> {
    let ln = |n: u64| f64::from(u32::try_from(n).unwrap()).ln();
    let mut term = f64::from(u32::try_from(n).unwrap()) * (1.0 - p).ln();
    let mut terms = vec![term.exp()];
    for k in 1..=n {
        term += ln(n - k + 1) - ln(k) + p.ln() - (1.0 - p).ln();
        terms.push(term.exp());
    }
    let mut sum = 0.0;
    for term in terms.iter_mut().rev() {
        sum += *term;
        *term = sum;
    }
    terms
}

#[test]
fn the_bounds_of_many_samples_hold_far_out_in_the_tails_and_are_hardly_wider_than_need_be() {
    for (quantile, first) in [(0.5, 401), (0.9, 1_112), (0.99, 10_102), (0.999, 100_102)] {
        for n in (0..20).map(|more| first + more * 7).chain([first * 2, first * 5]) {
            let (above, below) = (tails(n, 1.0 - quantile), tails(n, quantile));
            let misses = |tails: &[f64], rank: u64| tails[usize::try_from(rank).unwrap()];
            for confidence in [0.95, 0.99, 0.999, 0.9999, 0.99999, 0.999_999] {
                let what = format!("{n} {quantile} {confidence}");
                let may_miss = (1.0 - confidence) * (1.0 + 1e-6);
                let lower = n - lower_rank(n, quantile, confidence);
                assert!(misses(&above, lower + 1) <= may_miss, "{what}");
                assert!(misses(&above, lower - 2) > may_miss, "{what}");
                let upper = upper_rank(n, quantile, confidence).unwrap();
                assert!(misses(&below, upper) <= may_miss, "{what}");
                assert!(misses(&below, upper - 3) > may_miss, "{what}");
            }
        }
    }
}

#[test]
fn exact_and_normal_ranks_meet() {
    for (quantile, n) in [(0.5, 400_u64), (0.99, 10_101)] {
        let exact = lower_rank(n, quantile, 0.95);
        let normal = lower_rank(n + 3, quantile, 0.95);
        assert!(normal.abs_diff(exact) <= 4, "{quantile}: {exact} and {normal}");
        let [exact, normal] = [n, n + 3].map(|n| upper_rank(n, quantile, 0.95).unwrap());
        assert!(normal.abs_diff(exact) <= 4, "{quantile}: {exact} and {normal}");
    }
}

#[test]
fn the_normal_quantile_has_its_textbook_values() {
    for (p, z) in [(0.5, 0.0), (0.95, 1.644_853_627), (0.99, 2.326_347_874)] {
        assert!((normal_quantile(p) - z).abs() < 1e-6, "{p}");
    }
}

#[test]
fn the_highest_percentile_has_an_upper_bound_from_so_many_samples_on() {
    // 0.99^298 is just above 5 %, 0.99^299 just below.
    assert_eq!([298, 299].map(|n| upper_rank(n, 0.99, 0.95)), [None, Some(299)]);
}

proptest! {
    #[test]
    fn the_quantile_lies_between_its_bounds(
        n in 1..50_000_u64, permille in 1..1_000_u32, confidence in 0.5..0.999,
    ) {
        let quantile = f64::from(permille) / 1000.0;
        prop_assert!(lower_rank(n, quantile, confidence) <= rank(quantile, n));
        let upper = upper_rank(n, quantile, confidence);
        prop_assert!(upper.is_none_or(|upper| (rank(quantile, n)..=n).contains(&upper)));
    }
}
