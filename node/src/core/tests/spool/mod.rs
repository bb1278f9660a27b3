//! A node that crashes and starts again, with a model of its disk and of its broker: no sample
//! arrives twice, and what does not arrive is lost by name.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::ids::{Labels, LossReason, MeshName, NodeName, Seq};
use plimsoll_schemas::subject::SnapshotSubject;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{self, Body, Header, NotedIncarnation};
use proptest::prelude::*;

use super::*;
use crate::core::loss::CRASH;
use crate::core::outbox::OutboxBounds;
use crate::core::outbox::event_drafts;
use crate::core::spool::recover;
use crate::core::spool::{NoteNumber, Notes};
use crate::limits::{NOTE_EVERY, SPOOL_RETRY_PAUSE, SPOOL_STUCK_AFTER};

use answers::Client;

const SECOND: Duration = Duration::from_secs(1);

fn identity() -> Identity {
    let (mesh, node) = (MeshName::new("m").unwrap(), NodeName::new("n").unwrap());
    Identity { mesh, node, labels: Labels::default() }
}

/// A node, its disk, and everything that ever reached the broker.
struct World {
    now: Now,
    core: Core,
    /// What the next start will be called by.
    labels: Labels,
    /// What a power cut leaves.
    synced: Vec<u8>,
    /// What `kill -9` leaves.
    file: Vec<u8>,
    notes: Option<Notes>,
    /// Frames of one client.
    client: Client,
    sent: Vec<Ticket>,
    arrived: BTreeMap<(u64, Seq), (Header, u64)>,
    /// Samples of the job, recorded and arrived.
    recorded: u64,
    job_arrived: u64,
    /// Events put into drafts, and those that arrived.
    events: u64,
    events_arrived: Vec<u64>,
}

impl World {
    fn new() -> Self {
        let now = Now { mono: Mono(0), wall: Wall(1_000_000_000_000) };
        let mut world = Self {
            now,
            core: Core::new(identity(), bounds(), now),
            labels: Labels::default(),
            synced: Vec::new(),
            file: Vec::new(),
            notes: None,
            client: Client::default(),
            sent: Vec::new(),
            arrived: BTreeMap::new(),
            recorded: 0,
            job_arrived: 0,
            events: 0,
            events_arrived: Vec::new(),
        };
        world.start();
        world
    }

    fn start(&mut self) {
        let former = self.core.sealer.incarnation.0;
        let named = Identity { labels: self.labels.clone(), ..identity() };
        self.core = Core::new(named, bounds(), self.now);
        let mut found = recover(&self.file, &identity(), None, self.now.mono).unwrap();
        assert_eq!(found.damaged, None);
        let notes = self.notes.clone();
        let take = |notes| RecoveredMessages::take_notes(Some(&mut found), notes);
        let orphans = notes.map(take).unwrap_or_default();
        (self.client.is_new_node, self.client.waiting) = (true, Vec::new());
        self.core.open_spool(self.now, Wal::new(identity(), None), Some(found));
        for NotedIncarnation { incarnation, recorded } in &orphans {
            self.client.orphans.insert(incarnation.0, *recorded);
        }
        self.core.on_orphans(orphans);
        self.client.adopted.insert(former, self.core.note().recorded);
        self.sent.clear();
    }

    fn crash(&mut self, power_cut: bool) {
        if power_cut {
            self.file.clone_from(&self.synced);
            self.notes = None;
        }
        // The start of an incarnation is its name, so no two fall on one nanosecond.
        self.now = self.now.after(Duration::from_nanos(1));
        self.start();
    }

    fn spool(&mut self, fails: bool) {
        let Some(batch) = self.core.next_spool_batch(self.now) else { return self.note() };
        if fails {
            self.file.clear();
            self.synced.clear();
            self.core.on_spool_failed(self.now);
        } else {
            self.write(batch);
            self.core.on_spooled();
        }
        self.answer();
        self.note();
    }

    fn write(&mut self, batch: Batch) {
        if batch.replaces {
            self.file.clear();
        }
        self.file.extend(batch.bytes);
        if batch.sync || batch.replaces {
            self.synced.clone_from(&self.file);
        }
    }

    fn note(&mut self) {
        let Some(notes) = self.core.next_note(self.now) else { return };
        self.notes = Some(notes);
        self.core.on_noted(self.now);
        self.answer();
    }

    fn send(&mut self, arrives: bool) {
        while let Some(publish) = self.core.next_publish(self.now) {
            if arrives {
                self.sent.push(publish.ticket);
                let subject: SnapshotSubject = publish.subject.parse().unwrap();
                let snapshot = wire::decode(&subject, &publish.payload).unwrap();
                let key = (snapshot.header.incarnation.0, snapshot.header.seq);
                let arrived = (snapshot.header, snapshot.body.samples());
                match self.arrived.get(&key) {
                    Some(first) => assert_eq!(*first, arrived, "one number, two messages"),
                    None => {
                        self.job_arrived += of_the_job(&snapshot.body);
                        self.events_arrived.extend(events_in(&snapshot.body));
                    }
                }
                self.arrived.insert(key, arrived);
            }
        }
    }

    fn acknowledge(&mut self) {
        for ticket in std::mem::take(&mut self.sent) {
            self.core.on_bus_event(self.now, &acknowledged(ticket));
        }
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now.after(span);
        self.core.on_deadline(self.now);
    }

    /// `n` events, one after another, as the end of an interval leaves them.
    fn report(&mut self, n: u64) {
        let body = event_drafts::draft(self.events..self.events + n).decode().unwrap();
        self.events += n;
        self.core.enqueue_draft(self.now, Draft::new(&body, self.now.wall, 1, self.now.mono));
    }

    fn settle(&mut self) {
        self.core.on_bus_event(self.now, &connected());
        self.resend();
        self.core.on_leave(self.now);
        for _ in 0..600 {
            self.spool(false);
            self.send(true);
            self.acknowledge();
            self.pass(SECOND);
        }
    }
}

fn bounds() -> Bounds {
    let outbox = OutboxBounds { coalesce_messages: 6, ..OutboxBounds::default() };
    Bounds { outbox, ..Bounds::default() }
}

#[test]
fn after_a_crash_all_but_the_open_interval_arrives_and_is_reported() {
    let mut world = World::new();
    world.core.on_bus_event(world.now, &connected());
    world.core.on_datagram(world.now, b"a:1:2:3|ms");
    world.pass(SECOND);
    world.send(false);
    world.spool(false);
    world.core.on_datagram(world.now, b"a:4:5|ms");
    world.pass(SECOND / 2);
    world.spool(false);
    let former = world.core.sealer.incarnation;
    world.crash(true);
    assert_eq!(world.core.spool.stats().recovered, 3);
    assert_eq!(world.core.spool.stats().crashed, 0, "nothing was synced since");
    world.crash(false);
    world.settle();
    let crash_report = &world.arrived[&(former.0, Seq(2))].0;
    assert!(crash_report.last && crash_report.successor.is_some());
    assert_eq!(crash_report.totals.recorded, 3);
    assert_eq!(world.arrived.values().map(|(_, samples)| samples).sum::<u64>(), 3);
}

#[test]
fn an_incarnation_that_stopped_in_order_while_the_broker_was_away_is_not_reported_as_crashed() {
    let mut world = World::new();
    world.core.on_bus_event(world.now, &connected());
    world.core.on_datagram(world.now, b"a:1:2:3|ms");
    world.pass(SECOND);
    world.spool(false);
    world.send(true);
    world.acknowledge();
    world.core.on_bus_event(world.now, &BusEvent::Disconnected);
    world.core.on_datagram(world.now, b"a:4:5|ms");
    world.core.on_leave(world.now);
    for _ in 0..3 {
        world.spool(false);
        world.pass(SECOND);
    }
    let former = world.core.sealer.incarnation.0;
    world.crash(false);
    world.settle();

    let of_former = world.arrived.iter().filter(|((incarnation, _), _)| *incarnation == former);
    let last = of_former.map(|(_, (header, _))| header).find(|header| header.last).unwrap();
    assert_eq!((last.successor, last.totals.lost_sum()), (None, 0));
    assert_eq!(world.job_arrived, 5);
    assert_eq!(world.core.spool.stats().crashed, 0);
}

#[test]
fn an_incarnation_that_stopped_in_order_is_known_although_the_clock_was_set_back() {
    let mut world = World::new();
    let deliver = |world: &mut World, line: &[u8]| {
        world.core.on_bus_event(world.now, &connected());
        world.core.on_datagram(world.now, line);
        world.pass(SECOND);
        world.spool(false);
        world.send(true);
        world.acknowledge();
        world.spool(false);
        world.core.on_bus_event(world.now, &BusEvent::Disconnected);
    };

    // The first is killed; the second starts a minute earlier and stops in order.
    deliver(&mut world, b"a:1:2:3|ms");
    let first = world.core.sealer.incarnation.0;
    world.now.wall = world.now.wall.minus(Duration::from_secs(60));
    world.crash(false);
    let second = world.core.sealer.incarnation.0;
    assert!(second < first);
    deliver(&mut world, b"a:4|ms");
    world.core.on_datagram(world.now, b"a:5|ms");
    world.core.on_leave(world.now);
    for _ in 0..3 {
        world.spool(false);
        world.pass(SECOND);
    }

    world.crash(false);
    world.settle();

    let successor_of = |incarnation| {
        let messages = world.arrived.iter().filter(|((of, _), _)| *of == incarnation);
        messages.map(|(_, (header, _))| header).find(|header| header.last).unwrap().successor
    };
    assert_eq!(successor_of(first), Some(Incarnation(second)), "it was killed");
    assert_eq!(successor_of(second), None, "it stopped in order");
    assert_eq!(world.job_arrived, 5);
}

#[test]
fn what_the_open_interval_had_counted_is_lost_by_name_after_a_kill() {
    let mut world = World::new();
    world.spool(false);
    world.core.on_datagram(world.now, b"a:4:5|ms");
    world.pass(SECOND / 2);
    world.spool(false);
    let former = world.core.sealer.incarnation;
    world.crash(false);
    world.settle();
    let totals = &world.arrived[&(former.0, Seq(1))].0.totals;
    let crash = LossReason::new(CRASH).unwrap();
    assert_eq!((totals.recorded, totals.lost.get(&crash)), (2, Some(&2)));
}

#[test]
fn a_message_keeps_its_id_over_a_crash() {
    let sent = |world: &mut World| -> BTreeMap<(u64, u64), String> {
        let sent = std::iter::from_fn(|| world.core.next_publish(world.now));
        let named = sent.map(|publish| {
            let subject: SnapshotSubject = publish.subject.parse().unwrap();
            let header = wire::decode(&subject, &publish.payload).unwrap().header;
            ((header.incarnation.0, header.seq.0), publish.message_id)
        });
        named.collect()
    };
    let mut world = World::new();
    world.core = Core::new(identity(), bounds(), world.now).with_nonce(MessageNonce([7; 16]));
    world.core.open_spool(world.now, Wal::new(identity(), None), None);
    world.core.on_bus_event(world.now, &connected());
    world.spool(false);
    world.pass(SECOND);
    let before = world.core.next_publish(world.now);
    assert_eq!(before, None, "it waits for the spool");
    world.spool(false);
    let before = sent(&mut world);
    assert_eq!(before.len(), 1);
    let (key, id) = before.first_key_value().unwrap();
    assert!(id.len() > format!("n-{}-{}-", key.0, key.1).len(), "{id}");
    world.crash(false);
    world.core.on_bus_event(world.now, &connected());
    world.spool(false);
    let after = sent(&mut world);
    assert_eq!(after.get(key), Some(id));
}

#[test]
fn a_clock_that_was_set_back_does_not_give_a_name_twice() {
    let mut world = World::new();
    world.core.on_datagram(world.now, b"a:1|ms");
    world.pass(SECOND);
    world.spool(false);
    let former = world.core.sealer.incarnation;
    world.now.wall = Wall(former.0);
    world.crash(false);
    assert!(world.core.sealer.incarnation > former);
}

#[test]
fn without_its_spool_a_node_goes_on_and_writes_it_anew_later() {
    let mut world = World::new();
    world.core.on_bus_event(world.now, &connected());
    world.core.on_datagram(world.now, b"a:1|ms");
    world.pass(SECOND);
    world.send(true);
    assert_eq!(world.arrived.len(), 0, "nothing is sent before it is in the spool");
    world.spool(true);
    world.send(true);
    assert_eq!(world.arrived.len(), 1);
    assert_eq!(world.core.status().bus.spool_durable, Some(false));
    assert!(world.core.next_spool_batch(world.now).is_none(), "a pause runs");
    world.pass(SPOOL_RETRY_PAUSE);
    world.spool(false);
    let figures = world.core.spool.stats().clone();
    assert_eq!((figures.durable, figures.failures), (true, 1));
    assert_eq!(world.core.status().bus.spool_durable, Some(true));
    world.core.close_spool();
    assert_eq!(world.core.status().bus.spool_durable, Some(false));
}

#[test]
fn what_came_in_is_noted_soon_even_when_nothing_else_happens() {
    let mut world = World::new();
    world.spool(false);
    world.spool(false);
    world.core.on_datagram(world.now, b"a:1|ms");
    let due = world.core.next_deadline();
    assert!(due <= world.now.mono.plus(NOTE_EVERY), "{due:?}");
    world.pass(NOTE_EVERY);
    world.spool(false);
    assert!(world.core.next_deadline() > world.now.mono.plus(SECOND / 2));
    world.crash(false);
    assert_eq!(world.core.spool.stats().crashed, 1);
}

#[test]
fn the_nodes_own_samples_alone_write_no_note() {
    let mut world = World::new();
    world.core.on_bus_event(world.now, &connected());
    world.pass(SECOND);
    world.spool(false);
    world.send(true);
    world.spool(false);
    world.send(true);
    let (before, samples) = (world.core.note().recorded, world.core.status().intake.samples);
    world.acknowledge();
    assert!(world.core.status().intake.samples > samples, "a latency of its own");
    world.pass(NOTE_EVERY * 2);
    assert!(world.core.next_note(world.now).is_none());
    world.core.on_datagram(world.now, b"a:1|ms");
    let note = world.core.next_note(world.now).expect("a job has brought a sample");
    assert_eq!(note.own.recorded, before + 1, "without its own of the open interval");
    world.pass(SECOND);
    assert!(world.core.note().recorded > before + 1, "with those of closed intervals");
}

#[test]
fn a_kill_loses_by_name_what_jobs_brought_and_nothing_of_the_nodes_own() {
    let mut world = World::new();
    world.core.on_bus_event(world.now, &connected());
    world.pass(SECOND);
    world.spool(false);
    world.send(true);
    world.spool(false);
    world.send(true);
    world.acknowledge();
    world.core.on_datagram(world.now, b"a:1:2|ms");
    world.pass(NOTE_EVERY * 2);
    world.spool(false);
    world.crash(false);
    assert_eq!(world.core.spool.stats().crashed, 2);
}

#[test]
fn events_in_the_spool_outlive_a_crash_and_each_arrives_once() {
    let mut world = World::new();
    world.core.on_bus_event(world.now, &connected());
    world.report(3);
    // The first message is sent and arrives, but its acknowledgement is lost; the next stays a
    // draft.
    world.send(false);
    world.spool(false);
    world.send(true);
    assert_eq!(world.events_arrived, [0, 1, 2]);
    world.core.on_bus_event(world.now, &BusEvent::Disconnected);
    world.report(2);
    world.spool(false);
    world.crash(true);
    world.settle();
    assert_eq!(world.events_arrived, [0, 1, 2, 3, 4]);
}

mod answers;
mod disks;
mod labels;
mod losses;

#[derive(Clone, Debug)]
enum Step {
    Record(u64),
    Frame(u64),
    Report(u64),
    Pass(u64),
    Spool,
    SpoolFails,
    SpoolThenCrash,
    Note,
    NoteThenCrash,
    Send(bool),
    Acknowledge,
    Connect,
    Disconnect,
    Crash(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..9_u64).prop_map(Step::Record),
        6 => (1..9_u64).prop_map(Step::Frame),
        2 => (0..200_u64).prop_map(Step::Report),
        6 => (0..900_u64).prop_map(Step::Pass),
        8 => Just(Step::Spool),
        3 => Just(Step::SpoolThenCrash),
        4 => Just(Step::Note),
        1 => Just(Step::NoteThenCrash),
        5 => any::<bool>().prop_map(Step::Send),
        3 => Just(Step::Acknowledge),
        2 => Just(Step::Connect),
        1 => Just(Step::Disconnect),
        1 => any::<bool>().prop_map(Step::Crash),
    ];
    let failing = prop_oneof![20 => step, 1 => Just(Step::SpoolFails)];
    prop::collection::vec(failing, 0..120)
}

fn run(steps: &[Step]) -> World {
    let mut world = World::new();
    steps.iter().for_each(|step| world.take(step));
    world.settle();
    world
}

impl World {
    fn take(&mut self, step: &Step) {
        match *step {
            Step::Record(n) => {
                self.recorded += n;
                for _ in 0..n {
                    self.core.on_datagram(self.now, b"a:1|ms");
                }
            }
            Step::Frame(n) => self.frame(n),
            Step::Report(n) => self.report(n),
            Step::Pass(ms) => self.pass(Duration::from_millis(ms)),
            Step::Spool => self.spool(false),
            Step::SpoolFails => self.spool(true),
            Step::SpoolThenCrash => {
                if let Some(batch) = self.core.next_spool_batch(self.now) {
                    self.write(batch);
                }
                self.crash(false);
            }
            Step::Note => self.note(),
            Step::NoteThenCrash => {
                self.notes = self.core.next_note(self.now).or(self.notes.take());
                self.crash(false);
            }
            Step::Send(arrives) => self.send(arrives),
            Step::Acknowledge => self.acknowledge(),
            Step::Connect => self.core.on_bus_event(self.now, &connected()),
            Step::Disconnect => self.core.on_bus_event(self.now, &BusEvent::Disconnected),
            Step::Crash(power_cut) => self.crash(power_cut),
        }
    }
}

/// Samples of the job; not those that the node takes of itself.
fn of_the_job(body: &Body) -> u64 {
    let Some(latency) = body.latency() else { return 0 };
    let job = latency.histograms.iter().filter(|(series, _)| series.operation.as_str() == "a");
    job.map(|(_, histogram)| histogram.count()).sum()
}

fn events_in(body: &Body) -> Vec<u64> {
    if body.event().is_some() { event_drafts::numbers_in(body) } else { Vec::new() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// With every batch written, all that may be missing was in an open interval, or was closed
    /// and not yet in the spool; every incarnation reports what was recorded and lost.
    #[test]
    fn no_crash_makes_a_sample_arrive_twice_or_vanish_unnamed(steps in steps()) {
        let fails = steps.iter().any(|step| matches!(step, Step::SpoolFails));
        let world = run(&steps);
        let power_cut = steps.iter().any(|step| matches!(step, Step::Crash(true)));
        let is_crash = |step: &Step| {
            matches!(step, Step::Crash(_) | Step::SpoolThenCrash | Step::NoteThenCrash)
        };
        let crashes = steps.iter().any(is_crash);
        prop_assert!(world.job_arrived <= world.recorded, "doubled");
        prop_assert!(crashes || world.job_arrived == world.recorded, "lost without a crash");
        let events: BTreeSet<u64> = world.events_arrived.iter().copied().collect();
        prop_assert_eq!(events.len(), world.events_arrived.len(), "an event arrived twice");
        let lost: u64 = world.core.outbox.events_lost().values().sum();
        prop_assert!(crashes || events.len() as u64 + lost == world.events, "an event vanished");
        let mut newest: BTreeMap<u64, &Header> = BTreeMap::new();
        let mut carried: BTreeMap<u64, u64> = BTreeMap::new();
        for ((incarnation, _), (header, samples)) in &world.arrived {
            newest.insert(*incarnation, header);
            *carried.entry(*incarnation).or_default() += samples;
        }
        for (incarnation, header) in &newest {
            let got = header.totals.recorded - header.totals.lost_sum();
            let own = world.arrived.keys().filter(|key| key.0 == *incarnation);
            let seqs: BTreeSet<u64> = own.map(|key| key.1.0).collect();
            if !fails {
                prop_assert!(header.last, "{} has no last word", incarnation);
                prop_assert_eq!(got, carried[incarnation], "of {}: {:?}", incarnation, header);
                prop_assert_eq!(seqs.len() as u64, header.seq.0, "holes in {}", incarnation);
            }
            prop_assert!(carried[incarnation] <= got, "doubled in {}", incarnation);
        }
        for (incarnation, answered) in world.client.answered.iter().filter(|_| !fails && !power_cut)
        {
            let stated = newest.get(incarnation).map_or(0, |header| header.totals.recorded);
            let adopted = world.client.adopted.get(incarnation).copied().unwrap_or(0);
            let recorded = stated + adopted;
            prop_assert!(*answered <= recorded, "{} answered of {}", answered, recorded);
        }
        for (incarnation, noted) in world.client.orphans.iter().filter(|_| !power_cut) {
            let answered = world.client.answered.get(incarnation).copied().unwrap_or(0);
            let adopted = world.client.adopted.get(incarnation).copied().unwrap_or(0);
            prop_assert!(answered <= *noted + adopted, "{} of {} + {}", answered, noted, adopted);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// A deadline that stays in the past would keep the driver spinning.
    #[test]
    fn with_a_spool_too_the_next_deadline_always_lies_ahead(steps in steps(), leave: bool) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            if leave && world.recorded > 20 {
                world.core.on_leave(world.now);
            }
            world.pass(Duration::ZERO);
            world.send(false);
            world.note();
            while let Some(batch) = world.core.next_spool_batch(world.now) {
                prop_assert!(!batch.bytes.is_empty());
                world.core.on_spooled();
                world.note();
                world.send(false);
            }
            let next = world.core.next_deadline();
            prop_assert!(next > world.now.mono, "{:?} at {:?} after {:?}", next, world.now, step);
        }
    }
}
