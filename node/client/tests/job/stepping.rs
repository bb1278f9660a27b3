//! Steps of a job that is a rank: phases add up to their step, and a child counts none of its
//! parent's.

use std::panic::catch_unwind;

use plimsoll_client::{Class, Steps, stats};
use plimsoll_schemas::histogram::Histogram;

use crate::forking::{forked, poll_ended_well};
use crate::node::{Manner, Node};
use crate::process::Place;

/// Phases of one step, more than there is room for beside the rest.
const PHASES: usize = 40;

pub(crate) fn steps() {
    let steps = Steps::with_labels("train_step", [("zone", "a")]);
    let (input, reduce) = (steps.phase("input"), steps.phase_of("all_reduce", Class::Sync));
    for _ in 0..3 {
        let mut step = steps.start();
        step.phase(input).stop();
        let mut reducing = step.phase(reduce);
        reducing.phase(input).stop();
    }

    let mut failed = steps.start();
    failed.fail();
    failed.stop();
    let panicked = catch_unwind(|| {
        let mut step = steps.start();
        let _input = step.phase(input);
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panicked.is_err());

    let mut full = steps.start();
    (0..PHASES).for_each(|n| full.phase(steps.phase(&format!("p{n}"))).stop());
    drop(full);
    assert_eq!(stats().phases_cut, PHASES as u64 - 31);
}

pub(crate) fn fork_within_a_step() {
    let steps = Steps::new("train_step");
    let input = steps.phase("input");
    let mut step = Some(steps.start());
    poll_ended_well(forked(|| {
        let mut of_parent = step.take().unwrap();
        of_parent.phase(input).stop();
        of_parent.fail();
        drop(of_parent);
        assert_eq!(stats().recorded, 0);
        steps.start().phase(input).stop();
        assert_eq!(stats().recorded, 3);
    }));
    drop(step);
    assert_eq!(stats().recorded, 2);
}

#[test]
fn phases_of_a_rank_add_up_to_their_steps() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    let rank = [("PLIMSOLL_RANKS", ""), ("RANK", "3"), ("LOCAL_RANK", "x"), ("WORLD_SIZE", "8")];
    place.start_with("steps", &rank).ends_well();
    let seen = node.leave();

    let of = |name: &str| &seen.histograms[name];
    let labelled = |phase: &str, class: &str| {
        format!("train_step.{phase}{{class={class},rank=3,world_size=8,zone=a}}")
    };
    let whole = of("train_step{rank=3,world_size=8,zone=a}");
    let phases = [("input", "input"), ("all_reduce", "sync"), ("other", "other"), ("p0", "other")];
    let counts = phases.map(|(phase, class)| of(&labelled(phase, class)).count());
    assert_eq!((whole.count(), counts), (6, [4, 3, 6, 1]));
    assert_eq!(seen.histograms.len(), 1 + 3 + 31);
    let all = seen.histograms.values().map(Histogram::sum_ns);
    assert_eq!(all.sum::<u128>(), 2 * whole.sum_ns());

    let counters: Vec<_> = seen.counters.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(counters, [("train_step.errors{rank=3,world_size=8,zone=a}", 1.0)]);
    let [warning] = &place.warnings()[..] else { panic!("{:?}", place.warnings()) };
    assert!(warning.starts_with("plimsoll: LOCAL_RANK is \"x\", which is no rank or"), "{warning}");
}

#[test]
fn a_step_belongs_to_the_process_that_began_it() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start("steps_forked").ends_well();
    let seen = node.leave();
    let counts: Vec<_> = seen.histograms.values().map(Histogram::count).collect();
    assert_eq!(counts, [2, 1, 2], "step, input and other: {:?}", seen.histograms.keys());
    assert_eq!(seen.counters.len(), 0);
}
