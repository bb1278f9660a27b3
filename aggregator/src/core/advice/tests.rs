//! Shares against an exact oracle, and every rule of bottlenecks at a planted case and beside it.

use std::collections::BTreeMap;

use plimsoll_schemas::histogram::{ExactFigures, Histogram, Packed};
use plimsoll_schemas::ids::{Labels, NodeName, Operation};
use plimsoll_schemas::rule::{BottleneckSeverity, Bottlenecks, Measure};
use plimsoll_schemas::straggler::CLASSES;
use plimsoll_schemas::summary::{BottleneckRow, BottleneckState, WallTime};
use plimsoll_schemas::time::Wall;
use proptest::prelude::*;

use super::*;
use crate::core::history::{Accumulator, KeptFrom, Layout};

const MILLISECOND: u64 = 1_000_000;

fn samples(name: &str, class: Option<&'static str>, values: &[(u64, u64)]) -> OperationSamples {
    let mut recorded = Histogram::default();
    values.iter().for_each(|(ns, n)| recorded.record_n(*ns, *n));
    of_histogram(name, class, &recorded)
}

fn of_histogram(name: &str, class: Option<&'static str>, of: &Histogram) -> OperationSamples {
    let ExactFigures { count, sum_ns, max_ns, .. } = of.exact();
    let p99_ns = of.quantile(0.99).map(|found| found.value_ns);
    let operation = Operation::new(name).unwrap();
    OperationSamples { operation, class, count, sum_ns, p99_ns, max_ns }
}

/// 200 steps of 10 ms, each with a phase of each class that takes these milliseconds.
fn step(phases: &[(&'static str, u64)]) -> Vec<OperationSamples> {
    let used: u64 = phases.iter().map(|(_, ms)| ms).sum();
    let rest = [("other", 10 - used)];
    let phases = phases.iter().chain(&rest).map(|(class, ms)| {
        samples(&format!("step.{class}"), Some(class), &[(ms * MILLISECOND, 200)])
    });
    phases.chain([samples("step", None, &[(10 * MILLISECOND, 200)])]).collect()
}

fn wall(node_seconds: f64) -> WallTime {
    WallTime { seconds: node_seconds, node_seconds: Some(node_seconds) }
}

#[test]
fn the_phases_of_a_step_are_shares_of_its_cycle() {
    let all = step(&[("input", 2), ("compute", 5), ("sync", 1)]);
    let Shares { cycles, operations, classes } = Shares::of(&all, wall(4.0), None);
    let [cycle] = &cycles[..] else { panic!("{cycles:?}") };
    assert_eq!((cycle.operation.as_str(), cycle.count, cycle.seconds), ("step", 200, 2.0));
    let shares = cycle.classes.iter().map(|of| (of.class.as_str(), of.share.unwrap()));
    let wanted = [("compute", 0.5), ("input", 0.2), ("other", 0.2), ("sync", 0.1)];
    assert_eq!(shares.collect::<Vec<_>>(), wanted);
    assert_eq!((cycle.mean, cycle.max, cycle.parallel), (Some(0.01), Some(0.01), false));
    // Of the nodes' four seconds the step has two, and its phases are within it.
    assert_eq!((operations[0].operation.as_str(), operations[0].share), ("step", Some(0.5)));
    assert_eq!((classes[0].class.as_str(), classes[0].share), ("compute", Some(0.25)));
}

#[test]
fn a_cycle_that_never_ends_has_no_share() {
    let phase = samples("step.input", Some("input"), &[(MILLISECOND, 50)]);
    let all = [phase, samples("step", None, &[])];
    let cycle = &Shares::of(&all, wall(4.0), None).cycles[0];
    assert_eq!((cycle.mean, cycle.p99, cycle.max), (None, None, None));
    assert_eq!((cycle.phases[0].seconds, cycle.phases[0].share), (0.05, None));
    let ended_before = [samples("step.a", Some("llm"), &[]), samples("step", None, &[])];
    assert_eq!(Shares::of(&ended_before, wall(4.0), None), Shares::default());
}

#[test]
fn phases_of_parallel_threads_are_marked() {
    let of = |ms: u64| {
        let phase = samples("step.work", Some("compute"), &[(ms * MILLISECOND, 10)]);
        let all = [phase, samples("step", None, &[(10 * MILLISECOND, 10)])];
        let cycle = Shares::of(&all, wall(1.0), None).cycles.remove(0);
        (cycle.classes[0].share, cycle.parallel)
    };
    assert_eq!(of(30), (Some(3.0), true));
    assert_eq!(of(10), (Some(1.0), false));
}

#[test]
fn a_named_cycle_has_the_operations_with_a_class_that_are_phases_of_none() {
    let mut all = step(&[("input", 2)]);
    all.push(samples("turn", None, &[(MILLISECOND, 100)]));
    all.push(samples("llm_inference", Some("llm"), &[(MILLISECOND / 2, 100)]));
    let named = Operation::new("turn").unwrap();
    let without = Shares::of(&all, wall(4.0), None);
    assert_eq!(without.cycles.len(), 1);
    let cycles = Shares::of(&all, wall(4.0), Some(&named)).cycles;
    let turn = &cycles[1];
    assert_eq!((turn.operation.as_str(), turn.classes.len()), ("turn", 1));
    assert_eq!((turn.classes[0].class.as_str(), turn.classes[0].share), ("llm", Some(0.5)));
    // An operation within itself is no part of itself.
    let own = samples("turn", Some("llm"), &[(MILLISECOND, 100)]);
    let cycles = Shares::of(&[own], wall(4.0), Some(&named)).cycles;
    assert_eq!((cycles[0].phases.len(), cycles[0].parallel), (0, false));
}

/// One cycle of a random job: in which slot it ended, on which of two nodes, and its phases.
type Cycle = (u64, bool, Vec<(usize, u64)>);

proptest! {
    /// Slots in and beside the range, of two nodes, some stored and some not, in any order.
    #[test]
    fn shares_equal_an_exact_oracle(
        cycles in prop::collection::vec(
            (
                0_u64..12,
                any::<bool>(),
                prop::collection::vec((0..CLASSES.len(), 1..5_000_000_u64), 1..6),
            ),
            0..40,
        ),
    ) {
        let range = Wall(10_000_000_000)..Wall(100_000_000_000);
        let layout = Layout::of(&range, None, Wall(200_000_000_000), &KeptFrom::default()).unwrap();
        let inside = |slot: &u64| (1..10).contains(slot);
        let mut slots: BTreeMap<(String, u64, bool), Histogram> = BTreeMap::new();
        let mut oracle: BTreeMap<&'static str, u128> = BTreeMap::new();
        let (mut whole, mut count) = (0_u128, 0_u64);

        for (slot, node, phases) in &cycles as &Vec<Cycle> {
            let mut sum = 0;
            for (class, ns) in phases {
                let name = format!("step.p{class}");
                slots.entry((name, *slot, *node)).or_default().record(*ns);
                sum += ns;
                if inside(slot) {
                    *oracle.entry(CLASSES[*class]).or_default() += u128::from(*ns);
                }
            }
            slots.entry(("step".to_owned(), *slot, *node)).or_default().record(sum);
            if inside(slot) {
                (whole, count) = (whole + u128::from(sum), count + 1);
            }
        }

        let mut answers: BTreeMap<&str, Accumulator> = BTreeMap::new();
        for ((name, slot, _), samples) in &slots {
            let answer = answers.entry(name).or_insert_with(|| Accumulator::new(layout.clone()));
            answer.add(Wall(slot * 10_000_000_000), &Packed::from(samples));
        }
        let class =
            |name: &str| Some(CLASSES[name.strip_prefix("step.p")?.parse::<usize>().ok()?]);
        let all = answers.iter().map(|(name, of)| {
            of_histogram(name, class(name), of.samples().unwrap())
        });
        let shares = Shares::of(&all.collect::<Vec<_>>(), wall(100.0), None);

        if count == 0 {
            prop_assert!(shares.cycles.is_empty());
            return Ok(());
        }
        let cycle = &shares.cycles[0];
        prop_assert_eq!((cycle.count, cycle.seconds), (count, whole as f64 / 1e9));
        let found: BTreeMap<&str, f64> =
            cycle.classes.iter().map(|of| (of.class.as_str(), of.share.unwrap())).collect();
        let wanted: BTreeMap<&str, f64> =
            oracle.iter().map(|(class, ns)| (*class, *ns as f64 / whole as f64)).collect();
        prop_assert_eq!(found, wanted);
        let of_phases: f64 = cycle.phases.iter().filter_map(|of| of.share).sum();
        prop_assert!((of_phases - 1.0).abs() < 1e-9 && !cycle.parallel, "{}", of_phases);
    }
}

fn reading(sensor: &str, mean: f64, max: f64) -> MachineReading {
    MachineReading {
        node: NodeName::new("n1").unwrap(),
        sensor: sensor.to_owned(),
        labels: Labels::default(),
        mean,
        max,
        count: 3_600,
    }
}

/// What all rules find of 200 steps and some readings.
fn judged(shares: &Shares, readings: Vec<MachineReading>) -> Vec<BottleneckRow> {
    judged_with(shares, &Counters::new(), readings)
}

fn judged_with(
    shares: &Shares,
    counters: &Counters,
    readings: Vec<MachineReading>,
) -> Vec<BottleneckRow> {
    judged_of(shares, counters, readings, &ProfileShares::default())
}

fn judged_of(
    shares: &Shares,
    counters: &Counters,
    readings: Vec<MachineReading>,
    profiles: &ProfileShares,
) -> Vec<BottleneckRow> {
    let machines = &MachineReadings { readings, ..MachineReadings::default() };
    let (completeness, wall_seconds, counters) = (Some(1.0), 100.0, Some(counters));
    let inputs = Inputs { shares, completeness, wall_seconds, counters, machines, profiles };
    bottlenecks(Bottlenecks::built_in(), inputs)
}

/// Counters that grew by these amounts in 200 intervals.
fn counters(amounts: &[(&str, f64)]) -> Counters {
    let growth = |amount: f64| CounterGrowth { amount, intervals: 200 };
    amounts.iter().map(|(name, of)| (Operation::new(name).unwrap(), growth(*of))).collect()
}

/// A range in which a rule measures this value, and the row of that rule.
fn planted(measure: &Measure, rule: &str, value: f64) -> BottleneckRow {
    let nothing = step(&[]);
    let whole = |sensor: &str| reading(sensor, 1e9, 1e9);
    // The step takes 2 s in all.
    let tokens = if matches!(measure, Measure::Rate(_)) { value * 2.0 } else { 1e9 };
    let grown = [("step.tokens", tokens), ("tokenizer.hits", 79.0), ("tokenizer.misses", 21.0)];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
    let of_10_000 = (value * 10_000.0) as u64;
    let function = FunctionTime { function: "load (a.py)".to_owned(), ns: of_10_000 };
    let profiles = ProfileShares {
        profiles: 2,
        samples: 10_000,
        running_ns: if *measure == Measure::Gil { 10_000 - of_10_000 } else { 10_000 },
        waiting_for_gil_ns: of_10_000,
        functions: vec![function],
    };
    let (samples, readings) = match measure {
        Measure::Rate(_) | Measure::Functions | Measure::Gil => (nothing, Vec::new()),
        Measure::Time(name) => {
            // Of the 100 s of the nodes.
            (vec![samples(name.as_str(), None, &[(of_10_000 * 50_000, 200)])], Vec::new())
        }
        Measure::Operation(name) => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let ns = (value * 1e9).round() as u64;
            (vec![samples(name.as_str(), None, &[(ns, 200)])], Vec::new())
        }
        Measure::Share(class) => {
            // 10 000 steps, so that a thousandth is distinguished from its neighbour.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let part = (value * 1e7) as u64;
            let phase = samples("step.p", Some(class), &[(part, 200)]);
            (vec![phase, samples("step", None, &[(10 * MILLISECOND, 200)])], Vec::new())
        }
        Measure::CycleSpread => {
            // 196 steps of one length and four that make p99: mean 1, p99 `value`.
            let rest = (200.0 - 4.0 * value) / 196.0;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let ns = |of: f64| (of * 1e9) as u64;
            let phase = samples("step.p", Some("compute"), &[(1_000, 200)]);
            (vec![phase, samples("step", None, &[(ns(rest), 196), (ns(value), 4)])], Vec::new())
        }
        Measure::Mean(sensor) => (nothing, vec![reading(sensor.name, value, f64::NAN)]),
        Measure::MaxRatio { part, whole: of } => {
            (nothing, vec![reading(part.name, f64::NAN, value * 1e9), whole(of.name)])
        }
    };
    let shares = Shares::of(&samples, wall(100.0), None);
    let rows = judged_of(&shares, &counters(&grown), readings, &profiles);
    rows.into_iter().find(|row| row.rule.as_str() == rule).unwrap()
}

#[test]
fn each_limit_of_the_file_fires_beyond_it_and_is_silent_before_it() {
    for rule in &Bottlenecks::built_in().rules {
        let limits: Vec<_> = rule.limits().collect();
        for (place, of) in limits.iter().enumerate() {
            let beyond = match rule.comparison() {
                plimsoll_schemas::rule::Comparison::Less => of.limit * 0.98,
                _ => of.limit * 1.02,
            };
            let before = of.limit * of.limit / beyond;
            let name = rule.name.as_str();
            let found = planted(&rule.measure, name, beyond);
            assert_eq!((found.state, found.severity), (BottleneckState::Found, Some(of.severity)));
            assert_eq!(found.limit, Some(of.limit), "{name}: {found:?}");
            let below = planted(&rule.measure, name, before);
            let severity = place.checked_sub(1).map(|below| limits[below].severity);
            assert_eq!(below.severity, severity, "{name} at {before}: {below:?}");
        }
    }
}

#[test]
fn what_is_found_comes_first_with_its_evidence() {
    let shares = Shares::of(&step(&[("database", 4), ("input", 3)]), wall(100.0), None);
    let rows = judged(&shares, vec![reading("gpu_utilization_ratio", 0.6, 1.0)]);
    let of = |row: &BottleneckRow| (row.rule.to_string(), row.severity, row.evidence.clone());
    let database = "40 %, 800 ms of 2 s in 200 cycles".to_owned();
    assert_eq!(of(&rows[0]), ("database_slow".into(), Some(BottleneckSeverity::High), database));
    assert_eq!((rows[1].rule.as_str(), rows[1].cycle.as_deref()), ("input_wait", Some("step")));
    let gpu = rows.iter().find(|row| row.rule.as_str() == "gpu_idle").unwrap();
    assert_eq!((gpu.state, gpu.node.as_ref().unwrap().as_str()), (BottleneckState::Within, "n1"));
    assert_eq!(gpu.evidence, "mean gpu_utilization_ratio 60 % in 3,600 readings");
    assert!(rows.is_sorted_by_key(|row| row.state));
}

#[test]
fn too_little_is_not_measured_with_its_reason() {
    let few = [samples("step.a", Some("llm"), &[(900, 99)]), samples("step", None, &[(1_000, 99)])];
    let few = Shares::of(&few, wall(1.0), None);
    let none = Shares::default();
    let enough = Shares::of(&step(&[("llm", 9)]), wall(1.0), None);
    let calm = MachineReadings { none: Some("no node keeps one".to_owned()), ..Default::default() };
    let mut short = MachineReadings::default();
    short.readings.push(MachineReading { count: 9, ..reading("memory_used_bytes", 1.0, 1.0) });
    let gone = NodeName::new("n2").unwrap();
    short.missing.insert(gone, "n2: did not answer".to_owned());
    let profiles = ProfileShares { profiles: 1, samples: 99, ..ProfileShares::default() };
    let table: [(&Shares, Option<f64>, &MachineReadings, &str, &str); 11] = [
        (&few, Some(1.0), &calm, "llm_dominates", "99 cycles, fewer than 100"),
        (&enough, Some(0.98), &calm, "llm_dominates", "98 % of the nodes' time was received"),
        (&enough, None, &calm, "llm_dominates", "it is not known how much of the nodes' time"),
        (&none, Some(1.0), &calm, "llm_dominates", "no step has phases, and no operation has"),
        (&none, Some(1.0), &calm, "gpu_idle", "0 samples of jobs in the range, fewer than 100"),
        (&enough, Some(1.0), &calm, "gpu_idle", "no node keeps one"),
        (&enough, Some(1.0), &short, "gpu_throttling", "n2: did not answer"),
        (&enough, Some(1.0), &short, "memory_peak", "9 readings of memory_used_bytes, fewer"),
        (&enough, Some(1.0), &calm, "function_hot", "99 samples in 1 profile, fewer than 100"),
        (&enough, Some(1.0), &calm, "gil_wait", "99 samples in 1 profile, fewer than 100"),
        (&enough, Some(1.0), &calm, "garbage_collector", "no samples of python_gc"),
    ];
    for (shares, completeness, machines, rule, why) in table {
        let (counters, wall_seconds) = (None, 100.0);
        let profiles = &profiles;
        let inputs = Inputs { shares, completeness, wall_seconds, counters, machines, profiles };
        let rows = bottlenecks(Bottlenecks::built_in(), inputs);
        let of_rule: Vec<_> = rows.iter().filter(|row| row.rule.as_str() == rule).collect();
        let [row] = of_rule[..] else { panic!("{of_rule:?}") };
        assert_eq!(row.state, BottleneckState::NotMeasured, "{row:?}");
        let words = row.evidence.strip_prefix("not measured: ").unwrap();
        assert!(words.starts_with(why), "{rule}: {words}");
    }
}

#[test]
fn a_slow_lookup_is_found_only_while_few_are_hits() {
    let slow = [samples("tokenizer.lookup", None, &[(2_000, 200)])];
    let of = |grown: &[(&str, f64)]| {
        let shares = Shares::of(&slow, wall(100.0), None);
        let rows = judged_with(&shares, &counters(grown), Vec::new());
        let row = rows.into_iter().find(|row| row.rule.as_str() == "tokenizer_lookup_slow");
        row.map(|row| (row.state, row.evidence))
    };
    let found = (BottleneckState::Found, "mean 2 \u{b5}s in 200 samples".to_owned());
    assert_eq!(of(&[("tokenizer.hits", 79.0), ("tokenizer.misses", 21.0)]), Some(found.clone()));
    assert_eq!(of(&[("tokenizer.misses", 1.0)]), Some(found));
    assert_eq!(of(&[("tokenizer.hits", 80.0), ("tokenizer.misses", 20.0)]), None);
    let why = "not measured: no counter of tokenizer.hits, tokenizer.misses grew".to_owned();
    assert_eq!(of(&[]), Some((BottleneckState::NotMeasured, why)));
}

#[test]
fn tokens_are_counted_by_the_time_of_their_step_or_by_wall_time() {
    let of = |grown: &[(&str, f64)]| {
        let shares = Shares::of(&step(&[]), wall(100.0), None);
        let rows = judged_with(&shares, &counters(grown), Vec::new());
        let rows = rows.into_iter().filter(|row| row.rule.as_str() == "few_tokens");
        rows.map(|row| (row.state, row.evidence)).collect::<Vec<_>>()
    };
    let of_both = of(&[("step.tokens", 8.0), ("tokens", 400.0), ("step.hits", 0.1)]);
    let step = "4/s, 8 in 2 s of step".to_owned();
    let wall = "4/s, 400 in 100 s of wall time".to_owned();
    assert_eq!(of_both, [(BottleneckState::Found, step), (BottleneckState::Found, wall)]);
    assert_eq!(of(&[("tokens", 501.0)])[0].0, BottleneckState::Within);
    assert_eq!(of(&[])[0].1, "not measured: no counter of tokens");
}

#[test]
fn without_steps_a_class_is_a_share_of_the_nodes_time() {
    let of = |node_seconds: Option<f64>| {
        let all = [samples("ask", Some("llm"), &[(7 * MILLISECOND, 100)])];
        let shares = Shares::of(&all, WallTime { seconds: 1.0, node_seconds }, None);
        let mut rows = judged(&shares, Vec::new());
        rows.remove(rows.iter().position(|row| row.rule.as_str() == "llm_dominates").unwrap())
    };
    let found = of(Some(1.0));
    assert_eq!((found.state, found.value), (BottleneckState::Found, Some(0.7)));
    assert_eq!(found.evidence, "70 % of the time of the nodes, 700 ms in 100 samples");
    assert!(of(None).evidence.starts_with("not measured: the nodes of the group are not known"));
}

#[test]
fn many_nodes_are_named_up_to_a_bound() {
    let readings = (0..40).map(|n: u32| MachineReading {
        node: NodeName::new(format!("n{n}")).unwrap(),
        ..reading("pressure_some_ratio", 0.3 + f64::from(n) / 100.0, 1.0)
    });
    let rows = judged(&Shares::of(&step(&[]), wall(1.0), None), readings.collect());
    let of_rule: Vec<_> = rows.iter().filter(|row| row.rule.as_str() == "pressure").collect();
    assert_eq!(of_rule.len(), crate::limits::BOTTLENECKS_OF_RULE_MAX);
    assert_eq!(of_rule[0].node.as_ref().unwrap().as_str(), "n39", "the worst first");
}
