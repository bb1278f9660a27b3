//! What merging costs beside encoding: does one of the two a thousand times and prints nothing
//! but what it did. Count instructions from outside, and take off those of `setup`:
//! `valgrind --tool=callgrind target/release/examples/coalesce_cost join`.

use std::hint::black_box;

use plimsoll_node::core::outbox::Draft;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, NodeName, Operation, Seq, Series};
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::{Body, Header, Latency, Snapshot, Totals, encode};

const TIMES: usize = 1_000;
const SAMPLES: u64 = 1_000;

/// One series whose samples spread from 5 to 25 ms.
fn latency(seed: u64) -> Latency {
    let mut histogram = Histogram::default();
    for n in 0..SAMPLES {
        histogram.record(5_000_000 + (n * 7_919 + seed) * 104_729 % 20_000_000);
    }
    let operation = Operation::new("epoch_hook").expect("a constant name of plain letters");
    Latency { histograms: vec![(Series::plain(operation), histogram)], ..Latency::default() }
}

fn draft(seed: u64) -> Draft {
    Draft::new(Body::Latency(latency(seed)), Wall(1), 1, Mono(1))
}

fn snapshot() -> Snapshot {
    let header = Header {
        node: NodeName::new("n").expect("a constant name of plain letters"),
        incarnation: Incarnation(1),
        seq: Seq(1),
        start: Wall(1),
        length_ns: 1,
        totals: Totals { recorded: SAMPLES, ..Totals::default() },
        last: false,
        heir: None,
        labels: Labels::default(),
    };
    Snapshot { header, body: Body::Latency(latency(1)) }
}

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    let pairs: Vec<(Draft, Draft)> = (0..TIMES).map(|_| (draft(1), draft(2))).collect();
    let snapshot = snapshot();
    match what.as_str() {
        "join" => {
            for (mut older, newer) in pairs {
                black_box(older.try_join(newer).is_ok());
                // Freeing is the same for all three and is not part of the question.
                std::mem::forget(older);
            }
        }
        "encode" => {
            for _ in 0..TIMES {
                black_box(encode(&snapshot).len());
            }
            std::mem::forget(pairs);
        }
        _ => std::mem::forget(black_box(pairs)),
    }
    println!("{what} {TIMES} times");
}
