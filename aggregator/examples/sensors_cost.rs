//! What sensors cost an aggregator: processor time for each message of readings, and for a page
//! with all nodes on it. Each node tells every sensor of the catalogue once, and those of cores for
//! each of its cores; what cannot be read says so.
//!
//! `cargo run --release -p plimsoll-aggregator --example sensors_cost -- 2000 16 5`
//! (nodes, cores of each, pages)

use plimsoll_aggregator::core::view::{Nodes, ViewQuery};
use plimsoll_aggregator::core::{Core, Delivered};
use plimsoll_aggregator::exposition::{Format, Shown, nodes_page};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::budget::effective;
use plimsoll_schemas::hardware::{CATALOGUE, Missing, Reading};
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Seq};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::wire::{self, Body, Hardware, Header, Snapshot, Totals};

const SECOND: u64 = 1_000_000_000;
const START: Now = Now { mono: Mono(SECOND), wall: Wall(1_700_000_001_000_000_000) };

/// What one node measures: of every fifth sensor there is no value.
fn readings(cores: usize) -> Vec<Reading> {
    let of = |(place, sensor): (usize, &&'static _)| {
        let (sensor, value): (&plimsoll_schemas::hardware::Sensor, _) = (sensor, 0.125);
        let reading = |labels| match place % 5 {
            4 => Reading::absent(sensor, labels, Missing::unsupported("no_driver")),
            _ => Reading::ok(sensor, labels, value),
        };
        let core = |core: usize| {
            let core = core.to_string();
            reading(Labels::new([("core", core.as_str())]).expect("a label of digits"))
        };
        if sensor.name.starts_with("cpu_core") {
            (0..cores).map(core).collect()
        } else {
            vec![reading(Labels::default())]
        }
    };
    CATALOGUE.iter().enumerate().flat_map(of).collect()
}

fn message(node: &str, readings: Vec<Reading>) -> (String, Vec<u8>) {
    let header = Header {
        node: NodeName::new(node).expect("a name of letters and digits"),
        incarnation: Incarnation(1),
        seq: Seq(1),
        start: Wall(START.wall.0 - SECOND),
        length_ns: SECOND,
        totals: Totals::default(),
        last: false,
        heir: None,
        labels: Labels::default(),
    };
    let snapshot = Snapshot { header, body: Body::Hardware(Hardware { readings }) };
    (format!("plimsoll.v1.m.normal.{node}.hardware"), wire::encode(&snapshot))
}

#[expect(clippy::cast_precision_loss, reason = "a number of nodes or pages")]
fn each(watch: &Stopwatch, n: u64) -> f64 {
    watch.elapsed().as_secs_f64() * 1e6 / n as f64
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, otherwise: u64| {
        arguments.get(place).map_or(otherwise, |number| number.parse().expect("a number"))
    };
    let (nodes, cores, pages) = (number(0, 2_000), number(1, 16), number(2, 5));
    let of_one = readings(usize::try_from(cores).expect("few"));
    let named = |number| message(&format!("node-{number:05}"), of_one.clone());
    let messages: Vec<_> = (0..nodes).map(named).collect();
    let budgets = effective(&[]).expect("the built-in budgets");
    let mut core = Core::new(MeshName::new("m").expect("a name"), budgets.clone(), START);
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s"));
    let watch = Stopwatch::start();
    for (stream_seq, (subject, payload)) in (1..).zip(&messages) {
        let (lane, pending, at, sent) = (Lane::Normal, 0, Some(START.wall), None);
        let message = Delivered { lane, stream_seq, pending, at, sent, subject, payload };
        core.on_message(START, message).expect("an honest message");
    }
    println!("nodes               {nodes}");
    println!("readings of each    {}", of_one.len());
    println!("us per message      {:.1}", each(&watch, nodes));
    core.on_deadline(START);
    let still = core.read_view(START.wall, "jetstream");
    let view = still.view(ViewQuery { fleet: false, nodes: Nodes::All, native: false });
    let shown = Shown { budgets: &budgets, aliases: false };
    let watch = Stopwatch::start();
    let bytes = (0..pages).map(|_| nodes_page(&view, shown, Format::Text).len()).max();
    println!("ms per page         {:.1}", each(&watch, pages) / 1e3);
    println!("bytes per page      {}", bytes.unwrap_or_default());
}
