//! A simulated fleet beside its cohort and the rules of others: names without a culprit, and the
//! delay until a culprit is named.

use std::collections::VecDeque;

use plimsoll_blame::{Cohort, Evaluation, Hypotheses, Interval, Peer, Rule, StepTimes};
use plimsoll_clock::Stopwatch;

use crate::fleet::{Fleet, INPUT_CLASS, Load, Ranks, Second};
use crate::rivals::{self, Rivals};

/// Event time of the first second.
const START: u64 = 1_700_000_000;
const HOUR: u64 = 3_600;
/// Seconds before a culprit is planted.
const WARM_UP: u64 = 900;
/// Onsets differ by up to this many seconds, so that they fall anywhere in a block.
const PHASES: u64 = 37;
/// How many times as long the culprit's steps take.
const SLOWER: f64 = 1.2;
/// Seconds that a culprit lasts.
pub(crate) const LASTS: u64 = 300;
/// Rules of others are simulated for as many hours at most.
const RIVAL_HOURS: u64 = 6;
/// Expected names a week at which the evidence of healthy peers is counted.
pub(crate) const ALLOWED: [f64; 4] = [1.0, 10.0, 100.0, 1_000.0];

/// What a rule did without a culprit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Calm {
    pub(crate) hours: f64,
    pub(crate) names: u64,
    /// How often the strongest evidence passed each of [`ALLOWED`]; of Plimsoll alone.
    pub(crate) passed: Vec<u64>,
}

/// Seconds until each culprit was named, in the order of size; `LASTS + 1` for never.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Delays {
    pub(crate) seconds: Vec<u64>,
    /// Other ranks that were named meanwhile.
    pub(crate) wrong: u64,
    /// Culprits whose class was found, and whose interval holds the true excess.
    pub(crate) explained: u64,
    pub(crate) covered: u64,
}

struct Simulation {
    fleet: Fleet,
    cohort: Cohort,
    hypotheses: Hypotheses,
    second: u64,
    seconds: Vec<Second>,
    /// Reports on their way, by the seconds until they arrive.
    under_way: VecDeque<Vec<(Interval, Peer, StepTimes)>>,
}

impl Simulation {
    fn new(load: Load, seed: u64) -> Self {
        Self {
            fleet: Fleet::new(load, seed),
            cohort: Cohort::new(load.setup(), 1.0, Interval(START)),
            // Each rank is judged by two rules.
            hypotheses: Hypotheses(2 * load.ranks),
            second: 0,
            seconds: Vec::new(),
            under_way: VecDeque::new(),
        }
    }

    fn pass(&mut self) -> Evaluation {
        self.fleet.second(&mut self.seconds);
        self.deliver();
        self.evaluate()
    }

    /// Adds the reports of this second that are not late, and those that arrive now.
    fn deliver(&mut self) {
        let at = Interval(START + self.second);
        for (rank, second) in self.seconds.iter().enumerate() {
            let (peer, late) = (Peer(rank as u64), second.late as usize);
            if self.under_way.len() <= late {
                self.under_way.resize_with(late + 1, Vec::new);
            }
            if late > 0 {
                self.under_way[late].push((at, peer, second.times));
                continue;
            }
            self.cohort.add(at, peer, &second.times).expect("the running interval is open");
        }
        for (at, peer, times) in self.under_way.pop_front().unwrap_or_default() {
            // One that is later than the grace period is refused, as it should be.
            let _ = self.cohort.add(at, peer, &times);
        }
        self.second += 1;
    }

    fn evaluate(&mut self) -> Evaluation {
        self.cohort.evaluate(Interval(START + self.second), self.hypotheses)
    }
}

/// Plimsoll's names over these weeks, and those of others over hours.
pub(crate) fn calm(load: Load, weeks: f64, seed: u64) -> Vec<Calm> {
    let mut simulation = Simulation::new(load, seed);
    let mut rivals = Rivals::new(load.rule, load.ranks);
    let seconds = (weeks * 7.0 * 24.0) as u64 * HOUR;
    let rival_seconds = seconds.min(RIVAL_HOURS * HOUR);

    let hours = |seconds: u64| seconds as f64 / HOUR as f64;
    let mut own = Calm { hours: hours(seconds), names: 0, passed: vec![0; ALLOWED.len()] };
    let of_rival = Calm { hours: hours(rival_seconds), names: 0, passed: Vec::new() };
    let mut of_rivals = vec![of_rival; rivals::NAMES.len()];

    let mut named: Vec<Peer> = Vec::new();
    let mut is_past = [false; ALLOWED.len()];
    for second in 0..seconds {
        let found = simulation.pass();
        if second < rival_seconds {
            let verdicts = rivals.take(&simulation.seconds, 0);
            of_rivals.iter_mut().zip(verdicts.new).for_each(|(calm, new)| calm.names += new);
        }

        let now: Vec<Peer> = found.culprits.iter().map(|culprit| culprit.peer).collect();
        own.names += now.iter().filter(|peer| !named.contains(peer)).count() as u64;
        named = now;
        for ((passed, is_past), allowed) in own.passed.iter_mut().zip(&mut is_past).zip(ALLOWED) {
            let closest = found.closest_per_week.unwrap_or(f64::INFINITY);
            *passed += u64::from(closest <= allowed && !*is_past);
            // One that hovers round a bound passes it once.
            *is_past = closest <= if *is_past { 100.0 * allowed } else { allowed };
        }
    }

    // Who is named is past every bound, and no longer a suspect.
    own.passed.iter_mut().for_each(|passed| *passed = (*passed).max(own.names));
    [vec![own], of_rivals].concat()
}

/// The delays of Plimsoll and of others, each over this many culprits.
pub(crate) fn slow(load: Load, times: u64, seed: u64) -> Vec<Delays> {
    let mut all = vec![Delays::default(); 1 + rivals::NAMES.len()];
    for repetition in 0..times {
        for (delays, one) in all.iter_mut().zip(one_culprit(load, seed, repetition)) {
            delays.seconds.extend(one.seconds);
            delays.wrong += one.wrong;
            delays.explained += one.explained;
            delays.covered += one.covered;
        }
    }
    all.iter_mut().for_each(|delays| delays.seconds.sort_unstable());
    all
}

fn one_culprit(load: Load, seed: u64, repetition: u64) -> Vec<Delays> {
    let mut simulation =
        Simulation::new(load, seed.wrapping_mul(1_000_003).wrapping_add(repetition));
    let mut rivals = Rivals::new(load.rule, load.ranks);
    let culprit = repetition as usize % load.ranks;
    for _ in 0..WARM_UP + repetition % PHASES {
        simulation.pass();
        rivals.take(&simulation.seconds, culprit);
    }

    simulation.fleet.culprit = Some((culprit, SLOWER));
    let mut all = vec![Delays::default(); 1 + rivals::NAMES.len()];
    for second in 1..=LASTS {
        let found = simulation.pass();
        let verdicts = rivals.take(&simulation.seconds, culprit);
        let own = found.culprits.iter().find(|one| one.peer == Peer(culprit as u64));

        let is_named = [own.is_some()].into_iter().chain(verdicts.has_named);
        for (delays, is_named) in all.iter_mut().zip(is_named) {
            if is_named && delays.seconds.is_empty() {
                delays.seconds.push(second);
            }
        }
        all[0].wrong = all[0].wrong.max((found.named - usize::from(own.is_some())) as u64);
        let is_first = all[0].seconds == [second];
        if let Some(own) = own.filter(|_| is_first) {
            let percent = 100.0 * simulation.fleet.excess(culprit);
            let interval = own.excess.lower_percent..=own.excess.upper_percent;
            all[0].explained += u64::from(own.class == Some(INPUT_CLASS));
            all[0].covered += u64::from(interval.contains(&percent));
        }
    }
    for delays in &mut all {
        if delays.seconds.is_empty() {
            delays.seconds.push(LASTS + 1);
        }
    }
    all
}

/// Microseconds: the mean of a second's reports, the median of its evaluation, and the evaluation
/// that only one of twenty exceeds.
pub(crate) fn cost(ranks: usize) -> [f64; 3] {
    const SECONDS: usize = 2_000;
    let load = Load {
        rule: Rule::WaitsLeast,
        ranks,
        steps_per_second: 1,
        correlation: 0.8,
        ranks_are: Ranks::Alike,
    };
    let mut simulation = Simulation::new(load, 1);
    (0..WARM_UP).for_each(|_| drop(simulation.pass()));

    let (mut reports, mut evaluations) = (0.0, Vec::new());
    for _ in 0..SECONDS {
        simulation.fleet.second(&mut simulation.seconds);
        let mut watch = Stopwatch::start();
        simulation.deliver();
        reports += watch.lap().as_secs_f64();
        simulation.evaluate();
        evaluations.push(watch.lap().as_secs_f64());
    }
    evaluations.sort_by(f64::total_cmp);
    let of = |percent: usize| evaluations[SECONDS * percent / 100];
    [reports / SECONDS as f64, of(50), of(95)].map(|seconds| 1e6 * seconds)
}
