//! Measures the cost of one data point of another system. 100 streams, each of its own series,
//! report one point in each interval: 15 explicit buckets (`explicit`), 160 exponential ones
//! (`exponential`), or a sum (`sum`), cumulative or, as `delta`, since the last point.
//!
//! `points_cost` prints nanoseconds a point and points a second on one core: the median of eleven
//! rounds of each. The same columns of the alternative with `hdrhistogram` follow: a new histogram
//! in the same layout, `record_n` at the middle of each bucket, `add` to that of the series.
//! Count instructions from outside, and subtract those of the same run with a further argument,
//! which reports no point after the first:
//! `valgrind --tool=callgrind points_cost explicit [setup]`.

use std::hint::black_box;
use std::time::Duration;

use hdrhistogram::Histogram as Reference;
use plimsoll_clock::Clock;
use plimsoll_node::core::Bounds;
use plimsoll_node::core::intake::Reject;
use plimsoll_node::core::intake::lines::{TimeUnit, ValueUnit};
use plimsoll_node::core::intake::points::{Buckets, Latencies, Point, Temporality, Value};
use plimsoll_node::core::{Core, Identity};
use plimsoll_schemas::histogram::layout::{DIGITS, LOW_NS, MAX_NS};
use plimsoll_schemas::ids::{Labels, MeshName, NodeName, Operation, Series};
use plimsoll_schemas::time::{Mono, Now, Wall, nanos};

const STREAMS: u64 = 100;
const POINTS: usize = 50;
const ROUNDS: usize = 11;
const BEGAN: Now = Now { mono: Mono(0), wall: Wall(1_700_000_000_000_000_000) };
const EVERY: Duration = Duration::from_secs(1);
const WHATS: [&str; 5] = ["explicit", "explicit delta", "exponential", "exponential delta", "sum"];

/// The bounds of OpenTelemetry for HTTP in seconds, and one more.
const BOUNDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
/// 16 buckets for each doubling, ten doublings from a millisecond on.
const SCALE: i32 = 4;
const OFFSET: i32 = -160;

/// What one stream has counted.
struct Producer {
    operation: Operation,
    counts: Vec<u64>,
    sum: f64,
}

fn producers(what: &str) -> Vec<Producer> {
    let buckets = if what.starts_with("explicit") { BOUNDS.len() + 1 } else { 160 };
    let operation = |n| Operation::new(format!("bench.op{n}")).expect("letters and digits");
    let producer = |n| Producer { operation: operation(n), counts: vec![0; buckets], sum: 0.0 };
    (0..STREAMS).map(producer).collect()
}

impl Producer {
    /// Counts some samples in each bucket, more in the middle.
    fn count(&mut self, round: usize, is_delta: bool) {
        let len = self.counts.len();
        for (n, count) in self.counts.iter_mut().enumerate() {
            let new = (round + n * 7) % 5 + n.min(len - n);
            *count = new as u64 + if is_delta { 0 } else { *count };
        }
        self.sum += 1.5;
    }

    fn value(&self, what: &str) -> Value<'_> {
        if what == "sum" {
            return Value::Sum { value: self.sum, monotonic: true };
        }
        let buckets = match what.starts_with("explicit") {
            true => Buckets::Explicit { bounds: &BOUNDS, counts: &self.counts },
            false => Buckets::Exponential {
                scale: SCALE,
                zero: 0,
                zero_threshold: 0.0,
                offset: OFFSET,
                positive: &self.counts,
                negative: 0,
            },
        };
        Value::Latencies(Latencies {
            unit: ValueUnit::Time(TimeUnit::Seconds),
            count: self.counts.iter().sum(),
            sum: Some(self.sum),
            min: None,
            max: None,
            buckets,
        })
    }
}

fn core() -> Core {
    let identity = Identity {
        mesh: MeshName::new("m").expect("a constant name of plain letters"),
        node: NodeName::new("n").expect("a constant name of plain letters"),
        labels: Labels::default(),
    };
    Core::new(identity, Bounds::default(), BEGAN)
}

fn offer(core: &mut Core, now: Now, what: &str, producers: &[Producer]) {
    let temporality =
        if what.ends_with("delta") { Temporality::Delta } else { Temporality::Cumulative };
    let start = if temporality == Temporality::Delta { now.wall.minus(EVERY) } else { BEGAN.wall };
    for (stream, producer) in (1..).zip(producers) {
        let series = || Ok::<_, Reject>(Series::plain(producer.operation.clone()));
        let value = producer.value(what);
        let point = Point { stream, series: &series, start, time: now.wall, temporality, value };
        core.on_point(now, black_box(&point)).expect("each of them goes on from the one before");
    }
}

/// Nanoseconds a point, at the median of the rounds.
fn time(what: &str) -> f64 {
    let clock = Clock::start();
    let mut rounds: Vec<u64> = (0..ROUNDS)
        .map(|_| {
            let (mut core, mut producers, mut now, mut spent) = (core(), producers(what), BEGAN, 0);
            for round in 0..POINTS {
                now = now.after(EVERY);
                producers.iter_mut().for_each(|one| one.count(round, what.ends_with("delta")));
                let begun = clock.now().mono;
                offer(&mut core, now, what, &producers);
                spent += nanos(clock.now().mono.since(begun));
                core.on_deadline(now);
            }
            spent
        })
        .collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2] as f64 / (POINTS as f64 * STREAMS as f64)
}

/// The middle of a bucket in nanoseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "some nanoseconds, below an hour"
)]
fn middle(is_explicit: bool, at: usize) -> u64 {
    let power = |at: usize| (at as f64 + f64::from(OFFSET)) / f64::from(1 << SCALE);
    let (lower, upper) = match (is_explicit, at) {
        (false, _) => (power(at).exp2(), power(at + 1).exp2()),
        (true, 0) => (0.0, BOUNDS[0]),
        (true, _) => (BOUNDS[at - 1], BOUNDS.get(at).copied().unwrap_or(BOUNDS[at - 1])),
    };
    ((lower + upper) / 2.0 * 1e9) as u64
}

fn reference() -> Reference<u64> {
    Reference::new_with_bounds(LOW_NS, MAX_NS, DIGITS).expect("the bounds are valid")
}

/// The same with `hdrhistogram`. It receives only the increments, so nothing is subtracted.
fn time_reference(what: &str) -> f64 {
    let (clock, is_explicit) = (Clock::start(), what.starts_with("explicit"));
    let mut rounds: Vec<u64> = (0..ROUNDS)
        .map(|_| {
            let mut producers = producers(what);
            let mut series: Vec<_> = producers.iter().map(|_| reference()).collect();
            let mut spent = 0;
            for round in 0..POINTS {
                producers.iter_mut().for_each(|one| one.count(round, true));
                let begun = clock.now().mono;
                for (series, producer) in series.iter_mut().zip(&producers) {
                    let mut new = reference();
                    for (at, n) in black_box(&producer.counts).iter().enumerate() {
                        let middle = middle(is_explicit, at);
                        new.record_n(middle, *n).expect("below an hour");
                    }
                    series.add(&new).expect("of the same layout");
                }
                spent += nanos(clock.now().mono.since(begun));
            }
            spent
        })
        .collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2] as f64 / (POINTS as f64 * STREAMS as f64)
}

fn main() {
    let arguments: Vec<_> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some(what) = arguments.first() {
        let (mut core, mut producers, mut now) = (core(), producers(what), BEGAN);
        let rounds = if arguments.len() == 1 { 11 } else { 1 };
        for round in 0..rounds {
            now = now.after(EVERY);
            producers.iter_mut().for_each(|one| one.count(round, what.ends_with("delta")));
            offer(&mut core, now, what, &producers);
        }
        return println!("{what}: {} points", core.status().intake.points.recorded);
    }
    for what in WHATS {
        let ns = time(what);
        print!("{what:18} {ns:8.0} ns a point {:10.0} points/s", 1e9 / ns);
        match what {
            "explicit delta" | "exponential delta" => {
                let other = time_reference(what);
                println!("   hdrhistogram {other:8.0} ns, {:.2} of it", ns / other);
            }
            _ => println!(),
        }
    }
}
