//! Windows against a naive exact oracle, which keeps every sample with its time in a list.

use std::time::Duration;

use crate::limits::SLOTS_MAX;
use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::rule::file::effective;
use plimsoll_schemas::time::nanos;
use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;
/// One more than are summed.
const LIMITS_NS: [u64; 4] = [10_000_000, 18_000_000, 20_000_000, 30_000_000];

fn retention(up_to: Window) -> Retention {
    let budget = effective(&[]).unwrap().remove(0);
    let budgets =
        LIMITS_NS.map(|limit_ns| plimsoll_schemas::budget::Budget { limit_ns, ..budget.clone() });
    Retention { up_to, limits: Limits::of(&budgets) }
}

fn histogram(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    values.iter().for_each(|value| histogram.record(*value));
    histogram
}

fn times(now: Wall, taken: Wall) -> Times {
    Times { shown: now, now, taken }
}

/// A message's samples: of some, it holds exactly how many are over the limits.
fn message(values: &[u64]) -> Packed {
    let mut samples = Histogram::default();
    if values[0].is_multiple_of(2) {
        samples.watch(&LIMITS_NS);
    }
    values.iter().for_each(|value| samples.record(*value));
    Packed::from(&samples)
}

fn add(windows: &mut Windows, times: Times, values: &[u64]) {
    let packed = message(values);
    let limits = *windows.limits();
    windows.add(times, &Batch::new(&packed, &limits));
}

fn at(seconds: u64) -> Wall {
    Wall(START + seconds * SECOND)
}

fn slots(windows: &Windows) -> usize {
    windows.cascade.rings.iter().map(|ring| ring.slots.len()).sum()
}

#[test]
fn a_sample_leaves_each_window_in_its_time_and_the_total_never() {
    let mut windows = Windows::new(&retention(Window::FiveMinutes));
    add(&mut windows, times(at(0), at(0)), &[5]);
    for (seconds, expected) in
        [(0, [1, 1, 1]), (10, [1, 1, 1]), (11, [0, 1, 1]), (66, [0, 0, 1]), (340, [0, 0, 0])]
    {
        let kept = &Window::ALL[..3];
        let counts = kept.iter().map(|window| windows.merged(at(seconds), *window).count());
        assert_eq!(counts.collect::<Vec<_>>(), expected, "after {seconds} s");
        let has_data = kept.iter().map(|window| u64::from(windows.has_data(at(seconds), *window)));
        assert_eq!(has_data.collect::<Vec<_>>(), expected, "after {seconds} s");
    }
    assert!(windows.is_stale(at(3_600)));
    windows.expire(at(3_600), Phase::NONE);
    assert_eq!((slots(&windows), windows.total().count()), (0, 1));
    assert!(!windows.is_stale(at(3_600)));
}

#[test]
fn a_late_sample_does_not_reopen_a_window_and_still_counts() {
    let mut windows = Windows::new(&retention(Window::FiveMinutes));
    add(&mut windows, times(at(100), at(0)), &[5]);
    assert_eq!(windows.merged(at(100), Window::OneMinute).count(), 0);
    assert_eq!(windows.merged(at(100), Window::FiveMinutes).count(), 1);
    assert_eq!(windows.total().count(), 1);
}

#[test]
fn a_window_that_is_not_kept_shows_nothing() {
    let mut windows = Windows::new(&retention(Window::OneMinute));
    add(&mut windows, times(at(0), at(0)), &[5]);
    assert_eq!(windows.merged(at(0), Window::OneMinute).count(), 1);
    assert!(!windows.keeps(Window::FiveMinutes) && !windows.has_data(at(0), Window::FiveMinutes));
    assert_eq!(windows.exact(at(0), Window::FiveMinutes).count, 0);
}

#[test]
fn what_arrives_ahead_of_what_is_shown_waits_for_its_time_in_bounded_room() {
    let mut windows = Windows::new(&retention(Window::FiveMinutes));
    for seconds in 0..5_000 {
        let times = Times { shown: at(0), now: at(seconds), taken: at(seconds) };
        add(&mut windows, times, &[5]);
    }
    let count = |seconds| windows.merged(at(seconds), Window::TenSeconds).count();
    assert_eq!((count(0), count(10), count(300)), (1, 11, 11));
    assert!(windows.cascade.rings.iter().all(|ring| ring.slots.len() <= SLOTS_MAX));
    assert_eq!(windows.total().count(), 5_000);
}

#[test]
fn what_is_merged_into_often_is_opened_and_packed_again_and_stays_the_same() {
    let mut windows = Windows::new(&retention(Window::FiveMinutes));
    let mut naive = Histogram::default();
    for seconds in 0..30 {
        for n in 0..20 {
            let value = 1_000_000 * (n * seconds % 37 + 1);
            add(&mut windows, times(at(seconds), at(seconds)), &[value]);
            naive.record(value);
        }
    }
    let open = windows.cascade.rings[0].slots.iter().filter(|slot| slot.is_open()).count();
    assert_eq!((open, windows.total()), (3, naive));
}

#[test]
fn samples_for_which_there_is_no_room_count_in_the_exact_figures() {
    let mut windows = Windows::new(&retention(Window::FiveMinutes));
    let packed = Packed::from(&histogram(&[7, 9]));
    let batch = Batch::new(&packed, &Limits::default());
    windows.add_figures(times(at(0), at(0)), &batch);
    let exact = windows.total_exact();
    assert_eq!((exact.count, exact.sum_ns, exact.min_ns, exact.max_ns), (2, 16, 7, 9));
    assert_eq!((windows.total().count(), windows.newest()), (0, at(0)));
}

/// In each second some nodes roll slots over, and in none most of them do.
#[test]
fn nodes_roll_their_slots_over_in_different_seconds() {
    let names = (0..128).map(|n| NodeName::new(format!("node-{n}")).unwrap());
    let mut nodes: Vec<_> = names
        .map(|name| (Phase::of(&name), Windows::new(&retention(Window::FiveMinutes))))
        .collect();
    let coarse = |windows: &Windows| -> Vec<usize> {
        windows.cascade.rings[1..].iter().map(|ring| ring.slots.len()).collect()
    };
    let mut most = 0;
    for second in 0..160 {
        let mut rolled_over = 0;
        for (phase, windows) in &mut nodes {
            let before = coarse(windows);
            windows.expire(at(second), *phase);
            rolled_over += usize::from(coarse(windows) != before);
            add(windows, times(at(second), at(second)), &[5]);
        }
        most = most.max(if second > 100 { rolled_over } else { 0 });
    }
    // Slots of 5 s take a fifth of the nodes in each second.
    assert!((20..50).contains(&most), "{most} of {}", nodes.len());
}

/// One thing that happens to windows.
#[derive(Clone, Debug)]
enum Step {
    /// Samples of this many nanoseconds ago.
    Add(u64, Vec<u64>),
    /// This many nanoseconds pass.
    Pass(u64),
    /// The same after a restart.
    Restart,
}

fn ages() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..3 * SECOND,
        3 => 0..400 * SECOND,
        2 => 0..100_000 * SECOND,
        1 => 0..4_000_000 * SECOND,
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let values = prop::collection::vec(1..40_000_000_u64, 1..6);
    let step = prop_oneof![
        12 => (ages(), values).prop_map(|(age, values)| Step::Add(age, values)),
        6 => ages().prop_map(Step::Pass),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..80)
}

/// Every sample with the time at which it was taken, by the messages that brought them.
#[derive(Default)]
struct Naive(Vec<(u64, Vec<u64>, Packed)>);

impl Naive {
    fn add(&mut self, taken: u64, values: Vec<u64>) {
        let message = message(&values);
        self.0.push((taken, values, message));
    }

    fn messages(&self, now: u64, window: Window) -> impl Iterator<Item = (&Vec<u64>, &Packed)> {
        let slot = nanos(window.slot());
        let slots = nanos(window.span()) / slot;
        let is_in = move |taken: u64| taken / slot + slots >= now / slot && taken <= now;
        let shown = self.0.iter().filter(move |(taken, ..)| is_in(*taken));
        shown.map(|(_, values, message)| (values, message))
    }

    fn values(&self, now: u64, window: Window) -> impl Iterator<Item = u64> {
        self.messages(now, window).flat_map(|(values, _)| values).copied()
    }

    fn window(&self, now: u64, window: Window) -> Histogram {
        histogram(&self.values(now, window).collect::<Vec<_>>())
    }

    fn all(&self) -> Vec<u64> {
        self.0.iter().flat_map(|(_, values, _)| values).copied().collect()
    }

    /// As exact as each message by itself, and never wrong; checks one limit at a time.
    fn check_over(&self, windows: &Windows, now: u64, window: Window) -> Result<(), TestCaseError> {
        let limit_ns = LIMITS_NS[(now / SECOND) as usize % LIMITS_NS.len()];
        let Sums { over, uncertain, .. } = windows.sums(Wall(now), window, limit_ns);
        let mut expected = Over::default();
        let messages = self.messages(now, window);
        messages.for_each(|(_, message)| expected.add(message.over(limit_ns)));
        if windows.limits().place(limit_ns).is_some() {
            prop_assert_eq!(Over { over, uncertain }, expected, "{} {}", window, limit_ns);
        }
        let truly = self.values(now, window).filter(|value| *value > limit_ns).count() as u64;
        prop_assert!((over..=over + uncertain).contains(&truly), "{} {}", window, limit_ns);
        Ok(())
    }

    /// Counts of half an hour are all there, whichever windows are kept, each in the time of its
    /// slot.
    fn check_recent(&self, windows: &Windows, now: u64) -> Result<(), TestCaseError> {
        let limit_ns = LIMITS_NS[1];
        let recent = windows.recent(Wall(now), Window::OneMinute, limit_ns);
        prop_assert!(recent.is_sorted_by(|newer, older| newer.begin >= older.begin));
        let mut summed = (0, Over::default());
        for slot in recent {
            summed.0 += slot.samples;
            summed.1.add(slot.over);
            let in_time = |(taken, ..): &&(u64, Vec<u64>, Packed)| *taken >= slot.begin.0;
            let since = self.0.iter().filter(in_time).filter(|(taken, ..)| *taken <= now);
            prop_assert!(summed.0 <= since.map(|(_, values, _)| values.len() as u64).sum::<u64>());
        }
        let mut expected = (0, Over::default());
        for (values, message) in self.messages(now, Window::HalfHour) {
            expected.0 += values.len() as u64;
            expected.1.add(message.over(limit_ns));
        }
        prop_assert_eq!(summed, expected);
        Ok(())
    }

    fn check(&self, windows: &Windows, now: u64) -> Result<(), TestCaseError> {
        let mut shown = Vec::new();
        let mut merged = Merged::from(&histogram(&[1, 77, u64::MAX]));
        let sent = |merged: &Merged| (merged.exact(), merged.buckets().collect::<Vec<_>>());
        let mut total = merged.clone();
        windows.each_window(Wall(now), &mut merged, &mut total, |window, samples| {
            shown.push((window, sent(samples)));
        });
        prop_assert_eq!(shown.len(), windows.rings());
        for (window, one_after_the_other) in shown {
            let (naive, now) = (self.window(now, window), Wall(now));
            prop_assert_eq!(one_after_the_other, sent(&Merged::from(&naive)), "{}", window);
            prop_assert_eq!(&windows.merged(now, window), &naive);
            prop_assert_eq!(windows.exact(now, window), naive.exact());
            prop_assert_eq!(windows.has_data(now, window), !naive.is_empty());
            let sums = windows.sums(now, window, LIMITS_NS[0]);
            prop_assert_eq!(sums.samples, naive.count());
            self.check_over(windows, now.0, window)?;
        }
        self.check_recent(windows, now)?;
        let all = histogram(&self.all());
        prop_assert_eq!(windows.total_exact(), all.exact());
        prop_assert_eq!(sent(&total), sent(&Merged::from(&all)));
        prop_assert_eq!(windows.total(), all);
        let newest = self.0.iter().map(|(taken, ..)| *taken).max();
        prop_assert_eq!(windows.newest(), Wall(newest.unwrap_or(0)));
        Ok(())
    }
}

fn restarted(windows: &Windows) -> Windows {
    rmp_serde::from_slice(&rmp_serde::to_vec_named(windows).unwrap()).unwrap()
}

proptest! {
    /// Invariants 3 and 7: every window, the total and all figures equal the naive ones after every
    /// step, for any order of arrival, lateness, speed of time and restarts.
    #[test]
    fn windows_equal_a_naive_oracle(
        steps in steps(),
        up_to in prop::sample::select(&Window::ALL[1..]),
        offset in 0..SECOND * 90_000,
        phase in any::<u8>().prop_map(Phase::number),
    ) {
        let mut windows = Windows::new(&retention(up_to));
        let (mut naive, mut now) = (Naive::default(), START + offset);
        for step in steps {
            windows.expire(Wall(now), phase);
            match step {
                Step::Pass(span) => now += span,
                Step::Restart => windows = restarted(&windows),
                Step::Add(age, values) => {
                    add(&mut windows, times(Wall(now), Wall(now - age)), &values);
                    naive.add(now - age, values);
                }
            }
            naive.check(&windows, now)?;
        }
        windows.expire(Wall(now), Phase::NONE);
        naive.check(&windows, now)?;
    }

    /// The same samples in another order leave the same state, whenever slots were rolled over.
    #[test]
    fn the_order_of_arrival_leaves_no_trace(
        samples in prop::collection::vec((ages(), 1..40_000_000_u64), 1..60),
        rotated in any::<prop::sample::Index>(),
    ) {
        let now = at(5_000_000);
        let state = |samples: &[(u64, u64)]| {
            let mut windows = Windows::new(&retention(Window::ThirtyDays));
            for (age, value) in samples {
                add(&mut windows, times(now, now.minus(Duration::from_nanos(*age))), &[*value]);
            }
            rmp_serde::to_vec_named(&windows).unwrap()
        };
        let mut other = samples.clone();
        other.rotate_left(rotated.index(samples.len()));
        prop_assert_eq!(state(&samples), state(&other));
    }

    /// Other limits, and more or fewer windows, change no answer about what is still kept.
    #[test]
    fn windows_kept_in_another_way_go_on_exactly(
        ages in prop::collection::vec((ages(), 1..40_000_000_u64), 1..40),
        up_to in prop::sample::select(&Window::ALL[1..]),
    ) {
        let before = Retention { up_to: Window::HalfHour, limits: Limits::default() };
        let mut windows = Windows::new(&before);
        let now = at(5_000_000);
        let mut naive = Naive::default();
        for (age, value) in ages {
            let taken = now.minus(Duration::from_nanos(age));
            add(&mut windows, times(now, taken), &[value]);
            naive.add(taken.0, vec![value]);
        }
        let retention = retention(up_to);
        prop_assert!(!windows.is_kept(&retention));
        windows.keep(&retention);
        prop_assert!(windows.is_kept(&retention));
        prop_assert_eq!(windows.total().exact(), windows.total_exact());
        let kept = |window: &Window| *window <= up_to.min(Window::HalfHour);
        for window in Window::ALL.into_iter().filter(kept) {
            let expected = naive.window(now.0, window);
            prop_assert_eq!(&windows.merged(now, window), &expected);
            let Sums { over, uncertain, .. } = windows.sums(now, window, LIMITS_NS[0]);
            let values = naive.values(now.0, window);
            let truly = values.filter(|value| *value > LIMITS_NS[0]).count() as u64;
            prop_assert!((over..=over + uncertain).contains(&truly));
            let bound = Packed::from(&expected).over(LIMITS_NS[0]);
            prop_assert!(over >= bound.over && over + uncertain <= bound.over + bound.uncertain);
        }
    }
}

proptest! {
    /// Nothing of an operation that is evicted is lost, in no window and for no limit.
    #[test]
    fn absorbing_an_operation_equals_having_added_its_samples(
        steps in prop::collection::vec(
            (0..40_u64, 0..400_u64, 1..40_000_000_u64, any::<bool>()), 1..60,
        ),
        is_judged in any::<bool>(), later in 0..4_000_u64,
    ) {
        let plain = Retention { up_to: Window::FiveMinutes, limits: Limits::default() };
        let of_others = if is_judged { retention(Window::OneHour) } else { plain };
        let (mut into, mut both) = (Windows::new(&of_others), Windows::new(&of_others));
        let mut evicted = Windows::new(&plain);
        let mut now = 1_000;
        for (pause, age, value, is_evicted) in steps {
            now += pause;
            let times = times(at(now), at(now - age));
            let value = value | 1;
            add(&mut both, times, &[value]);
            add(if is_evicted { &mut evicted } else { &mut into }, times, &[value]);
        }
        for of in [&mut into, &mut both, &mut evicted] {
            of.expire(at(now), Phase::NONE);
        }
        into.absorb(&evicted);
        for of in [&mut into, &mut both] {
            of.expire(at(now + later), Phase::NONE);
        }
        prop_assert_eq!(into.total_exact(), both.total_exact());
        prop_assert_eq!(into.total(), both.total());
        for window in &Window::ALL[..into.rings().min(3)] {
            let shown = |of: &Windows| {
                (of.exact(at(now + later), *window), of.merged(at(now + later), *window))
            };
            prop_assert_eq!(shown(&into), shown(&both), "{:?}", window);
        }
        for limit in LIMITS_NS {
            let (Some(of_into), Some(of_both)) =
                (into.since_known(limit), both.since_known(limit))
            else {
                prop_assert!(!is_judged);
                continue;
            };
            // Samples of one slot are less certain together.
            let up_to = of_into.over + of_into.uncertain;
            let is_between = (of_into.over..=up_to).contains(&of_both.over);
            prop_assert!(of_into.samples == of_both.samples && is_between);
        }
    }
}
