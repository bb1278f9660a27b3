//! Properties that hold for every history of nodes and people.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_schemas::alert::{AlertKey, AlertState, Notification};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::case::{Act, Case, Report};
use crate::rules::parse;
use crate::speaker::{Message, Speaker};
use crate::world::{World, play};

const NODES: [&str; 3] = ["a", "b", "c"];
const STEPS: u64 = 90;

/// The rules that people put in force, in turn.
const RULES: [&str; 5] = [
    SLOW,
    "",
    r#"
[[budget]]
name = "slow"
operation = "read"
quantile = 0.99
limit = "40ms"
window = "10s"
"#,
    r#"
[[budget]]
name = "slow"
operation = "read"
quantile = 0.99
limit = "18ms"
scopes = ["fleet"]
"#,
    r#"
[[budget]]
name = "slow"
operation = "write"
quantile = 0.99
limit = "18ms"
"#,
];
const SLOW: &str = r#"
[[budget]]
name = "slow"
operation = "read"
quantile = 0.99
limit = "18ms"
window = "10s"
"#;

/// Two hundred histories; a failure reports its values, and is not stored in a file.
fn histories() -> ProptestConfig {
    ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() }
}

fn report() -> impl Strategy<Value = Report> {
    let samples = prop::sample::select(&[
        "60 of 30ms",
        "60 of 30ms",
        "60 of 5ms",
        "5 of 30ms",
        "5 of 5ms",
        "3000 of 5ms",
        "400 of 18ms",
    ]);
    let span = (1..STEPS, 1..25_u64);
    let way = (0..14_u64, any::<bool>(), 0..2_u64);
    (prop::sample::select(&NODES), span, samples, way, 1..4_u64).prop_map(
        |(node, (first, length), samples, (late, reversed, again), every)| Report {
            node: node.to_owned(),
            span: (first, first + length),
            every,
            operation: "read".to_owned(),
            samples: vec![samples.to_owned()],
            incarnation: 1 + first / 40,
            late: if late < 9 { 0 } else { late - 8 },
            reversed: reversed && late == 0,
            again,
            ..Report::default()
        },
    )
}

fn act() -> impl Strategy<Value = Act> {
    let at = 1..STEPS;
    let what = prop_oneof![
        3 => (0..25_u64).prop_map(|away| Act { back_at: Some(away), ..Act::default() }),
        3 => prop::sample::select(&RULES)
            .prop_map(|rules| Act { rules: Some(rules.to_owned()), ..Act::default() }),
        1 => prop::sample::select(&["slow *", "* a"])
            .prop_map(|of| Act { silence: Some(of.to_owned()), ..Act::default() }),
        1 => prop::sample::select(&["slow fleet", "slow a"])
            .prop_map(|of| Act { acknowledge: Some(of.to_owned()), ..Act::default() }),
        1 => Just(Act { clock_leaps: 900, ..Act::default() }),
    ];
    (at, what, 1..40_u64).prop_map(|(at, act, lasts)| Act {
        at,
        until: at + lasts,
        back_at: act.back_at.map(|away| at + away),
        ..act
    })
}

/// The last notified state of each alert. A notification goes on from there. A firing alert is
/// reported as resolved before anything else is reported of it.
fn follow(event: &mut BTreeMap<AlertKey, AlertState>, notification: &Notification) {
    use AlertState::{Firing, Inactive, Resolved};
    let last = event.insert(notification.key.clone(), notification.state).unwrap_or_default();
    // That a resolved alert is no longer shown as such is no news.
    let went_on = last == notification.from || (last, notification.from) == (Resolved, Inactive);
    assert!(went_on, "{last:?} was sent, and then {notification:?}");
    let ended_well = last != Firing || matches!(notification.state, Firing | Resolved);
    assert!(ended_well, "it fired, and then {notification:?}");
}

proptest! {
    #![proptest_config(histories())]

    /// For every history, the notifications alone determine which alerts are active.
    #[test]
    fn no_alert_that_fires_ends_without_a_resolved_notification(
        report in prop::collection::vec(report(), 0..14), act in prop::collection::vec(act(), 0..6),
        minutes in any::<bool>(),
    ) {
        let step = Duration::from_secs(if minutes { 60 } else { 1 });
        let case = Case {
            title: String::new(), rules: SLOW.to_owned(), steps: STEPS, step, time_scale: 1,
            report, act, states: Vec::new(), notifications: Vec::new(),
        };
        let (mut event, mut received) = (BTreeMap::new(), 0);
        play(&case, |world, step| {
            world.notifications[received..].iter().for_each(|new| follow(&mut event, new));
            received = world.notifications.len();
            for (key, state) in &event {
                let Some(shown) = world.state(key) else { continue };
                for state_sent in [AlertState::Firing, AlertState::Pending] {
                    assert_eq!(
                        shown == state_sent, *state == state_sent,
                        "{key} in step {step}: shown {shown:?}, sent {state:?}"
                    );
                }
            }
        });
    }

    /// All that arrives between two evaluations may arrive in any order, and more than once.
    #[test]
    fn the_order_of_arrival_within_a_step_changes_no_notification_and_no_state(
        steps in prop::collection::vec(
            prop::collection::vec((0..3_usize, 0..9_u64, 0..3_usize), 0..6), 1..40,
        ),
        order in prop::collection::vec(any::<Index>(), 200),
    ) {
        let mut speakers = [(); 3].map(|()| Speaker::default());
        let [mut straight, mut shuffled] =
            [(); 2].map(|()| World::new(parse(SLOW, 1), Duration::from_secs(1)));
        let mut order = order.iter();
        for step in &steps {
            straight.pass();
            shuffled.pass();
            let now = straight.now().wall;
            let messages: Vec<Message> = step.iter().flat_map(|(node, late, samples)| {
                let samples = ["60 of 30ms", "60 of 5ms", "900 of 5ms"][*samples];
                let report = Report {
                    node: NODES[*node].to_owned(), operation: "read".to_owned(),
                    samples: vec![samples.to_owned()], ..Report::default()
                };
                let ended = now.minus(Duration::from_secs(*late));
                speakers[*node].report(&report, ended, Duration::from_secs(1))
            }).collect();
            for message in &messages {
                straight.deliver(now, message.clone());
                if let Some(index) = order.next() {
                    shuffled.deliver(now, index.get(&messages).clone());
                }
            }
            messages.iter().rev().for_each(|message| shuffled.deliver(now, message.clone()));
            straight.evaluate();
            shuffled.evaluate();
            prop_assert_eq!(&straight.notifications, &shuffled.notifications);
            for who in ["fleet", "a", "b", "c"] {
                let key = straight.key("slow", who).unwrap();
                prop_assert_eq!(straight.state(&key), shuffled.state(&key), "{}", who);
            }
        }
    }
}
