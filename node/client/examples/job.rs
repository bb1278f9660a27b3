//! A job that trains for a few epochs and tells the node beside it what it did.
//!
//! `cargo run -p plimsoll-client --example job`, with a node that listens on a stream socket;
//! without one it trains all the same.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Duration;

use plimsoll_client::{Config, Counter, Gauge, HitCounter, Operation, configure, flush, stats};

// Handles are made once; making one looks its name up, using one does not.
static EPOCH_HOOK: LazyLock<Operation> = LazyLock::new(|| Operation::new("epoch_hook"));
static FETCH: LazyLock<Operation> =
    LazyLock::new(|| Operation::with_labels("kernel_fetch", [("outcome", "miss")]));
static CACHE: LazyLock<HitCounter> = LazyLock::new(|| HitCounter::new("kernel_cache"));
static TOKENS: LazyLock<Counter> = LazyLock::new(|| Counter::new("tokens"));
static LOSS: LazyLock<Gauge> = LazyLock::new(|| Gauge::new("loss"));

fn main() {
    // What a job's environment would do with PLIMSOLL_ENABLE=1 and PLIMSOLL_ENABLE_TIMERS=1.
    configure(Config::new().enable(true)).expect("nothing was recorded yet");
    for epoch in 1..=5_u32 {
        for step in 0..100_u64 {
            fetch_kernel(step);
            TOKENS.add(512);
        }
        LOSS.set(1.0 / f64::from(epoch));
        end_of_epoch();
    }
    // No job has to do this: what is left is sent at its exit.
    let outcome = flush(Duration::from_millis(500));
    println!("{outcome:?}; {:?}", stats());
}

fn fetch_kernel(step: u64) {
    let is_hit = !step.is_multiple_of(10);
    CACHE.count(is_hit);
    if !is_hit {
        let timer = FETCH.start();
        work(20_000);
        timer.stop();
    }
}

fn end_of_epoch() {
    let _timer = EPOCH_HOOK.start();
    work(1_000_000);
}

fn work(rounds: u64) {
    black_box((0..rounds).fold(0, |sum, n| black_box(sum ^ n)));
}
