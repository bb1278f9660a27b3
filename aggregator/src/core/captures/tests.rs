//! Captures from order to end, as a driver carries them out, and any order of events.

use std::time::Duration;

use proptest::prelude::*;

use plimsoll_schemas::alert::{AlertKey, Scope};
use plimsoll_schemas::ids::{Labels, Operation};
use plimsoll_schemas::limits::wire::CAPTURE_CHUNK_BYTES_MAX;
use plimsoll_schemas::summary::ProfileState;
use plimsoll_schemas::time::nanos;
use plimsoll_schemas::wire::capture::{
    CaptureFacts, CaptureFailure, CaptureKind, CaptureRefusal, CaptureState, CaptureStep,
};

use super::*;
use crate::limits::captures::{BREACH_PAUSE, BREACHES_AN_HOUR_MAX, GIVE_UP_AFTER};

const SECOND_NS: u64 = 1_000_000_000;

fn mesh() -> MeshName {
    MeshName::new("m").unwrap()
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn at(seconds: f64) -> Now {
    let ns = nanos(Duration::from_secs_f64(seconds));
    Now { mono: Mono(ns), wall: Wall(1_000 * SECOND_NS + ns) }
}

fn request(name: &str) -> ProfileRequest {
    let (nodes, labels) = (vec![node(name)], Labels::default());
    ProfileRequest {
        kind: CaptureKind::Cpu,
        native: false,
        node: None,
        nodes,
        pid: Some(42),
        operation: None,
        labels,
        seconds: None,
        hz: None,
        interval_seconds: None,
        from: None,
        to: None,
    }
}

fn target(name: &str) -> CaptureTarget {
    CaptureTarget { node: node(name), labels: Labels::new([("rank", "3")]).unwrap() }
}

fn pair(rule: &str, culprit: &str) -> CapturePair {
    let operation = Operation::new("step").unwrap();
    let rule = RuleName::new(rule).unwrap();
    let alert = AlertKey { rule, scope: Scope::Node(node(culprit)), operation };
    CapturePair { alert, culprit: target(culprit), peer: target("peer") }
}

/// An alert fires that has this pair.
fn breach(captures: &mut Captures, now: Now, pair: CapturePair) {
    let (alert, mut pair) = (pair.alert.clone(), Some(pair));
    captures.on_fired(now, &mesh(), vec![alert], |_, _| pair.take());
}

fn response(id: CaptureId, state: CaptureState, size: usize, chunk: usize) -> CaptureResponse {
    let (bytes, chunk) = (size as u64, vec![7; chunk]);
    let facts = CaptureFacts { pid: 42, samples: 9, ..CaptureFacts::default() };
    CaptureResponse { bytes, chunk, facts, ..CaptureResponse::new(1, id, state) }
}

/// The request that is due, which must be there.
fn requested(captures: &mut Captures, now: Now) -> (CaptureId, CaptureStep) {
    match captures.next_effect(now) {
        Some(CaptureEffect::Request { id, step, .. }) => (id, step),
        other => panic!("{other:?}"),
    }
}

/// All rows, also those whose profiles are stored.
fn rows(captures: &Captures) -> Vec<ProfileRow> {
    captures.captures.values().map(|of| of.row.clone()).collect()
}

fn one(captures: &Captures) -> ProfileRow {
    rows(captures).remove(0)
}

#[test]
fn a_profile_is_polled_fetched_and_stored() {
    let mut captures = Captures::default();
    let row = captures.order(at(0.2), &mesh(), request("n1")).unwrap();
    assert_eq!((row.state, row.start_seconds, row.seconds), (ProfileState::Running, 1_002.0, 10));
    let (id, step) = requested(&mut captures, at(0.2));
    assert!(matches!(&step, CaptureStep::Order(order) if order.start_at == at(2.0).wall));
    assert_eq!(captures.next_effect(at(0.3)), None, "one request at a time");

    // The next one is sent when there can be a profile.
    captures.on_response(at(0.5), id, Ok(response(id, CaptureState::Waiting, 0, 0)));
    assert_eq!(captures.next_deadline(), Some(at(12.0).mono));
    assert_eq!(requested(&mut captures, at(12.0)).0, id);

    let size = CAPTURE_CHUNK_BYTES_MAX + 5;
    captures.on_response(at(12.1), id, Ok(response(id, CaptureState::Kept, size, 0)));
    for (number, chunk) in [(0, CAPTURE_CHUNK_BYTES_MAX), (1, 5)] {
        assert_eq!(requested(&mut captures, at(12.1)).1, CaptureStep::Chunk(number));
        captures.on_response(at(12.1), id, Ok(response(id, CaptureState::Kept, size, chunk)));
    }
    let Some(CaptureEffect::Store { row, bytes, .. }) = captures.next_effect(at(12.2)) else {
        panic!("a profile that is whole is stored")
    };
    assert_eq!((row.state, bytes.len()), (ProfileState::Kept, size));
    assert_eq!(one(&captures).state, ProfileState::Running);
    captures.on_stored(id, Ok(()));
    assert_eq!((one(&captures).state, one(&captures).bytes), (ProfileState::Kept, size as u64));
    assert_eq!((captures.next_deadline(), captures.rows()), (None, vec![]), "the store has it");
}

#[test]
fn every_end_has_its_reason() {
    let refused = CaptureState::Refused(CaptureRefusal::NoKey);
    let failed = CaptureState::Failed(CaptureFailure::NoProfiler);
    let ok = |state, size| move |id| Ok(response(id, state, size, 0));
    let table: [(&dyn Fn(CaptureId) -> _, _, _); 6] = [
        (&ok(refused, 0), ProfileState::Refused, Some("no_key")),
        (&ok(failed, 0), ProfileState::Failed, Some("no_profiler")),
        (&ok(CaptureState::Expired, 0), ProfileState::Expired, None),
        (&ok(CaptureState::Unknown, 0), ProfileState::Failed, Some("unknown")),
        (&ok(CaptureState::Kept, 0), ProfileState::Failed, Some("empty")),
        (&|_| Err(RequestError::Invalid), ProfileState::Failed, Some("invalid_response")),
    ];
    for (respond, state, reason) in table {
        let mut captures = Captures::default();
        captures.order(at(0.0), &mesh(), request("n1")).unwrap();
        let (id, _) = requested(&mut captures, at(0.0));
        captures.on_response(at(0.1), id, respond(id));
        let row = one(&captures);
        assert_eq!((row.state, row.reason.as_deref()), (state, reason));
        assert_eq!((captures.ledger.ordered, captures.ledger.running()), (1, 0));
    }
}

#[test]
fn a_silent_node_is_asked_until_it_is_given_up() {
    let given_up = 11.0 + GIVE_UP_AFTER.as_secs_f64();
    for (responds, given_up) in [(false, 11.0), (true, given_up)] {
        let mut captures = Captures::default();
        captures.order(at(0.0), &mesh(), request("n1")).unwrap();
        if responds {
            let (id, _) = requested(&mut captures, at(0.0));
            captures.on_response(at(0.0), id, Ok(response(id, CaptureState::Waiting, 0, 0)));
        }
        assert_given_up_at(captures, given_up);
    }
}

fn assert_given_up_at(mut captures: Captures, given_up: f64) {
    let mut now = 0.0;
    while let Some(due) = captures.next_deadline() {
        now = (due.0 as f64 / 1e9).max(now);
        let (id, _) = requested(&mut captures, at(now));
        now += 4.0;
        captures.on_response(at(now), id, Err(RequestError::NoResponse));
    }
    assert_eq!(one(&captures).reason.as_deref(), Some("no_response"));
    let names_the_setting = one(&captures).facts.fix.contains("captures.enabled");
    assert_eq!(names_the_setting, given_up == 11.0);
    assert!((given_up..given_up + 7.0).contains(&now), "{now}");
}

#[test]
fn a_chunk_that_does_not_fit_ends_the_capture() {
    for (size, chunk) in [(9, 8), (9, 10), (8, 8)] {
        let mut captures = Captures::default();
        captures.order(at(0.0), &mesh(), request("n1")).unwrap();
        let (id, _) = requested(&mut captures, at(0.0));
        captures.on_response(at(0.1), id, Ok(response(id, CaptureState::Kept, 9, 0)));
        let (id, _) = requested(&mut captures, at(0.1));
        captures.on_response(at(0.2), id, Ok(response(id, CaptureState::Kept, size, chunk)));
        assert_eq!(one(&captures).reason.as_deref(), Some("incomplete"));
    }
}

#[test]
fn a_node_that_measures_another_kind_does_not_support_the_ordered_one() {
    let kinds = [CaptureKind::Cpu, CaptureKind::Memory, CaptureKind::Trace];
    for (ordered, measured) in kinds.into_iter().flat_map(|a| kinds.map(|b| (a, b))) {
        let mut captures = Captures::default();
        let of_kind = ProfileRequest { kind: ordered, ..request("n1") };
        captures.order(at(0.0), &mesh(), of_kind).unwrap();
        let (id, _) = requested(&mut captures, at(0.0));
        let mut found = response(id, CaptureState::Kept, 9, 0);
        found.facts.kind = measured;
        captures.on_response(at(0.1), id, Ok(found));
        let row = one(&captures);
        let end = (ProfileState::Failed, Some("not_supported"));
        let wanted = if ordered == measured { (ProfileState::Running, None) } else { end };
        assert_eq!((row.state, row.reason.as_deref()), wanted, "{ordered:?} by {measured:?}");
    }
}

/// A capture that runs at its node, and was stopped half a second after its order.
fn stopped(captures: &mut Captures) -> CaptureId {
    let id = captures.order(at(0.0), &mesh(), request("n1")).unwrap().id;
    let _sent = requested(captures, at(0.0));
    captures.on_response(at(0.1), id, Ok(response(id, CaptureState::Running, 0, 0)));
    let row = captures.stop(at(0.5), id).unwrap();
    assert_eq!((row.state, row.reason.as_deref()), (ProfileState::Running, Some("stopped")));
    assert_eq!(captures.stop(at(0.5), id), Err(CaptureError::NotRunning(id)));
    assert_eq!(requested(captures, at(0.5)), (id, CaptureStep::Stop));
    id
}

#[test]
fn a_stopped_capture_has_what_was_taken_so_far() {
    let mut captures = Captures::default();
    let id = stopped(&mut captures);
    captures.on_response(at(0.6), id, Ok(response(id, CaptureState::Running, 0, 0)));
    assert_eq!(requested(&mut captures, at(1.1)), (id, CaptureStep::Stop));
    captures.on_response(at(1.2), id, Ok(response(id, CaptureState::Torn, 3, 0)));
    assert_eq!(requested(&mut captures, at(1.2)).1, CaptureStep::Chunk(0));
    captures.on_response(at(1.2), id, Ok(response(id, CaptureState::Torn, 3, 3)));
    let Some(CaptureEffect::Store { row, .. }) = captures.next_effect(at(1.2)) else { panic!() };
    assert_eq!((row.state, row.reason.as_deref()), (ProfileState::Torn, Some("stopped")));
}

#[test]
fn a_stopped_capture_without_a_profile_has_failed() {
    let cancelled = CaptureState::Failed(CaptureFailure::Cancelled);
    for state in [Some(cancelled), Some(CaptureState::Unknown), None] {
        let mut captures = Captures::default();
        let id = stopped(&mut captures);
        // An earlier version does not respond.
        let answer = state.map(|state| response(id, state, 0, 0)).ok_or(RequestError::NoResponse);
        captures.on_response(at(10.5), id, answer);
        let end = (one(&captures).state, one(&captures).reason);
        assert_eq!(end, (ProfileState::Failed, Some("stopped".to_owned())), "{state:?}");
        assert_eq!(captures.next_deadline(), None);
        assert_eq!(captures.stop(at(11.0), id), Err(CaptureError::NotRunning(id)));
    }
    let other = CaptureId::derived(&[]);
    let unknown = Captures::default().stop(at(0.0), other);
    assert_eq!(unknown, Err(CaptureError::Unknown(other)));
}

#[test]
fn a_capture_whose_profile_is_stored_is_not_stopped() {
    let mut captures = Captures::default();
    let id = captures.order(at(0.0), &mesh(), request("n1")).unwrap().id;
    let _sent = requested(&mut captures, at(0.0));
    captures.on_response(at(0.0), id, Ok(response(id, CaptureState::Kept, 3, 0)));
    let _sent = requested(&mut captures, at(0.0));
    captures.on_response(at(0.0), id, Ok(response(id, CaptureState::Kept, 3, 3)));
    assert!(matches!(captures.next_effect(at(0.0)), Some(CaptureEffect::Store { .. })));
    assert_eq!(captures.stop(at(0.0), id), Err(CaptureError::NotRunning(id)));
    captures.on_stored(id, Ok(()));
    assert_eq!(one(&captures).state, ProfileState::Kept);
}

#[test]
fn orders_out_of_bounds_name_what_is_allowed() {
    let both = ProfileRequest { operation: Some(Operation::new("step").unwrap()), ..request("n1") };
    for (wrong, words) in [
        (ProfileRequest { seconds: Some(61), ..request("n1") }, "seconds is out of bounds"),
        (ProfileRequest { hz: Some(0), ..request("n1") }, "hz is out of bounds"),
        (both, "process is out of bounds; name the process by pid alone"),
        (ProfileRequest { pid: None, ..request("n1") }, "by operation"),
    ] {
        let error = Captures::default().order(at(0.0), &mesh(), wrong).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn captures_at_once_are_bounded_and_a_repeated_order_is_one() {
    let mut captures = Captures::default();
    for n in 0..RUNNING_MAX {
        captures.order(at(0.2), &mesh(), request(&format!("n{n}"))).unwrap();
    }
    assert_eq!(
        captures.order(at(0.0), &mesh(), request("n")),
        Err(CaptureError::Full(RUNNING_MAX))
    );
    let again = captures.order(at(0.4), &mesh(), request("n1")).unwrap();
    assert_eq!((again.node.as_str(), captures.ledger.ordered), ("n1", RUNNING_MAX as u64));
}

#[test]
fn a_node_is_ordered_to_record_for_an_hour_at_its_own_rate() {
    let kind = CaptureKind::Continuous;
    let recording = ProfileRequest { kind, pid: None, ..request("n1") };
    let every = |interval| ProfileRequest { interval_seconds: Some(interval), ..recording.clone() };
    let mut captures = Captures::default();
    let first = captures.order(at(0.0), &mesh(), recording.clone()).unwrap();
    assert_eq!((first.seconds, first.hz, first.kind), (3_600, 19, kind));
    assert_ne!(captures.order(at(0.0), &mesh(), every(60)).unwrap().id, first.id);
    let at_node =
        |n: usize| ProfileRequest { nodes: vec![node(&format!("r{n}"))], ..recording.clone() };
    for n in 0..RUNNING_MAX {
        captures.order(at(0.0), &mesh(), at_node(n)).unwrap();
    }
    assert!(
        captures.order(at(0.0), &mesh(), request("n1")).is_ok(),
        "they hold no place of others"
    );
    let named = ProfileRequest { kind, ..request("n1") };
    for wrong in [every(9), named, ProfileRequest { interval_seconds: Some(60), ..request("n1") }] {
        let refused = captures.order(at(0.0), &mesh(), wrong).unwrap_err().to_string();
        assert!(refused.contains("kind continuous names no process"), "{refused}");
    }
}

#[test]
fn an_alert_orders_its_node_and_a_peer_at_one_instant_and_not_again() {
    let mut captures = Captures::default();
    breach(&mut captures, at(0.0), pair("slow", "n1"));
    breach(&mut captures, at(1.0), pair("slow", "n1"));
    let mut rows = rows(&captures);
    rows.sort_by(|a, b| a.node.cmp(&b.node));
    let [culprit, peer] = rows.try_into().unwrap();
    assert_eq!((culprit.node.as_str(), peer.node.as_str()), ("n1", "peer"));
    assert_eq!((culprit.start_seconds, peer.start_seconds), (1_001.0, 1_001.0));
    assert_eq!((culprit.peer, peer.peer), (Some(peer.id), Some(culprit.id)));
    assert_eq!(culprit.rule.unwrap().as_str(), "slow");

    breach(&mut captures, at(1.0), pair("slow", "n2"));
    breach(&mut captures, at(1.0), pair("other", "n1"));
    let rule = |name| RuleName::new(name).unwrap();
    let is_spent = |now, name| captures.is_spent(at(now).wall, &rule(name), "peer");
    assert!(!is_spent(0.9, "slow") && is_spent(1.0, "slow") && !is_spent(1.0, "third"));
    assert!(!is_spent(2.0 + BREACH_PAUSE.as_secs_f64(), "slow"));
    // The capture of the peer at that instant serves both alerts of one rule.
    assert_eq!(captures.ledger.ordered, 5);
    assert_eq!(captures.pairs.len(), 3);
}

#[test]
fn alerts_order_a_bounded_number_an_hour() {
    let mut breaches = Breaches::default();
    let mut admitted = |now: f64, n: usize| {
        let (pair, now) = (pair("slow", &format!("n{n}")), at(now).wall);
        breaches.expire(now);
        let is_spent = breaches.is_spent(now, &pair.alert.rule, &format!("n{n}"));
        let is_admitted = !breaches.is_full() && !is_spent;
        if is_admitted {
            breaches.count(now, &pair);
        }
        is_admitted
    };
    assert_eq!((0..99).filter(|n| admitted(0.0, *n)).count(), BREACHES_AN_HOUR_MAX);
    let pause = BREACH_PAUSE.as_secs_f64();
    assert!(!admitted(pause, 0) && admitted(3_600.0, 0) && !admitted(3_600.0 + pause - 1.0, 0));
    assert!(admitted(3_600.0 + pause, 0));
    assert!(admitted(10.0, 0), "a clock that was set back");
}

#[test]
fn a_thousand_alerts_look_for_a_few_peers() {
    let alerts = || (0..1_000).map(|n| pair("slow", &format!("n{n}")).alert).collect::<Vec<_>>();
    let mut sought = 0;
    let mut captures = Captures::default();
    captures.on_fired(at(0.0), &mesh(), alerts(), |_, alert| {
        sought += 1;
        Some(pair("slow", alert.scope.node()))
    });
    // The peer is the same at the same instant, so one capture of it serves all.
    assert_eq!((sought, captures.ledger.running()), (BREACHES_AN_HOUR_MAX, 13));

    // The hour is spent, and then there is no peer.
    captures.on_fired(at(1.0), &mesh(), alerts(), |_, _| panic!("none may order"));
    sought = 0;
    Captures::default().on_fired(at(0.0), &mesh(), alerts(), |_, _| {
        sought += 1;
        None
    });
    assert_eq!(sought, PAIRS_SOUGHT_MAX);
}

#[test]
fn two_stored_profiles_of_an_alert_are_compared_once() {
    let mut captures = Captures::default();
    breach(&mut captures, at(0.0), pair("slow", "n1"));
    let store = |captures: &mut Captures, state| {
        let (id, _) = requested(captures, at(0.0));
        captures.on_response(at(0.0), id, Ok(response(id, state, 3, 0)));
        if state == CaptureState::Kept {
            let (id, _) = requested(captures, at(0.0));
            captures.on_response(at(0.0), id, Ok(response(id, state, 3, 3)));
            assert!(matches!(captures.next_effect(at(0.0)), Some(CaptureEffect::Store { .. })));
            captures.on_stored(id, Ok(()));
        }
    };
    store(&mut captures, CaptureState::Kept);
    store(&mut captures, CaptureState::Kept);
    let Some(CaptureEffect::Compare(found)) = captures.next_effect(at(0.0)) else { panic!() };
    assert_eq!(found.of, pair("slow", "n1"));
    assert_eq!(captures.next_effect(at(0.0)), None);

    breach(&mut captures, at(9.0), pair("slow", "n2"));
    let (id, _) = requested(&mut captures, at(9.0));
    let refused = CaptureState::Refused(CaptureRefusal::Busy);
    captures.on_response(at(9.0), id, Ok(response(id, refused, 0, 0)));
    let _other = requested(&mut captures, at(9.0));
    assert!(captures.next_effect(at(9.0)).is_none() && captures.pairs.is_empty());
}

fn states() -> impl Strategy<Value = CaptureState> {
    prop::sample::select(vec![
        CaptureState::Waiting,
        CaptureState::Running,
        CaptureState::Kept,
        CaptureState::Torn,
        CaptureState::Failed(CaptureFailure::NoProfiler),
        CaptureState::Refused(CaptureRefusal::Busy),
        CaptureState::Expired,
        CaptureState::Unknown,
    ])
}

#[derive(Clone, Debug)]
enum Event {
    Order(u8),
    Sum(usize),
    Breach(u8),
    Effect,
    Response(u8, CaptureState, usize, usize),
    Silence(u8, bool),
    Stored(u8, bool),
    Stop(u8),
    Wait(u32),
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..20_u8).prop_map(Event::Order),
        (2..20_usize).prop_map(Event::Sum),
        (0..20_u8).prop_map(Event::Breach),
        Just(Event::Effect),
        Just(Event::Effect),
        (any::<u8>(), states(), 0..4_usize, 0..4_usize)
            .prop_map(|(n, state, size, chunk)| Event::Response(n, state, size, chunk)),
        (any::<u8>(), any::<bool>()).prop_map(|(n, is_invalid)| Event::Silence(n, is_invalid)),
        (any::<u8>(), any::<bool>()).prop_map(|(n, is_stored)| Event::Stored(n, is_stored)),
        any::<u8>().prop_map(Event::Stop),
        (0..200_u32).prop_map(Event::Wait),
    ]
}

proptest! {
    /// Whatever arrives in whatever order, also twice, late, or of a capture that has ended.
    #[test]
    fn each_capture_that_was_ordered_ends_once_or_runs(
        events in prop::collection::vec(events(), 0..120),
    ) {
        let mut captures = Captures::default();
        let mut ids: Vec<CaptureId> = Vec::new();
        let mut now = 0.0;
        for event in events {
            let any = |n: u8| ids.get(usize::from(n) % ids.len().max(1)).copied();
            match event {
                Event::Order(n) => {
                    let _full = captures.order(at(now), &mesh(), request(&format!("n{n}")));
                }
                Event::Sum(nodes) => {
                    let _full = captures.order(at(now), &mesh(), past_of_nodes(nodes));
                }
                Event::Breach(n) => {
                    breach(&mut captures, at(now), pair("slow", &format!("n{n}")));
                }
                Event::Effect => match captures.next_effect(at(now)) {
                    Some(CaptureEffect::Request { id, .. }) => ids.push(id),
                    Some(CaptureEffect::Store { row, .. } | CaptureEffect::StoreSum(row)) => {
                        ids.push(row.id);
                    }
                    Some(CaptureEffect::Add { part, .. }) => ids.push(part),
                    Some(CaptureEffect::Compare(_)) | None => {}
                },
                Event::Response(n, state, size, chunk) => if let Some(id) = any(n) {
                    captures.on_response(at(now), id, Ok(response(id, state, size, chunk)));
                },
                Event::Silence(n, is_invalid) => if let Some(id) = any(n) {
                    let error = [RequestError::NoResponse, RequestError::Invalid];
                    let error = error[usize::from(is_invalid)];
                    captures.on_response(at(now), id, Err(error));
                },
                Event::Stored(n, is_stored) => if let Some(id) = any(n) {
                    captures.on_stored(id, is_stored.then_some(()).ok_or("not_stored"));
                },
                Event::Stop(n) => if let Some(id) = any(n) {
                    let _ended = captures.stop(at(now), id);
                },
                Event::Wait(seconds) => now += f64::from(seconds),
            }

            let rows = rows(&captures);
            let running = rows.iter().filter(|row| row.state == ProfileState::Running).count();
            prop_assert_eq!(running as u64, captures.ledger.running());
            prop_assert!(running <= RUNNING_MAX && captures.pairs.len() <= RUNNING_MAX);
            prop_assert!(rows.len() - running <= ENDED_MAX);
            let ended: u64 = captures.ledger.ended.values().sum();
            prop_assert_eq!(captures.ledger.ordered, ended + running as u64);
        }
    }

    /// Each of them finds the breach at its own moment of a second.
    #[test]
    fn two_aggregators_order_one_capture(start in 0..1_000_u32, offset in 0.0..1.0_f64) {
        let ids = |now: f64| {
            let mut captures = Captures::default();
            breach(&mut captures, at(now), pair("slow", "n1"));
            let mut ids: Vec<_> = captures.captures.keys().copied().collect();
            ids.sort_unstable();
            (rows(&captures)[0].start_seconds, ids)
        };
        let now = f64::from(start);
        let ((first, a), (second, b)) = (ids(now), ids(now + offset));
        // Each has an instant of its own, and the order is the same unless ten seconds end between.
        prop_assert_eq!(a == b, (first / 10.0).floor() == (second / 10.0).floor());
        prop_assert!(second == first || (second - first - 1.0).abs() < 1e-6);
        let other = Captures::default().order(at(now), &mesh(), request("n1")).unwrap().id;
        prop_assert!(!a.contains(&other));
    }
}

#[test]
fn the_past_is_ordered_as_a_stretch_of_one_process_or_of_all() {
    let mut captures = Captures::default();
    let (from, to) = (Some(100), Some(160));
    let past = ProfileRequest { kind: CaptureKind::Past, from, to, pid: None, ..request("n1") };
    let row = captures.order(at(0.0), &mesh(), past.clone()).unwrap();
    assert_eq!((row.kind, row.start_seconds, row.seconds), (CaptureKind::Past, 100.0, 60));
    let Some(CaptureEffect::Request { step: CaptureStep::Order(order), .. }) =
        captures.next_effect(at(0.0))
    else {
        panic!("it is sent at once");
    };
    let second = 1_000_000_000;
    assert_eq!(order.past, Some(PastRange { from: Wall(100 * second), to: Wall(160 * second) }));
    for request in [
        ProfileRequest { from: None, ..past.clone() },
        ProfileRequest { to: from, ..past.clone() },
        ProfileRequest { kind: CaptureKind::Cpu, pid: Some(1), ..past },
    ] {
        let refused = captures.order(at(0.0), &mesh(), request);
        assert!(matches!(refused, Err(CaptureError::Order(_))), "{refused:?}");
    }
}

/// Of all these nodes.
fn past_of_nodes(nodes: usize) -> ProfileRequest {
    let nodes = (0..nodes).map(|n| node(&format!("n{n:02}"))).collect();
    let (from, to, pid) = (Some(100), Some(160), None);
    ProfileRequest { kind: CaptureKind::Past, nodes, from, to, pid, ..request("n1") }
}

/// That it has ten bytes, of which these are sent.
fn of_past(id: CaptureId, chunk: usize) -> CaptureResponse {
    let facts = CaptureFacts { kind: CaptureKind::Past, samples: 3, ..CaptureFacts::default() };
    CaptureResponse { facts, ..response(id, CaptureState::Kept, 10, chunk) }
}

/// Carries out all that is due: each node has a profile of ten bytes, or is one without. Returns
/// the most nodes that were asked at a time, and what is stored in the end.
fn carried_out(
    captures: &mut Captures,
    now: Now,
    has_profile: impl Fn(&NodeName) -> bool,
) -> (usize, Option<ProfileRow>) {
    let (mut at_once, mut added, mut stored) = (0, 0, None);
    let mut asked = Vec::new();
    for turn in 0..1_000 {
        let now = Now { mono: now.mono.plus(Duration::from_secs(turn)), ..now };
        match captures.next_effect(now) {
            Some(CaptureEffect::Request { id, node, step }) => asked.push((id, node, step)),
            Some(CaptureEffect::Add { part, .. }) => {
                added += 1;
                captures.on_stored(part, Ok(()));
            }
            Some(CaptureEffect::StoreSum(row)) => {
                assert_eq!(row.nodes.as_ref().unwrap().answered, added);
                captures.on_stored(row.id, Ok(()));
                stored = Some(*row);
            }
            Some(other) => panic!("{other:?}"),
            None if asked.is_empty() => break,
            None => {
                let is_order = |(_, _, step): &&_| matches!(step, CaptureStep::Order(_));
                at_once = at_once.max(asked.iter().filter(is_order).count());
                for (id, node, step) in asked.drain(..) {
                    let response = match step {
                        CaptureStep::Chunk(_) => of_past(id, 10),
                        CaptureStep::Order(_) if has_profile(&node) => of_past(id, 0),
                        CaptureStep::Order(_) | CaptureStep::Stop => {
                            let refused = CaptureState::Refused(CaptureRefusal::NoKey);
                            response(id, refused, 0, 0)
                        }
                    };
                    captures.on_response(now, id, Ok(response));
                }
            }
        }
    }
    (at_once, stored)
}

#[test]
fn the_past_of_nodes_is_one_profile_that_names_those_without() {
    let mut captures = Captures::default();
    let row = captures.order(at(0.2), &mesh(), past_of_nodes(70)).unwrap();
    assert_eq!((row.subject(), row.state), ("0 of 64 nodes".to_owned(), ProfileState::Running));
    assert_eq!(captures.rows(), std::slice::from_ref(&row));
    // The same order within a second.
    assert_eq!(captures.order(at(0.4), &mesh(), past_of_nodes(70)).unwrap().id, row.id);

    let is_wanted = |node: &NodeName| node.as_str() != "n09";
    let (at_once, stored) = carried_out(&mut captures, at(0.4), is_wanted);
    let stored = stored.unwrap();
    assert_eq!((at_once, stored.id, stored.state), (8, row.id, ProfileState::Torn));
    assert_eq!((stored.subject().as_str(), stored.facts.samples), ("63 of 64 nodes", 189));
    let summed = stored.nodes.unwrap();
    assert_eq!((summed.left_out, &summed.missing[&node("n09")]), (6, &"no_key".to_owned()));
    // Neither it nor its parts are listed without a profile.
    assert_eq!((captures.rows(), captures.next_deadline()), (Vec::new(), None));
}

#[test]
fn a_sum_without_any_answer_fails_and_one_that_is_stopped_has_a_part() {
    let mut captures = Captures::default();
    captures.order(at(0.0), &mesh(), past_of_nodes(3)).unwrap();
    assert_eq!(carried_out(&mut captures, at(0.0), |_| false).1, None);
    let failed = captures.rows().remove(0);
    let why = (failed.state, failed.reason.as_deref());
    assert_eq!(why, (ProfileState::Failed, Some("no_node_answered")));

    let id = captures.order(at(5.0), &mesh(), past_of_nodes(20)).unwrap().id;
    let first = requested(&mut captures, at(5.0)).0;
    captures.on_response(at(5.1), first, Ok(of_past(first, 0)));
    // Its chunk comes before the orders of others.
    while requested(&mut captures, at(5.2)).0 != first {}
    captures.on_response(at(5.2), first, Ok(of_past(first, 10)));
    while !matches!(captures.next_effect(at(5.3)), Some(CaptureEffect::Add { .. })) {}
    captures.on_stored(first, Ok(()));
    assert_eq!(captures.stop(at(5.4), id).unwrap().state, ProfileState::Running);
    let stored = loop {
        match captures.next_effect(at(5.4)) {
            Some(CaptureEffect::StoreSum(stored)) => break stored,
            Some(_) => {}
            None => {
                // The other seven of the first eight.
                let running: Vec<CaptureId> = captures.captures.keys().copied().collect();
                for id in running.into_iter().filter(|id| *id != first) {
                    captures.on_response(
                        at(5.4),
                        id,
                        Ok(response(id, CaptureState::Unknown, 0, 0)),
                    );
                }
            }
        }
    };
    assert_eq!((stored.subject().as_str(), stored.state), ("1 of 20 nodes", ProfileState::Torn));
    assert!(stored.nodes.unwrap().missing.values().all(|why| why == "stopped"));
    assert_eq!(captures.stop(at(5.4), id), Err(CaptureError::NotRunning(id)));
}

#[test]
fn only_the_past_is_of_several_nodes_or_of_none() {
    let nodes = past_of_nodes(2).nodes;
    let cpu = ProfileRequest { nodes, ..request("n1") };
    for request in [cpu, past_of_nodes(0)] {
        let refused = Captures::default().order(at(0.0), &mesh(), request);
        assert_eq!(refused, Err(CaptureError::Nodes));
    }
}

#[test]
fn a_node_that_started_enough_says_what_to_do() {
    let mut captures = Captures::default();
    let id = captures.order(at(0.0), &mesh(), request("n1")).unwrap().id;
    let _sent = requested(&mut captures, at(0.0));
    let refused = CaptureState::Refused(CaptureRefusal::TooMany);
    captures.on_response(at(0.1), id, Ok(response(id, refused, 0, 0)));
    assert!(one(&captures).facts.fix.contains("an hour ago, or ask for its past"));
}
