//! Deliveries by example, and as a property: for all answers of receivers, every loss is counted. A
//! receiver that was notified of a firing alert is notified of its end, or the alert still fires.

mod model;
mod owed;

use std::collections::BTreeSet;

use crate::limits::notifications::{
    ALERTS_A_POST_MAX, ATTEMPTS_MAX, NOTIFICATION_AGE_MAX, NOTIFICATIONS_WAITING_MAX,
    OWED_RETRY_EVERY, UNDELIVERED_KEPT_MAX,
};
use plimsoll_schemas::alert::{Evidence, GapEvidence, Scope};
use plimsoll_schemas::ids::{MeshName, NodeName, Operation, RuleName};
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::time::seconds;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use AlertState::{Firing, Pending, Resolved};

const SECOND: Duration = Duration::from_secs(1);
const RESEND: Duration = Duration::from_secs(60);

fn start() -> Now {
    Now { mono: Mono(0), wall: Wall(1_700_000_000_000_000_000) }
}

fn key(node: &str) -> AlertKey {
    AlertKey {
        rule: RuleName::new("rule").unwrap(),
        scope: Scope::Node(NodeName::new(node).unwrap()),
        operation: Operation::new("op").unwrap(),
    }
}

fn notification(now: Now, node: &str, state: AlertState) -> Notification {
    let from = if state == Resolved { Firing } else { Pending };
    let evidence = Evidence::Gap(GapEvidence { gap_samples: 7 });
    let mesh = MeshName::new("m").unwrap();
    Notification::new(mesh, key(node), (from, state), seconds(now.wall.0), evidence)
}

fn receiver(name: &str, kind: ReceiverKind) -> Receiver {
    Receiver { name: name.into(), kind, severity_min: Severity::Info }
}

fn alertmanager() -> Receiver {
    receiver("am", ReceiverKind::Alertmanager { resend_every: RESEND })
}

fn webhook() -> Receiver {
    receiver("hook", ReceiverKind::Webhook { resolved: true, acknowledged: false })
}

fn deliveries(receivers: Vec<Receiver>) -> Deliveries {
    Deliveries::default().with_receivers(start().wall, receivers, 1)
}

/// The alerts of the next post: the node, and whether it has ended.
fn round(deliveries: &mut Deliveries, now: Now) -> Vec<(String, bool)> {
    let Some(Post { body: Body::Alerts(json), .. }) = deliveries.next_post(now) else {
        return Vec::new();
    };
    let alerts: Vec<Value> = serde_json::from_slice(&json).unwrap();
    let date = |alert: &Value| alert["endsAt"].as_str().unwrap().to_owned();
    let ended = |alert: &Value| date(alert) <= alertmanager_alert::date(now.wall);
    let node = |alert: &Value| alert["labels"]["node"].as_str().unwrap().to_owned();
    alerts.iter().map(|alert| (node(alert), ended(alert))).collect()
}

/// The node and the state of the next post to a webhook.
fn hooked(deliveries: &mut Deliveries, now: Now) -> Option<(String, AlertState)> {
    match deliveries.next_post(now)?.body {
        Body::Notification(notification) => {
            Some((notification.key.scope.node().to_owned(), notification.state))
        }
        Body::Alerts(_) => panic!("only webhooks here"),
    }
}

fn count(deliveries: &Deliveries, outcome: &str) -> u64 {
    deliveries.stats()[0].tally.outcomes.get(outcome).copied().unwrap_or_default()
}

#[test]
fn a_firing_alert_is_sent_at_once_and_again_and_its_end_twice() {
    let mut deliveries = deliveries(vec![alertmanager()]);
    deliveries.on_notification(&notification(start(), "a", Firing));
    let got = |ended| vec![("a".to_owned(), ended)];
    assert_eq!(round(&mut deliveries, start()), got(false));
    let later = start().after(SECOND);
    assert_eq!(deliveries.on_answer(later, "am", Answer::Taken), [SECOND]);
    assert_eq!(deliveries.next_deadline(), Some(start().mono.plus(RESEND)));
    let again = start().after(RESEND);
    assert_eq!(round(&mut deliveries, again), got(false));
    assert_eq!(deliveries.on_answer(again, "am", Answer::Taken), Vec::<Duration>::new());

    deliveries.on_notification(&notification(again, "a", Resolved));
    let again = again.after(SECOND);
    assert_eq!(round(&mut deliveries, again), got(true));
    assert_eq!(deliveries.on_answer(again, "am", Answer::Taken), [SECOND]);
    assert_eq!(round(&mut deliveries, again), []);
    let again = again.after(RESEND);
    assert_eq!(round(&mut deliveries, again), got(true));
    deliveries.on_answer(again, "am", Answer::Taken);
    assert_eq!(deliveries.next_deadline(), None);
    assert_eq!(count(&deliveries, "delivered"), 2);
}

#[test]
fn an_alertmanager_that_comes_back_is_sent_all_at_once() {
    let mut deliveries = deliveries(vec![alertmanager()]);
    let mut now = start();
    deliveries.on_notification(&notification(now, "a", Firing));
    assert_eq!(round(&mut deliveries, now).len(), 1);
    deliveries.on_answer(now, "am", Answer::Taken);
    deliveries.on_notification(&notification(now, "b", Firing));
    assert_eq!(round(&mut deliveries, now), [("b".to_owned(), false)]);
    deliveries.on_answer(now, "am", Answer::Failed("connect", None));
    assert_eq!(round(&mut deliveries, now), []);
    let retry_at = deliveries.next_deadline().unwrap();
    now = now.after(retry_at.since(now.mono));
    assert_eq!(round(&mut deliveries, now).len(), 2);
}

#[test]
fn a_batch_that_is_refused_holds_up_no_other() {
    let mut deliveries = deliveries(vec![alertmanager()]);
    let total = ALERTS_A_POST_MAX * 2 + 1;
    for number in 0..total {
        deliveries.on_notification(&notification(start(), &format!("n{number:05}"), Firing));
    }
    let mut seen = BTreeSet::new();
    for answer in [Answer::Refused("status_4xx"), Answer::Taken, Answer::Taken] {
        seen.extend(round(&mut deliveries, start()));
        deliveries.on_answer(start(), "am", answer);
    }
    assert_eq!(seen.len(), total);
    assert_eq!(deliveries.stats()[0].waits.notifications, ALERTS_A_POST_MAX as u64);
    assert_eq!(round(&mut deliveries, start()), []);
    assert_eq!(round(&mut deliveries, start().after(RESEND)).len(), ALERTS_A_POST_MAX);
}

#[test]
fn a_pair_has_the_same_labels_at_begin_and_end() {
    let labels = |deliveries: &mut Deliveries, now| {
        let Some(Post { body: Body::Alerts(json), .. }) = deliveries.next_post(now) else {
            panic!("a post")
        };
        deliveries.on_answer(now, "am", Answer::Taken);
        let alerts: Value = serde_json::from_slice(&json).unwrap();
        alerts[0]["labels"].clone()
    };
    let (mut one, mut other) = (deliveries(vec![alertmanager()]), deliveries(vec![alertmanager()]));
    one.on_notification(&notification(start(), "a", Firing));
    let late = start().after(SECOND);
    other.on_notification(&Notification { late_seconds: 9.0, ..notification(late, "a", Firing) });
    let labelled = labels(&mut one, late);
    let expected = [
        ("alertname", "rule"),
        ("mesh", "m"),
        ("node", "a"),
        ("operation", "op"),
        ("scope", "node"),
        ("severity", "warning"),
    ];
    assert_eq!(labelled, serde_json::json!(BTreeMap::from(expected)));
    assert_eq!(labels(&mut other, late), labelled);
    let resolved = notification(late, "a", Resolved);
    one.on_notification(&Notification { severity: Severity::Critical, ..resolved });
    assert_eq!(labels(&mut one, late), labelled);
}

#[test]
fn active_alerts_outlive_a_restart_and_are_sent_at_once() {
    let mut before = deliveries(vec![alertmanager(), webhook()]);
    before.on_notification(&notification(start(), "a", Firing));
    while let Some(post) = before.next_post(start()) {
        before.on_answer(start(), &post.receiver, Answer::Taken);
    }
    before.on_notification(&notification(start(), "b", Firing));
    let stored = rmp_serde::to_vec_named(&before).unwrap();
    let after: Deliveries = rmp_serde::from_slice(&stored).unwrap();
    let mut after = after.with_receivers(start().wall, vec![alertmanager(), webhook()], 2);
    let Body::Alerts(json) = after.next_post(start()).unwrap().body else { panic!("a round") };
    let alerts: Vec<Value> = serde_json::from_slice(&json).unwrap();
    assert_eq!(alerts.len(), 2);
    assert_eq!(hooked(&mut after, start()), Some(("b".to_owned(), Firing)));
    assert_eq!(hooked(&mut after, start()), None);
}

#[test]
fn a_webhook_receives_each_change_once_and_the_owed_end() {
    let mut deliveries = deliveries(vec![webhook()]);
    let push = |deliveries: &mut Deliveries, states: &[AlertState]| {
        for state in states {
            deliveries.on_notification(&notification(start(), "a", *state));
        }
        let mut received = Vec::new();
        while let Some((_, state)) = hooked(deliveries, start()) {
            received.push(state);
            deliveries.on_answer(start(), "hook", Answer::Taken);
        }
        received
    };
    // The receiver was sent nothing before, so only the newest state is sent.
    assert_eq!(push(&mut deliveries, &[Firing, Resolved, Firing]), [Firing]);
    assert_eq!(count(&deliveries, "superseded"), 2);
    // The receiver has the begin, so it is owed the end, whatever comes then.
    assert_eq!(push(&mut deliveries, &[Resolved, Firing]), [Resolved, Firing]);
    assert_eq!(push(&mut deliveries, &[Resolved, Firing, Resolved]), [Resolved]);
    assert_eq!((count(&deliveries, "superseded"), count(&deliveries, "delivered")), (4, 4));
}

#[test]
fn a_silenced_alert_is_not_sent_but_an_owed_end_is() {
    let mut all = deliveries(vec![webhook(), alertmanager()]);
    let silenced = |state| Notification { silenced: true, ..notification(start(), "a", state) };
    all.on_notification(&silenced(Firing));
    all.on_notification(&silenced(Resolved));
    assert_eq!(count(&all, "suppressed"), 2);
    assert_eq!(round(&mut all, start()), []);
    assert_eq!(all.stats()[1].tally.outcomes["suppressed"], 2);
    let mut hook = deliveries(vec![webhook()]);
    hook.on_notification(&notification(start(), "a", Firing));
    hooked(&mut hook, start());
    hook.on_notification(&silenced(Resolved));
    hook.on_answer(start(), "hook", Answer::Taken);
    assert_eq!(hooked(&mut hook, start()), Some(("a".to_owned(), Resolved)));
}

#[test]
fn an_alert_that_still_fires_when_its_silence_ends_is_sent_once() {
    let goes_on = Notification { from: Firing, ..notification(start(), "a", Firing) };
    for silenced in [true, false] {
        let mut all = deliveries(vec![webhook(), alertmanager()]);
        // The first notification is sent before the silence began, or it is silenced.
        all.on_notification(&Notification { silenced, ..notification(start(), "a", Firing) });
        while let Some(Post { receiver, .. }) = all.next_post(start()) {
            all.on_answer(start(), &receiver, Answer::Taken);
        }
        all.on_notification(&goes_on);
        assert_eq!(hooked(&mut all, start()), Some(("a".to_owned(), Firing)));
        all.on_answer(start(), "hook", Answer::Taken);
        assert_eq!(round(&mut all, start()), [("a".to_owned(), false)]);
        all.on_answer(start(), "am", Answer::Taken);
        assert_eq!(hooked(&mut all, start()), None);
    }
}

#[test]
fn routes_and_severities_select_receivers() {
    let critical = Receiver { severity_min: Severity::Critical, ..webhook() };
    for (receiver, routes, got) in [
        (webhook(), vec![], true),
        (webhook(), vec!["hook".to_owned()], true),
        (webhook(), vec!["other".to_owned()], false),
        (critical, vec![], false),
    ] {
        let mut deliveries = deliveries(vec![receiver]);
        deliveries.on_notification(&Notification { routes, ..notification(start(), "a", Firing) });
        deliveries.on_notification(&Notification {
            state: Pending,
            ..notification(start(), "b", Firing)
        });
        assert_eq!(hooked(&mut deliveries, start()).is_some(), got);
        assert_eq!(hooked(&mut deliveries, start()), None);
    }
}

#[test]
fn an_undeliverable_notification_is_shown_with_a_reason() {
    let mut hook = deliveries(vec![webhook()]);
    let mut now = start();
    hook.on_notification(&notification(now, "a", Firing));
    for _ in 0..ATTEMPTS_MAX {
        assert!(hooked(&mut hook, now).is_some());
        hook.on_answer(now, "hook", Answer::of_status(503, None));
        now = now.after(RESEND);
    }
    assert_eq!(hooked(&mut hook, now), None);
    hook.on_notification(&notification(now, "b", Firing));
    assert!(hooked(&mut hook, now).is_some());
    let cause = "HTTP 404 Not Found: no such channel; correct the url".to_owned();
    hook.on_cause("hook", cause.clone());
    hook.on_answer(now, "hook", Answer::of_status(404, None));
    assert_eq!(hook.stats()[0].failure.as_ref(), Some(&cause));
    hook.on_notification(&notification(now, "c", Firing));
    now = now.after(NOTIFICATION_AGE_MAX + SECOND);
    assert_eq!(hooked(&mut hook, now), None);
    let kept: Vec<_> = hook.undeliverable().map(|of| (&*of.reason, of.key.scope.node())).collect();
    assert_eq!(kept, [("attempts", "a"), ("refused", "b"), ("too_old", "c")]);
    let causes: Vec<_> = hook.undeliverable().map(|of| of.cause.clone()).collect();
    assert_eq!(causes, [String::new(), cause.clone(), cause]);
    assert_eq!(count(&hook, "undeliverable"), 3);
    assert!(hook.next_unreported().is_some());
    for number in 0..NOTIFICATIONS_WAITING_MAX + UNDELIVERED_KEPT_MAX + 9 {
        hook.on_notification(&notification(now, &format!("n{number}"), Firing));
    }
    assert_eq!(hook.stats()[0].waits.notifications, NOTIFICATIONS_WAITING_MAX as u64);
    assert_eq!(hook.undeliverable().count(), UNDELIVERED_KEPT_MAX);
    assert_eq!(count(&hook, "undeliverable"), 3 + 9 + UNDELIVERED_KEPT_MAX as u64);
}

#[test]
fn statuses_match_their_text() {
    let retry_after = Some(SECOND * 7);
    for (status, answer) in [
        (200, Answer::Taken),
        (202, Answer::Taken),
        (301, Answer::Refused("status_3xx")),
        (400, Answer::Refused("status_4xx")),
        (408, Answer::Failed("status_4xx", retry_after)),
        (429, Answer::Failed("status_4xx", retry_after)),
        (500, Answer::Failed("status_5xx", retry_after)),
        (503, Answer::Failed("status_5xx", retry_after)),
    ] {
        assert_eq!(Answer::of_status(status, retry_after), answer, "{status}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Move(usize),
    Answer(Answer),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let answer = prop::sample::select(vec![
        Answer::Taken,
        Answer::Taken,
        Answer::Refused("status_4xx"),
        Answer::Failed("timeout", None),
    ]);
    let step = prop_oneof![
        (0..4_usize).prop_map(Step::Move),
        answer.prop_map(Step::Answer),
        (0..900_u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #[test]
    fn every_notification_ends_once_and_each_receiver_gets_the_end_or_it_is_undeliverable(
        steps in steps(),
    ) {
        let mut hook = deliveries(vec![webhook()]);
        let (mut now, mut firing, mut raised) = (start(), [false; 4], 0);
        let (mut on_its_way, mut notified, mut taken) = (None, BTreeSet::new(), 0);
        for step in steps {
            match step {
                Step::Move(place) => {
                    firing[place] = !firing[place];
                    raised += 1;
                    let state = if firing[place] { Firing } else { Resolved };
                    hook.on_notification(&notification(now, &format!("n{place}"), state));
                }
                Step::Wait(seconds) => now = now.after(SECOND * u32::try_from(seconds).unwrap()),
                Step::Answer(answer) => {
                    if let Some((node, state)) = on_its_way.take() {
                        hook.on_answer(now, "hook", answer);
                        taken += u64::from(answer == Answer::Taken);
                        match (answer, state) {
                            (Answer::Taken, Firing) => drop(notified.insert(node)),
                            (Answer::Taken, _) => drop(notified.remove(&node)),
                            _ => {}
                        }
                    }
                }
            }
            if on_its_way.is_none() {
                on_its_way = hooked(&mut hook, now);
            }
            let ended: u64 = hook.stats()[0].tally.outcomes.values().sum();
            prop_assert_eq!(raised, ended + hook.stats()[0].waits.notifications);
            prop_assert_eq!(count(&hook, "delivered"), taken);
        }
        now = now.after(OWED_RETRY_EVERY);
        while let Some((node, state)) = on_its_way.take().or_else(|| hooked(&mut hook, now)) {
            hook.on_answer(now, "hook", Answer::Taken);
            if state == Firing { notified.insert(node); } else { notified.remove(&node); }
        }
        prop_assert_eq!(hook.stats()[0].waits.notifications, 0);
        let given_up = hook.undeliverable().map(|of| of.key.scope.node().to_owned());
        let given_up: BTreeSet<_> = given_up.collect();
        for (place, fires) in firing.into_iter().enumerate() {
            let node = format!("n{place}");
            // A begin may be undeliverable. An end that is owed is not, within a day.
            prop_assert!(fires || !notified.contains(&node));
            prop_assert!(
                fires == notified.contains(&node) || given_up.contains(&node),
                "{} fires: {}, {:?}", node, fires, notified
            );
        }
    }
}
