//! Findings and bounds, against slow and obvious ones.

use plimsoll_schemas::histogram::{Histogram, Over, Packed};
use plimsoll_schemas::rule::file::effective;
use proptest::prelude::*;

use super::*;

const LIMIT_NS: u64 = 18_000_000;

fn epoch_hook() -> Budget {
    effective(&[]).unwrap().remove(0)
}

fn samples(values: &[(u64, u64)]) -> Histogram {
    let mut histogram = Histogram::default();
    values.iter().for_each(|(ns, n)| histogram.record_n(*ns, *n));
    histogram
}

fn ms(values: &[(u64, u64)]) -> Histogram {
    samples(&values.iter().map(|(ms, n)| (ms * 1_000_000, *n)).collect::<Vec<_>>())
}

fn sums_of(samples: &Histogram, limit_ns: u64) -> Sums {
    let Over { over, uncertain } = Packed::from(samples).over(limit_ns);
    let (min_ns, max_ns) = (samples.min_ns(), samples.exact().max_ns);
    Sums { samples: samples.count(), over, uncertain, min_ns, max_ns }
}

fn judged(budget: &Budget, samples: &Histogram) -> Judgement {
    judge(budget, &sums_of(samples, budget.limit_ns), |rank| samples.at_rank(rank))
}

fn known(samples: u64, over: u64) -> Sums {
    Sums { samples, over, ..Sums::default() }
}

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

#[test]
fn findings_turn_at_the_very_sample_at_which_they_may() {
    use Finding::{Breach, Clear, Insufficient, NoData, Uncertain};
    // Of a thousand samples the p99 lies between those of ranks 985 and 996.
    let (lower, upper) = (lower_rank(1_000, 0.99, 0.95), upper_rank(1_000, 0.99, 0.95));
    assert_eq!((lower, upper), (985, Some(996)));
    for (samples, over, uncertain, expected) in [
        (0, 0, 0, NoData),
        (99, 99, 0, Insufficient),
        (100, 0, 0, Clear),
        (100, 1, 0, Uncertain),
        (100, 0, 1, Uncertain),
        (1_000, 4, 0, Clear),
        (1_000, 5, 0, Uncertain),
        (1_000, 2, 2, Clear),
        (1_000, 2, 3, Uncertain),
        (1_000, 15, 0, Uncertain),
        (1_000, 15, 900, Uncertain),
        (1_000, 16, 0, Breach),
        (1_000, 16, 900, Breach),
        (1_000, 1_000, 0, Breach),
    ] {
        let sums = Sums { uncertain, ..known(samples, over) };
        let budget = Budget { confidence: 0.95, ..epoch_hook() };
        assert_eq!(finding(&budget, &sums), expected, "{samples} {over} {uncertain}");
    }
}

#[test]
fn too_few_samples_are_no_evidence_however_bad() {
    let judgement = judged(&epoch_hook(), &ms(&[(500, 99)]));
    assert_eq!((judgement.verdict(), judgement.sums.samples), (Verdict::Insufficient, 99));
    assert_eq!(judged(&epoch_hook(), &Histogram::default()).verdict(), Verdict::NoData);
}

#[test]
fn two_slow_samples_in_a_hundred_are_noise_but_thirty_in_a_thousand_are_not() {
    let noise = judged(&epoch_hook(), &ms(&[(5, 98), (30, 2)]));
    assert!(noise.value_ns.unwrap() > LIMIT_NS, "the plain p99 is over the limit");
    assert_eq!((noise.verdict(), noise.finding), (Verdict::Within, Finding::Uncertain));
    assert_eq!(noise.upper_ns, None, "a hundred samples do not bound it from above");
    let signal = judged(&epoch_hook(), &ms(&[(5, 970), (30, 30)]));
    assert_eq!(signal.verdict(), Verdict::Breach);
    assert!(signal.lower_ns.unwrap() > LIMIT_NS && signal.upper_ns.unwrap() >= 30_000_000);
}

#[test]
fn a_value_exactly_at_the_limit_is_within() {
    let budget = epoch_hook();
    assert_eq!(judged(&budget, &samples(&[(LIMIT_NS, 1_000)])).finding, Finding::Clear);
    let over = judged(&budget, &samples(&[(LIMIT_NS + 1, 1_000)]));
    assert_eq!(over.finding, Finding::Breach, "all samples are 1 ns over");
}

#[test]
fn a_limit_at_the_edge_of_wide_buckets_decides_and_one_inside_is_uncertain() {
    let budget = epoch_hook();
    let sent = |edges: [u64; 3], counts: [u64; 3]| {
        let (mut sent, mut over) = (Histogram::default(), 0);
        sent.watch(&[LIMIT_NS]);
        for (upto, n) in edges.map(|ms| ms * 1_000_000).into_iter().zip(counts) {
            sent.record_within(over, upto, n);
            over = upto;
        }
        let judgement = judged(&budget, &sent);
        (judgement.finding, judgement.verdict())
    };
    use {Finding as Found, Verdict as Judged};
    for (edges, counts, expected) in [
        ([10, 18, 25], [0, 1_000, 0], (Found::Clear, Judged::Within)),
        ([10, 18, 25], [0, 900, 100], (Found::Breach, Judged::Breach)),
        ([5, 10, 25], [0, 900, 100], (Found::Uncertain, Judged::Uncertain)),
        ([5, 10, 25], [0, 1_000, 0], (Found::Clear, Judged::Within)),
        // Some are on an unknown side, and the quantile is not among them.
        ([5, 10, 25], [0, 991, 9], (Found::Uncertain, Judged::Within)),
    ] {
        assert_eq!(sent(edges, counts), expected, "{edges:?} {counts:?}");
    }
}

#[test]
fn shown_values_lie_on_the_findings_side_of_the_limit() {
    let budget = epoch_hook();
    let beside = samples(&[(LIMIT_NS, 950), (LIMIT_NS + 1, 50)]);
    let exact = |over| Sums { over, uncertain: 0, ..sums_of(&beside, LIMIT_NS) };
    let shown = |sums: &Sums| {
        let judgement = judge(&budget, sums, |rank| beside.at_rank(rank));
        (judgement.finding, judgement.lower_ns, judgement.upper_ns)
    };
    let (max, limit) = (Some(LIMIT_NS + 1), Some(LIMIT_NS));
    assert_eq!(shown(&sums_of(&beside, LIMIT_NS)), (Finding::Uncertain, limit, max));
    assert_eq!(shown(&exact(50)), (Finding::Breach, max, max));
    assert_eq!(shown(&exact(0)), (Finding::Clear, limit, limit));
}

prop_compose! {
    fn budgets()(
        quantile in 0.01..0.999, limit_ns in 1_000..40_000_000_u64,
        confidence in 0.5..0.999, min_samples in 1..2_000_u64,
    ) -> Budget {
        Budget { quantile, limit_ns, confidence, min_samples, ..epoch_hook() }
    }
}

/// From clear to breach.
fn badness(finding: Finding) -> u8 {
    match finding {
        Finding::NoData | Finding::Insufficient | Finding::Clear => 0,
        Finding::Uncertain => 1,
        Finding::Breach => 2,
    }
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

    /// The oracle sorts all raw values and reads those of the two ranks.
    #[test]
    fn exact_sums_give_the_finding_that_raw_values_give(
        values in prop::collection::vec((0..40_000_000_u64, 1..500_u64), 0..40),
        beside in prop::collection::vec((0..3_u64, 0..300_u64), 0..4),
        budget in budgets(),
    ) {
        let beside = beside.into_iter().map(|(at, n)| (budget.limit_ns - 1 + at, n));
        let mut values: Vec<_> = values.into_iter().chain(beside).collect();
        values.sort_unstable();
        let n = values.iter().map(|(_, n)| n).sum::<u64>();
        let at = |rank: u64| {
            let mut seen = 0;
            values.iter().find(|(_, n)| { seen += n; seen >= rank }).map(|(value, _)| *value)
        };
        let is_over = |rank: u64| at(rank).is_some_and(|value| value > budget.limit_ns);
        let lower = lower_rank(n, budget.quantile, budget.confidence);
        let upper = upper_rank(n, budget.quantile, budget.confidence);
        let expected = match n {
            0 => Finding::NoData,
            n if n < budget.min_samples => Finding::Insufficient,
            _ if lower > 0 && is_over(lower) => Finding::Breach,
            n if !is_over(upper.unwrap_or(n)) => Finding::Clear,
            _ => Finding::Uncertain,
        };
        let over = values.iter().filter(|(value, _)| *value > budget.limit_ns);
        let over = over.map(|(_, n)| n).sum();
        prop_assert_eq!(finding(&budget, &known(n, over)), expected);
        // Buckets may leave a finding uncertain, but never return a wrong one.
        let of_buckets = finding(&budget, &sums_of(&samples(&values), budget.limit_ns));
        prop_assert!(of_buckets == expected || of_buckets == Finding::Uncertain);
    }

    #[test]
    fn more_samples_over_the_limit_never_look_better(
        n in 0..20_000_u64, over in 0..300_u64, uncertain in 0..50_u64, budget in budgets(),
    ) {
        let of = |over: u64, uncertain: u64| {
            let over = over.min(n);
            let sums = Sums { uncertain: uncertain.min(n - over), ..known(n, over) };
            badness(finding(&budget, &sums))
        };
        prop_assert!(of(over, uncertain) <= of(over + 1, uncertain));
        prop_assert!(of(over, uncertain) <= of(over, uncertain + 1) || of(over, uncertain) == 2);
        prop_assert!(of(over + uncertain, 0) >= of(over, uncertain));
    }

    /// Whatever is shown of a judgement agrees with it.
    #[test]
    fn bounds_lie_in_order_and_on_the_findings_side(
        values in prop::collection::vec((0..40_000_000_u64, 1..500_u64), 1..40),
        budget in budgets(),
    ) {
        let Judgement { finding, value_ns, lower_ns, upper_ns, .. } =
            judged(&budget, &samples(&values));
        let value_ns = value_ns.unwrap();
        prop_assert!(lower_ns.is_none_or(|lower| lower <= value_ns));
        prop_assert!(upper_ns.is_none_or(|upper| value_ns <= upper));
        let shown_over = lower_ns.is_some_and(|lower| lower > budget.limit_ns);
        let shown_within = upper_ns.is_some_and(|upper| upper <= budget.limit_ns);
        match finding {
            Finding::Breach => prop_assert!(shown_over),
            Finding::Clear => prop_assert!(shown_within || upper_ns.is_none()),
            Finding::Uncertain => prop_assert!(!shown_over && !shown_within),
            Finding::NoData | Finding::Insufficient => {}
        }
    }
}
