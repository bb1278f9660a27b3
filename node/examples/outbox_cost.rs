//! What a message's way through the outbox costs, step by step: takes a thousand of them as far
//! as it is told and prints nothing but how far that was. Count instructions from outside; the
//! difference between two steps is what the second one costs. Publishing includes the encoding,
//! of which `coalesce_cost encode` tells the part, and the acknowledgement:
//! `valgrind --tool=callgrind target/release/examples/outbox_cost publish`.

use std::hint::black_box;
use std::time::Duration;

use plimsoll_node::core::outbox::Draft;
use plimsoll_node::core::outbox::Outbox;
use plimsoll_node::core::outbox::OutboxBounds;
use plimsoll_node::core::outbox::UnconfirmedBounds;
use plimsoll_node::core::outbox::{Sealed, Ticket};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, NodeName, Operation, Seq, Series};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::confirmation::{Confirmation, Confirmed};
use plimsoll_schemas::wire::{Body, Header, Latency, Snapshot, Totals, encode};

const TIMES: u64 = 1_000;
const SAMPLES: u64 = 1_000;
const RUN: Incarnation = Incarnation(1);
const STEPS: [&str; 4] = ["make", "push", "publish", "confirm"];

/// One series whose samples spread from 5 to 25 ms.
fn draft(seed: u64) -> Draft {
    let mut histogram = Histogram::default();
    for n in 0..SAMPLES {
        histogram.record(5_000_000 + (n * 7_919 + seed) * 104_729 % 20_000_000);
    }
    let operation = Operation::new("epoch_hook").expect("a constant name of plain letters");
    let series = Series::plain(operation);
    let body = Latency { histograms: vec![(series, histogram)], ..Latency::default() };
    Draft::new(Body::Latency(body), Wall(1), 1, Mono(1))
}

fn node() -> NodeName {
    NodeName::new("n").expect("a constant name of plain letters")
}

fn seal(seq: Seq, lane: Lane, draft: Draft) -> Sealed {
    let samples = draft.samples();
    let header = Header {
        node: node(),
        incarnation: RUN,
        seq,
        start: draft.start,
        length_ns: draft.length_ns,
        totals: Totals { recorded: seq.0 * SAMPLES, ..Totals::default() },
        last: false,
        heir: None,
        labels: Labels::default(),
    };
    let payload = encode(&Snapshot { header, body: draft.body }).into();
    let subject = "plimsoll.v1.m.normal.n.latency".to_owned();
    Sealed {
        incarnation: RUN,
        seq,
        lane,
        subject,
        payload,
        samples,
        last: false,
        sealed_at: Wall(1),
    }
}

fn main() {
    let asked = std::env::args().nth(1).unwrap_or_default();
    let Some(far) = STEPS.iter().position(|step| *step == asked) else {
        return println!("one of {STEPS:?}");
    };
    let mut bounds = OutboxBounds { coalesce_messages: 4_000, ..OutboxBounds::default() };
    bounds.coalesce_bytes = bounds.bytes_max;
    bounds.unconfirmed = UnconfirmedBounds { messages: 4_000, bytes: bounds.bytes_max };
    let mut outbox = Outbox::new(RUN, bounds);
    let now = Mono(1);
    for draft in (0..TIMES).map(draft).collect::<Vec<_>>() {
        if far >= 1 {
            black_box(outbox.try_push(now, draft).is_ok());
        } else {
            std::mem::forget(draft);
        }
    }
    outbox.on_connected();
    for seq in 1..=if far >= 2 { TIMES } else { 0 } {
        let seal = |seq, lane, draft| seal(seq, lane, draft);
        black_box(outbox.next_publish(now, seal).is_some());
        black_box(outbox.on_acknowledged(now, Ticket(seq)));
        if far >= 3 {
            let runs = vec![Confirmed { incarnation: RUN, spans: vec![(Seq(1), Seq(seq))] }];
            let confirmation = Confirmation {
                node: node(),
                behind: false,
                age: Duration::ZERO,
                runs,
                limits: Vec::new(),
            };
            black_box(outbox.on_confirmation(now, &confirmation).is_ok());
        }
    }
    println!("{asked} {TIMES} times");
    std::mem::forget(outbox);
}
