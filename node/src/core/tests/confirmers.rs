//! Which confirmations a node believes: forged ones, another key's, earlier ones, and how many it
//! takes.

use plimsoll_schemas::ids::AggregatorName;
use plimsoll_schemas::wire::confirmation::Issue;
use plimsoll_schemas::wire::signature::ConfirmKey;

use super::*;
use crate::core::outbox::UnconfirmedBounds;
use crate::limits::REPLAYS_REFUSED_FOR;

fn key(digit: &str) -> ConfirmKey {
    ConfirmKey::from_hex(&digit.repeat(64)).unwrap()
}

fn now() -> Now {
    start().after(SECOND)
}

/// A node whose first message is acknowledged, and which as many aggregators must confirm.
fn holding_one(required: u32) -> Core {
    let defaults = OutboxBounds::default();
    let unconfirmed = UnconfirmedBounds { required, ..defaults.unconfirmed };
    let outbox = OutboxBounds { unconfirmed, ..defaults };
    let mut core = core(Bounds { outbox, ..Bounds::default() });
    core.on_bus_event(start(), &connected());
    core.on_deadline(now());
    assert_eq!(deliver(&mut core, now()).len(), 1);
    core
}

fn unconfirmed(core: &Core) -> u64 {
    core.status().bus.unconfirmed
}

/// That an aggregator has the first message, as of a second.
fn stored(aggregator: &str, second: u64) -> Confirmation {
    let incarnation = Incarnation(start().wall.0);
    let incarnations = vec![ConfirmedIncarnation { incarnation, spans: vec![(Seq(1), Seq(1))] }];
    let aggregator = AggregatorName::new(aggregator).unwrap();
    let at = Wall(start().wall.0 + second * 1_000_000_000);
    Confirmation {
        incarnations,
        issue: Some(Issue { aggregator, at }),
        ..Confirmation::of(NodeName::new("n").unwrap())
    }
}

fn signed(confirmation: &Confirmation, mesh: &str, key: &ConfirmKey) -> Vec<u8> {
    confirmation::encode_signed(confirmation, &MeshName::new(mesh).unwrap(), key)
}

#[test]
fn with_a_key_only_what_an_aggregator_signed_removes_a_copy() {
    let mut core = holding_one(1);
    core.set_confirm_key(key("a"));
    let got = stored("a1", 1);
    let mut forged = signed(&got, "m", &key("a"));
    *forged.last_mut().unwrap() ^= 1;
    for (bytes, reason) in [
        (confirmation::encode(&got), "unsigned"),
        (signed(&got, "m", &key("b")), "signature"),
        (signed(&got, "other", &key("a")), "signature"),
        (forged, "signature"),
        (signed(&Confirmation { issue: None, ..got.clone() }, "m", &key("a")), "unsigned"),
    ] {
        assert_eq!(core.on_confirmation(now(), &bytes), Err(reason));
        assert_eq!(unconfirmed(&core), 1, "{reason}");
    }
    let refused = core.status().bus.confirmations_refused;
    let refused: Vec<_> = refused.iter().map(|(reason, n)| (reason.as_str(), *n)).collect();
    assert_eq!(refused, [("signature", 3), ("unsigned", 2)]);
    assert_eq!(core.on_confirmation(now(), &signed(&got, "m", &key("a"))), Ok(()));
    assert_eq!(unconfirmed(&core), 0);
}

#[test]
fn without_a_key_signed_and_unsigned_confirmations_count() {
    for bytes in [confirmation::encode(&stored("a", 1)), signed(&stored("a", 1), "m", &key("a"))] {
        let mut core = holding_one(1);
        assert_eq!(core.on_confirmation(now(), &bytes), Ok(()));
        assert_eq!(unconfirmed(&core), 0);
    }
}

#[test]
fn an_earlier_confirmation_of_the_same_aggregator_is_refused_for_a_while() {
    let mut core = holding_one(1);
    core.set_confirm_key(key("a"));
    let nothing = |second| Confirmation { incarnations: Vec::new(), ..stored("a1", second) };
    let captured = signed(&stored("a1", 5), "m", &key("a"));
    core.on_confirmation(now(), &signed(&nothing(6), "m", &key("a"))).unwrap();
    assert_eq!(core.on_confirmation(now(), &captured), Err("replayed"));
    assert_eq!(unconfirmed(&core), 1);
    let again = signed(&nothing(6), "m", &key("a"));
    assert_eq!(core.on_confirmation(now(), &again), Err("replayed"), "the same once more");
    core.on_confirmation(now(), &signed(&nothing(4), "m", &key("a"))).unwrap_err();
    // Another aggregator has another clock.
    core.on_confirmation(
        now(),
        &signed(&Confirmation { incarnations: Vec::new(), ..stored("a2", 1) }, "m", &key("a")),
    )
    .unwrap();
    // The first was started anew after its clock was set back.
    let later = now().after(REPLAYS_REFUSED_FOR);
    assert_eq!(core.on_confirmation(later, &captured), Ok(()));
    assert_eq!(unconfirmed(&core), 0);
}

#[test]
fn where_two_are_required_one_aggregator_alone_removes_no_copy_however_often_it_confirms() {
    let mut core = holding_one(2);
    for second in 1..4 {
        core.on_confirmation(now(), &confirmation::encode(&stored("a1", second))).unwrap();
        assert_eq!((unconfirmed(&core), core.status().bus.confirmed), (1, 0));
    }
    core.on_confirmation(now(), &confirmation::encode(&stored("a2", 1))).unwrap();
    assert_eq!((unconfirmed(&core), core.status().bus.confirmed), (0, 1));
}

#[test]
fn a_confirmation_in_the_place_of_an_acknowledgement_is_one_of_two() {
    let unconfirmed_bounds =
        UnconfirmedBounds { required: 2, ..OutboxBounds::default().unconfirmed };
    let outbox = OutboxBounds { unconfirmed: unconfirmed_bounds, ..OutboxBounds::default() };
    let mut core = core(Bounds { outbox, ..Bounds::default() });
    core.on_bus_event(start(), &connected());
    core.on_deadline(now());
    let sent = core.next_publish(now()).unwrap();
    core.on_confirmation(now(), &confirmation::encode(&stored("a1", 1))).unwrap();
    let bus = core.status().bus;
    assert_eq!((bus.published, bus.confirmed, bus.unconfirmed), (1, 0, 1));
    core.on_bus_event(now(), &acknowledged(sent.ticket));
    core.on_confirmation(now(), &confirmation::encode(&stored("a2", 1))).unwrap();
    let bus = core.status().bus;
    assert_eq!((bus.published, bus.confirmed, bus.unconfirmed), (1, 1, 0));
}

#[test]
fn aggregators_that_state_no_name_count_as_one() {
    let mut core = holding_one(2);
    let nameless = Confirmation { issue: None, ..stored("a1", 1) };
    for _ in 0..2 {
        core.on_confirmation(now(), &confirmation::encode(&nameless)).unwrap();
    }
    assert_eq!(unconfirmed(&core), 1);
    core.on_confirmation(now(), &confirmation::encode(&stored("a1", 1))).unwrap();
    assert_eq!(unconfirmed(&core), 0);
}

#[test]
fn what_an_aggregator_withholds_removes_nothing_and_the_rest_of_it_holds() {
    let mut core = holding_one(1);
    let withheld = Confirmation { withheld: true, mesh_nodes: 7, ..stored("a1", 1) };
    core.on_confirmation(now(), &confirmation::encode(&withheld)).unwrap();
    assert_eq!((unconfirmed(&core), core.mesh_nodes()), (1, 7));
    // It is not waited for at the end.
    core.on_leave(now());
    deliver(&mut core, now());
    core.on_deadline(now());
    assert!(core.is_drained(now()));
}
