//! What it costs to take one line: reads the same datagram again and again, of 20 plain lines, 20
//! tagged ones, 20 values packed into one line, one line, or 20 plain ones of operations of which
//! one limit is known (`watched`), or four (`watched4`). Count instructions from outside, and take
//! off those of the same with a second argument, which reads nothing:
//! `valgrind --tool=callgrind target/release/examples/intake_cost plain [setup]`.
//! `--time` prints nanoseconds a line (a value, where they are packed) instead, as the median of
//! eleven rounds of each.

use std::hint::black_box;
use std::time::Duration;

use plimsoll_clock::Clock;
use plimsoll_node::core::Bounds;
use plimsoll_node::core::{Core, Identity};
use plimsoll_schemas::ids::{Labels, MeshName, NodeName, Operation};
use plimsoll_schemas::time::{Mono, Now, Wall, nanos};
use plimsoll_schemas::wire::confirmation::{Confirmation, encode};

const LINES: u64 = 20;
const COUNTED: u64 = 1_000;
const TIMED: u64 = 50_000;
const ROUNDS: usize = 11;
const NOW: Now = Now { mono: Mono(0), wall: Wall(1_700_000_000_000_000_000) };

/// Ten series, with latencies from 5 to 25 ms.
fn datagram(what: &str, round: u64) -> Vec<u8> {
    let ms = |n: u64| 5_000 + (round * LINES + n) * 7_919 % 20_000;
    let value = |n| format!("{}.{:03}", ms(n) / 1_000, ms(n) % 1_000);
    let line = |n: u64, tags: &str| format!("bench.op{}:{}|ms{tags}", n % 10, value(n));
    let lines = |tags| (0..LINES).map(|n| line(n, tags)).collect::<Vec<_>>().join("\n");
    match what {
        "plain" | "watched" | "watched4" => lines(""),
        "tagged" => lines("|#outcome:hit,zone:a"),
        "packed" => {
            let values: Vec<String> = (0..LINES).map(value).collect();
            format!("bench.op{}:{}|ms", round % 10, values.join(":"))
        }
        "one" => line(round, ""),
        _ => String::new(),
    }
    .into_bytes()
}

fn core(what: &str) -> Core {
    let identity = Identity {
        mesh: MeshName::new("m").expect("a constant name of plain letters"),
        node: NodeName::new("n").expect("a constant name of plain letters"),
        labels: Labels::default(),
    };
    let limits: &[u64] = match what {
        "watched" => &[18_000_000],
        "watched4" => &[10_000_000, 18_000_000, 20_000_000, 25_000_000],
        _ => &[],
    };
    let operation = |n| Operation::new(format!("bench.op{n}")).expect("plain letters and a digit");
    let each = |n| limits.iter().map(move |limit| (operation(n), *limit));
    let (node, limits) = (identity.node.clone(), (0..10).flat_map(each).collect());
    let told = Confirmation { node, behind: true, age: Duration::ZERO, runs: vec![], limits };
    let mut core = Core::new(identity, Bounds::default(), NOW);
    core.on_confirmation(NOW, &encode(&told)).expect("it was just written");
    core
}

/// Nanoseconds for each line or value, at the median of the rounds.
fn time(what: &str) -> f64 {
    let (clock, mut core) = (Clock::start(), core(what));
    let datagrams: Vec<Vec<u8>> = (0..100).map(|round| datagram(what, round)).collect();
    let mut rounds: Vec<u64> = (0..ROUNDS)
        .map(|_| {
            let begun = clock.now().mono;
            for datagram in datagrams.iter().cycle().take(usize::try_from(TIMED).unwrap_or(0)) {
                core.on_datagram(NOW, black_box(datagram));
            }
            nanos(clock.now().mono.since(begun))
        })
        .collect();
    rounds.sort_unstable();
    let lines = if what == "one" { TIMED } else { TIMED * LINES };
    rounds[ROUNDS / 2] as f64 / lines as f64
}

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    if what == "--time" {
        let one = std::env::args().nth(2);
        for what in ["plain", "tagged", "packed", "one", "watched", "watched4"] {
            if one.as_ref().is_some_and(|one| one != what) {
                continue;
            }
            println!("{what:8} {:6.1} ns", time(what));
        }
        return;
    }
    let mut core = core(&what);
    let datagrams: Vec<Vec<u8>> = (0..COUNTED).map(|round| datagram(&what, round)).collect();
    let reads = std::env::args().len() == 2;
    let datagrams = datagrams.iter().filter(|_| reads);
    datagrams.for_each(|datagram| core.on_datagram(NOW, black_box(datagram)));
    println!("{what} {COUNTED} times, {} samples", core.status().intake.samples);
}
