//! A loop whose steps have phases, as one rank of a job.
//!
//! `torchrun --standalone --nproc-per-node 2 --no-python target/debug/examples/steps` beside a node
//! that listens on a stream socket; without `torchrun` the samples have no rank.

use std::hint::black_box;
use std::sync::LazyLock;

use plimsoll_client::{Class, Config, Phase, Steps, configure, stats};

// Handles are made once; making one looks its name up, using one does not.
static STEPS: LazyLock<Steps> = LazyLock::new(|| Steps::new("train_step"));
static INPUT: LazyLock<Phase> = LazyLock::new(|| STEPS.phase("input"));
static COMPUTE: LazyLock<Phase> = LazyLock::new(|| STEPS.phase("compute"));
static REDUCE: LazyLock<Phase> = LazyLock::new(|| STEPS.phase_of("all_reduce", Class::Sync));

fn main() {
    configure(Config::new().enable(true)).expect("nothing was recorded yet");
    for _ in 0..20 {
        let mut step = STEPS.start();
        let reading = step.phase(*INPUT);
        work(200_000);
        reading.stop();

        let mut computing = step.phase(*COMPUTE);
        work(1_000_000);
        // Its time is not counted in the computation.
        let reducing = computing.phase(*REDUCE);
        work(100_000);
        drop(reducing);
    }
    println!("{:?}", stats());
}

fn work(rounds: u64) {
    (0..rounds).for_each(|round| _ = black_box(round));
}
