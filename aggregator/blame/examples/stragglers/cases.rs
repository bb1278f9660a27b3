//! What is simulated: each case takes less than four minutes of one core.

use plimsoll_blame::Rule;

use crate::fleet::{Load, Ranks};

/// One simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) load: Load,
    pub(crate) run: Run,
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    /// Weeks without a culprit.
    Calm(f64),
    /// Culprits, one after the other.
    Slow(u64),
}

impl Case {
    /// What it simulates; cases of one label are shown as one.
    pub(crate) fn label(&self) -> String {
        let Load { rule, ranks, steps_per_second, correlation, ranks_are } = self.load;
        let rule = match rule {
            Rule::WaitsLeast => "waits least",
            Rule::Slowest => "slowest",
        };
        let are = match ranks_are {
            Ranks::Alike => "",
            Ranks::AtFloor => ", a tenth at the floor",
            Ranks::Noisy => ", a tenth varies twice as much",
            Ranks::Restless => ", noise doubles every other half hour",
        };
        format!("{rule}, {ranks} ranks, {steps_per_second}/s, {correlation}{are}")
    }
}

/// All cases, in the order of the tables.
pub(crate) fn all() -> Vec<Case> {
    let load = |ranks, steps_per_second, correlation| Load {
        rule: Rule::WaitsLeast,
        ranks,
        steps_per_second,
        correlation,
        ranks_are: Ranks::Alike,
    };
    let slowest = |ranks, steps| Load { rule: Rule::Slowest, ..load(ranks, steps, 0.8) };
    let with = |ranks_are, ranks, correlation| Load { ranks_are, ..load(ranks, 1, correlation) };

    let calm = [
        (load(3, 1, 0.8), 30.0),
        (load(8, 1, 0.8), 20.0),
        (load(64, 1, 0.8), 6.0),
        (load(1_000, 1, 0.8), 0.5),
        (load(1_000, 1, 0.8), 0.5),
        (load(1_000, 1, 0.8), 0.5),
        (load(1_000, 1, 0.8), 0.5),
        (load(1_000, 1, 0.8), 0.5),
        (load(1_000, 1, 0.8), 0.5),
        (load(8, 1, 0.95), 20.0),
        (load(64, 1, 0.95), 4.0),
        (load(1_000, 1, 0.95), 0.5),
        (load(1_000, 1, 0.95), 0.5),
        (load(64, 10, 0.8), 2.0),
        (load(1_000, 10, 0.8), 0.2),
        (load(64, 50, 0.8), 1.0),
        (load(1_000, 50, 0.8), 0.05),
        (slowest(8, 1), 20.0),
        (slowest(64, 1), 6.0),
        (slowest(1_000, 1), 0.5),
        (slowest(1_000, 1), 0.5),
        (slowest(64, 10), 2.0),
        (with(Ranks::AtFloor, 64, 0.8), 6.0),
        (with(Ranks::AtFloor, 64, 0.95), 6.0),
        (with(Ranks::Noisy, 64, 0.8), 6.0),
        (with(Ranks::Noisy, 64, 0.95), 6.0),
        (with(Ranks::Restless, 8, 0.8), 6.0),
        (with(Ranks::Restless, 64, 0.8), 6.0),
    ];
    let slow = [
        (load(3, 1, 0.8), 1_000),
        (load(8, 1, 0.8), 1_000),
        (load(64, 1, 0.8), 1_000),
        (load(1_000, 1, 0.8), 300),
        (load(64, 1, 0.95), 1_000),
        (load(1_000, 1, 0.95), 300),
        (load(8, 10, 0.8), 400),
        (load(64, 10, 0.8), 400),
        (load(1_000, 10, 0.8), 100),
        (load(8, 50, 0.8), 400),
        (load(64, 50, 0.8), 400),
        (load(1_000, 50, 0.8), 40),
        (slowest(8, 1), 1_000),
        (slowest(64, 1), 1_000),
        (slowest(1_000, 1), 300),
        (slowest(64, 10), 400),
    ];
    let calm = calm.into_iter().map(|(load, weeks)| (load, Run::Calm(weeks)));
    let slow = slow.into_iter().map(|(load, times)| (load, Run::Slow(times)));
    let seeded = |(seed, (load, run)): (u64, (Load, Run))| Case { load, run, seed };
    (1..).zip(calm.chain(slow)).map(seeded).collect()
}
