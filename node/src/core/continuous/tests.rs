//! Turns of watched processes, by example and for whatever happens.

use proptest::prelude::*;

use super::*;
use plimsoll_schemas::wire::capture::CaptureRefusal;

const SECOND: Duration = Duration::from_secs(1);
const TURNS: Turns = Turns { hz: 19, native: false, every: Duration::from_secs(10) };
const BOTH: ContinuousBounds =
    ContinuousBounds { by_name: true, senders: true, turns: Some(TURNS) };

fn at(seconds: u64) -> Mono {
    Mono(nanos(SECOND) * seconds)
}

fn sender(pid: u32, millis: u64) -> SendingProcess {
    SendingProcess { pid, alive_at: BootMillis(millis) }
}

fn end(id: CaptureId, state: CaptureState) -> CaptureEnd {
    let profile = if state.has_profile() { Bytes::from_static(b"p") } else { Bytes::new() };
    CaptureEnd { id, state, facts: CaptureFacts::default(), profile }
}

/// All that is to be done now, without what is to be found.
fn starts(continuous: &mut Continuous, now: Mono, ordered: Option<u32>) -> Vec<CaptureStart> {
    let effects = std::iter::from_fn(|| continuous.next_effect(now, |pid| Some(pid) == ordered));
    effects
        .filter_map(|effect| match effect {
            ContinuousEffect::Start(start) => Some(start),
            ContinuousEffect::Find => None,
        })
        .collect()
}

fn outcome(continuous: &Continuous, outcome: &'static str, reason: &'static str) -> u64 {
    let stats = continuous.stats().unwrap();
    stats.outcomes.get(&(outcome, reason)).copied().unwrap_or_default()
}

fn assert_balanced(continuous: &Continuous) {
    let stats = continuous.stats().unwrap();
    let ended: u64 = stats.outcomes.values().sum();
    assert_eq!(stats.turns, ended + stats.running + stats.storing, "{stats:?}");
    assert!(stats.watched <= CONTINUOUS_PROCESSES_MAX as u64);
}

#[test]
fn without_bounds_nothing_is_watched_or_searched() {
    let mut off = Continuous::default();
    assert!(!off.is_searching(at(0)));
    off.on_sender(at(0), sender(7, 1));
    assert_eq!((off.next_deadline(), off.next_effect(at(9), |_| false)), (None, None));
    assert_eq!(off.stats(), None);
}

#[test]
fn an_order_has_priority_over_settings_while_it_lasts() {
    let mut continuous = Continuous::new(ContinuousBounds { turns: None, ..BOTH });
    assert_eq!(continuous.next_effect(at(1), |_| false), None, "settings are off");
    let ordered = Turns { hz: 97, native: true, every: 60 * SECOND };
    continuous.set_ordered(at(1), Some(ordered));
    assert_eq!(continuous.next_effect(at(1), |_| false), Some(ContinuousEffect::Find));
    continuous.on_found(at(1), &[7]);
    let [start] = &starts(&mut continuous, at(1), None)[..] else { panic!("one is due") };
    assert_eq!((start.order.hz, start.order.native, start.order.seconds), (97, true, 10));
    continuous.on_ended(at(12), end(start.id, CaptureState::Kept));
    assert_eq!(starts(&mut continuous, at(60), None), []);
    assert_eq!(starts(&mut continuous, at(61), None).len(), 1, "a minute after the one before");

    continuous.set_ordered(at(62), None);
    assert_eq!(continuous.next_effect(at(62), |_| false), None);
    assert!(continuous.next_deadline().is_some(), "one runs");
    assert_eq!(continuous.next_effect(at(300), |_| false), None, "it is given up");
    assert_eq!((continuous.next_deadline(), continuous.stats().unwrap().running), (None, 0));
    assert_balanced(&continuous);
}

#[test]
fn an_order_searches_senders_at_once() {
    let mut continuous = Continuous::new(ContinuousBounds { turns: None, ..BOTH });
    assert!(!continuous.is_searching(at(60)), "settings are off");
    continuous.set_ordered(at(90), Some(TURNS));
    let searching = [90, 94, 95, 120].map(|second| continuous.is_searching(at(second)));
    assert_eq!(searching, [true, true, false, true]);
}

#[test]
fn another_interval_counts_from_the_last_turn() {
    let long = Turns { every: 3_600 * SECOND, ..TURNS };
    for (settings, ordered, due) in [(TURNS, Some(long), 3_601), (long, Some(TURNS), 11)] {
        let bounds = ContinuousBounds { turns: Some(settings), ..BOTH };
        let mut continuous = Continuous::new(bounds);
        continuous.on_found(at(1), &[7]);
        let [start] = &starts(&mut continuous, at(1), None)[..] else { panic!("one is due") };
        continuous.on_ended(at(2), end(start.id, CaptureState::Kept));
        continuous.set_ordered(at(2), ordered);
        continuous.on_found(at(due - 1), &[7]);
        assert_eq!(starts(&mut continuous, at(due - 1), None), [], "{due}");
        assert_eq!(starts(&mut continuous, at(due), None).len(), 1, "{due}");
    }
}

#[test]
fn a_process_is_captured_back_to_back() {
    let mut continuous = Continuous::new(BOTH);
    assert_eq!(continuous.next_effect(at(1), |_| false), Some(ContinuousEffect::Find));
    continuous.on_found(at(1), &[7]);
    continuous.on_sender(at(2), sender(7, 2_000));
    let [start] = &starts(&mut continuous, at(2), None)[..] else { panic!("one is due") };
    let ProfilerOrder { pid, seconds, hz, alive_at, .. } = start.order;
    assert_eq!((pid, seconds, hz, alive_at), (7, 10, 19, Some(BootMillis(2_000))));
    assert_eq!(starts(&mut continuous, at(9), None), [], "it runs");

    let kept = continuous.on_ended(at(12), end(start.id, CaptureState::Kept));
    assert!(matches!(kept, Ended::Store(KeptProfile { pid: 7, .. })), "{kept:?}");
    assert_eq!(starts(&mut continuous, at(12), None).len(), 1, "at once");
    continuous.on_stored(Ok(()));
    assert_eq!(outcome(&continuous, "stored", ""), 1);
    assert_balanced(&continuous);
}

#[test]
fn an_ordered_capture_takes_the_turn() {
    let mut continuous = Continuous::new(BOTH);
    continuous.on_found(at(0), &[7, 8]);
    let started = starts(&mut continuous, at(0), Some(7));
    assert_eq!(started.iter().map(|of| of.order.pid).collect::<Vec<_>>(), [8]);
    assert_eq!(outcome(&continuous, "skipped", "ordered"), 1);
    assert_eq!(starts(&mut continuous, at(10), None)[0].order.pid, 7);
    assert_balanced(&continuous);
}

#[test]
fn what_is_refused_is_reported_once_and_waits_ever_longer() {
    let mut continuous = Continuous::new(BOTH);
    let refused = CaptureState::Refused(CaptureRefusal::ProcessNotPermitted);
    let (mut now, mut pauses) = (0, Vec::new());
    for turn in 0..9 {
        continuous.on_found(at(now), &[7]);
        let [start] = &starts(&mut continuous, at(now), None)[..] else { panic!("it is due") };
        let reported = continuous.on_ended(at(now), end(start.id, refused));
        assert_eq!(matches!(reported, Ended::Report(_)), turn == 0, "{reported:?}");
        let before = now;
        while starts_at(&mut continuous, now).is_none() {
            now += 10;
            continuous.on_found(at(now), &[7]);
        }
        pauses.push(now - before);
    }
    assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
    assert_eq!(outcome(&continuous, "refused", "process_not_permitted"), 9);
    assert_balanced(&continuous);
}

/// Whether the process is due, without its turn.
fn starts_at(continuous: &mut Continuous, now: u64) -> Option<Mono> {
    continuous.find_at = at(u64::MAX >> 32);
    continuous.next_deadline().filter(|due| *due <= at(now))
}

#[test]
fn a_process_that_is_not_found_again_is_forgotten() {
    let mut continuous = Continuous::new(BOTH);
    continuous.on_sender(at(0), sender(7, 1));
    continuous.on_sender(at(30), sender(8, 1));
    assert_eq!(continuous.stats().unwrap().watched, 1, "the second was not searched for");
    let started = starts(&mut continuous, at(0), None);
    let _kept = continuous.on_ended(at(10), end(started[0].id, CaptureState::Kept));
    assert_eq!(starts(&mut continuous, at(300), None), []);
    assert_eq!(continuous.stats().unwrap().watched, 0);
}

#[test]
fn a_capture_without_an_end_is_given_up() {
    let mut continuous = Continuous::new(BOTH);
    continuous.on_found(at(0), &[7]);
    let started = starts(&mut continuous, at(0), None);
    assert_eq!(starts(&mut continuous, at(25), None), []);
    assert_eq!(outcome(&continuous, "failed", "profiler_timeout"), 1);
    let late = continuous.on_ended(at(26), end(started[0].id, CaptureState::Kept));
    assert_eq!(late, Ended::Nothing);
    assert_balanced(&continuous);
}

proptest! {
    /// Every turn ends as stored, dropped, refused, failed or skipped, or is under way.
    #[test]
    fn the_ledger_balances_whatever_happens(
        steps in prop::collection::vec((0_u8..7, 0_u32..20, 0_u64..40), 0..200),
    ) {
        let (mut continuous, mut now) = (Continuous::new(BOTH), 0);
        let mut running = Vec::new();
        for (step, of, seconds) in steps {
            now += seconds;
            let ordered = (of % 2 == 0).then_some(of);
            let id = (!running.is_empty()).then(|| running[of as usize % running.len()]);
            match (step, id) {
                (0, _) => continuous.on_found(at(now), &[of, of + 1]),
                (1, _) => continuous.on_sender(at(now), sender(of, now)),
                (2 | 3, _) => {
                    let started = starts(&mut continuous, at(now), ordered);
                    running.extend(started.iter().map(|start| start.id));
                }
                (4, Some(id)) => {
                    let kept = continuous.on_ended(at(now), end(id, CaptureState::Torn));
                    let stored = if of % 3 == 0 { Err("disk_full") } else { Ok(()) };
                    if let Ended::Store(_) = kept {
                        continuous.on_stored(stored);
                    }
                }
                (_, Some(id)) => {
                    let failed = CaptureState::Failed(CaptureFailure::Denied);
                    let _reported = continuous.on_ended(at(now), end(id, failed));
                }
                _ => {}
            }
            assert_balanced(&continuous);
        }
    }
}
