//! An operation ends with the last of its clients, and with nothing else.

use super::*;

const A: u64 = 1;
const B: u64 = 2;

struct World {
    jobs: Jobs,
    now: Mono,
}

impl World {
    fn new() -> Self {
        Self { jobs: Jobs::default(), now: Mono(0) }
    }

    /// After this many seconds an interval ends in which these sources (0: without a number)
    /// brought the operation, and these clients ended. Returns the operations that have ended.
    fn after(&mut self, seconds: u64, brought: &[(u64, &str)], ending: &[u64]) -> Vec<String> {
        self.now = self.now.plus(Duration::from_secs(seconds));
        let client = |number: u64| (number > 0).then(|| ClientId::from_number(number));
        ending.iter().filter_map(|number| client(*number)).for_each(|c| self.jobs.on_final(c));
        let brought: Vec<_> = brought
            .iter()
            .map(|(number, name)| (Operation::new(*name).unwrap(), client(*number)))
            .collect();
        let brought = brought.iter().map(|(operation, source)| (operation, *source));
        let judged = BTreeSet::from([Operation::new("judged").unwrap()]);
        self.jobs.on_interval(self.now, &judged, brought);
        self.jobs.ended(&judged).iter().map(ToString::to_string).collect()
    }
}

#[test]
fn a_job_that_ends_ends_what_it_brought_until_it_is_brought_again() {
    let mut world = World::new();
    assert!(world.after(1, &[(A, "x"), (A, "y"), (B, "z")], &[]).is_empty());
    assert_eq!(world.after(1, &[(A, "x")], &[A]), ["x", "y"]);
    assert_eq!(world.after(3_600, &[], &[]), ["x", "y"]);
    assert_eq!(world.after(1, &[(3, "y")], &[]), ["x"]);
    assert_eq!(world.after(OPERATION_ENDED_SHOWN.as_secs(), &[], &[3]), ["y"]);
}

#[test]
fn of_two_jobs_with_one_operation_the_last_ends_it() {
    let mut world = World::new();
    world.after(1, &[(A, "x"), (B, "x")], &[]);
    assert!(world.after(1, &[(B, "x")], &[A]).is_empty());
    assert_eq!(world.after(1, &[], &[B]), ["x"]);
    // Both in one interval.
    world.after(1, &[(3, "x"), (4, "x")], &[]);
    assert_eq!(world.after(1, &[(3, "x"), (4, "x")], &[3, 4]), ["x"]);
}

#[test]
fn a_job_that_is_started_again_in_the_interval_of_its_end_ends_nothing() {
    let mut world = World::new();
    for run in 1..100 {
        assert!(world.after(10, &[(run, "x"), (run + 1, "x")], &[run]).is_empty());
    }
}

#[test]
fn a_job_that_was_killed_holds_up_the_end_of_the_next_run_for_three_of_its_pauses() {
    let mut world = World::new();
    (0..9).for_each(|_| drop(world.after(30, &[(A, "x")], &[])));
    assert!(world.after(10, &[(B, "x")], &[B]).is_empty(), "the other one may come again");
    assert!(world.after(80, &[], &[]).is_empty());
    assert_eq!(world.after(1, &[], &[]), ["x"]);
}

#[test]
fn a_job_that_vanishes_after_the_end_of_another_ends_nothing() {
    let mut world = World::new();
    (0..9).for_each(|_| drop(world.after(1, &[(A, "x"), (B, "x")], &[])));
    assert!(world.after(1, &[(A, "x"), (B, "x")], &[B]).is_empty());
    assert!(world.after(1, &[(A, "x")], &[]).is_empty());
    assert!(world.after(3_600, &[], &[]).is_empty());
}

#[test]
fn one_that_vanishes_ends_nothing_and_one_that_is_slow_is_not_forgotten() {
    let mut world = World::new();
    world.after(1, &[(A, "x"), (B, "slow")], &[]);
    assert!(world.after(86_400, &[], &[]).is_empty());
    assert_eq!(world.after(1, &[], &[B]), ["slow"]);
}

#[test]
fn senders_without_a_number_never_end_and_hold_up_the_end_while_they_bring_the_operation() {
    let mut world = World::new();
    world.after(1, &[(0, "x"), (A, "x")], &[]);
    assert!(world.after(1, &[], &[A]).is_empty());
    assert!(world.after(1, &[(0, "x")], &[]).is_empty());
    assert!(world.after(86_400, &[], &[]).is_empty());
}

#[test]
fn one_that_sent_once_holds_up_an_end_for_less_than_a_minute() {
    let mut world = World::new();
    world.after(1, &[(0, "x"), (A, "x")], &[]);
    assert!(world.after(15, &[(B, "x")], &[B]).is_empty());
    assert_eq!(world.after(31, &[], &[]), ["x"]);
}

#[test]
fn everything_is_bounded() {
    let mut world = World::new();
    for client in 1..=3 * JOB_SOURCES_MAX as u64 {
        world.after(1, &[(client, "x")], &[]);
    }
    let names: Vec<String> = (0..2 * JOB_OPERATIONS_MAX).map(|n| format!("o{n}")).collect();
    let brought: Vec<(u64, &str)> = names.iter().map(|name| (A, name.as_str())).collect();
    assert_eq!(world.after(1, &brought, &[A]).len(), ENDED_OPERATIONS_MAX);
    assert!(world.jobs.by_operation.values().all(|sources| sources.len() <= JOB_SOURCES_MAX));
    assert!(world.jobs.by_operation.len() <= JOB_OPERATIONS_MAX);
    assert!(world.jobs.ended.len() <= JOB_OPERATIONS_MAX);
    // What is gone makes room.
    world.after(1, &brought, &[]);
    world.after(86_400, &[(B, "new")], &[]);
    assert_eq!(world.after(1, &[], &[B]), ["new"]);
}

#[test]
fn however_many_others_there_are_what_a_budget_judges_is_reported() {
    let mut world = World::new();
    let names: Vec<String> = (0..2 * JOB_OPERATIONS_MAX).map(|n| format!("o{n}")).collect();
    let others: Vec<(u64, &str)> = names.iter().map(|name| (A, name.as_str())).collect();
    world.after(1, &others, &[]);
    world.after(1, &[(B, "judged")], &[]);
    assert_eq!(world.after(1, &[], &[B]), ["judged"]);
    for part in others.chunks(JOB_OPERATIONS_MAX) {
        let ended = world.after(1, part, &[A]);
        assert_eq!(ended.len(), ENDED_OPERATIONS_MAX);
        assert!(ended.contains(&"judged".to_owned()), "{ended:?}");
    }
}
