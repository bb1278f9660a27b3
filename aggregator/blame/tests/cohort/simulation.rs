//! Simulated ranks with noise that depends on its past, some hours of it: no healthy rank is named,
//! and a slow one is. `examples/stragglers` has weeks of it.

use plimsoll_blame::{Cohort, Evaluation, Hypotheses, Interval, Peer, Rule};

use crate::fleet::{Fleet, INPUT_CLASS, Load, Ranks, Second};
use crate::job::START;

struct Simulation {
    fleet: Fleet,
    cohort: Cohort,
    second: u64,
    seconds: Vec<Second>,
}

impl Simulation {
    fn new(load: Load, seed: u64) -> Self {
        let cohort = Cohort::new(load.setup(), 1.0, Interval(START));
        Self { fleet: Fleet::new(load, seed), cohort, second: START, seconds: Vec::new() }
    }

    /// Advances time by a second; reports that are late are lost.
    fn pass(&mut self) -> Evaluation {
        self.fleet.second(&mut self.seconds);
        let reports = (0..).map(Peer).zip(&self.seconds);
        for (peer, second) in reports.filter(|(_, second)| second.late == 0) {
            self.cohort.add(Interval(self.second), peer, &second.times).unwrap();
        }
        self.second += 1;
        self.cohort.evaluate(Interval(self.second), Hypotheses(0))
    }
}

fn load(rule: Rule, correlation: f64, ranks_are: Ranks) -> Load {
    Load { rule, ranks: 32, steps_per_second: 1, correlation, ranks_are }
}

#[test]
fn no_healthy_rank_is_named_for_hours() {
    for (rule, correlation, ranks_are) in [
        (Rule::WaitsLeast, 0.0, Ranks::Alike),
        (Rule::WaitsLeast, 0.8, Ranks::Alike),
        (Rule::Slowest, 0.8, Ranks::Alike),
        (Rule::WaitsLeast, 0.95, Ranks::Alike),
        (Rule::WaitsLeast, 0.95, Ranks::Noisy),
        (Rule::WaitsLeast, 0.8, Ranks::AtFloor),
    ] {
        let mut simulation = Simulation::new(load(rule, correlation, ranks_are), 1);
        for _ in 0..3 * 3_600 {
            let found = simulation.pass();
            assert_eq!(found.named, 0, "{rule:?} {correlation} {ranks_are:?}: {found:?}");
        }
    }
}

#[test]
fn a_rank_that_is_a_fifth_slower_is_named_within_two_minutes() {
    for rule in [Rule::WaitsLeast, Rule::Slowest] {
        for seed in 1..20 {
            let mut simulation = Simulation::new(load(rule, 0.8, Ranks::Alike), seed);
            (0..600 + seed).for_each(|_| drop(simulation.pass()));
            simulation.fleet.culprit = Some((3, 1.2));
            let found = (0..120).map(|_| simulation.pass()).last().unwrap();
            let names: Vec<Peer> = found.culprits.iter().map(|one| one.peer).collect();
            assert_eq!(names, [Peer(3)], "{rule:?} {seed}");
            let culprit = found.culprits[0];
            assert_eq!(culprit.class, Some(INPUT_CLASS), "{rule:?} {seed}");
            let planted = 100.0 * simulation.fleet.excess(3);
            let is_near = (culprit.excess.percent - planted).abs() < 8.0;
            assert!(is_near, "{rule:?} {seed}: {planted} {culprit:?}");
        }
    }
}
