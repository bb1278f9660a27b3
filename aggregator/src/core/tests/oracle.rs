//! A core against a list of all samples. Samples may come late, again, or after a restart, and time
//! may pass in any steps: the windows of fleet, nodes and roll-ups hold the same as the list.

use plimsoll_schemas::histogram::ExactFigures;
use plimsoll_schemas::time::nanos;

use super::*;
use crate::core::fleet::Definition;
use crate::core::fleet::Windows;
use crate::core::tests::checkpoint::restarted;

const NODES: [&str; 3] = ["a", "b", "c"];
const OPERATIONS: [&str; 2] = ["epoch_hook", "fetch"];
const OUTCOMES: [&str; 3] = ["hit", "miss", ""];
/// What hits of the first rack are kept apart for, and of what.
const SELECTED: (&str, &str) = ("hits", "fetch");
const DAY: u64 = 86_400 * 1_000_000_000;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    /// A node sends the latency, `age` nanoseconds ago, of an operation with an outcome.
    Send { node: usize, operation: usize, outcome: usize, age: u64, value: u64 },
    /// An earlier message arrives again.
    Again(prop::sample::Index),
    /// This many nanoseconds pass.
    Pass(u64),
    /// The same after a restart.
    Restart,
}

fn spans() -> impl Strategy<Value = u64> {
    let second = 1_000_000_000_u64;
    prop_oneof![
        6 => 0..3 * second,
        3 => 0..400 * second,
        2 => 0..20_000 * second,
        1 => 0..3 * DAY,
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let send = (0..3_usize, 0..2_usize, 0..3_usize, spans(), 1..40_000_000_u64);
    let step = prop_oneof![
        10 => send.prop_map(|(node, operation, outcome, age, value)| Step::Send {
            node, operation, outcome, age, value
        }),
        2 => any::<prop::sample::Index>().prop_map(Step::Again),
        6 => spans().prop_map(Step::Pass),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Clone, Debug)]
struct Sample {
    node: usize,
    operation: usize,
    outcome: usize,
    taken: u64,
    value: u64,
}

struct World {
    core: Core,
    now: Now,
    speakers: [Speaker; 3],
    messages: Vec<(Wall, u64, (String, Vec<u8>))>,
    all: Vec<Sample>,
    /// Those of nodes that were not hidden since.
    of_nodes: Vec<Sample>,
}

fn definitions() -> [Definition; 2] {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let one = Definition {
        name: "by_outcome".to_owned(),
        operations: names(&["fetch"]),
        by: names(&["outcome"]),
        nodes_by: names(&["rack"]),
        ..Definition::default()
    };
    let all =
        Definition { name: "all".to_owned(), nodes_by: names(&["rack"]), ..Definition::default() };
    [one, all]
}

impl World {
    fn new() -> Self {
        let speakers = [0, 1, 2].map(|n: usize| {
            let rack = ["r1", "r2", "r1"][n];
            Speaker::new(NODES[n]).called(Labels::new([("rack", rack)]).unwrap())
        });
        let core = selecting(core(), SELECTED, &[("outcome", "hit")], &[("rack", "r1")]);
        let core = core.measuring(Window::OneDay, &definitions());
        Self {
            core,
            now: start(),
            speakers,
            messages: Vec::new(),
            all: Vec::new(),
            of_nodes: Vec::new(),
        }
    }

    fn deliver(&mut self, sent: u64, (subject, payload): &(String, Vec<u8>)) {
        let message = Delivered {
            lane: Lane::Normal,
            stream_seq: 1,
            pending: 0,
            at: Some(self.now.wall),
            sent: Some(Wall(sent)),
            subject: subject.to_owned(),
            payload: Bytes::copy_from_slice(payload),
        };
        self.core.on_message(self.now, &message).unwrap();
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Again(_) if self.messages.is_empty() => {}
            Step::Send { node, operation, outcome, age, value } => {
                self.send(&Sample {
                    node,
                    operation,
                    outcome,
                    taken: self.now.wall.0 - age,
                    value,
                });
            }
            Step::Again(index) => {
                let (_, sent, message) = index.get(&self.messages).clone();
                self.deliver(sent, &message);
            }
            Step::Pass(span) => {
                self.now = self.now.after(Duration::from_nanos(span));
                let oldest = self.now.wall.minus(SECOND * 6 * 86_400);
                self.messages.retain(|(at, ..)| *at >= oldest);
                self.core.on_deadline(self.now);
                let core = &self.core;
                self.of_nodes
                    .retain(|s| core.fleet.nodes().get(NODES[s.node]).is_some_and(|n| !n.hidden));
            }
            Step::Restart => {
                self.core =
                    restarted(&mut self.core, self.now).measuring(Window::OneDay, &definitions());
                for lane in Lane::ALL {
                    self.core.on_positioned(lane, 0, 0, "s1");
                }
                self.core.on_deadline(self.now);
            }
        }
    }

    fn send(&mut self, sample: &Sample) {
        // Every clock is off, each by another year.
        let ahead = sample.node as u64 * 365 * DAY;
        let series = Series {
            operation: Operation::new(OPERATIONS[sample.operation]).unwrap(),
            labels: Labels::new(
                Some(("outcome", OUTCOMES[sample.outcome])).filter(|(_, value)| !value.is_empty()),
            )
            .unwrap(),
        };
        let mut histogram = Histogram::default();
        histogram.record(sample.value);
        let body = Latency { histograms: vec![(series, histogram)], ..Latency::default() };
        let begun = Now { wall: Wall(sample.taken + ahead - 1_000_000_000), ..self.now };
        let speaker = std::mem::replace(&mut self.speakers[sample.node], Speaker::new("x"));
        let mut speaker = speaker.recorded(1_000_000);
        let message = speaker.message(begun, Body::Latency(body), false);
        self.speakers[sample.node] = speaker;
        let sent = self.now.wall.0 + ahead;
        self.deliver(sent, &message);
        self.messages.push((self.now.wall, sent, message));
        self.all.push(sample.clone());
        self.of_nodes.push(sample.clone());
    }

    fn check(&self) {
        for (place, name) in OPERATIONS.iter().enumerate() {
            let operation = Operation::new(*name).unwrap();
            let all: Vec<&Sample> = self.all.iter().filter(|s| s.operation == place).collect();
            let fleet = self.core.fleet.operations().get(&operation);
            self.check_windows(fleet, &all, "fleet");
            let total = fleet.map(|fleet| (fleet.total_exact(), fleet.total().exact()));
            let (exact, of_buckets) = total.unwrap_or_default();
            assert_eq!((exact.count, of_buckets), (all.len() as u64, exact));
            for (n, node) in NODES.iter().enumerate() {
                let of_node = |s: &&Sample| s.operation == place && s.node == n;
                let samples: Vec<&Sample> = self.of_nodes.iter().filter(of_node).collect();
                let node_of_core = self.core.fleet.nodes().get(*node);
                let windows = node_of_core.and_then(|node| node.operations.get(&operation));
                self.check_windows(windows, &samples, node);
            }
            self.check_rollups(&operation);
        }
        self.check_selected();
    }

    fn check_selected(&self) {
        let budget = RuleName::new(SELECTED.0).unwrap();
        let is_selected =
            |s: &&Sample| OPERATIONS[s.operation] == SELECTED.1 && s.outcome == 0 && s.node != 1;
        let all: Vec<&Sample> = self.all.iter().filter(is_selected).collect();
        self.check_windows(self.core.fleet.operations().get_selected(&budget), &all, "selected");
        for (n, node) in NODES.iter().enumerate() {
            let of_node = self.of_nodes.iter().filter(|s| s.node == n).filter(is_selected);
            let node_of_core = self.core.fleet.nodes().get(*node);
            let windows = node_of_core.and_then(|node| node.operations.get_selected(&budget));
            self.check_windows(windows, &of_node.collect::<Vec<_>>(), node);
        }
    }

    fn check_windows(&self, windows: Option<&Windows>, samples: &[&Sample], what: &str) {
        let Some(windows) = windows else { return assert_eq!(samples.len(), 0, "{what}") };
        for window in Window::ALL.into_iter().filter(|window| windows.keeps(*window)) {
            let naive = naive(samples, self.now.wall.0, window);
            assert_eq!(windows.merged(self.now.wall, window), naive, "{what} {window}");
        }
    }

    fn check_rollups(&self, operation: &Operation) {
        let Some(fleet) = self.core.fleet.operations().get(operation) else { return };
        for rollup in self.core.rollups().iter().filter(|r| r.definition.takes(operation)) {
            for window in Window::ALL {
                let mut sum = ExactFigures::default();
                let groups = rollup.groups().filter(|(group, _)| group.operation == *operation);
                groups.for_each(|(_, windows)| sum.merge(&windows.exact(self.now.wall, window)));
                let name = &rollup.definition.name;
                assert_eq!(sum, fleet.exact(self.now.wall, window), "{name} {window}");
            }
        }
    }
}

fn naive(samples: &[&Sample], now: u64, window: Window) -> Histogram {
    let slot = nanos(window.slot());
    let slots = nanos(window.span()) / slot;
    let is_in = |s: &&&Sample| s.taken / slot + slots >= now / slot && s.taken <= now;
    let mut histogram = Histogram::default();
    samples.iter().filter(is_in).for_each(|sample| histogram.record(sample.value));
    histogram
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Invariants 3 and 7, of a core as a whole.
    #[test]
    fn a_core_equals_a_list_of_all_samples(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            world.check();
        }
    }
}
