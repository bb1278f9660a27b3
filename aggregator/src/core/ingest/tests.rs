//! Ingest on its own interface: positions in, event times and the broker's health out.

use plimsoll_schemas::time::Mono;
use plimsoll_schemas::transport::Delivered;

use super::*;
use crate::core::tests::{MS, SECOND, Speaker, start};

fn read(ingest: &mut Ingest, now: Now, stream_seq: u64, pending: u64) -> Result<(), Unreadable> {
    let (subject, payload) = Speaker::new("a").send(now, MS, 1);
    let (lane, at) = (Lane::Normal, Some(now.wall));
    let message =
        Delivered { lane, stream_seq, pending, at, sent: None, subject, payload: payload.into() };
    ingest.on_decoded(now, Decoded::of(message)).map(|_| ())
}

#[test]
fn it_is_ready_once_every_lane_has_been_read_to_where_it_ended_at_the_start() {
    let mut ingest = Ingest::new(start());
    ingest.on_positioned(Lane::Emergency, 1, 0, "s");
    ingest.on_positioned(Lane::Normal, 1, 2, "s");
    read(&mut ingest, start(), 1, 1).unwrap();
    assert!(!ingest.is_ready() && ingest.is_behind());
    read(&mut ingest, start(), 2, 0).unwrap();
    assert!(ingest.is_ready() && !ingest.is_behind());
}

#[test]
fn a_checkpoint_restores_positions_and_catches_up_in_steps_of_a_second() {
    let mut ingest = Ingest::new(start());
    Lane::ALL.into_iter().for_each(|lane| ingest.on_positioned(lane, 1, 0, "s"));
    read(&mut ingest, start(), 7, 0).unwrap();
    assert!(ingest.has_changed);
    let stored = ingest.checkpoint();
    assert!(!ingest.has_changed);
    let now = start().after(3 * SECOND);
    let mut ingest = Ingest::restore(now, stored, start().wall);
    let position = Position { read: 7, stream_id: Some("s".to_owned()) };
    assert_eq!(ingest.position(Lane::Normal), position);
    let before = start().wall.plus(3 * SECOND);
    let steps = std::iter::from_fn(|| ingest.next_catch_up(now.wall, before));
    let seconds = [1, 2].map(|n| start().wall.plus(n * SECOND));
    assert_eq!(steps.collect::<Vec<_>>(), seconds);
    assert_eq!(ingest.broker_health().pending, None, "unknown of the past");
    ingest.end_catch_up();
    assert_eq!(ingest.broker_health().pending, Some(0));
}

#[test]
fn silence_is_certain_only_after_messages_were_read_as_they_came_for_as_long() {
    let mut ingest = Ingest::new(start());
    Lane::ALL.into_iter().for_each(|lane| ingest.on_positioned(lane, 1, 0, "s"));
    let second = |n: u64| Mono(n * 1_000_000_000);
    ingest.watch_broker(second(1), MeshLinks::default());
    ingest.watch_broker(second(11), MeshLinks::default());
    assert!(ingest.broker_health().is_silence_certain(10.0));
    assert!(!ingest.broker_health().is_silence_certain(11.0));
    ingest.on_bus_event(&BusEvent::Disconnected, second(12));
    assert!(!ingest.broker_health().is_silence_certain(0.0));
    ingest.watch_broker(second(15), MeshLinks::default());
    assert_eq!(ingest.broker_health().unreachable_for, Some(3 * SECOND));
}

#[test]
fn nodes_of_a_large_mesh_have_as_long_to_return_as_their_reconnects_are_spread() {
    for (nodes, returned_within) in [(0, 30), (3, 30), (4_400, 30), (10_000, 58), (15_000, 83)] {
        let mut ingest = Ingest::new(start());
        Lane::ALL.into_iter().for_each(|lane| ingest.on_positioned(lane, 1, 0, "s"));
        let mut is_certain_at = |second: u64| {
            let links = MeshLinks { nodes, ..MeshLinks::default() };
            ingest.watch_broker(Mono(second * 1_000_000_000), links);
            ingest.broker_health().is_silence_certain(1_000.0)
        };
        is_certain_at(0);
        assert!(!is_certain_at(returned_within - 1), "{nodes} nodes");
        assert!(is_certain_at(returned_within), "{nodes} nodes");
    }
}

#[test]
fn a_node_is_silent_beyond_the_time_that_its_mesh_takes_to_reconnect() {
    for (nodes, silence) in [(0, 45.0), (3, 45.0), (400, 45.0), (5_000, 22.0), (10_000, 0.0)] {
        let mut ingest = Ingest::new(start());
        Lane::ALL.into_iter().for_each(|lane| ingest.on_positioned(lane, 1, 0, "s"));
        for second in [0, 1_000] {
            let links = MeshLinks { nodes, ..MeshLinks::default() };
            ingest.watch_broker(Mono(second * 1_000_000_000), links);
        }
        assert_eq!(ingest.broker_health().silence(45.0), Some(silence), "{nodes} nodes");
    }
    assert_eq!(Ingest::new(start()).broker_health().silence(45.0), None, "nothing was read yet");
}

#[test]
fn a_clock_jump_is_distinguished_from_elapsed_time() {
    let mut ingest = Ingest::new(start());
    let mut now = start().after(SECOND);
    assert_eq!(ingest.on_tick(now), ClockJump { forward: Duration::ZERO, is_back: false });
    now = now.after(SECOND);
    now.wall = now.wall.plus(60 * SECOND);
    assert_eq!(ingest.on_tick(now), ClockJump { forward: 60 * SECOND, is_back: false });
    now.wall = start().wall;
    assert_eq!(ingest.on_tick(now), ClockJump { forward: Duration::ZERO, is_back: true });
}

#[test]
fn the_brokers_round_trip_is_that_of_half_of_the_mesh() {
    let ms = Duration::from_millis;
    let mut ingest = Ingest::new(start());
    let mut round_trip = |second: u64, own: Option<u64>, nodes: &[u64]| {
        let now = Mono(second * 1_000_000_000);
        if let Some(own) = own {
            ingest.on_bus_event(&BusEvent::RoundTrip(ms(own)), now);
        }
        let round_trips = nodes.iter().map(|n| ms(*n)).collect();
        ingest.watch_broker(now, MeshLinks { nodes: 0, round_trips });
        ingest.broker_health().round_trip.map(|span| span.as_millis())
    };
    assert_eq!(round_trip(1, None, &[5, 6]), None, "nothing is known of the broker");
    for (own, nodes, median) in [
        (9, &[][..], 9),
        // One slow link, the aggregator's or a node's, is not the broker.
        (2_000, &[3], 3),
        (3, &[2_000], 3),
        (3, &[2_000, 4], 4),
        (2_000, &[1_900], 1_900),
        (2_000, &[5, 1_800, 1_900], 1_800),
    ] {
        assert_eq!(round_trip(2, Some(own), nodes), Some(median), "{own} {nodes:?}");
    }
    assert_eq!(round_trip(11, None, &[]), Some(2_000));
    assert_eq!(round_trip(12, None, &[]), None, "it is old");
}
