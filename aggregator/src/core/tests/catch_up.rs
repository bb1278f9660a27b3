//! What happened while no aggregator ran is judged as if one had run.

use plimsoll_schemas::alert::{AlertKey, AlertState, Notification, Scope};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Now};
use proptest::prelude::*;

use super::*;

/// One message, and the second in which the broker stored it.
#[derive(Clone, Debug)]
struct Stored {
    second: u32,
    lane: Lane,
    stream_seq: u64,
    message: (String, Vec<u8>),
}

fn at(second: u32) -> Now {
    start().after(SECOND * second)
}

/// Every second one message of one of two nodes: this many milliseconds, in that lane.
fn history(seconds: &[(u64, Lane)]) -> Vec<Stored> {
    let mut speakers = ["a", "b"].map(Speaker::new);
    let mut lanes = [0, 0];
    let send = |(second, (ms, lane)): (u32, &(u64, Lane))| {
        lanes[*lane as usize] += 1;
        let speaker = &mut speakers[second as usize % 2];
        let message = speaker.send(at(second), ms * MS, 60);
        Stored { second, lane: *lane, stream_seq: lanes[*lane as usize], message }
    };
    (1..).zip(seconds).map(send).collect()
}

fn deliver(core: &mut Core, now: Now, stored: &Stored, stamped: bool) {
    let Stored { second, lane, stream_seq, message: (subject, payload) } = stored;
    let (lane, stream_seq, pending) = (*lane, *stream_seq, 0);
    let at = stamped.then(|| at(*second).wall);
    core.on_message(
        now,
        &Delivered {
            lane,
            stream_seq,
            pending,
            at,
            sent: None,
            subject: subject.to_owned(),
            payload: Bytes::copy_from_slice(payload),
        },
    )
    .unwrap();
}

/// A core that is there all the time.
fn watch(core: &mut Core, history: &[Stored]) {
    for stored in history {
        deliver(core, at(stored.second), stored, true);
        core.on_deadline(at(stored.second));
    }
}

/// The core that comes after, at `second`, with all of `history` in its streams.
fn restart(core: &mut Core, second: u32, history: &[Stored]) -> Core {
    let mut records = StoredRecords::default();
    core.on_changes_lost();
    records.write(core.take_changes(start().wall).unwrap());
    let checkpoint = records.read().unwrap();
    let (mesh, budgets) = (core.mesh.clone(), core.rules().budgets.clone());
    let mut core = Core::restore(mesh, budgets, at(second), checkpoint);
    for lane in Lane::ALL {
        let of_lane = history.iter().filter(|stored| stored.lane == lane);
        core.on_positioned(lane, 1, of_lane.map(|stored| stored.stream_seq).max().unwrap_or(0), "");
    }
    core
}

/// Reads at most `max` messages that are not read yet, as the driver does: of the lane that
/// lags, if there is one.
fn read_on(core: &mut Core, now: Now, history: &[Stored], max: usize) {
    for _ in 0..max {
        let unread = |stored: &&Stored| stored.stream_seq > core.position(stored.lane).read;
        let preferred = core.ingest.lags();
        let mut unread: Vec<&Stored> = history.iter().filter(unread).collect();
        unread.sort_by_key(|stored| (Some(stored.lane) != preferred, stored.stream_seq));
        let Some(stored) = unread.first() else { break };
        deliver(core, now, stored, true);
    }
}

fn moves(notifications: &[Notification]) -> Vec<(AlertKey, AlertState, AlertState, f64)> {
    notifications.iter().map(|n| (n.key.clone(), n.from, n.state, n.at_seconds)).collect()
}

fn samples(core: &Core) -> u64 {
    core.view(at(0).wall, "test").summary.operations[0].total.count
}

const NORMAL: Lane = Lane::Normal;

fn breach_from_11_to_20() -> Vec<Stored> {
    let seconds: Vec<(u64, Lane)> =
        (1..=60).map(|second| (if (11..=20).contains(&second) { 30 } else { 5 }, NORMAL)).collect();
    history(&seconds)
}

#[test]
fn a_breach_that_began_and_ended_in_the_gap_fires_and_resolves_late() {
    let history = breach_from_11_to_20();
    let mut straight = core();
    watch(&mut straight, &history);
    let mut cut = core();
    watch(&mut cut, &history[..8]);
    let mut cut = restart(&mut cut, 60, &history);
    read_on(&mut cut, at(60), &history, 100);
    cut.on_deadline(at(60));
    assert_eq!(moves(cut.alerting.changes()), moves(straight.alerting.changes()));
    let fleet =
        cut.alerting.changes().iter().filter(|notification| notification.key.scope == Scope::Fleet);
    let states: Vec<AlertState> = fleet.map(|notification| notification.state).collect();
    assert_eq!(states, [AlertState::Pending, AlertState::Firing, AlertState::Resolved]);
    let present = at(60).wall.0 as f64 / 1e9;
    for notification in cut.alerting.changes() {
        assert!(
            (notification.at_seconds + notification.late_seconds - present).abs() < 1e-3,
            "{notification:?}"
        );
        assert!(notification.late_seconds > 20.0, "{notification:?}");
    }
    assert!(
        straight.alerting.changes().iter().all(|notification| notification.late_seconds == 0.0)
    );
    assert_eq!((samples(&cut), samples(&straight)), (3_600, 3_600));
}

#[test]
fn an_ongoing_breach_is_sent_once_and_the_present_is_judged_in_time() {
    let mut history = breach_from_11_to_20();
    history.truncate(18);
    let mut cut = core();
    watch(&mut cut, &history[..8]);
    let mut cut = restart(&mut cut, 18, &history);
    read_on(&mut cut, at(18), &history, 100);
    for second in 18..=22 {
        cut.on_deadline(at(second));
    }
    let fired = |notification: &&Notification| notification.state == AlertState::Firing;
    assert_eq!(cut.alerting.changes().iter().filter(fired).count(), 3, "two nodes and the fleet");
    assert!(!cut.ingest.is_catching_up());
}

#[test]
fn a_start_without_a_checkpoint_raises_nothing_about_yesterday() {
    let history = breach_from_11_to_20();
    let mut fresh = Core::new(core().mesh.clone(), core().rules().budgets.clone(), at(600));
    fresh.on_positioned(Lane::Emergency, 0, 0, "");
    fresh.on_positioned(NORMAL, 1, 60, "");
    read_on(&mut fresh, at(600), &history, 100);
    fresh.on_deadline(at(601));
    assert!(
        fresh.is_ready() && fresh.alerting.changes().is_empty(),
        "{:#?}",
        fresh.alerting.changes()
    );
    assert_eq!(samples(&fresh), 3_600);
}

#[test]
fn messages_without_a_time_are_counted_and_only_the_present_is_judged() {
    let history = breach_from_11_to_20();
    let mut cut = core();
    watch(&mut cut, &history[..8]);
    let mut cut = restart(&mut cut, 600, &history);
    history[8..].iter().for_each(|stored| deliver(&mut cut, at(600), stored, false));
    cut.on_deadline(at(601));
    assert_eq!((cut.alerting.changes().len(), samples(&cut)), (0, 3_600));
}

#[test]
fn a_lane_holds_time_back_until_its_past_is_read_and_is_read_first_meanwhile() {
    let seconds: Vec<(u64, Lane)> =
        (1..=60).map(|second| (5, if second == 9 { Lane::Emergency } else { NORMAL })).collect();
    let history = history(&seconds);
    let mut cut = core();
    watch(&mut cut, &history[..5]);
    let mut cut = restart(&mut cut, 60, &history);
    let judged = |core: &Core| core.ingest.judged_up_to();
    history[5..8].iter().for_each(|stored| deliver(&mut cut, at(60), stored, true));
    assert_eq!((judged(&cut), cut.ingest.lags()), (Some(at(5).wall), Some(Lane::Emergency)));
    deliver(&mut cut, at(60), &history[8], true);
    assert_eq!((judged(&cut), cut.ingest.lags()), (Some(at(7).wall), Some(NORMAL)));
    deliver(&mut cut, at(60), &history[29], true);
    assert_eq!(judged(&cut), Some(at(29).wall));
}

#[test]
fn a_clock_set_back_while_down_ends_catch_up_at_once() {
    let history = breach_from_11_to_20();
    let mut cut = core();
    watch(&mut cut, &history);
    let mut cut = restart(&mut cut, 3, &history);
    cut.on_deadline(Now { mono: Mono(u64::MAX), ..at(3) });
    assert!(!cut.ingest.is_catching_up());
}

proptest! {
    /// The same moves at the same times as a core that was never away, with restarts while it
    /// catches up, and whichever lane each message came in.
    #[test]
    fn a_core_that_was_away_makes_the_moves_of_one_that_was_not(
        seconds in prop::collection::vec(
            (prop::sample::select(&[5_u64, 5, 30][..]), any::<bool>()), 4..20,
        ),
        cut in 0..20_usize,
        restarts in prop::collection::vec(0..40_usize, 0..3),
    ) {
        let lane = |emergency| if emergency { Lane::Emergency } else { NORMAL };
        // Some seconds each, so that breaches last long enough to fire.
        let long = seconds.iter().flat_map(|(ms, emergency)| [(*ms, lane(*emergency)); 5]);
        let history = history(&long.collect::<Vec<_>>());
        let last = history[history.len() - 1].second;
        let mut straight = core();
        watch(&mut straight, &history);
        let mut away = core();
        watch(&mut away, &history[..cut]);
        let mut away = restart(&mut away, last, &history);
        for max in restarts {
            read_on(&mut away, at(last), &history, max);
            away.on_deadline(at(last));
            away = restart(&mut away, last, &history);
        }
        read_on(&mut away, at(last), &history, usize::MAX);
        away.on_deadline(at(last));
        prop_assert_eq!(moves(away.alerting.changes()), moves(straight.alerting.changes()));
        prop_assert_eq!(samples(&away), samples(&straight));
    }
}
