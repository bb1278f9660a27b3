//! Findings: examples of loops at all rates, and what is shown beside them.

mod bounds;
mod looks;

use plimsoll_schemas::histogram::{Histogram, Over, Packed};
use plimsoll_schemas::rule::file::effective;
use plimsoll_schemas::time::Wall;
use proptest::prelude::*;

use super::*;

const LIMIT_NS: u64 = 18_000_000;
const NOW: Wall = Wall(1_000);

fn epoch_hook() -> Budget {
    effective(&[]).unwrap().remove(0)
}

fn kernel_fetch() -> Budget {
    effective(&[]).unwrap().remove(1)
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
    Sums { samples: samples.count(), over, uncertain }
}

fn slot_of(sums: &Sums) -> SlotCounts {
    let over = Over { over: sums.over, uncertain: sums.uncertain };
    SlotCounts { begin: Wall(0), samples: sums.samples, over }
}

/// Slots of these samples and samples over the limit, newest first.
fn slots(counts: &[(u64, u64)]) -> Vec<SlotCounts> {
    let slot = |(age, (samples, over)): (usize, &(u64, u64))| SlotCounts {
        begin: Wall(1_000 - age as u64),
        samples: *samples,
        over: Over { over: *over, uncertain: 0 },
    };
    counts.iter().enumerate().map(slot).collect()
}

/// The finding where the window holds the newest slot alone.
fn found(budget: &Budget, counts: &[(u64, u64)]) -> Finding {
    let slots = slots(counts);
    Judge::new(budget).finding(NOW, &total(&slots[..1]), &slots).0
}

fn judged(budget: &Budget, samples: &Histogram) -> Judgement {
    let sums = sums_of(samples, budget.limit_ns);
    Judge::new(budget).judge(NOW, &sums, &[slot_of(&sums)], |rank| samples.at_rank(rank))
}

fn verdict(judgement: &Judgement) -> Verdict {
    judgement.verdict(AlertState::Inactive)
}

#[test]
fn three_of_three_are_a_breach_at_the_third_and_two_are_too_few() {
    let hook = epoch_hook();
    assert_eq!(found(&hook, &[(1, 1), (1, 1)]), Finding::Insufficient);
    assert_eq!(found(&hook, &[(1, 1), (1, 1), (1, 1)]), Finding::Breach);
    // After half an hour of three a minute within the limit too.
    assert_eq!(found(&hook, &[(1, 1), (1, 1), (1, 1), (87, 0)]), Finding::Breach);
    assert_eq!(found(&hook, &[(1, 1), (1, 1), (88, 0)]), Finding::Uncertain);
    // Of a loop of one a second it takes a fourth.
    assert_eq!(found(&hook, &[(1, 1), (1, 1), (1, 1), (1_800, 0)]), Finding::Uncertain);
    assert_eq!(found(&hook, &[(1, 1), (1, 1), (1, 1), (1, 1), (1_800, 0)]), Finding::Breach);
}

#[test]
fn a_median_needs_as_many_samples_as_show_it() {
    let fetch = kernel_fetch();
    let judge = Judge::new(&fetch);
    let n = judge.samples_min;
    assert_eq!(n, 16);
    assert_eq!(found(&fetch, &[(n - 1, n - 1)]), Finding::Insufficient);
    assert_eq!(found(&fetch, &[(n, n)]), Finding::Breach);
    assert_eq!(found(&fetch, &[(n, n / 2)]), Finding::Clear);
}

#[test]
fn a_breach_ends_by_as_much_evidence_as_it_took_and_not_by_age() {
    let hook = epoch_hook();
    let after = |good: u64| found(&hook, &[(good, 0), (30, 30), (800, 0)]);
    // Thirty of thirty: the share over the limit is at least 0.98.
    assert_eq!(after(3), Finding::Breach);
    assert_eq!(after(4), Finding::Clear);
    // To distinguish a tenth of the samples from one in a hundred takes many more.
    let after = |good: u64| found(&hook, &[(good, 0), (300, 30), (800, 0)]);
    assert_eq!(after(90), Finding::Breach);
    assert_eq!(after(150), Finding::Clear);
    // Nor while the window shows it.
    let judge = Judge::new(&hook);
    let of = |slots: &[SlotCounts], window| judge.finding(NOW, &total(&slots[..window]), slots).0;
    let ended = slots(&[(30, 0), (30, 30), (800, 0)]);
    assert_eq!([of(&ended, 1), of(&ended, 2)], [Finding::Clear, Finding::Breach]);
    // One slow sample in the window is no new breach.
    let again = slots(&[(1, 1), (30, 0), (30, 30), (800, 0)]);
    assert_eq!([of(&again, 1), of(&again, 2)], [Finding::Uncertain; 2]);
}

#[test]
fn a_window_that_resolves_its_quantile_outweighs_a_shorter_stretch() {
    let hook = epoch_hook();
    let slots = slots(&[(50, 20), (2_950, 0)]);
    let judge = Judge::new(&hook);
    let (finding, stretch) = judge.finding(NOW, &total(&slots), &slots);
    assert_eq!(finding, Finding::Uncertain, "twenty of three thousand");
    assert_eq!(stretch.map(|of| (of.samples, of.over)), Some((50, 20)));
    assert_eq!(judge.finding(NOW, &total(&slots[..1]), &slots).0, Finding::Breach);
}

#[test]
fn findings_turn_at_the_very_sample_at_which_they_may() {
    use Finding::{Breach, Clear, Insufficient, NoData, Uncertain};
    for (samples, over, uncertain, expected) in [
        (0, 0, 0, NoData),
        (2, 2, 0, Insufficient),
        (2, 0, 0, Insufficient),
        (3, 3, 0, Breach),
        (3, 0, 0, Clear),
        (3, 0, 1, Uncertain),
        (100, 1, 0, Clear),
        (100, 0, 1, Clear),
        (100, 2, 0, Uncertain),
        (100, 9, 0, Uncertain),
        (100, 10, 0, Breach),
        (1_000, 10, 0, Clear),
        (1_000, 11, 0, Uncertain),
        (1_000, 5, 5, Clear),
        (1_000, 5, 6, Uncertain),
        (1_000, 31, 0, Uncertain),
        (1_000, 32, 0, Breach),
        (1_000, 32, 900, Breach),
        (1_000, 1_000, 0, Breach),
    ] {
        let sums = Sums { samples, over, uncertain };
        let (found, _) = Judge::new(&epoch_hook()).finding(NOW, &sums, &[slot_of(&sums)]);
        assert_eq!(found, expected, "{samples} {over} {uncertain}");
    }
}

#[test]
fn what_a_budget_can_judge_is_stated_in_a_line() {
    let reach = |budget: &Budget| Judge::new(budget).reach()[0].clone();
    let name = "budget \"epoch_hook\": a breach needs at least";
    assert_eq!(reach(&epoch_hook()), format!("{name} 3 samples in 30m, one every 10m"));
    let of_days = Budget { window: Window::ThirtyDays, ..epoch_hook() };
    assert_eq!(reach(&of_days), format!("{name} 3 samples in 30d, one every 10days"));
    let many = Budget { min_samples: 3_601, ..epoch_hook() };
    assert_eq!(reach(&many), format!("{name} 3,601 samples in 30m, 3 per second"));
}

#[test]
fn what_a_budget_detects_and_how_soon_is_stated_for_known_and_for_new_operations() {
    let [_, known, learning] = Judge::new(&epoch_hook()).reach();
    assert_eq!(
        known,
        "budget \"epoch_hook\": detected at one sample per second: 2 % over the limit never, 9 % \
         over the limit after 2m 8s, 100 % over the limit after 4s"
    );
    assert_eq!(
        learning,
        "budget \"epoch_hook\": until 100 clusters of slow samples were seen, counts are assumed \
         to vary 4 times as much as with independent samples: 2 % over the limit never, 9 % over \
         the limit after 7m 47s, 100 % over the limit after 13s"
    );
}

#[test]
fn forged_counts_at_their_greatest_are_judged_too() {
    let most = Over { over: u64::MAX, uncertain: u64::MAX };
    let slot = SlotCounts { begin: Wall(0), samples: u64::MAX, over: most };
    let slots = [slot; 3];
    assert_eq!(Judge::new(&epoch_hook()).finding(NOW, &total(&slots), &slots).0, Finding::Breach);
    let newest = SlotCounts { samples: 4, over: Over { over: 1, uncertain: u64::MAX }, ..slot };
    let slots = [newest, slot];
    assert_eq!(Judge::new(&epoch_hook()).finding(NOW, &total(&slots), &slots).0, Finding::Breach);
}

#[test]
fn a_budget_may_ask_for_more_samples() {
    let hook = Budget { min_samples: 50, ..epoch_hook() };
    assert_eq!(found(&hook, &[(49, 49)]), Finding::Insufficient);
    assert_eq!(found(&hook, &[(50, 50)]), Finding::Breach);
    // A stretch has as many too.
    assert_eq!(found(&hook, &[(5, 5), (300, 0)]), Finding::Uncertain);
}

#[test]
fn a_breach_that_fires_is_one_until_it_is_shown_to_have_ended() {
    let uncertain = judged(&epoch_hook(), &ms(&[(5, 95), (30, 5)]));
    assert_eq!(uncertain.finding, Finding::Uncertain);
    assert_eq!(uncertain.verdict(AlertState::Firing), Verdict::Breach);
    assert_eq!(uncertain.verdict(AlertState::Resolved), Verdict::Within);
    let clear = judged(&epoch_hook(), &ms(&[(5, 100)]));
    assert_eq!(clear.verdict(AlertState::Firing), Verdict::Within);
}

#[test]
fn two_slow_samples_in_a_hundred_are_noise_but_thirty_two_in_a_thousand_are_not() {
    let noise = judged(&epoch_hook(), &ms(&[(5, 98), (30, 2)]));
    assert!(noise.value_ns.unwrap() > LIMIT_NS, "the plain p99 is over the limit");
    assert_eq!((verdict(&noise), noise.finding), (Verdict::Within, Finding::Uncertain));
    assert_eq!(noise.upper_ns, None, "a hundred samples do not bound it from above");
    let signal = judged(&epoch_hook(), &ms(&[(5, 968), (30, 32)]));
    assert_eq!(verdict(&signal), Verdict::Breach);
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
        (judgement.finding, verdict(&judgement))
    };
    use {Finding as Found, Verdict as Judged};
    for (edges, counts, expected) in [
        ([10, 18, 25], [0, 1_000, 0], (Found::Clear, Judged::Within)),
        ([10, 18, 25], [0, 900, 100], (Found::Breach, Judged::Breach)),
        ([5, 10, 25], [0, 900, 100], (Found::Uncertain, Judged::Uncertain)),
        ([5, 10, 25], [0, 1_000, 0], (Found::Clear, Judged::Within)),
        // Some are on an unknown side, and the quantile is not among them.
        ([5, 10, 25], [0, 991, 9], (Found::Clear, Judged::Within)),
    ] {
        assert_eq!(sent(edges, counts), expected, "{edges:?} {counts:?}");
    }
}

#[test]
fn shown_values_lie_on_the_side_of_the_limit_that_the_sums_prove() {
    let budget = epoch_hook();
    let beside = samples(&[(LIMIT_NS, 950), (LIMIT_NS + 1, 50)]);
    let exact = |over| Sums { over, uncertain: 0, ..sums_of(&beside, LIMIT_NS) };
    let shown = |sums: &Sums| {
        let judge = Judge::new(&budget);
        let judgement = judge.judge(NOW, sums, &[slot_of(sums)], |rank| beside.at_rank(rank));
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
    fn more_samples_over_the_limit_never_look_better(
        n in 0..20_000_u64, over in 0..300_u64, uncertain in 0..50_u64, budget in budgets(),
    ) {
        let judge = Judge::new(&budget);
        let of = |over: u64, uncertain: u64| {
            let over = over.min(n);
            let uncertain = uncertain.min(n - over);
            let sums = Sums { samples: n, over, uncertain };
            badness(judge.finding(NOW, &sums, &[slot_of(&sums)]).0)
        };
        prop_assert!(of(over, uncertain) <= of(over + 1, uncertain));
        prop_assert!(of(over, uncertain) <= of(over, uncertain + 1) || of(over, uncertain) == 2);
        prop_assert!(of(over + uncertain, 0) >= of(over, uncertain));
    }

    /// Buckets may leave a finding uncertain, but never return a wrong one.
    #[test]
    fn buckets_never_contradict_exact_counts(
        values in prop::collection::vec((0..40_000_000_u64, 1..500_u64), 1..40),
        budget in budgets(),
    ) {
        let n = values.iter().map(|(_, n)| n).sum::<u64>();
        let over = values.iter().filter(|(value, _)| *value > budget.limit_ns);
        let over = over.map(|(_, n)| n).sum();
        let exact = Sums { samples: n, over, ..Sums::default() };
        let bucketed = sums_of(&samples(&values), budget.limit_ns);
        let judge = Judge::new(&budget);
        let of = |sums: &Sums| judge.finding(NOW, sums, &[slot_of(sums)]).0;
        prop_assert!(of(&bucketed) == of(&exact) || of(&bucketed) == Finding::Uncertain);
    }

    #[test]
    fn the_least_samples_that_can_be_a_breach_are_the_least(budget in budgets()) {
        let budget = Budget { min_samples: 1, ..budget };
        let judge = Judge::new(&budget);
        let n = judge.samples_min;
        let all_over = |n| {
            let sums = Sums { samples: n, over: n, ..Sums::default() };
            judge.finding(NOW, &sums, &[slot_of(&sums)]).0
        };
        prop_assert!(n >= 3);
        if n < 30 {
            prop_assert_eq!(all_over(n), Finding::Breach);
        }
        prop_assert!(all_over(n - 1) != Finding::Breach);
    }

    /// The bounds that are shown lie around the value.
    #[test]
    fn bounds_lie_in_order(
        values in prop::collection::vec((0..40_000_000_u64, 1..500_u64), 1..40),
        budget in budgets(),
    ) {
        let Judgement { value_ns, lower_ns, upper_ns, .. } = judged(&budget, &samples(&values));
        let value_ns = value_ns.unwrap();
        prop_assert!(lower_ns.is_none_or(|lower| lower <= value_ns));
        prop_assert!(upper_ns.is_none_or(|upper| value_ns <= upper));
    }
}
