//! What one record costs: ours beside `hdrhistogram` and `prometheus`, in one run.
//!
//! Rounds of all candidates take turns, so that a busy machine slows all alike, and the median
//! of the rounds counts. The values come from one table of latencies around 10 ms, which every
//! candidate walks. Two threads record into the same operation and their throughput stands
//! beside one thread's. No node is needed: the flush runs and merges all the same.
//!
//! `cargo bench -p plimsoll-client --bench record_cost [-- --json | --disabled]`; the latter
//! measures the library while it is switched off.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use plimsoll_client::{Config, Counter, Operation, Steps, configure};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::histogram::layout::{DIGITS, LOW_NS, MAX_NS};

const ROUNDS: usize = 41;
const SCALING_ROUNDS: usize = 201;
const RECORDS: usize = 1 << 18;
const VALUES: usize = 1 << 10;

type Work<'a> = Box<dyn FnMut(&[u64]) + 'a>;

fn main() {
    let is_on = !std::env::args().any(|argument| argument == "--disabled");
    configure(Config::new().enable(is_on)).expect("nothing was recorded yet");
    let values = latencies();
    let mut candidates = candidates();
    let mut costs: Vec<Vec<f64>> = vec![Vec::new(); candidates.len()];
    for _ in 0..ROUNDS {
        for ((_, work), costs) in candidates.iter_mut().zip(&mut costs) {
            costs.push(time(work, &values));
        }
    }
    let names = candidates.iter().map(|(name, _)| *name);
    let rows: Vec<_> = names.zip(costs.into_iter().map(median)).collect();
    let scaling = scaling(&values);
    if std::env::args().any(|argument| argument == "--json") {
        let row = |(name, ns): &(&str, f64)| serde_json::json!({"name": name, "ns_per_record": ns});
        let rows: Vec<_> = rows.iter().map(row).collect();
        println!("{}", serde_json::json!({"rows": rows, "scaling": scaling}));
        return;
    }
    for (name, ns) in rows {
        println!("{name:<44} {ns:>7.2} ns");
    }
    println!("{:<44} {scaling:>7.2} x", "two threads beside one");
}

/// Around 10 ms, give or take a fifth; by a generator of its own, the same in each run.
fn latencies() -> Vec<u64> {
    let mut state = 1_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        8_000_000 + (state >> 33) % 4_000_000
    };
    (0..VALUES).map(|_| next()).collect()
}

fn candidates<'a>() -> Vec<(&'static str, Work<'a>)> {
    let operation = Operation::new("record_cost");
    let paced = Operation::new("paced").expected_interval(std::time::Duration::from_secs(60));
    let with_idle = Operation::new("with_idle").with_idle();
    let steps = Steps::new("step");
    let phases = ["input", "compute", "sync"].map(|name| steps.phase(name));
    let counter = Counter::new("counted");
    let mut reference = hdrhistogram::Histogram::<u64>::new_with_bounds(LOW_NS, MAX_NS, DIGITS)
        .expect("the layout of the mesh is valid");
    let options = prometheus::HistogramOpts::new("latency_seconds", "Latencies.");
    let prometheus = prometheus::Histogram::with_opts(options).expect("the name is valid");
    vec![
        ("plimsoll record", each(move |ns| operation.record_ns(ns))),
        ("plimsoll record, with an expected interval", each(move |ns| paced.record_ns(ns))),
        ("hdrhistogram record", each(move |ns| reference.saturating_record(ns))),
        ("prometheus observe", each(move |ns| prometheus.observe(seconds(ns)))),
        ("plimsoll scope guard", each(move |_| drop(operation.start()))),
        ("plimsoll scope guard, with idle", each(move |_| drop(with_idle.start()))),
        (
            "plimsoll step, three phases",
            each(move |_| {
                let mut step = steps.start();
                phases.into_iter().for_each(|phase| step.phase(phase).stop());
            }),
        ),
        ("two clock readings alone", each(|_| _ = black_box(Stopwatch::start().elapsed()))),
        ("plimsoll counter", each(move |ns| counter.add(ns))),
    ]
}

fn each<'a>(mut record: impl FnMut(u64) + 'a) -> Work<'a> {
    Box::new(move |values| {
        for _ in 0..RECORDS / VALUES {
            values.iter().for_each(|ns| record(black_box(*ns)));
        }
    })
}

#[expect(clippy::cast_precision_loss, reason = "latencies of milliseconds")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Nanoseconds a record.
#[expect(clippy::cast_precision_loss, reason = "a few hundred thousand records")]
fn time(work: &mut Work<'_>, values: &[u64]) -> f64 {
    let begun = Stopwatch::start();
    work(values);
    begun.elapsed().as_secs_f64() * 1e9 / RECORDS as f64
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_unstable_by(f64::total_cmp);
    costs[costs.len() / 2]
}

/// Throughput of two threads over that of one. Rounds take turns and the quickest of each
/// counts: on a machine with other work two threads rarely have two cores at the same time.
fn scaling(values: &[u64]) -> f64 {
    let rounds: Vec<_> =
        (0..SCALING_ROUNDS).map(|_| (together(1, values), together(2, values))).collect();
    let quickest = |one: fn(&(f64, f64)) -> f64| rounds.iter().map(one).fold(f64::MAX, f64::min);
    2.0 * quickest(|round| round.0) / quickest(|round| round.1)
}

/// Seconds that the slowest of `threads` takes for one round, begun at one moment.
fn together(threads: usize, values: &[u64]) -> f64 {
    let operation = Operation::new("record_cost");
    let start = Barrier::new(threads);
    let work = || {
        let mut work = each(move |ns| operation.record_ns(ns));
        work(values);
        start.wait();
        let begun = Stopwatch::start();
        work(values);
        begun.elapsed().as_secs_f64()
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let taken = running.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN));
        taken.fold(0.0, f64::max)
    })
}
