//! Merged samples in, findings and evidence out: jobs whose ranks wait for each other.

use std::time::Duration;

use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::{Labels, Operation, Series};
use plimsoll_schemas::random::SplitMix64;
use plimsoll_schemas::rule::Straggler;
use plimsoll_schemas::rule::file::shipped;
use plimsoll_schemas::summary::CohortState;
use plimsoll_schemas::time::nanos;
use plimsoll_schemas::wire::Latency;
use proptest::prelude::*;

use super::*;
use crate::core::fleet::MergedSamples;
use crate::limits::blame::{COHORTS_OF_NODE_MAX, PEERS_OF_NODE_MAX};

const START: u64 = 1_700_000_000;
const STEPS: usize = 4;
const STEP: &str = "train_step";

/// Time in which eight ranks have learned, and one more in which a fifth is always found.
const LEARNING: usize = 200;
const NAMING: usize = 120;

/// One process of a job.
#[derive(Clone)]
struct Rank {
    node: &'static str,
    labels: Vec<(&'static str, String)>,
    /// By how much its compute and its input are longer.
    compute: f64,
    input: f64,
}

struct Job {
    ranks: Vec<Rank>,
    random: SplitMix64,
}

struct World {
    blame: Blame,
    second: u64,
    found: Vec<AlertFinding>,
}

fn rank(node: &'static str, number: usize) -> Rank {
    Rank { node, labels: vec![("rank", number.to_string())], compute: 1.0, input: 1.0 }
}

/// Ranks on nodes of two.
fn job(ranks: usize, seed: u64) -> Job {
    const NODES: [&str; 4] = ["a", "b", "c", "d"];
    let ranks = (0..ranks).map(|number| rank(NODES[number / 2 % NODES.len()], number));
    Job { ranks: ranks.collect(), random: SplitMix64(seed) }
}

fn snapshot(node: &str, second: u64, samples: &[(Series, Histogram)]) -> MergedSnapshot {
    let taken = Wall((START + second) * INTERVAL_NS + 300_000_000);
    let packed = samples.iter().map(|(series, of)| (series.clone(), Packed::from(of)));
    let latency = Latency { histograms: packed.collect(), ..Latency::default() };
    let samples = vec![MergedSamples { taken, node_labels: Labels::default(), latency }];
    MergedSnapshot {
        node: NodeName::new(node).unwrap(),
        taken,
        run_reports: Vec::new(),
        reported: None,
        of_shard: false,
        samples,
        lost: Vec::new(),
    }
}

fn series(operation: &str, labels: &[(&str, String)]) -> Series {
    let labels = Labels::new(labels.iter().map(|(key, value)| (*key, value.as_str()))).unwrap();
    Series { operation: Operation::new(operation).unwrap(), labels }
}

impl Job {
    /// A lognormal time around as many milliseconds, in nanoseconds.
    fn time(&mut self, ms: f64) -> u64 {
        // The sum of twelve is as good as normal.
        let normal: f64 = (0..12).map(|_| self.random.unit()).sum::<f64>() - 6.0;
        nanos(Duration::from_secs_f64(ms / 1e3 * (0.05 * normal).exp()))
    }

    /// What each rank sends of a second: its steps and their phases.
    fn second(&mut self, second: u64) -> Vec<MergedSnapshot> {
        let ranks = self.ranks.clone();
        let mut sums: Vec<[Histogram; 4]> = ranks.iter().map(|_| Default::default()).collect();
        for _ in 0..STEPS {
            let work: Vec<(u64, u64)> = ranks
                .iter()
                .map(|of| (self.time(20.0 * of.input), self.time(80.0 * of.compute)))
                .collect();
            let wall = work.iter().map(|(input, compute)| input + compute).max().unwrap() + 1_000;
            for ([step, of_input, of_compute, sync], (input, compute)) in sums.iter_mut().zip(work)
            {
                step.record(wall);
                of_input.record(input);
                of_compute.record(compute);
                sync.record(wall - input - compute);
            }
        }

        let names = [None, Some("input"), Some("compute"), Some("sync")];
        let of_rank = |(rank, sums): (&Rank, [Histogram; 4])| {
            let samples = names.into_iter().zip(sums).map(|(class, samples)| {
                let class_label = class.map(|class| ("class", class.to_owned()));
                let labels: Vec<_> = rank.labels.iter().cloned().chain(class_label).collect();
                let name = class.map_or(STEP.to_owned(), |class| format!("{STEP}.{class}"));
                (series(&name, &labels), samples)
            });
            snapshot(rank.node, second, &samples.collect::<Vec<_>>())
        };
        ranks.iter().zip(sums).map(of_rank).collect()
    }
}

impl World {
    fn new(rules: Vec<Straggler>) -> Self {
        let blame = Blame::new(&Rules { stragglers: rules, ..Rules::default() });
        Self { blame, second: 0, found: Vec::new() }
    }

    fn shipped() -> Self {
        Self::new(shipped().stragglers)
    }

    fn now(&self) -> Wall {
        Wall((START + self.second) * INTERVAL_NS + 500_000_000)
    }

    /// Seconds pass in which these jobs run; each finding stays active.
    fn run(&mut self, jobs: &mut [&mut Job], seconds: usize) {
        for _ in 0..seconds {
            let sent: Vec<_> = jobs.iter_mut().flat_map(|job| job.second(self.second)).collect();
            let now = self.now();
            sent.iter().for_each(|snapshot| self.blame.on_merged(now, snapshot));
            self.second += 1;
            let active: Vec<AlertKey> = self.found.iter().map(|of| of.key.clone()).collect();
            self.found = self.blame.evaluate(self.now(), &active);
        }
    }

    /// Nodes with what was found of each.
    fn nodes(&self) -> Vec<(&str, Finding)> {
        self.found.iter().map(|of| (of.key.scope.node(), of.finding)).collect()
    }

    fn refused(&self, why: &str) -> u64 {
        self.blame.refused().iter().filter(|row| row.reason == why).map(|row| row.reports).sum()
    }

    fn states(&self) -> Vec<(CohortState, u64)> {
        self.blame.rows().iter().map(|row| (row.state, row.peers)).collect()
    }
}

#[test]
fn a_fifth_more_is_named_with_its_node_and_class() {
    for (compute, input, class) in [(1.25, 1.0, "compute"), (1.0, 2.0, "input")] {
        let (mut world, mut job) = (World::shipped(), job(8, 1));
        world.run(&mut [&mut job], LEARNING);
        assert_eq!((world.nodes(), world.states()), (vec![], vec![(CohortState::Judged, 8)]));

        (job.ranks[5].compute, job.ranks[5].input) = (compute, input);
        world.run(&mut [&mut job], NAMING);
        assert_eq!(world.nodes(), [("c", Finding::Breach)]);
        let evidence = world.blame.slowest(&world.found[0].key).unwrap().evidence;
        assert_eq!((evidence.peer.as_str(), evidence.class.as_deref()), ("5", Some(class)));
        assert_eq!((evidence.peers, evidence.others_of_node), (8, 0));
        assert_eq!(evidence.unmeasured, ["checkpoint"]);
        assert!((0.15..0.25).contains(&evidence.excess_ratio), "{}", evidence.excess_ratio);
        assert!((0.015..0.025).contains(&evidence.excess_seconds), "{}", evidence.excess_seconds);
        assert!(evidence.lower_seconds < evidence.excess_seconds, "{}", evidence.lower_seconds);
        let onset = evidence.slow_since_seconds - START as f64;
        assert!((onset - LEARNING as f64).abs() <= 10.0, "{onset}");

        // As fast as the others again: the name ends, and is shown to be over at once.
        (job.ranks[5].compute, job.ranks[5].input) = (1.0, 1.0);
        world.run(&mut [&mut job], 2 * NAMING);
        assert_eq!(world.nodes(), [("c", Finding::Clear)]);
    }
}

#[test]
fn ranks_that_are_all_slow_alike_name_none() {
    let (mut world, mut job) = (World::shipped(), job(8, 2));
    world.run(&mut [&mut job], LEARNING);
    job.ranks.iter_mut().for_each(|rank| rank.compute = 1.5);
    world.run(&mut [&mut job], NAMING);
    assert_eq!((world.nodes(), world.states()), (vec![], vec![(CohortState::Judged, 8)]));
}

#[test]
fn of_two_ranks_none_is_named() {
    let (mut world, mut job) = (World::shipped(), job(2, 3));
    job.ranks[1].compute = 2.0;
    world.run(&mut [&mut job], 2 * LEARNING);
    assert_eq!((world.nodes(), world.states()), (vec![], vec![(CohortState::TooFewPeers, 2)]));
}

#[test]
fn several_stragglers_of_one_node_share_an_alert() {
    let (mut world, mut job) = (World::shipped(), job(8, 4));
    world.run(&mut [&mut job], LEARNING);
    (job.ranks[2].compute, job.ranks[3].compute) = (1.3, 1.6);
    world.run(&mut [&mut job], NAMING);
    assert_eq!(world.nodes(), [("b", Finding::Breach)]);
    let evidence = world.blame.slowest(&world.found[0].key).unwrap().evidence;
    assert_eq!((evidence.peer.as_str(), evidence.others_of_node), ("3", 1));
}

#[test]
fn the_pair_is_of_the_cohort_that_the_evidence_is_of() {
    let (mut world, mut one, mut other) = (World::shipped(), job(8, 14), job(8, 15));
    for (job, run) in [(&mut one, "v1"), (&mut other, "v2")] {
        job.ranks.iter_mut().for_each(|rank| rank.labels.push(("run", run.to_owned())));
    }
    world.run(&mut [&mut one, &mut other], LEARNING);
    (one.ranks[4].compute, other.ranks[5].compute) = (1.3, 1.8);
    world.run(&mut [&mut one, &mut other], NAMING);
    assert_eq!(world.nodes(), [("c", Finding::Breach)]);

    let key = &world.found[0].key;
    let BlamedPeer { evidence, pair } = world.blame.slowest(key).unwrap();
    let pair = pair.unwrap();
    assert_eq!((evidence.peer.as_str(), evidence.cohort.get("run")), ("5", Some("v2")));
    assert_eq!(pair.culprit.labels, Labels::new([("rank", "5"), ("run", "v2")]).unwrap());
    assert_eq!(pair.peer.labels.get("run"), Some("v2"));
}

#[test]
fn two_jobs_without_a_label_between_them_are_not_compared() {
    let (mut world, mut one, mut other) = (World::shipped(), job(8, 5), job(8, 6));
    // The other one's ranks have the same numbers, and wait much more.
    for rank in &mut other.ranks {
        rank.node = "z";
    }
    other.ranks[0].compute = 3.0;
    world.run(&mut [&mut one, &mut other], LEARNING + NAMING);
    assert_eq!((world.nodes(), world.states()[0].0), (vec![], CohortState::SharedPeers));
    assert!(world.refused("shared_peer") > 1_000);

    // With runs of their own they are two cohorts.
    for (job, run) in [(&mut one, "v1"), (&mut other, "v2")] {
        job.ranks.iter_mut().for_each(|rank| rank.labels.push(("run", run.to_owned())));
    }
    world.run(&mut [&mut one, &mut other], LEARNING + NAMING);
    assert_eq!(world.nodes(), [("z", Finding::Breach)]);
}

#[test]
fn a_rank_that_moves_to_another_node_is_compared_there() {
    let (mut world, mut job) = (World::shipped(), job(8, 7));
    world.run(&mut [&mut job], LEARNING);
    job.ranks[1].node = "d";
    job.ranks[1].compute = 1.3;
    world.run(&mut [&mut job], NAMING);
    assert_eq!(world.nodes(), [("d", Finding::Breach)]);
    assert!(world.refused("shared_peer") > 0, "while both nodes seem to have it");
}

#[test]
fn silence_is_no_data_until_there_are_steps_again() {
    let (mut world, mut job) = (World::shipped(), job(8, 8));
    world.run(&mut [&mut job], LEARNING);
    job.ranks[5].compute = 1.3;
    world.run(&mut [&mut job], NAMING);
    world.run(&mut [], 20);
    assert_eq!(world.nodes(), [("c", Finding::NoData)]);
    world.run(&mut [&mut job], 5);
    assert_eq!(world.nodes(), [("c", Finding::Breach)]);
}

#[test]
fn after_a_restart_an_alert_waits_for_evidence() {
    let mut job = job(8, 9);
    let key = AlertKey {
        rule: RuleName::new("straggler").unwrap(),
        scope: Scope::Node(NodeName::new("c").unwrap()),
        operation: Operation::new(STEP).unwrap(),
    };
    let of_before = AlertFinding { key, finding: Finding::Breach, hysteresis: AT_ONCE };
    let mut world = World { found: vec![of_before], ..World::shipped() };
    let mut findings = Vec::new();
    for _ in 0..2 * LEARNING {
        world.run(&mut [&mut job], 1);
        findings.push(world.found[0].finding);
    }
    findings.dedup();
    assert_eq!(findings, [Finding::Insufficient, Finding::Clear]);
}

#[test]
fn samples_that_name_no_rank_are_counted() {
    let (mut world, mut job) = (World::shipped(), job(4, 10));
    job.ranks.iter_mut().for_each(|rank| rank.labels.clear());
    world.run(&mut [&mut job], 2);
    assert_eq!((world.states(), world.refused("unlabelled")), (vec![], 2 * 4 * 4 * STEPS as u64));
}

#[test]
fn forged_phases_are_bounded_and_counted() {
    let mut world = World::shipped();
    let mut sample = Histogram::default();
    sample.record(1_000_000);
    let now = world.now();
    for number in 0..2_000 {
        let label = |key: &'static str| (key, number.to_string());
        let [class, rank, role] = [("class", "compute".to_owned()), label("rank"), label("role")];
        let step = |of: String| (series(&of, &[class.clone(), rank.clone()]), sample.clone());
        let in_cohort = (series("s.compute", &[class.clone(), rank.clone(), role]), sample.clone());
        let forged = vec![step(format!("s{number}.compute")), step("s.compute".into()), in_cohort];
        world.blame.on_merged(now, &snapshot("n", 0, &forged));
    }
    assert_eq!(world.blame.cohorts.len(), COHORTS_OF_NODE_MAX);
    let largest = world.blame.cohorts.values().map(PeerGroup::len).max();
    assert_eq!(largest, Some(PEERS_OF_NODE_MAX));
    // Those of operations, and those of cohorts and peers.
    assert!(world.refused("full") > 2 * 1_900, "{}", world.refused("full"));

    // Ten minutes later all of it is gone.
    world.second = 700;
    world.blame.evaluate(world.now(), &[]);
    assert_eq!((world.blame.cohorts.len(), world.blame.rows()), (0, vec![]));
}

/// What a node sends in a second of one rank of a cohort that it makes up.
fn forged(node: &str, second: u64, role: usize) -> MergedSnapshot {
    let labels = [("class", "compute"), ("rank", "0"), ("role", &format!("made-up-{role}"))];
    let labels = labels.map(|(key, value)| (key, value.to_owned()));
    let mut sample = Histogram::default();
    sample.record(1_000_000);
    snapshot(node, second, &[(series("s.compute", &labels), sample)])
}

#[test]
fn a_job_is_judged_beside_nodes_that_make_up_cohorts() {
    let (mut world, mut job) = (World::shipped(), job(8, 13));
    for _ in 0..LEARNING + NAMING {
        let now = world.now();
        for (node, role) in (0..12).flat_map(|node| (0..20).map(move |role| (node, role))) {
            let forged = forged(&format!("bad{node}"), world.second, 100 * node + role);
            world.blame.on_merged(now, &forged);
        }
        // The job starts where all the room is taken.
        match world.second {
            0..20 => world.run(&mut [], 1),
            _ => world.run(&mut [&mut job], 1),
        }
    }
    assert_eq!(world.blame.cohorts.len(), COHORTS_MAX);
    assert!(world.states().contains(&(CohortState::Judged, 8)), "{:?}", world.states());
    assert!(world.refused("evicted") > 0);
}

#[test]
fn a_node_takes_no_more_than_its_share_of_the_room() {
    let mut world = World::shipped();
    for role in 0..100 {
        world.blame.on_merged(world.now(), &forged("bad", 0, role));
        world.blame.on_merged(world.now(), &forged("other", 0, role));
    }
    let of = |node| {
        let node = NodeName::new(node).unwrap();
        world.blame.cohorts.values().filter(|peers| peers.has_peer_of(&node)).count()
    };
    assert_eq!((of("bad"), of("other")), (COHORTS_OF_NODE_MAX, COHORTS_OF_NODE_MAX));
}

#[test]
fn classes_that_no_rule_reads_take_no_room() {
    let mut world = World::shipped();
    let mut sample = Histogram::default();
    sample.record(1_000_000);
    for number in 0..2 * COHORTS_MAX {
        let labels = [("class", "lunch".to_owned()), ("rank", "0".to_owned())];
        let forged = [(series(&format!("s{number}.lunch"), &labels), sample.clone())];
        world.blame.on_merged(world.now(), &snapshot("n", 0, &forged));
    }
    assert_eq!((world.blame.cohorts.len(), world.refused("full")), (0, 0));
}

#[test]
fn late_steps_are_counted_and_a_clock_set_back_begins_anew() {
    let (mut world, mut job) = (World::shipped(), job(4, 11));
    world.run(&mut [&mut job], 20);
    let now = world.now();
    job.second(2).iter().for_each(|late| world.blame.on_merged(now, late));
    assert_eq!(world.refused("late"), 4);
    world.second = 5;
    world.run(&mut [&mut job], 20);
    assert_eq!((world.states(), world.refused("late")), (vec![(CohortState::Learning, 4)], 8));
}

#[test]
fn a_reload_keeps_what_rules_that_stay_have_learned() {
    let (mut world, mut job) = (World::shipped(), job(8, 12));
    world.run(&mut [&mut job], LEARNING);
    let mut rules = shipped();
    rules.stragglers[0].about.summary = Some("other words".to_owned());
    world.blame.on_rules(&rules);
    assert_eq!(world.blame.cohorts.len(), 1);
    rules.stragglers[0].cohort = vec!["job".to_owned()];
    world.blame.on_rules(&rules);
    assert_eq!(world.blame.cohorts.len(), 0);
    rules.stragglers.clear();
    world.blame.on_rules(&rules);
    world.run(&mut [&mut job], 2);
    assert_eq!((world.found.len(), world.blame.rows()), (0, vec![]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_order_of_messages_within_a_second_changes_nothing(
        seed in 0_u64..1_000,
        orders in prop::collection::vec(any::<u64>(), 30),
    ) {
        let (mut first, mut second) = (World::shipped(), World::shipped());
        let mut job = job(5, seed);
        for order in orders {
            let sent = job.second(first.second);
            let mut shuffled: Vec<&MergedSnapshot> = sent.iter().collect();
            shuffled.rotate_left((order % 5) as usize);
            let now = first.now();
            sent.iter().for_each(|of| first.blame.on_merged(now, of));
            shuffled.into_iter().for_each(|of| second.blame.on_merged(now, of));
            first.second += 1;
            second.second += 1;
            let found = first.blame.evaluate(first.now(), &[]);
            let of_second = second.blame.evaluate(second.now(), &[]);
            prop_assert_eq!(found, of_second);
            prop_assert_eq!(first.blame.rows(), second.blame.rows());
            prop_assert_eq!(first.blame.refused(), second.blame.refused());
        }
    }
}
