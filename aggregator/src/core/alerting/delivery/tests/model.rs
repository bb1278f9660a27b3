//! A model of an Alertmanager that crashes, refuses and is not reached. Once it works again,
//! exactly the alerts that fire are active in it. Before that, it never ends an alert too soon.

use std::collections::BTreeMap;

use crate::limits::notifications::RESOLVED_AGE_MAX;
use plimsoll_schemas::alert::AlertState::{Firing, Resolved};
use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// The state of an Alertmanager: until when each alert is active.
#[derive(Default)]
struct Model(BTreeMap<String, String>);

impl Model {
    fn take(&mut self, json: &[u8]) {
        let alerts: Vec<Value> = serde_json::from_slice(json).unwrap();
        for alert in alerts {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            self.0.insert(text(&alert["labels"]["node"]), text(&alert["endsAt"]));
        }
    }

    fn active(&self, now: Now) -> BTreeSet<&str> {
        let now = alertmanager_alert::date(now.wall);
        let active = self.0.iter().filter(|(_, ends_at)| **ends_at > now);
        active.map(|(node, _)| node.as_str()).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Move(usize),
    Answer(Answer),
    Die,
    Restart,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let answers = [Answer::Taken, Answer::Refused("status_4xx"), Answer::Failed("timeout", None)];
    let step = prop_oneof![
        3 => (0..4_usize).prop_map(Step::Move),
        3 => prop::sample::select(answers.to_vec()).prop_map(Step::Answer),
        1 => Just(Step::Die),
        1 => Just(Step::Restart),
        2 => (0..300_u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..80)
}

/// Answers every post until there is none for now.
fn settle(deliveries: &mut Deliveries, model: &mut Model, now: Now) {
    while let Some(post) = deliveries.next_post(now) {
        let Body::Alerts(json) = post.body else { panic!("an Alertmanager") };
        model.take(&json);
        deliveries.on_answer(now, "am", Answer::Taken);
    }
}

fn restarted(deliveries: &Deliveries, now: Now) -> Deliveries {
    let stored = rmp_serde::to_vec_named(deliveries).unwrap();
    let read: Deliveries = rmp_serde::from_slice(&stored).unwrap();
    read.with_receivers(now.wall, vec![alertmanager()], 3)
}

proptest! {
    #[test]
    fn an_alertmanager_that_works_again_holds_the_firing_alerts(
        steps in steps(),
    ) {
        let mut deliveries = deliveries(vec![alertmanager()]);
        let (mut model, mut now, mut firing) = (Model::default(), start(), [false; 4]);
        let (mut raised, mut on_its_way) = (0, None::<Vec<u8>>);
        for step in steps {
            match step {
                Step::Move(place) => {
                    firing[place] = !firing[place];
                    raised += 1;
                    let state = if firing[place] { Firing } else { Resolved };
                    deliveries.on_notification(&notification(now, &format!("n{place}"), state));
                }
                Step::Answer(answer) => {
                    if let Some(json) = on_its_way.take() {
                        if answer == Answer::Taken {
                            model.take(&json);
                        }
                        deliveries.on_answer(now, "am", answer);
                    }
                }
                Step::Die => model = Model::default(),
                Step::Restart => {
                    deliveries = restarted(&deliveries, now);
                    on_its_way = None;
                }
                Step::Wait(seconds) => now = now.after(SECOND * u32::try_from(seconds).unwrap()),
            }
            now = now.after(SECOND);
            if on_its_way.is_none() {
                on_its_way = deliveries.next_post(now).map(|post| match post.body {
                    Body::Alerts(json) => json,
                    Body::Notification(_) => panic!("an Alertmanager"),
                });
            }
            let figures = deliveries.stats().remove(0);
            let ended: u64 = figures.tally.outcomes.values().sum();
            prop_assert_eq!(raised, ended + figures.waits.notifications);
        }
        if on_its_way.is_some() {
            deliveries.on_answer(now, "am", Answer::Failed("timeout", None));
        }
        // By then every pause is over, and alerts that were sent long ago have expired.
        now = now.after(RESEND * 4);
        settle(&mut deliveries, &mut model, now);
        let nodes = firing.into_iter().enumerate().filter(|(_, fires)| *fires);
        let nodes: BTreeSet<_> = nodes.map(|(place, _)| format!("n{place}")).collect();
        let nodes: BTreeSet<_> = nodes.iter().map(String::as_str).collect();
        prop_assert_eq!(model.active(now), nodes.clone());
        for _ in 0..3 {
            now = now.after(RESEND);
            settle(&mut deliveries, &mut model, now);
            prop_assert_eq!(model.active(now), nodes.clone());
        }
        prop_assert_eq!(deliveries.reported_alerts.len(), nodes.len());
    }
}

#[test]
fn an_end_that_is_never_accepted_expires() {
    let mut deliveries = deliveries(vec![alertmanager()]);
    deliveries.on_notification(&notification(start(), "a", Firing));
    settle(&mut deliveries, &mut Model::default(), start());
    deliveries.on_notification(&notification(start(), "a", Resolved));
    let late = start().after(RESOLVED_AGE_MAX + SECOND);
    assert!(deliveries.next_post(late).is_some());
    deliveries.on_answer(late, "am", Answer::Failed("connect", None));
    let given_up: Vec<_> = deliveries.undeliverable().map(|of| (&*of.reason, of.state)).collect();
    assert_eq!(given_up, [("too_old", Resolved)]);
    assert_eq!(deliveries.next_deadline(), None);
}

#[test]
fn an_answer_is_for_the_posted_state_and_not_for_a_newer_one() {
    let mut deliveries = deliveries(vec![alertmanager()]);
    deliveries.on_notification(&notification(start(), "a", Firing));
    assert_eq!(round(&mut deliveries, start()), [("a".to_owned(), false)]);
    let later = start().after(SECOND);
    deliveries.on_notification(&notification(later, "a", Resolved));
    assert!(deliveries.on_answer(later, "am", Answer::Taken).is_empty());
    assert_eq!(
        (count(&deliveries, "delivered"), deliveries.stats()[0].waits.notifications),
        (0, 1)
    );
    assert!(!deliveries.is_settled());
    assert_eq!(round(&mut deliveries, later), [("a".to_owned(), true)]);
    deliveries.on_answer(later, "am", Answer::Taken);
    assert_eq!((count(&deliveries, "delivered"), count(&deliveries, "superseded")), (1, 1));
    assert!(deliveries.is_settled());
}

#[test]
fn a_silence_suppresses_new_alerts_and_ends_no_notified_one() {
    let mut deliveries = deliveries(vec![alertmanager()]);
    deliveries.on_notification(&notification(start(), "a", Firing));
    let mut model = Model::default();
    settle(&mut deliveries, &mut model, start());
    let mut now = start().after(SECOND);
    deliveries.on_notification(&notification(now, "b", Firing));
    for (held, active) in [(true, vec!["a"]), (false, vec!["a", "b"]), (true, vec!["a", "b"])] {
        deliveries.hold_back(|_, _| held);
        for _ in 0..4 {
            now = now.after(RESEND);
            settle(&mut deliveries, &mut model, now);
            assert_eq!(model.active(now), active.iter().copied().collect());
        }
    }
    deliveries.on_notification(&notification(now, "a", Resolved));
    settle(&mut deliveries, &mut model, now);
    assert_eq!(model.active(now), BTreeSet::from(["b"]));
}
