//! Nothing is confirmed that would not be known after the worst crash.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_schemas::alert::NamePattern;
use plimsoll_schemas::budget::{Budget, Selector};
use plimsoll_schemas::hardware::{LOAD1, Reading};
use plimsoll_schemas::ids::{Incarnation, Labels, NodeName, Seq};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::urgency::{DeclaredSubject, DeclaredUrgency, Urgency};
use plimsoll_schemas::wire::confirmation::{Confirmation, decode};
use plimsoll_schemas::wire::{Body, Hardware};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::core::durable::CommonTerms;

type Message = (String, Vec<u8>);

/// Messages of two incarnations of one node, each under its incarnation and number.
fn messages() -> Vec<(Incarnation, Seq, Message)> {
    let mut decoded = Vec::new();
    for incarnation in [1, 2] {
        let mut speaker = Speaker::new("a").of(incarnation);
        for seq in 1..=30 {
            decoded.push((Incarnation(incarnation), Seq(seq), speaker.send(start(), MS, 3)));
        }
    }
    decoded
}

fn node() -> NodeName {
    NodeName::new("a").unwrap()
}

fn decoded(changes: &Changes) -> Option<Confirmation> {
    let got = changes.confirmations(start().mono).into_iter().next()?;
    assert_eq!(got.node, node());
    Some(decode(&node(), &got.encode(start().mono, &CommonTerms::default())).unwrap())
}

fn after_a_crash(core: &Core, stored: &StoredRecords) -> Core {
    let checkpoint = stored.read().unwrap();
    Core::restore(core.mesh.clone(), core.rules().budgets.clone(), start(), checkpoint)
}

proptest! {
    /// Whatever came in whatever order: a message is confirmed only if a core restored from
    /// the same checkpoint takes it for one that was merged before.
    #[test]
    fn nothing_is_confirmed_that_a_restored_core_would_not_hold(
        arrivals in prop::collection::vec((any::<Index>(), any::<bool>()), 1..80),
    ) {
        let messages = messages();
        let (mut core, mut stored) = (core(), StoredRecords::default());
        for (index, writes) in arrivals {
            deliver(&mut core, start(), &index.get(&messages).2);
            if !writes {
                continue;
            }
            let changes = core.take_changes(start().wall).unwrap();
            let confirmation = decoded(&changes).expect("the node was seen");
            stored.write(changes);
            let mut restored = after_a_crash(&core, &stored);
            let mut covered = 0;
            for confirmed in &confirmation.incarnations {
                let own = messages.iter().filter(|message| message.0 == confirmed.incarnation);
                for (_, _, message) in own.filter(|message| confirmed.covers(message.1)) {
                    let before = restored.fleet.counts.duplicates;
                    deliver(&mut restored, start(), message);
                    prop_assert_eq!(restored.fleet.counts.duplicates, before + 1);
                    covered += 1;
                }
            }
            let merged: u64 = restored.fleet.counts.merged.values().sum();
            prop_assert_eq!(covered, merged, "all that is stored, and nothing else");
        }
    }
}

#[test]
fn a_confirmation_states_its_age() {
    let mut core = core();
    deliver(&mut core, start(), &Speaker::new("a").send(start(), MS, 3));
    let got = core.take_changes(start().wall).unwrap().confirmations(start().mono);
    let later = start().mono.plus(Duration::from_micros(7_400_100));
    let age = decode(&node(), &got[0].encode(later, &core.common_terms())).unwrap().age;
    assert_eq!(age, Duration::from_millis(7_401), "never stated younger than it is");
}

#[test]
fn a_message_that_comes_again_is_confirmed_again() {
    let mut core = core();
    let message = Speaker::new("a").send(start(), MS, 3);
    deliver(&mut core, start(), &message);
    assert!(decoded(&core.take_changes(start().wall).unwrap()).is_some());
    deliver(&mut core, start(), &message);
    let again = decoded(&core.take_changes(start().wall).unwrap()).unwrap();
    assert!(again.incarnations[0].covers(Seq(1)));
    assert!(core.take_changes(start().wall).is_none(), "nothing has arrived since");
}

#[test]
fn confirmations_count_from_when_all_was_read_and_state_behind_when_long_ago() {
    let mut core = Core::new(core().mesh.clone(), Vec::new(), start());
    core.on_positioned(Lane::Emergency, 0, 0, "s1");
    core.on_positioned(Lane::Normal, 1, 2, "s1");
    let mut speaker = Speaker::new("a");
    // Second, number in the stream, what is pending behind it, age in seconds unless behind.
    let reads = [
        (0, 1, 1, None),
        (1, 2, 0, Some(0)),
        (2, 3, 4, Some(1)),
        (9, 7, 90, Some(7)),
        (39, 96, 90, None),
        (40, 97, 90, None),
        (41, 190, 90, Some(1)),
        (42, 280, 0, Some(0)),
    ];
    for (second, stream_seq, pending, age) in reads {
        let now = start().after(second * SECOND);
        let (subject, payload) = speaker.send(now, MS, 3);
        let (lane, at) = (Lane::Normal, Some(now.wall));
        let message = Delivered {
            lane,
            stream_seq,
            pending,
            at,
            sent: None,
            subject,
            payload: payload.into(),
        };
        core.on_message(now, &message).unwrap();
        let got = core.take_changes(now.wall).unwrap().confirmations(now.mono);
        let decoded = decode(&node(), &got[0].encode(now.mono, &core.common_terms())).unwrap();
        let known = (!decoded.behind).then_some(decoded.age.as_secs());
        assert_eq!(known, age, "second {second}");
    }
    core.on_reset(Lane::Normal, 999);
    let got = core.confirmation_from_memory(&node(), start().mono).unwrap();
    assert!(got.behind, "a stream made anew holds what was not read");
}

#[test]
fn a_lane_purged_while_disconnected_leaves_no_node_behind() {
    let mut core = core();
    let (subject, payload) = Speaker::new("a").send(start(), MS, 1);
    let (lane, at) = (Lane::Emergency, None);
    let message = Delivered {
        lane,
        stream_seq: 1,
        pending: 5,
        at,
        sent: None,
        subject,
        payload: payload.into(),
    };
    core.on_message(start(), &message).unwrap();
    assert!(core.is_behind());
    core.on_positioned(Lane::Emergency, 7, 6, "s1");
    assert!(!core.is_behind());
}

#[test]
fn nodes_receive_the_limits_of_all_budgets_and_of_new_rules_without_other_changes() {
    let mut core = core();
    deliver(&mut core, start(), &Speaker::new("a").send(start(), MS, 3));
    deliver(&mut core, start(), &Speaker::new("b").send(start(), MS, 3));
    drop(core.take_changes(start().wall).unwrap());
    assert!(core.take_changes(start().wall).is_none());
    let budgets = effective(&[]).unwrap();
    let more = (0..6).map(|n| {
        let selector =
            Selector { series: Labels::new([("a", "b")]).unwrap(), ..budgets[0].selector.clone() };
        Budget { limit_ns: 18_000_000 + n / 2, selector, ..budgets[0].clone() }
    });
    let all: Vec<_> = budgets.iter().cloned().chain(more).collect();
    core.evaluator.replace(Arc::new(Rules::from(all)));
    core.resend_terms();
    let got = core.take_changes(start().wall).unwrap().confirmations(start().mono);
    assert_eq!(got.iter().map(|got| got.node.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let decoded = decode(&node(), &got[0].encode(start().mono, &core.common_terms())).unwrap();
    let limits: Vec<_> =
        decoded.limits.iter().map(|of| (of.operation.as_str(), of.limit_ns)).collect();
    let hook = |ns| ("epoch_hook", ns);
    let expected = [
        hook(18_000_000),
        ("kernel_fetch", 10_000_000),
        ("publish", 25_000_000),
        hook(18_000_001),
        hook(18_000_002),
    ];
    assert_eq!(limits, expected);
    assert!(core.take_changes(start().wall).is_none(), "once");
}

#[test]
fn nodes_receive_what_other_rules_declare_urgent() {
    let mut core = core();
    deliver(&mut core, start(), &Speaker::new("a").send(start(), MS, 3));
    drop(core.take_changes(start().wall).unwrap());
    let subject = DeclaredSubject::Event(NamePattern::new("fenced*").unwrap());
    let urgent = vec![DeclaredUrgency { subject, urgency: Urgency::Critical }];
    core.reload(start(), Rules { urgent: urgent.clone(), ..shipped() });
    let got = core.take_changes(start().wall).expect("the node is sent one without other changes");
    let got = got.confirmations(start().mono).remove(0);
    let decoded = decode(&node(), &got.encode(start().mono, &core.common_terms())).unwrap();
    assert_eq!(decoded.urgent, urgent);
}

#[test]
fn confirmations_state_how_many_nodes_may_reconnect() {
    let mut core = core();
    let mut speakers = ["a", "b", "c"].map(Speaker::new);
    for speaker in &mut speakers {
        deliver(&mut core, start(), &speaker.send(start(), MS, 3));
    }
    assert_eq!(core.common_terms().mesh_nodes, 0, "not known yet");
    let judged_at = |core: &mut Core, seconds: u32| {
        core.on_deadline(start().after(SECOND * seconds));
        core.common_terms().mesh_nodes
    };
    assert_eq!(judged_at(&mut core, 2), 3);
    let now = start().after(SECOND * 3);
    deliver(&mut core, now, &speakers[0].final_message(now));
    assert_eq!(judged_at(&mut core, 5), 2, "one has left");
    assert_eq!(judged_at(&mut core, 9 * 24 * 3_600), 0, "the others have expired");
}

#[test]
fn nodes_that_were_seen_long_before_the_newest_are_not_expected_to_return() {
    let mut core = core();
    let mut speakers = ["a", "b", "c"].map(Speaker::new);
    for speaker in &mut speakers {
        deliver(&mut core, start(), &speaker.send(start(), MS, 3));
    }
    let judged_at = |core: &mut Core, seconds: u32| {
        core.on_deadline(start().after(SECOND * seconds));
        core.common_terms().mesh_nodes
    };
    judged_at(&mut core, 2);
    assert_eq!(judged_at(&mut core, 3_600), 3, "an outage of an hour");
    let now = start().after(SECOND * 3_600);
    deliver(&mut core, now, &speakers[0].send(now, MS, 3));
    judged_at(&mut core, 3_602);
    assert_eq!(judged_at(&mut core, 3_604), 1, "one has returned, and two have not");
    deliver(&mut core, now, &speakers[1].send(now, MS, 3));
    assert_eq!(judged_at(&mut core, 3_606), 2);
}

#[test]
fn a_confirmation_asks_for_readings_whose_set_is_missing() {
    let (mut core, mut speaker) = (core(), Speaker::new("a"));
    let mut message = |hardware| speaker.message(start(), Body::Hardware(hardware), false);
    let readings = vec![Reading::ok(&LOAD1, Labels::default(), 1.0)];
    let set = message(Hardware { set: 1, ..Hardware::all(readings) });
    let changes = message(Hardware { set: 1, changed: vec![(0, 2.0)], ..Hardware::default() });
    let mut asks = |message| {
        deliver(&mut core, start(), message);
        let pending = core.confirmation_from_memory(&node(), start().mono).unwrap();
        let bytes = pending.encode(start().mono, &core.common_terms());
        decode(&node(), &bytes).unwrap().readings_missing
    };
    assert_eq!([asks(&changes), asks(&set)], [true, false]);
}
