//! Arbitrary clocks: samples land where they belong, are judged, and alerts fire.

use std::time::Duration;

use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Now, Wall};

use super::*;

pub(super) const YEAR: i64 = 365 * 24 * 3_600;

/// A point in time by a clock that is this many seconds off.
pub(super) fn off(wall: Wall, seconds: i64) -> Wall {
    let by = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { wall.minus(by) } else { wall.plus(by) }
}

/// Delivers one message. The broker stored it at `at`; the node sent it at `sent` by its own clock;
/// the core reads it at `now`.
pub(super) fn deliver(
    core: &mut Core,
    now: Now,
    (subject, payload): &(String, Vec<u8>),
    at: Wall,
    sent: Wall,
) {
    let message = Delivered {
        lane: Lane::Normal,
        stream_seq: 1,
        pending: 0,
        at: Some(at),
        sent: Some(sent),
        subject: subject.to_owned(),
        payload: Bytes::copy_from_slice(payload),
    };
    core.on_message(now, &message).unwrap();
}

/// A node whose clock is `by(second)` off sends thirty slow samples a second.
fn live(by: impl Fn(u32) -> i64) -> (Core, Now) {
    let (mut core, mut speaker, mut now) = (core(), Speaker::new("a"), start());
    for second in 1..=20 {
        now = start().after(SECOND * second);
        let theirs = |wall| off(wall, by(second));
        let stated_at = Now { wall: theirs(now.wall.minus(SECOND)), ..now };
        let message = speaker.send(stated_at, 30 * MS, 30);
        let stored = now.wall.plus(Duration::from_millis(3));
        let now = Now { wall: stored, ..now };
        deliver(&mut core, now, &message, stored, theirs(now.wall.minus(Duration::from_millis(3))));
        core.on_deadline(now);
    }
    (core, now)
}

fn skew(core: &Core) -> i64 {
    core.node(&NodeName::new("a").unwrap()).unwrap().skew.unwrap().ahead_ns
}

fn in_ten_seconds(core: &Core, now: Now) -> u64 {
    let (_, windows) = core.fleet.operations().iter().next().unwrap();
    windows.exact(now.wall, Window::TenSeconds).count
}

#[test]
fn however_wrong_a_clock_is_its_samples_count_in_their_time_and_its_breach_is_found() {
    let since_1970 = i64::try_from(start().wall.0 / 1_000_000_000).unwrap();
    for by in [0, YEAR, -since_1970 + 60, 3_600, -3_600, 7] {
        let (core, now) = live(|_| by);
        assert_eq!(in_ten_seconds(&core, now), 11 * 30, "{by} s off");
        assert_eq!(
            (core.fleet.counts.clock_ahead, core.fleet.counts.late_samples),
            (0, 0),
            "{by} s off"
        );
        let fired =
            core.alerting.changes().iter().filter(|change| change.state == AlertState::Firing);
        assert_eq!(fired.count(), 2, "{by} s off: the node and the fleet");
        let ahead = skew(&core) - by * 1_000_000_000;
        assert!((-4_000_000..=0).contains(&ahead), "{by} s off: {ahead}");
    }
}

#[test]
fn a_clock_that_steps_costs_nothing_while_each_message_is_sent_by_the_clock_it_was_made_by() {
    let (core, now) = live(|second| [0, YEAR, -3_600, 450][second as usize % 4]);
    assert_eq!((in_ten_seconds(&core, now), core.fleet.counts.late_samples), (11 * 30, 0));
}

#[test]
fn a_step_between_making_and_sending_costs_the_time_of_that_message_alone() {
    let (mut core, mut speaker) = (core(), Speaker::new("a"));
    let now = start();
    let message = speaker.send(Now { wall: now.wall.minus(SECOND), ..now }, MS, 10);
    // Made by the old clock, sent by one that was set a year forward; then one set back.
    deliver(&mut core, now, &message, now.wall, off(now.wall, YEAR));
    let message = speaker.send(Now { wall: off(now.wall, YEAR), ..now }, MS, 10);
    deliver(&mut core, now, &message, now.wall, now.wall);
    assert_eq!((in_ten_seconds(&core, now), core.fleet.counts.late_samples), (20, 0));
}

#[test]
fn what_waited_in_a_spool_counts_in_the_time_at_which_it_was_taken() {
    let (mut core, mut speaker) = (core(), Speaker::new("a"));
    let theirs = |seconds| Now { wall: off(start().wall, YEAR - seconds), ..start() };
    let held = speaker.send(theirs(121), MS, 10);
    deliver(&mut core, start(), &held, start().wall, theirs(0).wall);
    let (_, windows) = core.fleet.operations().iter().next().unwrap();
    assert_eq!(windows.newest(), start().wall.minus(SECOND * 120));
    assert_eq!(core.fleet.counts.late_samples, 10);
}

#[test]
fn a_broker_whose_clock_is_off_delays_nothing_that_comes_straight_from_it() {
    for by in [-3_600, 3_600] {
        let (mut core, mut speaker) = (core(), Speaker::new("a"));
        let message = speaker.send(Now { wall: start().wall.minus(SECOND), ..start() }, MS, 10);
        deliver(&mut core, start(), &message, off(start().wall, by), start().wall);
        assert_eq!(in_ten_seconds(&core, start()), 10, "{by} s off");
        assert_eq!(skew(&core), -by * 1_000_000_000);
    }
}

#[test]
fn an_aggregator_that_stood_still_dates_samples_as_one_that_did_not() {
    let stated = |second: u32, delay: u64| {
        let now = start().after(SECOND * second);
        (now.wall, now.after(Duration::from_millis(delay)))
    };
    let newest = |late: u64| {
        let (mut core, mut speaker) = (core(), Speaker::new("a"));
        for (second, delay) in [(1, 3), (2, 5), (3, late), (20, 3)] {
            let (stored, read) = stated(second, delay);
            let sent = stored.minus(Duration::from_millis(2));
            let began = Now { wall: sent.minus(SECOND), ..read };
            deliver(&mut core, read, &speaker.send(began, MS, 10), stored, sent);
            core.on_deadline(read);
        }
        let counts =
            core.fleet.operations().iter().next().map(|(_, of)| {
                Window::ALL.map(|window| of.exact(stated(20, 3).1.wall, window).count)
            });
        (counts, core.fleet.counts.late_samples)
    };
    assert_eq!(newest(9_000), newest(4));
}

#[test]
fn what_waited_in_a_socket_while_the_broker_stood_still_counts_in_the_time_it_was_taken() {
    for by in [0, YEAR] {
        let (mut core, mut speaker) = (core(), Speaker::new("a"));
        let theirs = |now: Now| Now { wall: off(now.wall, by), ..now };
        let mut stated_at = |sent: u32, stored: u32| {
            let sent = theirs(start().after(SECOND * sent));
            let message = speaker.send(Now { wall: sent.wall.minus(SECOND), ..sent }, MS, 10);
            let now = start().after(SECOND * stored);
            deliver(&mut core, now, &message, now.wall, sent.wall);
        };
        (1..=3).for_each(|second| stated_at(second, second));
        (4..=6).for_each(|second| stated_at(second, 30));
        stated_at(31, 31);
        assert_eq!(core.fleet.counts.late_samples, 30, "{by} s off");
        assert_eq!(in_ten_seconds(&core, start().after(SECOND * 31)), 10, "{by} s off");
    }
}

#[test]
fn the_best_reading_of_a_clock_holds_until_it_is_old_or_the_clock_was_set() {
    let mut node = Node::default();
    let second = 1_000_000_000;
    let skew = |at: u64, ahead: i64| Some(Skew { at: Wall(at * 1_000_000_000), ahead_ns: ahead });
    for (seen, best) in [
        (skew(10, 50), skew(10, 50)),
        (skew(11, 40), skew(10, 50)),
        (skew(9, 60), skew(10, 50)),
        (None, skew(10, 50)),
        (skew(12, 51), skew(12, 51)),
        (skew(131, 40), skew(12, 51)),
        (skew(133, 40), skew(133, 40)),
        (skew(134, -130 * second), skew(134, -130 * second)),
    ] {
        node.see_clock(seen);
        assert_eq!(node.skew, best);
    }
}

#[test]
fn an_aggregator_whose_clock_is_set_forward_puts_no_sample_into_the_past() {
    let (mut core, mut speaker) = (core(), Speaker::new("a"));
    let mut live = |core: &mut Core, second: u32, ahead: u32| {
        let sent = start().after(SECOND * second);
        let message = speaker.send(Now { wall: sent.wall.minus(SECOND), ..sent }, MS, 10);
        // The broker is on the aggregator's machine, the node is on another one.
        let now = Now { wall: sent.wall.plus(SECOND * ahead), ..sent };
        deliver(core, now, &message, now.wall, sent.wall);
        core.on_deadline(now);
        now
    };
    for second in 1..=5 {
        live(&mut core, second, 0);
    }
    let now = (6..=9).map(|second| live(&mut core, second, 60)).last().unwrap();
    let (_, windows) = core.fleet.operations().iter().next().unwrap();
    assert_eq!((windows.newest(), core.fleet.counts.late_samples), (now.wall, 0));
    assert_eq!(in_ten_seconds(&core, now), 40);
}
