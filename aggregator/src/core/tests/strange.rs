//! Nodes that are late, out of order, doubled, or wrong about the time: no sample is lost or
//! counted twice, and the answers stay those of the aggregator's own clock.

use crate::limits::{INCARNATION_AHEAD_MAX, SEQ_AHEAD_MAX};
use plimsoll_schemas::wire::Bus;

use super::checkpoint::restarted;
use super::*;

/// A node's own clock, this many seconds off.
fn off(now: Now, seconds: i64) -> Now {
    let by = Duration::from_secs(seconds.unsigned_abs());
    let wall = if seconds < 0 { now.wall.minus(by) } else { now.wall.plus(by) };
    Now { wall, ..now }
}

/// Samples of `epoch_hook` in the fleet: in all, in the last ten seconds, in five minutes.
fn counts(core: &Core, now: Now) -> (u64, u64, u64) {
    let row = fleet_row(core, now);
    let window = |window| row.windows[&window].quantiles.count;
    (row.total.count, window(Window::TenSeconds), window(Window::FiveMinutes))
}

/// A node sends ten samples a second for twenty seconds, by a clock that is `by(second)` off.
fn live(core: &mut Core, speaker: &mut Speaker, ms: u64, by: impl Fn(u32) -> i64) -> Now {
    let mut now = start();
    for second in 1..=20 {
        now = start().after(SECOND * second);
        let message = speaker.send(off(now, by(second)), ms * MS, 10);
        deliver(core, now, &message);
        core.on_deadline(now);
    }
    now
}

#[test]
fn a_clock_minutes_ahead_is_taken_as_now_and_its_breach_is_found() {
    let mut core = core();
    let now = live(&mut core, &mut Speaker::new("a"), 30, |_| 300);
    let state = core.view(now.wall, "test").summary.budgets[0].alert;
    assert_eq!((counts(&core, now), state), ((200, 110, 200), AlertState::Firing));
    assert_eq!((core.fleet.counts.clock_ahead, core.fleet.counts.late_samples), (20, 0));
}

#[test]
fn a_clock_minutes_behind_costs_time_resolution_and_no_sample() {
    let mut core = core();
    let now = live(&mut core, &mut Speaker::new("a"), 5, |_| -120);
    assert_eq!(counts(&core, now), (200, 0, 200));
    assert_eq!((core.fleet.counts.clock_ahead, core.fleet.counts.late_samples), (0, 200));
    let row = core.view(now.wall, "test").summary.nodes.remove(0);
    assert_eq!((row.presence, row.ledger.is_settled()), (Presence::Up, true));
}

#[test]
fn a_clock_that_jumps_back_and_forth_loses_and_doubles_nothing() {
    let mut core = core();
    let mut speaker = Speaker::new("a");
    let now = live(&mut core, &mut speaker, 5, |second| [0, 600, -600][second as usize % 3]);
    let (total, ten_seconds, five_minutes) = counts(&core, now);
    // A third in time, a third taken as now, a third too old for any window.
    assert_eq!((total, ten_seconds, five_minutes), (200, 70, 130));
    assert_eq!((core.fleet.counts.clock_ahead, core.fleet.counts.late_samples), (7, 70));
    let row = core.view(now.wall, "test").summary.nodes.remove(0);
    assert_eq!((row.presence, row.ledger.is_settled()), (Presence::Up, true));
    assert_eq!(core.fleet.nodes().values().next().unwrap().account.conflicts(), 0);
}

#[test]
fn a_delayed_message_fills_its_place_in_the_account_and_in_its_windows() {
    let mut core = core();
    let mut speaker = Speaker::new("a");
    let delayed = speaker.send(start(), 5 * MS, 10);
    let now = live(&mut core, &mut speaker, 5, |_| 0);
    let before = core.view(now.wall, "test").summary.nodes.remove(0);
    deliver(&mut core, now, &delayed);
    let after = core.view(now.wall, "test").summary.nodes.remove(0);
    assert_eq!((before.ledger.unread, after.ledger.unread), (10, 0));
    assert_eq!(counts(&core, now), (210, 110, 210));
    assert_eq!(core.fleet.counts.late_samples, 10);
}

#[test]
fn messages_in_reverse_order_and_each_twice_are_each_merged_once() {
    let mut core = core();
    let mut speaker = Speaker::new("a");
    let sent: Vec<_> = (0..50).map(|_| speaker.send(start(), 5 * MS, 10)).collect();
    for message in sent.iter().rev().flat_map(|message| [message, message]) {
        deliver(&mut core, start(), message);
    }
    let row = core.view(start().wall, "test").summary.nodes.remove(0);
    assert_eq!((row.ledger.merged, row.ledger.is_settled()), (500, true));
    assert_eq!(core.fleet.counts.duplicates, 50);
}

#[test]
fn a_node_restarts_under_its_name_and_its_later_incarnation_counts_with_any_clock() {
    let bus = |outbox_depth| Body::Bus(Bus { outbox_depth, ..Bus::default() });
    // A clock set back names the later incarnation by a smaller number.
    for (first, second, crash_report_first) in
        [(100, 200, false), (200, 100, false), (100, 200, true), (200, 100, true)]
    {
        let mut core = core();
        let mut before = Speaker::new("a").of(first);
        let mut after = Speaker::new("a").of(second);
        deliver(&mut core, start(), &before.send(start(), 5 * MS, 10));
        let kept = before.message(start(), bus(7), false);
        let crash_report = before.crash_report(start(), second);
        if crash_report_first {
            deliver(&mut core, start(), &crash_report);
        }
        deliver(&mut core, start(), &after.message(start(), bus(1), false));
        // What the crashed incarnation had kept comes after messages of the later incarnation.
        deliver(&mut core, start(), &kept);
        deliver(&mut core, start(), &crash_report);
        deliver(&mut core, start(), &after.message(start(), bus(2), false));
        let row = core.view(start().wall, "test").summary.nodes.remove(0);
        assert_eq!((row.outbox_depth, row.presence), (2, Presence::Up), "{first} {second}");
        assert!(row.ledger.is_settled(), "{:?}", row.ledger);
        deliver(&mut core, start(), &after.final_message(start()));
        let row = core.view(start().wall, "test").summary.nodes.remove(0);
        assert_eq!(row.presence, Presence::Left);
    }
}

#[test]
fn crash_reports_are_no_news_even_if_the_incarnation_is_new() {
    let bus = |outbox_depth| Body::Bus(Bus { outbox_depth, ..Bus::default() });
    let mut core = core();
    let (mut before, mut after) = (Speaker::new("a").of(1), Speaker::new("a").of(2));
    let kept = before.message(start(), bus(7), false);
    deliver(&mut core, start(), &after.message(start(), bus(1), false));
    deliver(&mut core, start(), &kept);
    deliver(&mut core, start(), &before.crash_report(start(), 2));
    deliver(&mut core, start(), &after.message(start(), bus(2), false));
    let row = core.view(start().wall, "test").summary.nodes.remove(0);
    assert_eq!((row.outbox_depth, row.presence), (2, Presence::Up));
}

#[test]
fn forged_incarnations_of_the_far_future_are_refused_and_make_nothing_real_old() {
    let mut core = core();
    let mut real = Speaker::new("a").of(start().wall.0);
    deliver(&mut core, start(), &real.send(start(), 5 * MS, 10));
    for n in 0..300 {
        deliver(&mut core, start(), &Speaker::new("a").of(u64::MAX - n).send(start(), MS, 1));
    }
    deliver(&mut core, start(), &real.send(start(), 5 * MS, 10));
    let mut core = restarted(&mut core, start());
    let mut later = Speaker::new("a").of(start().after(SECOND).wall.0);
    deliver(&mut core, start(), &later.send(start(), 5 * MS, 10));
    let counts = &core.fleet.counts;
    assert_eq!((fleet_row(&core, start()).total.count, counts.of_evicted_incarnations), (30, 0));
    assert_eq!(core.ingest.undecodable, BTreeMap::from([("incarnation".into(), 300)]));
    // A clock that is a day ahead is borne, to the nanosecond.
    let ahead = start().wall.plus(INCARNATION_AHEAD_MAX).0;
    for (began, merged) in [(ahead, 31), (ahead + 1, 31)] {
        deliver(&mut core, start(), &Speaker::new("b").of(began).send(start(), MS, 1));
        assert_eq!(fleet_row(&core, start()).total.count, merged);
    }
}

/// A node's message with a number and with totals of its own.
fn numbered(now: Now, seq: u64, recorded: u64, outbox_depth: u64) -> (String, Vec<u8>) {
    let header = Header {
        node: NodeName::new("a").unwrap(),
        incarnation: Incarnation(1),
        seq: Seq(seq),
        start: now.wall,
        length_ns: 1,
        totals: Totals { recorded, lost: BTreeMap::new() },
        last: false,
        successor: None,
        labels: Labels::default(),
    };
    let body = Body::Bus(Bus { outbox_depth, ..Bus::default() });
    let payload = wire::encode(&Snapshot { header, body });
    ("plimsoll.v1.m.normal.a.bus".to_owned(), payload)
}

#[test]
fn a_forged_sequence_number_far_ahead_does_not_win_over_the_real_ones() {
    let mut core = core();
    let row = |core: &Core| {
        let row = core.view(start().wall, "test").summary.nodes.remove(0);
        (row.outbox_depth, row.ledger.recorded, row.ledger.held)
    };
    deliver(&mut core, start(), &numbered(start(), 1, 0, 1));
    for forged in [SEQ_AHEAD_MAX + 2, 1 << 40, 1 << 53] {
        deliver(&mut core, start(), &numbered(start(), forged, 1 << 50, 999));
        assert_eq!(row(&core), (1, 0, 0), "{forged}");
    }
    deliver(&mut core, start(), &numbered(start(), 2, 0, 2));
    assert_eq!((row(&core), core.ingest.undecodable["sequence"]), ((2, 0, 0), 3));
    // After hours in which nothing was received as many may be missing.
    let later = start().after(3_600 * SECOND);
    deliver(&mut core, later, &numbered(later, 200_000, 7, 3));
    assert_eq!((row(&core).0, core.ingest.undecodable["sequence"]), (3, 3));
}

#[test]
fn forged_incarnations_of_today_make_no_living_incarnation_and_no_later_one_an_old_one() {
    let mut core = core();
    let mut real = Speaker::new("a").of(start().wall.0);
    (0..80).for_each(|_| deliver(&mut core, start(), &real.send(start(), 5 * MS, 1)));
    for n in 1..=300 {
        let forged = start().after(SECOND * n).wall.0;
        deliver(&mut core, start(), &Speaker::new("a").of(forged).send(start(), MS, 0));
    }
    deliver(&mut core, start(), &real.send(start(), 5 * MS, 10));
    assert_eq!(fleet_row(&core, start()).total.count, 90);
    let mut core = restarted(&mut core, start());
    deliver(&mut core, start(), &real.send(start(), 5 * MS, 10));
    let mut later = Speaker::new("a").of(start().wall.0 + 7);
    deliver(&mut core, start(), &later.send(start(), 5 * MS, 10));
    assert_eq!(fleet_row(&core, start()).total.count, 110);
    assert_eq!(core.fleet.counts.of_evicted_incarnations, 0);
}

#[test]
fn a_node_whose_clock_is_ahead_may_have_sent_as_much_in_an_outage_as_others() {
    let mut core = core();
    let ahead = |now: Now| Now { wall: now.wall.plus(SECOND * 7_200), ..now };
    let message = |now: Now, seq| numbered(ahead(now), seq, 0, seq);
    deliver(&mut core, start(), &message(start(), 1));
    let later = start().after(SECOND * 3_600);
    deliver(&mut core, later, &message(later, 10_000));
    assert_eq!(core.view(later.wall, "test").summary.nodes[0].outbox_depth, 10_000);
    assert_eq!(core.ingest.undecodable.get("sequence"), None);
}
