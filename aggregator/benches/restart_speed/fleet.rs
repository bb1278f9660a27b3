//! A fleet that a core has listened to for ten minutes: each node times three operations, a
//! hundred times a second each. Real messages; those that lie further back are about longer
//! intervals, which fills the same windows.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use plimsoll_aggregator::core::Core;
use plimsoll_aggregator::core::fleet::Operations;
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Operation, Seq, Series};
use plimsoll_schemas::rule::file::effective;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Now, Wall, nanos};
use plimsoll_schemas::transport::Delivered;
use plimsoll_schemas::wire::{Body, Header, Latency, Snapshot, Totals, encode};

const OPERATIONS: [&str; 3] = ["epoch_hook", "kernel_fetch", "publish"];
const SAMPLES_PER_SECOND: u64 = 100;
/// Message bodies. Each node sends them in turn and starts with a different one.
const BODIES: usize = 64;
const SECOND: Duration = Duration::from_secs(1);
/// Each: how many messages, and how long an interval they are about.
const ROUNDS: [(usize, Duration); 3] =
    [(18, Duration::from_secs(30)), (10, Duration::from_secs(5)), (12, SECOND)];

/// How latencies are spread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Around 10 ms, with a tail.
    Usual,
    /// Evenly over nine decades, from a microsecond to an hour.
    Extreme,
}

impl FromStr for Shape {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "usual" => Ok(Self::Usual),
            "extreme" => Ok(Self::Extreme),
            _ => bail!("{text:?} is neither usual nor extreme"),
        }
    }
}

/// The mesh that all of this is about.
pub(crate) fn mesh() -> MeshName {
    MeshName::new("m").expect("a plain letter")
}

/// The nodes' names, in order.
pub(crate) fn names(nodes: usize) -> impl Iterator<Item = NodeName> {
    (0..nodes).map(|n| NodeName::new(format!("node-{n:05}")).expect("letters and digits"))
}

/// A core that has listened to this many nodes, and the time it is.
pub(crate) fn live(nodes: usize, shape: Shape) -> (Core, Now) {
    let mut now = Now { mono: Mono(0), wall: Wall(1_700_000_000_000_000_000) };
    let budgets = effective(&[]).expect("the budgets that are built in");
    let mut core = Core::new(mesh(), budgets, now);
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s"));

    let names: Vec<NodeName> = names(nodes).collect();
    let (mut seq, mut recorded, mut seed) = (0, 0, 1);
    for (messages, length) in ROUNDS {
        let n = SAMPLES_PER_SECOND * length.as_secs();
        let bodies: Vec<Body> = (0..BODIES).map(|_| body(n, shape, &mut seed)).collect();
        for _ in 0..messages {
            (seq, recorded) = (seq + 1, recorded + n * OPERATIONS.len() as u64);
            for (number, name) in names.iter().enumerate() {
                let body = bodies[(number + usize::try_from(seq).unwrap_or(0)) % BODIES].clone();
                let header = header(name, now, length, (seq, recorded));
                send(&mut core, now.after(length), header, body);
            }
            now = now.after(length);
            core.on_deadline(now);
        }
    }
    (core, now)
}

fn header(node: &NodeName, now: Now, length: Duration, (seq, recorded): (u64, u64)) -> Header {
    Header {
        node: node.clone(),
        incarnation: Incarnation(1),
        seq: Seq(seq),
        start: now.wall,
        length_ns: nanos(length),
        totals: Totals { recorded, ..Totals::default() },
        last: false,
        successor: None,
        labels: Labels::default(),
    }
}

fn send(core: &mut Core, now: Now, header: Header, body: Body) {
    let subject = format!("plimsoll.v1.m.normal.{}.latency", header.node);
    let payload = encode(&Snapshot { header, body });
    let (lane, at, sent) = (Lane::Normal, Some(now.wall), Some(now.wall));
    let (stream_seq, pending) = (core.position(lane).read + 1, 0);
    let message =
        Delivered { lane, stream_seq, pending, at, sent, subject, payload: payload.into() };
    core.on_message(now, &message).expect("a message of our own");
}

fn body(n: u64, shape: Shape, seed: &mut u64) -> Body {
    let histograms = OPERATIONS.map(|name| {
        let mut histogram = Histogram::default();
        (0..n).for_each(|_| histogram.record(value_ns(shape, seed)));
        (Series::plain(Operation::new(name).expect("letters and _")), histogram)
    });
    Body::Latency(Latency { histograms: histograms.into(), ..Latency::default() })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "far from both ends")]
fn value_ns(shape: Shape, seed: &mut u64) -> u64 {
    let mut even = || {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as f64 / f64::from(1_u32 << 31)
    };
    match shape {
        Shape::Extreme => 10_f64.powf(3.0 + 9.55 * even()) as u64,
        Shape::Usual => {
            // Twelve even ones make nearly a normal one.
            let normal: f64 = (0..12).map(|_| even()).sum::<f64>() - 6.0;
            (1e7 * (0.25 * normal).exp()) as u64
        }
    }
}

/// Checks that two scopes answer the same in every window.
///
/// # Errors
/// With what differs.
pub(crate) fn compare(one: &Operations, other: &Operations, now: Now) -> Result<()> {
    ensure!(one.iter().count() == other.iter().count(), "not the same operations");
    for ((operation, one), (_, other)) in one.iter().zip(other.iter()) {
        ensure!(one.total() == other.total(), "{operation}: the total differs");
        for window in Window::ALL {
            let same = one.merged(now.wall, window) == other.merged(now.wall, window);
            ensure!(same, "{operation}: {window:?} differs");
        }
    }
    Ok(())
}
