//! Message delivery as an operation: from a node's sending to merged, whatever the clocks show.

use std::time::Duration;

use plimsoll_schemas::alert::AlertState::Firing;
use plimsoll_schemas::histogram::ExactFigures;
use plimsoll_schemas::own_operations::MESSAGE_DELIVERY;

use super::event_time::{YEAR, deliver, off};
use super::*;
use crate::core::tests::checkpoint::restarted;

/// Clocks, in seconds that they are ahead of the aggregator's.
#[derive(Clone, Copy, Debug, Default)]
struct Clocks {
    node: i64,
    broker: i64,
}

/// A message's times, in milliseconds: to the broker, there until it is merged, and the round trip
/// that its node reports.
#[derive(Clone, Copy, Debug)]
struct Times {
    way: u32,
    waits: u32,
    round_trip: Option<u64>,
}

const FAST: Times = Times { way: 3, waits: 20, round_trip: Some(6) };
const MILLISECOND: Duration = Duration::from_millis(1);

/// A node that sends a message each second, and the aggregator that merges it.
struct LossyLink {
    core: Core,
    speaker: Speaker,
    clocks: Clocks,
    second: u32,
    now: Now,
}

impl LossyLink {
    fn new(clocks: Clocks) -> Self {
        let mut core = core();
        judge_by(&mut core, shipped());
        Self { core, speaker: Speaker::new("a"), clocks, second: 0, now: start() }
    }

    /// The next second's message is sent, stored and merged, and the second ends.
    fn send(&mut self, times: Times) {
        self.second += 1;
        let sent = start().after(SECOND * self.second);
        self.merge(sent, times);
        self.core.on_deadline(self.now);
    }

    fn merge(&mut self, sent: Now, Times { way, waits, round_trip }: Times) {
        let stored = sent.after(MILLISECOND * way);
        self.now = stored.after(MILLISECOND * waits);
        let round_trip_ns = round_trip.map(|ms| ms * MS);
        let bus = Body::Bus(Bus { round_trip_ns, ..Bus::default() });
        let message = self.speaker.message(sent, bus, false);
        let (at, sent) = (off(stored.wall, self.clocks.broker), off(sent.wall, self.clocks.node));
        deliver(&mut self.core, self.now, &message, at, sent);
    }

    fn delivered(&self) -> Option<ExactFigures> {
        delivered(&self.core)
    }

    /// The longest delivery, in milliseconds.
    fn longest(&self) -> u64 {
        self.delivered().unwrap().max_ns / MS
    }
}

fn delivered(core: &Core) -> Option<ExactFigures> {
    let operation = Operation::new(MESSAGE_DELIVERY).unwrap();
    Some(core.fleet.operations().get(&operation)?.total_exact())
}

#[test]
fn however_wrong_a_nodes_clock_is_its_deliveries_are_what_they_are() {
    for node in [0, 7, -7, YEAR, -YEAR] {
        let mut link = LossyLink::new(Clocks { node, ..Clocks::default() });
        (0..20).for_each(|_| link.send(FAST));
        let ExactFigures { count, min_ns, max_ns, .. } = link.delivered().unwrap();
        assert_eq!((count, min_ns, max_ns), (20, 23 * MS, 23 * MS), "{node} s off");
    }
}

#[test]
fn a_link_that_becomes_slow_or_always_was_is_part_of_the_delivery_once() {
    for node in [0, -YEAR] {
        let clocks = Clocks { node, ..Clocks::default() };
        let mut link = LossyLink::new(clocks);
        (0..5).for_each(|_| link.send(FAST));
        let slow = Times { way: 403, round_trip: Some(806), ..FAST };
        (0..5).for_each(|_| link.send(slow));
        assert_eq!(link.longest(), 403 + 20, "{node} s off");
        // One message alone took longer; the round trip was measured before.
        link.send(Times { way: 903, ..FAST });
        assert_eq!(link.longest(), 900 + 20, "{node} s off");
        let mut link = LossyLink::new(clocks);
        (0..5).for_each(|_| link.send(slow));
        assert_eq!(link.longest(), 403 + 20, "{node} s off");
    }
}

#[test]
fn a_clock_that_is_set_back_by_minutes_is_no_delay() {
    let mut link = LossyLink::new(Clocks::default());
    (0..5).for_each(|_| link.send(FAST));
    link.clocks.node = -YEAR;
    (0..5).for_each(|_| link.send(FAST));
    assert_eq!((link.longest(), link.delivered().unwrap().count), (23, 10));
}

#[test]
fn a_broker_whose_clock_is_ahead_hides_its_own_part_and_never_makes_one_negative() {
    let mut link = LossyLink::new(Clocks { broker: 3_600, ..Clocks::default() });
    (0..5).for_each(|_| link.send(FAST));
    assert_eq!((link.longest(), link.delivered().unwrap().min_ns), (3, 3 * MS));
}

#[test]
fn what_waited_while_the_broker_restarted_is_no_slow_delivery() {
    let mut link = LossyLink::new(Clocks::default());
    (0..5).for_each(|_| link.send(FAST));
    link.core.on_bus_event(link.now.mono, &connected());
    // Stored before the connection was made, and soon after.
    (0..5).for_each(|_| link.send(Times { waits: 600, ..FAST }));
    assert_eq!((link.longest(), link.delivered().unwrap().count), (23, 5));
    (0..3).for_each(|_| link.send(Times { waits: 600, ..FAST }));
    assert_eq!(link.longest(), 603);
}

#[test]
fn what_waits_in_the_stream_while_an_aggregator_runs_was_delivered_late() {
    let mut link = LossyLink::new(Clocks { node: YEAR, ..Clocks::default() });
    (0..5).for_each(|_| link.send(FAST));
    link.send(Times { waits: 30_000, ..FAST });
    assert_eq!(link.longest(), 30_003);
}

#[test]
fn a_message_counts_once_when_its_second_ends_and_in_no_ledger() {
    let mut link = LossyLink::new(Clocks::default());
    let ledger = link.core.view(link.now.wall, "t").summary.ledger;
    (0..10).for_each(|_| link.merge(start(), FAST));
    assert_eq!(link.delivered(), None, "the second has not ended");
    link.core.on_deadline(start().after(SECOND));
    assert_eq!(link.delivered().unwrap().count, 10);
    link.core.on_deadline(start().after(2 * SECOND));
    assert_eq!(link.delivered().unwrap().count, 10);
    let summary = link.core.view(link.now.wall, "t").summary;
    assert_eq!((summary.ledger, summary.samples.unwrap().own), (ledger, 10));
    assert!(link.core.fleet.nodes().values().all(|node| node.operations.iter().count() == 0));
}

#[test]
fn a_repeated_message_and_one_without_both_times_are_not_measured() {
    let mut link = LossyLink::new(Clocks::default());
    let now = start();
    let message = link.speaker.message(now, Body::Bus(Bus::default()), false);
    (0..3).for_each(|_| deliver(&mut link.core, now, &message, now.wall, now.wall));
    for (at, sent) in [(None, None), (Some(now.wall), None), (None, Some(now.wall))] {
        let (subject, payload) = link.speaker.message(now, Body::Bus(Bus::default()), false);
        let (lane, payload) = (Lane::Normal, Bytes::from(payload));
        let message = Delivered { lane, stream_seq: 2, pending: 0, at, sent, subject, payload };
        link.core.on_message(now, &message).unwrap();
    }
    link.core.on_deadline(now.after(SECOND));
    assert_eq!(link.delivered().unwrap().count, 1);
}

#[test]
fn what_was_stored_while_no_aggregator_ran_is_not_measured() {
    let mut link = LossyLink::new(Clocks::default());
    (0..5).for_each(|_| link.send(FAST));
    let mut core = restarted(&mut link.core, link.now);
    core.on_positioned(Lane::Emergency, 0, 0, "s1");
    core.on_positioned(Lane::Normal, 1, 8, "s1");
    let now = link.now.after(SECOND * 60);
    for (stream_seq, pending) in (2..=8).zip((0..7).rev()) {
        let (subject, payload) = link.speaker.message(now, Body::Bus(Bus::default()), false);
        let at = Some(link.now.wall.plus(SECOND));
        let (lane, payload, sent) = (Lane::Normal, Bytes::from(payload), at);
        let message = Delivered { lane, stream_seq, pending, at, sent, subject, payload };
        core.on_message(now, &message).unwrap();
    }
    core.on_deadline(now.after(SECOND));
    assert_eq!(delivered(&core).unwrap().count, 5, "as before the restart");
    link.core = core;
    link.second = 70;
    link.send(FAST);
    assert_eq!(link.delivered().unwrap().count, 6);
}

#[test]
fn slow_deliveries_fire_a_warning_about_the_fleet_alone() {
    let mut link = LossyLink::new(Clocks { node: -YEAR, ..Clocks::default() });
    let slow = Times { waits: 140, ..FAST };
    let firing = |link: &LossyLink| {
        let active = link.core.alerting.alerts.active();
        let of = |key: &AlertKey| key.operation.as_str() == MESSAGE_DELIVERY;
        let active = active.filter(|(key, state)| of(key) && *state == Firing);
        active.map(|(key, _)| (key.rule.to_string(), key.scope.clone())).collect::<Vec<_>>()
    };
    (0..60).for_each(|_| link.send(FAST));
    assert_eq!(firing(&link), []);
    (0..60).for_each(|_| link.send(slow));
    assert_eq!(firing(&link), [("message_delivery".to_owned(), Scope::Fleet)]);
}
