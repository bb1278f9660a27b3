//! What happens to an aggregator: messages of three nodes of all kinds, some of them twice or
//! not to be read, and time that passes.

use plimsoll_schemas::hardware::{LOAD1, Reading};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, Operation, Series};
use plimsoll_schemas::wire::{AlertType, Body, Bus, Events, Hardware, Latency};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::core::tests::events::{check, event};

/// One thing that happens to an aggregator.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Message(Message),
    Tick,
}

#[derive(Clone, Debug)]
enum Kind {
    Samples {
        ms: u64,
        n: u64,
    },
    /// Of a producer that sends buckets.
    Within {
        ms: u64,
        n: u64,
    },
    Numbers(f64),
    Hardware(f64),
    Bus(u64),
    Events(usize),
    FinalMessage,
    Repeat(Index),
    Garbage,
    Tick,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        6 => (1..60_u64, 1..200_u64).prop_map(|(ms, n)| Kind::Samples { ms, n }),
        2 => (1..60_u64, 1..200_u64).prop_map(|(ms, n)| Kind::Within { ms, n }),
        1 => (-5.0..5.0).prop_map(Kind::Numbers),
        1 => (0.0..5.0).prop_map(Kind::Hardware),
        1 => any::<u64>().prop_map(Kind::Bus),
        1 => (0..4_usize).prop_map(Kind::Events),
        1 => Just(Kind::FinalMessage),
        1 => any::<Index>().prop_map(Kind::Repeat),
        1 => Just(Kind::Garbage),
        4 => Just(Kind::Tick),
    ]
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..3_usize, kind()), 1..60).prop_map(|kinds| {
        let mut speakers = [("a", "r1"), ("b", "r1"), ("c", "r] 2")].map(in_rack);
        let (mut now, mut sent, mut steps) = (start(), Vec::<Message>::new(), Vec::new());
        for (speaker, kind) in kinds {
            let speaker = &mut speakers[speaker];
            let message = match kind {
                Kind::Tick => {
                    now = now.after(SECOND);
                    steps.push(Step::Tick);
                    continue;
                }
                Kind::Samples { ms, n } => speaker.send(now, ms * MS, n),
                Kind::Within { ms, n } => {
                    let mut samples = Histogram::default();
                    samples.record_within(ms * MS, 2 * ms * MS, n);
                    speaker.send_samples(now, &["epoch_hook"], &samples)
                }
                Kind::Numbers(value) => speaker.message(now, numbers(value), false),
                Kind::Hardware(value) => {
                    let readings = vec![Reading::ok(&LOAD1, Labels::default(), value)];
                    speaker.message(now, Body::Hardware(Hardware::all(readings)), false)
                }
                Kind::Bus(outbox_bytes) => {
                    let bus = Bus { outbox_bytes, ..Bus::default() };
                    speaker.message(now, Body::Bus(bus), false)
                }
                Kind::Events(n) => speaker.message(now, events(n), false),
                Kind::FinalMessage => speaker.final_message(now),
                Kind::Repeat(_) if sent.is_empty() => continue,
                Kind::Repeat(index) => index.get(&sent).clone(),
                Kind::Garbage => ("weather".to_owned(), vec![0xc1]),
            };
            sent.push(message.clone());
            steps.push(Step::Message(message));
        }
        steps
    })
}

fn numbers(value: f64) -> Body {
    let series = vec![(Series::plain(Operation::new("epochs").unwrap()), value)];
    Body::Latency(Latency { counters: series.clone(), gauges: series, ..Latency::default() })
}

pub(super) fn in_rack((node, rack): (&'static str, &str)) -> Speaker {
    Speaker::new(node).called(Labels::new([("rack", rack)]).unwrap())
}

/// A service check, and an event for each further one.
fn events(n: usize) -> Body {
    let check = check("db", AlertType::ALL[n % 4]);
    let events = std::iter::repeat_n(event("e", 1), n.saturating_sub(1)).chain([check]);
    Body::Event(Events { events: events.collect() })
}
