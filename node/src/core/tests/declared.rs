//! What the rules declare urgent, from a confirmation to the lane of a message.

use plimsoll_schemas::alert::NamePattern;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::urgency::{DeclaredSubject, DeclaredUrgency, Urgency};
use plimsoll_schemas::wire::confirmation::Confirmation;

use super::*;

/// A connected node that has received these declarations.
fn core_with(declared: &[(DeclaredSubject, Urgency)]) -> Core {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    let declared = declared.iter().cloned();
    let urgent = declared.map(|(subject, urgency)| DeclaredUrgency { subject, urgency });
    let node = NodeName::new("n").unwrap();
    let received = Confirmation { urgent: urgent.collect(), ..Confirmation::of(node) };
    core.on_confirmation(start(), &confirmation::encode(&received)).unwrap();
    core
}

/// The lanes of what is sent at the end of an interval with these lines.
fn lanes(core: &mut Core, second: u32, lines: &str) -> Vec<Lane> {
    let now = start().after(SECOND * second);
    core.on_datagram(now, lines.as_bytes());
    core.on_deadline(now);
    let mut lanes = Vec::new();
    while let Some(publish) = core.next_publish(now) {
        let subject: SnapshotSubject = publish.subject.parse().unwrap();
        core.on_bus_event(now, &acknowledged(publish.ticket));
        lanes.push(subject.lane);
    }
    lanes
}

#[test]
fn a_declared_operation_event_or_service_check_goes_by_the_emergency_lane_at_its_next_seal() {
    let pattern = |text: &str| NamePattern::new(text).unwrap();
    let mut core = core_with(&[
        (DeclaredSubject::Operation(pattern("pay.*")), Urgency::Critical),
        (DeclaredSubject::Event(pattern("fenced")), Urgency::Critical),
        (DeclaredSubject::ServiceCheck(pattern("disk")), Urgency::Critical),
        (DeclaredSubject::Operation(pattern("audit")), Urgency::High),
    ]);
    let (both, normal) = ([Lane::Emergency, Lane::Normal], [Lane::Normal]);
    let cases = [
        ("pay.card:3|ms", &both[..]),
        ("pays:3|ms", &normal),
        ("_e{6,2}:fenced|by", &both),
        ("_e{5,2}:other|by", &normal),
        ("_sc|disk|0", &both),
        ("_sc|fenced|0", &normal),
        // Nothing is delayed.
        ("audit:3|ms", &normal),
        ("_e{5,2}:other|by|t:error", &normal),
    ];
    for (second, (lines, expected)) in (1..).zip(cases) {
        assert_eq!(lanes(&mut core, second, lines), expected, "{lines}");
    }
}

#[test]
fn what_is_declared_takes_no_more_than_its_share_of_the_emergency_lane() {
    let any = DeclaredSubject::Operation(NamePattern::new("*").unwrap());
    let mut core = core_with(&[(any, Urgency::Critical)]);
    let sent = (1..=120).flat_map(|second| lanes(&mut core, second, "a:3|ms"));
    let at_once = sent.filter(|lane| *lane == Lane::Emergency).count();
    assert!((60..=66).contains(&at_once), "{at_once} of 120: five, and one in two seconds");
}

#[test]
fn what_goes_at_once_is_not_counted_as_rerouted_and_takes_nothing_undeclared_along() {
    let declared = DeclaredSubject::Operation(NamePattern::new("pay").unwrap());
    let mut core = core_with(&[(declared, Urgency::Critical)]);
    let now = start().after(SECOND);
    core.on_datagram(now, b"pay:3|ms\nother:3|ms");
    core.on_deadline(now);
    let mut operations = BTreeMap::new();
    while let Some(publish) = core.next_publish(now) {
        let subject: SnapshotSubject = publish.subject.parse().unwrap();
        let snapshot = wire::decode_packed(&subject, &publish.payload).unwrap();
        core.on_bus_event(now, &acknowledged(publish.ticket));
        let latency = snapshot.body.into_parts().latency;
        let names = latency.into_iter().flat_map(|latency| latency.histograms);
        operations.extend(names.map(|(series, _)| (series.operation.to_string(), subject.lane)));
    }
    assert_eq!((operations["pay"], operations["other"]), (Lane::Emergency, Lane::Normal));
    let status = core.status();
    assert_eq!((status.sent_at_once, status.bus.rerouted), (1, 0));
}

#[test]
fn of_a_declared_operation_with_many_series_one_message_goes_at_once() {
    let declared = DeclaredSubject::Operation(NamePattern::new("wide").unwrap());
    let mut core = core_with(&[(declared, Urgency::Critical)]);
    let now = start().after(SECOND);
    let tag = "x".repeat(60);
    for series in 0..1_500 {
        let line = format!("wide:{series}.5|ms|#a{tag}:{tag}{series},b{tag}:{tag}{series}");
        core.on_datagram(now, line.as_bytes());
    }
    let sent = lanes(&mut core, 1, "");
    let at_once = sent.iter().filter(|lane| **lane == Lane::Emergency).count();
    assert!(at_once == 1 && sent.len() > 3, "{sent:?}");
}
