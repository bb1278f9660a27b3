//! A gap that closes is no alert; one that stays is, until it closes.

use std::time::Duration;

use plimsoll_schemas::alert::{AlertState, Evidence, GapEvidence, Notification};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Now;

use super::*;

type Message = (String, Vec<u8>);

/// A core whose only node sends ten samples a second; the 3rd message does not come.
struct World {
    core: Core,
    speaker: Speaker,
    now: Now,
    /// Number of the latest message in the stream.
    read: u64,
    lost: Option<Message>,
}

impl World {
    fn new() -> Self {
        let mut speaker = Speaker::new("a");
        let mut core = core();
        let messages: Vec<_> = (0..4).map(|_| speaker.send(start(), MS, 10)).collect();
        for message in [&messages[0], &messages[1], &messages[3]] {
            deliver(&mut core, start(), message, 1, 0);
        }
        Self { core, speaker, now: start(), read: 1, lost: Some(messages[2].clone()) }
    }

    fn live(&mut self, seconds: u32, pending: u64) {
        for _ in 0..seconds {
            self.now = self.now.after(SECOND);
            let message = self.speaker.send(self.now, MS, 10);
            self.read += 1;
            deliver(&mut self.core, self.now, &message, self.read, pending);
            self.core.on_deadline(self.now);
        }
    }

    fn find(&mut self) {
        let lost = self.lost.take().expect("it is found once");
        deliver(&mut self.core, self.now, &lost, 1, 0);
    }

    fn gap_samples(&self) -> u64 {
        self.core.view(self.now.wall, "test").summary.nodes[0].gap_samples
    }

    /// Of all notifications about gaps: the state, and the samples missing.
    fn got(&self) -> Vec<(AlertState, u64)> {
        let got = |notification: &Notification| match &notification.evidence {
            Evidence::Gap(GapEvidence { gap_samples }) => Some((notification.state, *gap_samples)),
            _ => None,
        };
        self.core.alerting.changes().iter().filter_map(got).collect()
    }
}

fn deliver(core: &mut Core, now: Now, (subject, payload): &Message, stream_seq: u64, pending: u64) {
    let lane = Lane::Normal;
    let message = Delivered {
        lane,
        stream_seq,
        pending,
        at: None,
        sent: None,
        subject: subject.to_owned(),
        payload: Bytes::copy_from_slice(payload),
    };
    core.on_message(now, &message).unwrap();
}

#[test]
fn a_gap_that_stays_fires_with_its_samples_and_resolves_when_it_is_filled() {
    let mut world = World::new();
    world.live(30, 0);
    assert_eq!((world.got(), world.gap_samples()), (vec![], 0), "it may still come");
    world.live(1, 0);
    assert_eq!((world.got(), world.gap_samples()), (vec![(AlertState::Firing, 10)], 10));
    world.live(60, 0);
    world.find();
    world.live(1, 0);
    let got = vec![(AlertState::Firing, 10), (AlertState::Resolved, 0)];
    assert_eq!((world.got(), world.gap_samples()), (got.clone(), 0));
    let page = crate::exposition::fleet(&world.core.view(world.now.wall, "t"), &[]);
    assert!(page.contains("plimsoll_node_gap_samples{node=\"a\"} 0\n"), "{page}");
    world.live(600, 0);
    assert_eq!(world.got(), got, "nothing more is sent");
}

#[test]
fn a_gap_that_closes_in_time_is_no_alert() {
    let mut world = World::new();
    world.live(29, 0);
    world.find();
    world.live(60, 0);
    assert_eq!(world.got(), []);
}

#[test]
fn one_gap_after_another_each_soon_closed_is_no_alert() {
    let mut world = World::new();
    for _ in 0..10 {
        world.live(10, 0);
        let delayed = world.speaker.send(world.now, MS, 10);
        world.live(1, 0);
        world.find();
        world.lost = Some(delayed);
    }
    assert_eq!(world.got(), []);
}

#[test]
fn gaps_that_soon_close_are_not_one_long_gap_because_a_hole_without_samples_stays() {
    let mut world = World::new();
    // What the 3rd message held was refused for good.
    world.speaker.lose(10);
    world.live(1, 0);
    // The next one is lost before the last one is found: something is missing all the time.
    world.lost = Some(world.speaker.send(world.now, MS, 10));
    for _ in 0..10 {
        world.live(9, 0);
        let delayed = world.speaker.send(world.now, MS, 10);
        world.live(1, 0);
        world.find();
        world.lost = Some(delayed);
    }
    assert_eq!(world.got(), []);
    world.live(31, 0);
    assert_eq!(world.got(), [(AlertState::Firing, 10)]);
}

#[test]
fn what_waits_to_be_read_is_not_missing_however_long_that_takes() {
    let mut world = World::new();
    world.live(1, 500);
    world.live(300, 500);
    world.read += 500;
    world.live(1, 500);
    assert_eq!(world.got(), [], "only what was stored by the first second has been read");
    world.read += 500;
    world.live(1, 500);
    assert_eq!(world.got().len(), 1, "all that was stored in five minutes has been read");
}

#[test]
fn a_gap_is_found_in_a_stream_of_which_some_is_always_unread() {
    let mut world = World::new();
    for _ in 0..31 {
        world.live(1, 7);
        world.read += 6;
    }
    assert_eq!(world.got(), [], "read up to the 30th second, and first seen in the 1st");
    world.live(1, 7);
    assert_eq!(world.got(), [(AlertState::Firing, 10)]);
}

#[test]
fn a_gap_is_no_alert_before_two_confirmations() {
    let mut world = World::new();
    world.core.on_stored(world.now.wall, Duration::from_secs(26), true);
    world.live(78, 0);
    assert_eq!((world.got(), world.gap_samples()), (vec![], 0));
    world.live(1, 0);
    assert_eq!(world.got(), [(AlertState::Firing, 10)]);
}

#[test]
fn an_isolated_reader_reports_no_gaps() {
    let mut world = World::new();
    for second in 1..300 {
        world.core.on_deadline(world.now.after(SECOND * second));
    }
    assert_eq!(world.got(), []);
}

#[test]
fn a_gap_alert_outlives_a_restart_and_still_resolves() {
    let mut world = World::new();
    world.live(40, 0);
    let mut records = StoredRecords::default();
    records.write(world.core.take_changes(world.now.wall).unwrap());
    let checkpoint = records.read().unwrap();
    let (mesh, rules) = (world.core.mesh.clone(), Rules::clone(world.core.rules()));
    world.core = Core::restore(mesh, rules, world.now, checkpoint);
    Lane::ALL.into_iter().for_each(|lane| world.core.on_positioned(lane, 0, 0, "s1"));
    world.live(2, 0);
    assert_eq!((world.got().len(), world.gap_samples()), (1, 10));
    world.find();
    world.live(1, 0);
    assert_eq!(world.got()[1..], [(AlertState::Resolved, 0)]);
}

#[test]
fn what_a_node_dropped_is_lost_and_no_gap() {
    let mut world = World::new();
    world.live(40, 0);
    assert_eq!(world.got().len(), 1);
    world.speaker.lose(10);
    world.live(1, 0);
    assert_eq!(world.got()[1..], [(AlertState::Resolved, 0)]);
}
