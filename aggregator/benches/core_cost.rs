//! Cost of the core without broker, driver and HTTP: CPU time per message and per evaluation, and
//! memory per node. Messages are encoded outside of the timed part.
//!
//! `cargo bench -p plimsoll-aggregator --bench core_cost -- 1000 100 600`
//! Arguments: nodes, samples a second of each of three operations, seconds, then any of `shared` (a
//! checkpoint holds every node while the next messages are merged), `history` (what is merged is
//! also collected for the past, and taken every 10 s), `metrics` (each message has ten counters and
//! ten gauges as well).

use std::time::Duration;

use plimsoll_aggregator::core::Core;
use plimsoll_aggregator::core::history::StoredHistory;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Operation, Seq, Series};
use plimsoll_schemas::rule::file::shipped;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::transport::Delivered;
use plimsoll_schemas::wire::{self, Body, Header, Latency, Snapshot, Totals};

const SECOND: Duration = Duration::from_secs(1);
const START: Now = Now { mono: Mono(0), wall: Wall(1_700_000_000_000_000_000) };
/// Operation, median in nanoseconds, spread of the logarithm.
const OPERATIONS: [(&str, f64, f64); 3] =
    [("epoch_hook", 9e6, 0.2), ("kernel_fetch", 4e6, 0.5), ("publish", 2e6, 0.6)];

fn main() {
    // `cargo bench` adds an argument of its own.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let number = |place: usize, otherwise: u32| {
        args.get(place).map_or(otherwise, |arg| arg.parse().expect("a number"))
    };
    let (nodes, samples, seconds) = (number(0, 1_000), number(1, 100), number(2, 120));
    let has = |word: &str| args.iter().skip(3).any(|arg| arg == word);
    let (shared, history) = (has("shared"), has("history"));
    let numbers = if has("metrics") { 10 } else { 0 };

    let mut core = core(history);
    let mut fleet = Fleet { nodes, samples, numbers, seq: 0, random: 1, bytes: 0 };
    let resident = resident_bytes();

    let (mut merging, mut judging) = (0, 0);
    let mut held = None;
    for second in 1..=seconds {
        let now = START.after(SECOND * second);
        let messages = fleet.messages(now);
        let begin = processor_ns();
        merge(&mut core, now, &messages);
        let merged = processor_ns();
        core.on_deadline(now);
        let judged = processor_ns();

        // The first half fills what the second finds.
        if second > seconds / 2 {
            merging += merged - begin;
            judging += judged - merged;
        }
        held = if shared { core.take_changes(now.wall) } else { None };
        if history && second % 10 == 0 && core.take_changes(now.wall).is_some() {
            core.on_stored(now.wall, SECOND, true);
        }
    }
    drop(held);

    let counted = u64::from(seconds - seconds / 2);
    println!("nodes                {nodes}");
    println!("samples per message  {}", 3 * samples);
    println!("bytes per message    {}", fleet.bytes / (nodes * seconds) as usize);
    println!("us per message       {:.2}", micros(merging, counted * u64::from(nodes)));
    println!("us per evaluation    {:.0}", micros(judging, counted));
    println!("resident per node    {}", (resident_bytes() - resident) / u64::from(nodes));

    let one = core.node(&NodeName::new("n0").expect("a name")).expect("its messages were merged");
    println!("windows of one node  {}", one.operations.heap_bytes());
}

fn core(history: bool) -> Core {
    let core = Core::new(MeshName::new("m").expect("a name"), shipped(), START);
    let mut core = if history { core.with_history(StoredHistory::default()) } else { core };
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s"));
    core
}

fn merge(core: &mut Core, now: Now, messages: &[Delivered]) {
    for message in messages {
        core.on_message(now, message).expect("an honest message");
    }
}

/// Nodes that report once a second.
struct Fleet {
    nodes: u32,
    samples: u32,
    /// Counters, and as many gauges.
    numbers: u32,
    seq: u64,
    random: u64,
    bytes: usize,
}

impl Fleet {
    fn messages(&mut self, now: Now) -> Vec<Delivered> {
        self.seq += 1;
        let messages: Vec<_> = (0..self.nodes).map(|node| self.message(node, now)).collect();
        self.bytes += messages.iter().map(|message| message.payload.len()).sum::<usize>();
        messages
    }

    fn message(&mut self, node: u32, now: Now) -> Delivered {
        let histograms = OPERATIONS.map(|(name, median, spread)| {
            let mut histogram = Histogram::default();
            (0..self.samples).for_each(|_| histogram.record(self.latency(median, spread)));
            (Series::plain(Operation::new(name).expect("a name")), histogram)
        });

        let recorded = self.seq * u64::from(self.samples) * OPERATIONS.len() as u64;
        let header = Header {
            node: NodeName::new(format!("n{node}")).expect("a name"),
            incarnation: Incarnation(1),
            seq: Seq(self.seq),
            start: now.wall.minus(SECOND),
            length_ns: 1_000_000_000,
            totals: Totals { recorded, ..Totals::default() },
            last: false,
            successor: None,
            labels: Labels::default(),
        };

        let numbers = |kind: &str| {
            let of = |number| Operation::new(format!("train_step.{kind}{number}")).expect("a name");
            let value = f64::from(node) + 0.1;
            (0..self.numbers).map(|number| (Series::plain(of(number)), value)).collect()
        };
        let (counters, gauges) = (numbers("counter"), numbers("gauge"));
        let latency = Latency { histograms: histograms.into(), counters, gauges };
        let payload = wire::encode(&Snapshot { header, body: Body::Latency(latency) });
        Delivered {
            lane: Lane::Normal,
            stream_seq: 1,
            pending: 0,
            at: Some(now.wall),
            sent: Some(now.wall),
            subject: format!("plimsoll.v1.m.normal.n{node}.latency"),
            payload: payload.into(),
        }
    }

    /// About log-normal: the sum of twelve equal chances is nearly normal.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "far below 2^53")]
    fn latency(&mut self, median: f64, spread: f64) -> u64 {
        let normal = (0..12).map(|_| self.chance()).sum::<f64>() - 6.0;
        (median * (normal * spread).exp()) as u64
    }

    #[expect(clippy::cast_precision_loss, reason = "a chance is no exact number")]
    fn chance(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn micros(ns: u64, times: u64) -> f64 {
    ns as f64 / times as f64 / 1e3
}

/// Processor time of this thread.
fn processor_ns() -> u64 {
    first_number(&std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default())
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    first_number(line.unwrap_or_default()) * 1_024
}

fn first_number(text: &str) -> u64 {
    text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}
