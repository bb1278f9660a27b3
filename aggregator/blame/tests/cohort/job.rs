//! A simulated job of plain numbers: steps of 100 ms that vary by 1 %, and what is planted.

use plimsoll_blame::{
    Class, ClassKind, Cohort, Evaluation, Hypotheses, Interval, Peer, Rule, Setup, StepTimes,
};
use plimsoll_schemas::random::SplitMix64;

pub(crate) const INPUT: Class = Class(0);
pub(crate) const COMPUTE: Class = Class(1);
pub(crate) const SYNC: Class = Class(2);
/// Event time of the first second.
pub(crate) const START: u64 = 1_700_000_000;
const STEP_NS: f64 = 1e8;

/// A peer's steps in one second, and by what share of a step each class takes longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) steps: u64,
    pub(crate) input: f64,
    pub(crate) compute: f64,
    /// What no class measures.
    pub(crate) hidden: f64,
    pub(crate) is_missing: bool,
}

impl Default for Step {
    fn default() -> Self {
        Self { steps: 10, input: 0.0, compute: 0.0, hidden: 0.0, is_missing: false }
    }
}

impl Step {
    pub(crate) fn slower(share: f64) -> Self {
        Self { input: share, ..Self::default() }
    }
}

/// What a peer reports of one second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) at: Interval,
    pub(crate) peer: Peer,
    pub(crate) times: StepTimes,
}

/// Draws what peers report.
pub(crate) struct Source {
    rule: Rule,
    peers: usize,
    random: SplitMix64,
    second: u64,
}

impl Source {
    pub(crate) fn new(rule: Rule, peers: usize, seed: u64) -> Self {
        Self { rule, peers, random: SplitMix64(seed), second: 0 }
    }

    /// The next second of all peers, in their order.
    pub(crate) fn second(&mut self, planted: impl Fn(u64, usize) -> Step) -> Vec<Report> {
        let at = Interval(START + self.second);
        let steps: Vec<Step> = (0..self.peers).map(|peer| planted(self.second, peer)).collect();
        let noise = |random: &mut SplitMix64| 1.0 + 0.01 * (2.0 * random.unit() - 1.0);
        let work: Vec<(f64, f64, f64)> = steps
            .iter()
            .map(|step| {
                let by = STEP_NS * noise(&mut self.random);
                (by * (0.1 + step.input), by * (0.9 + step.compute), by * step.hidden)
            })
            .collect();
        let wall = work
            .iter()
            .map(|(input, compute, hidden)| input + compute + hidden)
            .fold(0.0, f64::max);
        self.second += 1;

        let report =
            |(peer, (step, (input, compute, hidden))): (usize, (&Step, &(f64, f64, f64)))| {
                let wait = match self.rule {
                    Rule::WaitsLeast => wall - input - compute - hidden,
                    Rule::Slowest => 0.0,
                };
                let sum = |ns: f64| (ns * step.steps as f64) as u64;
                let times = StepTimes::new(step.steps)
                    .with(INPUT, sum(*input))
                    .with(COMPUTE, sum(*compute))
                    .with(SYNC, sum(wait));
                (!step.is_missing).then_some(Report { at, peer: Peer(peer as u64), times })
            };
        steps.iter().zip(&work).enumerate().filter_map(report).collect()
    }

    pub(crate) fn now(&self) -> Interval {
        Interval(START + self.second)
    }
}

pub(crate) fn cohort(rule: Rule) -> Cohort {
    let kinds = [ClassKind::Work, ClassKind::Work, ClassKind::Wait];
    Cohort::new(Setup::new(rule, &kinds).unwrap(), 1.0, Interval(START))
}

/// Peers whose reports all come in time.
pub(crate) struct Job {
    pub(crate) cohort: Cohort,
    pub(crate) last: Evaluation,
    source: Source,
}

impl Job {
    pub(crate) fn new(rule: Rule, peers: usize) -> Self {
        Self {
            cohort: cohort(rule),
            last: Evaluation::default(),
            source: Source::new(rule, peers, 7),
        }
    }

    /// Advances time by this many seconds and returns the last evaluation.
    pub(crate) fn run(&mut self, seconds: u64, planted: impl Fn(u64, usize) -> Step) -> Evaluation {
        for _ in 0..seconds {
            for Report { at, peer, times } in self.source.second(&planted) {
                self.cohort.add(at, peer, &times).unwrap();
            }
            self.last = self.cohort.evaluate(self.source.now(), Hypotheses(2_000));
        }
        self.last.clone()
    }

    /// Seconds without any report.
    pub(crate) fn pause(&mut self, seconds: u64) {
        self.run(seconds, |_, _| Step { is_missing: true, ..Step::default() });
    }

    pub(crate) fn now(&self) -> Interval {
        self.source.now()
    }
}
