//! Any sequence of points adds what a naive reading of the rules adds, and never more than was
//! there; whatever is counted lies where it was.

use plimsoll_schemas::wire::confirmation::LatencyLimit;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// When the node began.
const BEGAN: u64 = 1_000;
const LIMITS: [u64; 3] = [5_000_000, 10_000_000, 25_000_000];

type Counts = [u64; 4];

/// What a producer reported at one time.
#[derive(Clone, Copy, Debug)]
struct SentPoint {
    producer: u64,
    /// Which run of it.
    life: u64,
    start: u64,
    time: u64,
    counts: Counts,
}

impl SentPoint {
    /// The second and the third call themselves the same.
    fn stream(&self) -> u64 {
        self.producer.min(1)
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Record(usize),
    Export,
    Restart,
}

/// The points of three producers, in order; the first may report no start, and each may have
/// begun before the node.
fn sent(steps: &[(u64, Step)], has_start: bool, is_old: [bool; 3]) -> Vec<SentPoint> {
    let start = |n: usize| if is_old[n] { BEGAN - 9 + n as u64 } else { BEGAN + n as u64 };
    let mut lives = [0, 1, 2].map(|n| (0, start(n), Counts::default()));
    let mut all = Vec::new();
    for (time, (producer, step)) in (BEGAN + 10..).zip(steps) {
        let (life, start, counts) = &mut lives[usize::try_from(*producer).unwrap()];
        match step {
            Step::Record(bucket) => counts[*bucket] += 1,
            Step::Restart => (*life, *start, *counts) = (*life + 1, time, Counts::default()),
            Step::Export => {
                let start = if *producer == 0 && !has_start { 0 } else { *start };
                let (producer, counts) = (*producer, *counts);
                all.push(SentPoint { producer, life: *life, start, time, counts });
            }
        }
    }
    all
}

/// The rules, one by one.
#[derive(Default)]
struct Model {
    last: BTreeMap<(u64, u64), (u64, Counts)>,
    taken: BTreeMap<u64, u64>,
}

impl Model {
    fn offer(&mut self, sent: &SentPoint) -> Result<Counts, &'static str> {
        let (stream, zero) = (sent.stream(), Counts::default());
        let (new, keep) = match self.last.get(&(stream, sent.start)) {
            Some((time, _)) if sent.time < *time => return Err("out_of_order"),
            Some((time, _)) if sent.time == *time => return Err("duplicate"),
            Some((_, last)) => {
                let is_down = (0..4).any(|n| sent.counts[n] < last[n]);
                match (is_down, sent.start) {
                    (false, _) => ([0, 1, 2, 3].map(|n| sent.counts[n] - last[n]), sent.counts),
                    (true, 0) => (sent.counts, sent.counts),
                    (true, _) => return Err("counts"),
                }
            }
            None => match (sent.start, self.taken.get(&stream)) {
                (0, _) => (zero, sent.counts),
                (start, Some(taken)) if start >= *taken => (sent.counts, sent.counts),
                (BEGAN.., Some(_)) => (zero, zero),
                (BEGAN.., None) => (sent.counts, sent.counts),
                _ => (zero, sent.counts),
            },
        };
        self.last.insert((stream, sent.start), (sent.time, keep));
        let taken = self.taken.entry(stream).or_default();
        *taken = sent.time.max(*taken);
        Ok(new)
    }
}

fn offer(intake: &mut Intake, now: u64, sent: &SentPoint) -> Result<u64, &'static str> {
    let start = if sent.start == 0 { Wall(0) } else { at(sent.start).wall };
    let point =
        Point { stream: sent.stream(), start, ..since(0, sent.time, explicit(&sent.counts)) };
    let before = intake.open_samples();
    intake.on_point(at(now), &point).map_err(Reject::as_str)?;
    Ok(intake.open_samples() - before)
}

fn watching() -> Intake {
    let mut intake = Intake::new(at(BEGAN), 2_000, Rules::default(), 7);
    let operation = Operation::new("a").unwrap();
    let limits = LIMITS.map(|limit_ns| LatencyLimit {
        operation: operation.clone(),
        limit_ns,
        allowed_ppm: 10_000,
    });
    intake.on_limits(at(0).mono, &limits);
    intake
}

/// Samples in each bucket.
fn recorded(intake: &mut Intake) -> Counts {
    let Some((_, histogram)) = closed(intake).histograms.pop() else { return Counts::default() };
    let over = LIMITS.map(|limit| {
        let over = histogram.over(limit);
        assert_eq!(over.uncertain, 0);
        over.over
    });
    [histogram.count() - over[0], over[0] - over[1], over[1] - over[2], over[2]]
}

fn added(one: Counts, two: Counts) -> Counts {
    [0, 1, 2, 3].map(|n| one[n] + two[n])
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        6 => (0..4_usize).prop_map(Step::Record),
        4 => Just(Step::Export),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec((0..3_u64, step), 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn lost_repeated_late_and_restarted_points_follow_the_rules_and_never_overcount(
        steps in steps(),
        has_start in any::<bool>(),
        is_old in any::<[bool; 3]>(),
        fates in prop::collection::vec((0..3_usize, 0..8_usize), 80),
    ) {
        let all = sent(&steps, has_start, is_old);
        // Each comes this many times, the later ones late.
        let mut ways: Vec<(usize, SentPoint)> = Vec::new();
        for (n, (sent, (times, late))) in all.iter().zip(&fates).enumerate() {
            ways.extend((0..*times).map(|time| (n + time * late, *sent)));
        }
        ways.sort_by_key(|(at, _)| *at);
        let (mut intake, mut model, mut expected) = (watching(), Model::default(), [0; 4]);
        let mut now = BEGAN;
        for (_, sent) in &ways {
            now = now.max(sent.time);
            let new = model.offer(sent);
            let total = new.map(|new| new.iter().sum());
            prop_assert_eq!(offer(&mut intake, now, sent), total, "{:?}", sent);
            expected = added(expected, new.unwrap_or_default());
        }
        prop_assert_eq!(recorded(&mut intake), expected);
        let mut last: BTreeMap<(u64, u64), Counts> = BTreeMap::new();
        for sent in &all {
            last.insert((sent.producer, sent.life), sent.counts);
        }
        let truth = last.into_values().fold([0; 4], added);
        prop_assert!((0..4).all(|n| expected[n] <= truth[n]), "{:?} {:?}", expected, truth);
    }

    #[test]
    fn a_producer_whose_every_run_sends_an_end_is_exact(
        steps in steps(),
        fates in prop::collection::vec((any::<bool>(), 1..3_usize), 80),
    ) {
        let mut steps = steps.into_iter().map(|(_, step)| (0, step)).collect::<Vec<_>>();
        steps.push((0, Step::Export));
        let all = sent(&steps, true, [false; 3]);
        let (mut intake, mut truth) = (watching(), [0; 4]);
        for (n, (sent, (is_lost, times))) in all.iter().zip(fates).enumerate() {
            let is_end = all.get(n + 1).is_none_or(|next| next.life > sent.life);
            truth = added(truth, if is_end { sent.counts } else { [0; 4] });
            for time in 0..if is_end || !is_lost { times } else { 0 } {
                prop_assert_eq!(offer(&mut intake, sent.time, sent).is_ok(), time == 0);
            }
        }
        prop_assert_eq!(recorded(&mut intake), truth);
    }

    #[test]
    fn however_samples_are_divided_among_deltas_they_count_the_same(
        samples in prop::collection::vec((0..4_usize, any::<bool>()), 0..100),
    ) {
        let (mut intake, mut truth, mut open, mut began) = (watching(), [0; 4], [0; 4], BEGAN);
        for (time, (bucket, is_end)) in (BEGAN + 1..).zip(&samples) {
            open[*bucket] += 1;
            truth[*bucket] += 1;
            if *is_end || time == BEGAN + samples.len() as u64 {
                let point = delta(began, time, explicit(&open));
                prop_assert_eq!(intake.on_point(at(time), &point), Ok(()));
                (open, began) = ([0; 4], time);
            }
        }
        prop_assert_eq!(recorded(&mut intake), truth);
    }
}
