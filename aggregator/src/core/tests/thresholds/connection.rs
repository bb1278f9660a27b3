//! A slow link, a slow broker, a dead broker, a full stream and a restart: one rule each, and none
//! for a restart.

use std::time::Duration;

use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::subject::Lane;

use super::*;

/// The rules of severity warning and above that fire, each once.
fn firing(world: &World) -> Vec<String> {
    let rules = shipped();
    let severity = |rule: &RuleName| rules.find(rule).map(|of| of.severity());
    let active = world.core.alerting.alerts.active();
    let firing = active.filter(|(_, state)| *state == Firing);
    let paging = firing.filter(|(key, _)| severity(&key.rule) >= Some(Severity::Warning));
    let names: BTreeSet<String> = paging.map(|(key, _)| key.rule.to_string()).collect();
    names.into_iter().collect()
}

/// A world of three nodes: the one that the test changes, and two that are well.
struct Mesh {
    world: World,
    others: [Speaker; 2],
    others_round_trip: Duration,
}

impl Mesh {
    fn new() -> Self {
        let others = ["b", "c"].map(Speaker::new);
        let mut mesh = Self { world: World::new(shipped()), others, others_round_trip: MS_1 };
        mesh.live(20);
        mesh
    }

    fn live(&mut self, seconds: u32) {
        for _ in 0..seconds {
            for other in &mut self.others {
                let round_trip_ns = u64::try_from(self.others_round_trip.as_nanos()).ok();
                let bus = Bus { round_trip_ns, breaker_state: Some(0), ..Bus::default() };
                let message = other.message(self.world.now, Body::Bus(bus), false);
                if !self.world.is_cut_off() {
                    deliver(&mut self.world.core, self.world.now, &message);
                }
            }
            self.world.live();
        }
    }
}

const MS_1: Duration = Duration::from_millis(1);
/// One rule names the fault. The fleet's budget reports that messages are late: of these nodes the
/// first alone sends times.
const LATE_BY_ITS_LINK: [&str; 2] = ["link_slow", "message_delivery"];

#[test]
fn a_slow_link_is_one_nodes_and_a_slow_broker_is_everyones() {
    let mut mesh = Mesh::new();
    mesh.world.bus.round_trip_ns = Some(3_000 * MS);
    mesh.live(30);
    assert_eq!(firing(&mesh.world), LATE_BY_ITS_LINK);
    let about = |mesh: &Mesh| -> Vec<String> {
        let active = mesh.world.core.alerting.alerts.active();
        let of = active.filter(|(key, _)| key.rule.as_str() == "link_slow");
        of.map(|(key, _)| key.scope.node().to_owned()).collect()
    };
    assert_eq!(about(&mesh), ["a"]);
    // All of them, and the aggregator.
    mesh.others_round_trip = Duration::from_millis(2_900);
    mesh.world.round_trip = Duration::from_millis(2_800);
    mesh.live(40);
    assert_eq!(firing(&mesh.world), ["broker_slow", "message_delivery"]);
}

#[test]
fn a_link_that_delays_messages_is_slow_and_no_clock_is_off() {
    for round_trip in [Some(MS), Some(20_000 * MS)] {
        let mut mesh = Mesh::new();
        (mesh.world.way, mesh.world.bus.round_trip_ns) = (10 * SECOND, round_trip);
        mesh.live(100);
        assert_eq!(firing(&mesh.world), LATE_BY_ITS_LINK, "{round_trip:?}");
    }
    // For ever so long, as long as the round trip shows it.
    let mut mesh = Mesh::new();
    (mesh.world.way, mesh.world.bus.round_trip_ns) = (10 * SECOND, Some(20_000 * MS));
    mesh.live(1_000);
    assert_eq!(firing(&mesh.world), LATE_BY_ITS_LINK);
    let mut mesh = Mesh::new();
    mesh.world.clock_ahead_s = 10;
    mesh.live(40);
    assert_eq!(firing(&mesh.world), ["clock_skew"]);
}

#[test]
fn a_full_stream_is_no_dead_broker() {
    let mut mesh = Mesh::new();
    mesh.world.core.on_stream_used(Lane::Normal, 0.99);
    mesh.live(30);
    assert_eq!(firing(&mesh.world), ["stream_full"]);
    // Opened anew it is another one, or is looked at again.
    mesh.world.core.on_positioned(Lane::Normal, 0, 0, "s2");
    mesh.live(10);
    assert_eq!(firing(&mesh.world), [""; 0]);
}

#[test]
fn a_broker_that_is_dead_blames_no_node_and_one_that_restarts_pages_nobody() {
    for (seconds, pages) in [(29, &[][..]), (40, &["broker_unreachable"])] {
        let mut mesh = Mesh::new();
        mesh.world.set_broker(false);
        let mut fired = BTreeSet::new();
        for _ in 0..seconds {
            mesh.live(1);
            fired.extend(firing(&mesh.world));
        }
        mesh.world.set_broker(true);
        // What waited overtakes itself, and the breaker was open once.
        mesh.world.bus.rerouted += 20;
        mesh.world.bus.breaker_state = Some(2);
        mesh.live(1);
        mesh.world.bus.breaker_state = Some(0);
        for _ in 0..300 {
            mesh.live(1);
            fired.extend(firing(&mesh.world));
        }
        let fired: Vec<&str> = fired.iter().map(String::as_str).collect();
        assert_eq!(fired, pages, "after {seconds} s");
    }
}

#[test]
fn a_breaker_that_opens_again_and_again_fires() {
    let mut mesh = Mesh::new();
    for _ in 0..5 {
        mesh.world.bus.breaker_state = Some(2);
        mesh.live(1);
        mesh.world.bus.breaker_state = Some(1);
        mesh.live(30);
    }
    assert_eq!(firing(&mesh.world), ["breaker_open"]);
}
