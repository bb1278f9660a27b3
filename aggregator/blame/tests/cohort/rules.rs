//! What a cohort answers to plain numbers: each rule with two peers, ties, abstention, late reports
//! and peers that come and go.

use plimsoll_blame::limits::FORGOTTEN_INTERVALS;
use plimsoll_blame::{Class, Interval, Peer, ReportError, Rule, StepTimes};

use crate::job::{self, COMPUTE, INPUT, Job, Step};

/// Seconds after which noise is known to a cohort of six or more, and of any.
const KNOWN: u64 = 240;
const KNOWN_OF_FEW: u64 = 1_000;

/// The first name within a minute after these peers have become slower by a fifth.
fn named(job: &mut Job, slow: &[usize]) -> Vec<u64> {
    job.run(KNOWN_OF_FEW, |_, _| Step::default());
    let found = job
        .run(60, |_, peer| if slow.contains(&peer) { Step::slower(0.2) } else { Step::default() });
    found.culprits.iter().map(|culprit| culprit.peer.0).collect()
}

#[test]
fn each_rule_names_who_its_evidence_is_against() {
    let none: [u64; 0] = [];
    for rule in [Rule::WaitsLeast, Rule::Slowest] {
        for (peers, slow, expected) in [
            (2, vec![0], &none[..]),
            (6, vec![], &none[..]),
            (3, vec![1], &[1]),
            (6, vec![3], &[3]),
            // The median peer is slow itself.
            (6, vec![0, 1, 2, 3], &none[..]),
            (6, vec![0, 1, 2, 3, 4, 5], &none[..]),
        ] {
            assert_eq!(named(&mut Job::new(rule, peers), &slow), expected, "{rule:?} {slow:?}");
        }
    }
}

#[test]
fn equal_culprits_are_named_and_counted_as_tied() {
    let mut job = Job::new(Rule::WaitsLeast, 9);
    let mut found = named(&mut job, &[2, 5]);
    found.sort_unstable();
    assert_eq!(found, [2, 5]);
    assert_eq!(job.last.counts.tied, 2);
}

#[test]
fn a_peer_with_few_steps_abstains() {
    let mut job = Job::new(Rule::Slowest, 7);
    job.run(KNOWN, |_, peer| Step { steps: if peer == 1 { 4 } else { 10 }, ..Step::default() });
    let found = job.run(60, |_, peer| match peer {
        1 => Step { steps: 4, ..Step::slower(0.5) },
        _ => Step::default(),
    });
    assert_eq!((found.named, found.counts.abstained, found.counts.peers), (0, 1, 7));
}

#[test]
fn culprits_that_alternate_are_named_by_their_own_evidence() {
    let mut job = Job::new(Rule::WaitsLeast, 8);
    job.run(KNOWN, |_, _| Step::default());
    // One second each, in turns: each is slow an eighth of the time.
    let found =
        job.run(
            120,
            |second, peer| {
                if second % 8 == peer as u64 { Step::slower(0.2) } else { Step::default() }
            },
        );
    assert_eq!(found.named, 0);
}

#[test]
fn the_excess_is_that_which_was_planted() {
    let mut job = Job::new(Rule::WaitsLeast, 8);
    assert_eq!(named(&mut job, &[4]), [4]);
    let culprit = job.last.culprits[0];
    let slow_from = job::START + KNOWN_OF_FEW;
    assert!((slow_from - 6..slow_from + 6).contains(&culprit.since.0), "{culprit:?}");
    let excess = culprit.excess;
    assert!((18.0..22.0).contains(&excess.percent), "{excess:?}");
    assert!((18.0..22.0).contains(&excess.ms_per_step), "{excess:?}");
    assert!(excess.lower_percent < 20.0 && 20.0 < excess.upper_percent, "{excess:?}");
    // Seven peers wait for a sixth of each step.
    assert!((1.0..1.3).contains(&culprit.peer_hours_per_hour), "{culprit:?}");
    assert!(culprit.chance_of_error < 1.0 / 7.0, "{culprit:?}");
}

#[test]
fn a_slow_peer_that_none_waits_for_costs_its_own_time() {
    let mut job = Job::new(Rule::Slowest, 8);
    assert_eq!(named(&mut job, &[4]), [4]);
    let cost = job.last.culprits[0].peer_hours_per_hour;
    assert!((0.15..0.18).contains(&cost), "{cost}");
}

#[test]
fn a_class_explains_four_fifths_or_nothing() {
    let step = |input, compute| Step { input, compute, ..Step::default() };
    for (slow, expected) in [
        (step(0.2, 0.0), Some(INPUT)),
        (step(0.0, 0.2), Some(COMPUTE)),
        (step(0.18, 0.02), Some(INPUT)),
        (step(0.1, 0.1), None),
        (Step { hidden: 0.2, ..Step::default() }, None),
    ] {
        let mut job = Job::new(Rule::WaitsLeast, 8);
        job.run(KNOWN, |_, _| Step::default());
        let found = job.run(60, |_, peer| if peer == 2 { slow } else { Step::default() });
        let classes: Vec<Option<Class>> = found.culprits.iter().map(|one| one.class).collect();
        assert_eq!(classes, [expected], "{slow:?}");
    }
}

#[test]
fn a_name_ends_half_a_minute_after_the_excess_is_over() {
    let mut job = Job::new(Rule::WaitsLeast, 8);
    named(&mut job, &[4]);
    assert_eq!(job.run(30, |_, _| Step::default()).named, 1);
    assert_eq!(job.run(120, |_, _| Step::default()).named, 0);
}

#[test]
fn a_second_incident_has_an_interval_as_narrow_as_the_first() {
    let width = |job: &Job| {
        let excess = job.last.culprits[0].excess;
        assert!((19.5..20.5).contains(&excess.percent), "{excess:?}");
        excess.upper_percent - excess.lower_percent
    };
    let mut job = Job::new(Rule::WaitsLeast, 4);
    assert_eq!(named(&mut job, &[2]), [2]);
    let first = width(&job);
    assert_eq!(job.run(180, |_, _| Step::default()).named, 0);
    let slow = |_, peer| if peer == 2 { Step::slower(0.2) } else { Step::default() };
    assert_eq!(job.run(60, slow).named, 1);
    assert!(width(&job) < 1.5 * first, "{} after {first}", width(&job));
}

#[test]
fn the_interval_is_wider_where_the_excess_itself_varies() {
    let width = |slow: fn(u64) -> f64| {
        let mut job = Job::new(Rule::WaitsLeast, 8);
        job.run(KNOWN, |_, _| Step::default());
        let step =
            |second, peer| if peer == 4 { Step::slower(slow(second)) } else { Step::default() };
        let excess = job.run(60, step).culprits[0].excess;
        assert!(excess.lower_percent < 20.0 && 20.0 < excess.upper_percent, "{excess:?}");
        excess.upper_percent - excess.lower_percent
    };
    // Ten seconds each, longer than a block.
    let varying = width(|second| if second / 10 % 2 == 0 { 0.1 } else { 0.3 });
    assert!(varying > 10.0 * width(|_| 0.2), "{varying}");
}

#[test]
fn a_peer_that_was_slow_while_noise_was_learned_is_cleared_within_minutes() {
    let mut job = Job::new(Rule::WaitsLeast, 4);
    let slow = |_, peer| if peer == 2 { Step::slower(0.2) } else { Step::default() };
    assert_eq!(job.run(KNOWN_OF_FEW, slow).named, 1);
    assert_eq!(job.run(180, |_, _| Step::default()).named, 0);
}

#[test]
fn steps_of_several_seconds_are_judged_step_by_step() {
    let mut job = Job::new(Rule::WaitsLeast, 8);
    let every_fifth = |slow: bool| {
        move |second: u64, peer: usize| Step {
            steps: u64::from(second.is_multiple_of(5)),
            ..if slow && peer == 6 { Step::slower(0.2) } else { Step::default() }
        }
    };
    job.run(5 * KNOWN, every_fifth(false));
    let found = job.run(5 * 60, every_fifth(true));
    assert_eq!(found.culprits.iter().map(|one| one.peer.0).collect::<Vec<_>>(), [6]);
}

#[test]
fn reports_after_the_grace_period_are_refused_and_blocks_close_without_them() {
    let mut job = Job::new(Rule::WaitsLeast, 8);
    job.run(KNOWN, |_, _| Step::default());
    let now = job.now();
    // Two of three reports of the last peer are missing for good.
    let found = job.run(60, |second, peer| Step {
        is_missing: peer == 7 && !second.is_multiple_of(3),
        ..if peer == 4 { Step::slower(0.2) } else { Step::default() }
    });
    assert_eq!((found.culprits[0].peer, found.named), (Peer(4), 1));
    assert_eq!(found.counts.incomplete, 1);
    let refused = job.cohort.add(now, Peer(7), &StepTimes::new(1));
    assert_eq!(refused, Err(ReportError::Late(now.0)));
    let ahead = Interval(now.0 + 1_000);
    assert_eq!(
        job.cohort.add(ahead, Peer(7), &StepTimes::new(1)),
        Err(ReportError::Ahead(ahead.0))
    );
}

#[test]
fn silence_ends_no_name_until_the_peer_is_forgotten() {
    let mut job = Job::new(Rule::WaitsLeast, 8);
    named(&mut job, &[4]);
    let gone = |_, peer| Step { is_missing: peer == 4, ..Step::default() };
    let found = job.run(60, gone);
    assert_eq!((found.named, found.counts.peers), (1, 7));
    assert_eq!(job.run(FORGOTTEN_INTERVALS, gone).named, 0);
}

#[test]
fn a_culprit_that_is_renamed_is_named_anew_by_evidence_of_its_own() {
    let mut job = Job::new(Rule::WaitsLeast, 9);
    let first = |slow: usize| {
        move |_, peer: usize| match peer {
            8 => Step { is_missing: true, ..Step::default() },
            _ if peer == slow => Step::slower(0.2),
            _ => Step::default(),
        }
    };
    job.run(KNOWN, first(usize::MAX));
    assert_eq!(job.run(60, first(4)).culprits[0].peer, Peer(4));
    // Peer 4 is called 8 from now on.
    let renamed = |_, peer: usize| match peer {
        4 => Step { is_missing: true, ..Step::default() },
        8 => Step::slower(0.2),
        _ => Step::default(),
    };
    assert_eq!(job.run(7, renamed).culprits.len(), 1);
    let peers: Vec<u64> = job.run(60, renamed).culprits.iter().map(|one| one.peer.0).collect();
    assert_eq!((peers.len(), peers.contains(&8)), (2, true));
}

#[test]
fn a_pause_of_all_peers_changes_no_name() {
    let mut job = Job::new(Rule::WaitsLeast, 8);
    named(&mut job, &[4]);
    job.pause(300);
    let found = job.run(3, |_, peer| if peer == 4 { Step::slower(0.2) } else { Step::default() });
    assert_eq!(found.culprits[0].peer, Peer(4));
}
