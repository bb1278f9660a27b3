//! What changes no answer: the order of reports, the numbers of peers, the unit of time, and time
//! that all peers wait alike.

use plimsoll_blame::{Evaluation, Hypotheses, Peer, Rule, StepTimes};
use plimsoll_schemas::random::SplitMix64;
use proptest::prelude::*;

use crate::job::{COMPUTE, INPUT, Report, SYNC, Source, Step, cohort};

const PEERS: usize = 7;
const SECONDS: u64 = 320;
const SLOW_FROM: u64 = 260;

/// What is planted: a culprit, and by how much it is slower.
#[derive(Clone, Copy, Debug)]
struct Case {
    rule: Rule,
    seed: u64,
    culprit: usize,
    share: f64,
}

fn cases() -> impl Strategy<Value = Case> {
    let rule = prop_oneof![Just(Rule::WaitsLeast), Just(Rule::Slowest)];
    (rule, any::<u64>(), 0..PEERS, 0.0..0.4).prop_map(|(rule, seed, culprit, share)| Case {
        rule,
        seed,
        culprit,
        share,
    })
}

/// The evaluation after all reports, of which each second's go through `change`.
fn evaluation(case: Case, mut change: impl FnMut(Vec<Report>) -> Vec<Report>) -> Evaluation {
    let mut cohort = cohort(case.rule);
    let mut source = Source::new(case.rule, PEERS, case.seed);
    let mut last = Evaluation::default();
    for _ in 0..SECONDS {
        let reports = source.second(|second, peer| {
            let is_slow = second >= SLOW_FROM && peer == case.culprit;
            if is_slow { Step::slower(case.share) } else { Step::default() }
        });
        for Report { at, peer, times } in change(reports) {
            cohort.add(at, peer, &times).unwrap();
        }
        last = cohort.evaluate(source.now(), Hypotheses(2_000));
    }
    last
}

/// Names, and figures without the last bits, which sums in another order change.
fn rounded(evaluation: &Evaluation) -> Vec<(u64, u64, String)> {
    let figures = |one: &plimsoll_blame::Culprit| {
        let excess = one.excess;
        format!("{:.6} {:.6} {:.6}", excess.percent, excess.upper_percent, one.peer_hours_per_hour)
    };
    let culprits = evaluation.culprits.iter();
    culprits.map(|one| (one.peer.0, one.since.0, figures(one))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_culprit_of_a_tenth_or_more_is_named_and_no_other(case in cases()) {
        let found = evaluation(case, |reports| reports);
        let expected = if case.share >= 0.1 { vec![case.culprit as u64] } else { Vec::new() };
        let names: Vec<u64> = found.culprits.iter().map(|one| one.peer.0).collect();
        if case.share >= 0.1 || case.share <= 0.02 {
            prop_assert_eq!(names, expected);
        } else {
            prop_assert!(names.iter().all(|peer| *peer == case.culprit as u64));
        }
    }

    #[test]
    fn the_order_and_division_of_reports_change_nothing(case in cases(), seed in any::<u64>()) {
        let mut random = SplitMix64(seed);
        let shuffled = evaluation(case, |reports| {
            // Each report in two parts, in any order.
            let parts = reports.iter().flat_map(|report| {
                let one = Report { times: StepTimes::new(3).with(INPUT, 1_000), ..*report };
                [one, *report]
            });
            let mut parts: Vec<(u64, Report)> = parts.map(|part| (random.bits(), part)).collect();
            parts.sort_by_key(|(key, _)| *key);
            parts.into_iter().map(|(_, part)| part).collect()
        });
        let merged = evaluation(case, |reports| {
            let merge = |mut report: Report| {
                report.times.merge(&StepTimes::new(3).with(INPUT, 1_000));
                report
            };
            reports.into_iter().map(merge).collect()
        });
        prop_assert_eq!(shuffled, merged);
    }

    #[test]
    fn renumbering_peers_renumbers_names(case in cases(), shift in 1..PEERS) {
        let renumbered = |peer: u64| (peer * 3 + shift as u64) % PEERS as u64;
        let plain = evaluation(case, |reports| reports);
        let other = evaluation(case, |reports| {
            let of = |report: Report| Report { peer: Peer(renumbered(report.peer.0)), ..report };
            reports.into_iter().map(of).collect()
        });
        let expected: Vec<_> = rounded(&plain)
            .into_iter()
            .map(|(peer, since, figures)| (renumbered(peer), since, figures))
            .collect();
        prop_assert_eq!(rounded(&other), expected);
    }

    #[test]
    fn the_unit_of_time_changes_no_share(case in cases(), power in 1_u32..5) {
        let times = 8_u64.pow(power);
        let plain = evaluation(case, |reports| reports);
        let scaled = evaluation(case, |reports| {
            reports.into_iter().map(|report| Report { times: scaled(&report.times, times), ..report }).collect()
        });
        prop_assert_eq!(rounded(&scaled), rounded(&plain));
    }

    #[test]
    fn waiting_of_all_peers_alike_changes_no_name(case in cases(), ms in 1_u64..1_000) {
        let plain = evaluation(case, |reports| reports);
        let waiting = evaluation(case, |reports| {
            let waits = |report: Report| {
                Report { times: report.times.with(SYNC, 10 * ms * 1_000_000), ..report }
            };
            reports.into_iter().map(waits).collect()
        });
        let names = |found: &Evaluation| {
            found.culprits.iter().map(|one| (one.peer, one.since, one.class)).collect::<Vec<_>>()
        };
        prop_assert_eq!(names(&waiting), names(&plain));
    }
}

/// The same steps where each class took this many times as long.
fn scaled(times: &StepTimes, by: u64) -> StepTimes {
    let steps = times.steps();
    [INPUT, COMPUTE, SYNC].into_iter().fold(StepTimes::new(steps), |scaled, class| {
        times.ns(class).map_or(scaled, |ns| scaled.with(class, ns * by))
    })
}
