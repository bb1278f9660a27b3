//! A node without a spool that dies: what the ledger, the pages and the alerts have of it.

use plimsoll_schemas::alert::AlertState::{self, Firing, Inactive};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::summary::Ledger;
use plimsoll_schemas::time::Now;

use super::*;

/// A core, and the incarnations of its only node.
struct World {
    core: Core,
    speaker: Speaker,
    now: Now,
    read: u64,
    pending: u64,
    /// Samples that the node has and no message carries.
    held: u64,
}

impl World {
    fn new() -> Self {
        let mut core = Core::new(MeshName::new("m").unwrap(), shipped(), start());
        Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
        let speaker = Speaker::new("a").of(start().wall.0);
        Self { core, speaker, now: start(), read: 0, pending: 0, held: 0 }
    }

    /// Seconds in each of which the node sends ten samples and then its bus message.
    fn live(&mut self, seconds: u32) {
        for _ in 0..seconds {
            let samples = self.speaker.send(self.now, MS, 10);
            self.now = self.now.after(SECOND);
            self.deliver(&samples);
            let recorded = self.speaker.recorded_so_far() + self.held;
            let bus = Bus { recorded, spooled: Some(false), ..Bus::default() };
            let began = Now { wall: self.now.wall.minus(SECOND), ..self.now };
            let bus = self.speaker.message(began, Body::Bus(bus), false);
            self.deliver(&bus);
            self.core.on_deadline(self.now);
        }
    }

    fn deliver(&mut self, (subject, payload): &(String, Vec<u8>)) {
        self.read += 1;
        let message = Delivered {
            lane: Lane::Normal,
            stream_seq: self.read,
            pending: self.pending,
            at: Some(self.now.wall),
            sent: None,
            subject: subject.to_owned(),
            payload: Bytes::copy_from_slice(payload),
        };
        self.core.on_message(self.now, &message).unwrap();
    }

    /// The node's process is killed, and another one starts some seconds later.
    fn crash(&mut self, seconds: u32) {
        self.now = self.now.after(SECOND * seconds);
        self.speaker = Speaker::new("a").of(self.now.wall.0);
        self.held = 0;
    }

    fn ledger(&self) -> Ledger {
        self.core.statement(self.now.wall).nodes[0].ledger.clone()
    }

    fn state(&self, rule: &str) -> AlertState {
        let rule = RuleName::new(rule).unwrap();
        let mut active = self.core.alerting.alerts.active();
        active.find(|(key, _)| key.rule == rule).map_or(Inactive, |(_, state)| state)
    }
}

#[test]
fn a_node_without_a_spool_that_dies_with_held_samples_is_named_and_alerted() {
    let mut world = World::new();
    world.live(4);
    world.held = 975;
    world.live(1);
    assert_eq!((world.ledger().held, world.ledger().merged), (975, 50));
    world.crash(3);
    world.live(11);
    let ledger = world.ledger();
    assert_eq!((ledger.recorded, ledger.merged, ledger.held), (1_135, 160, 0));
    assert_eq!((ledger.lost["crash"], ledger.unaccounted), (975, 0));
    assert_eq!((ledger.crashed_runs, ledger.unknown_ns), (1, 3_000_000_000));
    assert_eq!(["run_crashed", "samples_lost"].map(|rule| world.state(rule)), [Firing; 2]);
    assert_eq!(world.state("unaccounted"), Inactive);
    let page = crate::exposition::fleet(&world.core.view(world.now.wall, "t"), &[]);
    for line in [
        "plimsoll_node_lost_samples_total{node=\"a\",reason=\"crash\"} 975",
        "plimsoll_node_crashed_runs_total{node=\"a\"} 1",
        "plimsoll_node_unknown_seconds_total{node=\"a\"} 3",
        "plimsoll_crashed_runs_total 1",
        "plimsoll_unknown_seconds_total 3",
        "plimsoll_node_trouble{node=\"a\",trouble=\"run_crashed\"} 1",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
}

#[test]
fn a_crash_without_loss_is_an_alert_of_its_own() {
    let mut world = World::new();
    world.live(5);
    world.crash(1);
    world.live(11);
    assert_eq!(["run_crashed", "samples_lost"].map(|rule| world.state(rule)), [Firing, Inactive]);
    assert_eq!(world.ledger().unknown_ns, 1_000_000_000);
}

#[test]
fn an_orderly_restart_is_no_crash() {
    let mut world = World::new();
    world.live(5);
    let last = world.speaker.final_message(world.now);
    world.deliver(&last);
    world.crash(1);
    world.live(20);
    assert_eq!((world.ledger().crashed_runs, world.state("run_crashed")), (0, Inactive));
}

#[test]
fn what_a_dead_incarnation_had_published_is_not_lost_while_it_waits_to_be_read() {
    let mut world = World::new();
    world.live(5);
    let waiting = world.speaker.send(world.now, MS, 30);
    let recorded = world.speaker.recorded_so_far();
    let bus = Bus { recorded, spooled: Some(false), ..Bus::default() };
    let bus = world.speaker.message(world.now, Body::Bus(bus), false);
    // The report overtakes the samples, and so does the next incarnation.
    world.deliver(&bus);
    world.crash(1);
    world.pending = 500;
    world.live(60);
    assert_eq!((world.ledger().unaccounted, world.ledger().crashed_runs), (30, 0));
    assert_eq!(["run_crashed", "samples_lost"].map(|rule| world.state(rule)), [Inactive; 2]);
    world.pending = 0;
    world.deliver(&waiting);
    world.live(12);
    assert_eq!((world.ledger().lost.len(), world.ledger().crashed_runs), (0, 1));
    assert_eq!(["run_crashed", "samples_lost"].map(|rule| world.state(rule)), [Firing, Inactive]);
}

#[test]
fn a_crash_counts_once_whenever_the_aggregator_restarts() {
    for restarts_after in [1, 5, 9, 12] {
        let mut world = World::new();
        world.live(4);
        world.held = 90;
        world.live(1);
        world.crash(2);
        world.live(restarts_after);
        let changes = world.core.take_changes(world.now.wall).unwrap();
        let mut records = StoredRecords::default();
        changes.into_records().for_each(|record| records.put(&record));
        let checkpoint = records.read().unwrap();
        let mesh = MeshName::new("m").unwrap();
        world.core = Core::restore(mesh, shipped(), world.now, checkpoint);
        let read = world.read;
        Lane::ALL.into_iter().for_each(|lane| {
            let last = if lane == Lane::Normal { read } else { 0 };
            world.core.on_positioned(lane, 0, last, "s1");
        });
        world.live(20);
        let ledger = world.ledger();
        assert_eq!((ledger.lost["crash"], ledger.crashed_runs), (90, 1), "{restarts_after}");
        assert_eq!(world.state("run_crashed"), Firing, "{restarts_after}");
    }
}
