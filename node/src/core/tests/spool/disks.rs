//! Disks that hang or fill, clocks that leap, and spools that hold more than the next incarnation
//! would.

use super::*;
use crate::core::outbox::Thresholds;

#[test]
fn messages_too_old_to_be_sent_again_are_counted() {
    let mut world = World::new();
    world.core.on_bus_event(world.now, &connected());
    world.core.on_datagram(world.now, b"a:1:2:3|ms");
    world.pass(SECOND);
    world.send(false);
    world.spool(false);
    world.now = world.now.after(25 * 3_600 * SECOND);
    world.crash(false);
    assert_eq!(world.core.outbox.sealed().count(), 1, "the crash report alone");
    assert_eq!(world.core.spool.stats().expired, 3);
}

#[test]
fn a_file_that_can_neither_be_written_nor_removed_makes_no_sample_arrive_twice() {
    let mut world = World::new();
    world.core.on_datagram(world.now, b"a:1:2:3|ms");
    world.recorded += 3;
    world.pass(SECOND);
    world.spool(false);
    world.core.on_datagram(world.now, b"a:1|ms");
    world.recorded += 1;
    world.pass(SECOND);
    assert!(world.core.next_spool_batch(world.now).is_some());
    world.core.on_spool_stuck(world.now);
    world.core.on_bus_event(world.now, &connected());
    world.send(true);
    assert!(world.core.status().spool.stuck);
    assert_eq!(world.job_arrived, 0, "what is sent now would be sent again");
    world.crash(false);
    world.settle();
    assert_eq!(world.job_arrived, 3);
}

#[test]
fn what_waits_for_a_stuck_disk_is_sent_once_it_works() {
    let mut world = World::new();
    world.core.on_bus_event(world.now, &connected());
    world.core.on_datagram(world.now, b"a:1|ms");
    world.pass(SECOND);
    world.send(true);
    assert!(world.core.next_spool_batch(world.now).is_some());
    world.core.on_spool_stuck(world.now);
    world.pass(SPOOL_RETRY_PAUSE);
    world.spool(false);
    world.send(true);
    assert_eq!((world.job_arrived, world.core.status().spool.stuck), (1, false));
}

#[test]
fn without_its_thread_a_spool_causes_no_deadline_in_the_past_and_stops_nothing() {
    let mut world = World::new();
    world.core.on_bus_event(world.now, &connected());
    assert!(world.core.next_spool_batch(world.now).is_some());
    world.core.close_spool();
    for _ in 0..60 {
        world.core.on_datagram(world.now, b"a:1|ms");
        world.pass(SECOND / 10);
        world.send(true);
        world.acknowledge();
        assert!(world.core.next_deadline() > world.now.mono);
    }
    assert!(world.job_arrived >= 40, "{}", world.job_arrived);
}

#[test]
fn a_disk_that_does_not_answer_is_reported_and_not_durable() {
    let mut world = World::new();
    world.spool(false);
    world.core.on_datagram(world.now, b"a:1:2:3|ms");
    world.pass(SECOND);
    assert!(world.core.next_spool_batch(world.now).is_some());
    world.pass(SPOOL_STUCK_AFTER - SECOND);
    assert!(world.core.status().spool.durable);
    world.pass(SECOND);
    let spool = world.core.status().spool;
    assert_eq!((spool.stuck, spool.durable), (true, false));
    world.core.on_spooled();
    assert!(!world.core.status().spool.stuck);
}

#[test]
fn what_a_spool_kept_is_not_dropped_by_the_incarnation_that_takes_it_over() {
    let thresholds =
        Thresholds { drop: 100, reroute: 90, recover: 50, ..OutboxBounds::default().thresholds };
    let outbox = OutboxBounds { thresholds, coalesce_messages: 60, ..OutboxBounds::default() };
    let bounds = Bounds { outbox, ..Bounds::default() };
    let mut world = World::new();
    world.core = Core::new(identity(), bounds.clone(), world.now);
    world.core.open_spool(world.now, Wal::new(identity(), None), None);
    world.core.on_bus_event(world.now, &connected());
    for n in 0..140 {
        world.core.on_datagram(world.now, b"a:1|ms");
        world.pass(SECOND);
        if n == 110 {
            world.core.on_bus_event(world.now, &BusEvent::Disconnected);
        }
        for _ in 0..3 {
            world.send(true);
            world.acknowledge();
            world.spool(false);
        }
    }
    assert!(world.core.outbox.stats().unconfirmed > 100);
    let held = world.core.status().held_samples;
    assert!(held > 20);
    let found = recover(&world.file, &identity(), None, world.now.mono).unwrap();
    let mut successor = Core::new(identity(), bounds, world.now.after(SECOND));
    successor.open_spool(world.now, Wal::new(identity(), None), Some(found));
    successor.on_datagram(world.now, b"a:1|ms");
    successor.on_deadline(world.now.after(3 * SECOND));
    assert_eq!(
        (successor.status().totals.lost, successor.status().bus.rerouting),
        (BTreeMap::new(), false)
    );
}

#[test]
fn a_clock_that_began_in_1970_makes_nothing_old() {
    let mut world = World::new();
    world.now.wall = Wall(1_000_000_000);
    world.core = Core::new(identity(), bounds(), world.now);
    world.core.open_spool(world.now, Wal::new(identity(), None), None);
    world.core.on_datagram(world.now, b"a:1:2:3|ms");
    world.pass(SECOND);
    world.spool(false);
    world.now.wall = Wall(1_790_000_000_000_000_000);
    world.pass(60 * SECOND);
    world.spool(false);
    world.crash(false);
    assert_eq!(world.core.status().totals.lost, BTreeMap::new());
    assert_eq!(world.core.spool.stats().recovered, 3);
}
