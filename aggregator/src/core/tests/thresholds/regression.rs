//! Rules about regressions, from what a comparison has found to notifications.

use plimsoll_schemas::rule::RuleText;
use plimsoll_schemas::rule::file::load;

use super::*;
use crate::limits::REGRESSION_STALE_AFTER;

fn rules() -> Rules {
    let text = "[[rule]]\nname = 'slower'\nmetric = 'regression:fetch'\ngreater = 0.05\n\
                baseline = 'v1.json'\nwindow = '1h'\nfor = 2\nclear_for = 2";
    let text = RuleText::new("a.toml", text.into()).unwrap();
    let rules = load(&[], vec![text], 1, &mut |_| Err(String::new())).unwrap();
    only(rules.thresholds.last().unwrap())
}

/// A comparison has found this shift, or nothing.
fn compared(world: &mut World, shift: Option<f64>) {
    let labels = Labels::new([("quantile", "0.99"), ("low", "0.12"), ("samples", "9000")]).unwrap();
    let found = shift.map(|value| Value { value, labels });
    let found = [(RuleName::new("slower").unwrap(), found)].into();
    world.core.on_regressions(world.now.wall, found);
}

fn state(world: &World) -> Option<AlertState> {
    world.core.alerting.alerts.active().next().map(|(_, state)| state)
}

#[test]
fn a_regression_fires_with_its_evidence_and_resolves_when_it_is_gone() {
    let mut world = World::new(rules());
    world.live();
    assert_eq!(state(&world), None, "nothing was compared yet");
    compared(&mut world, Some(0.04));
    (0..3).for_each(|_| world.live());
    assert_eq!(state(&world), None, "less than what matters");
    compared(&mut world, Some(0.17));
    (0..3).for_each(|_| world.live());
    assert_eq!(state(&world), Some(Firing));
    let sent = world.core.alerting.changes().last().unwrap();
    assert_eq!(
        (sent.key.scope.clone(), sent.key.operation.as_str()),
        (Scope::Fleet, "regression:fetch")
    );
    let Evidence::Value(ValueEvidence { labels, value, threshold, .. }) = &sent.evidence else {
        panic!("{sent:?}")
    };
    assert_eq!((*value, *threshold, labels.get("low")), (0.17, 0.05, Some("0.12")));
    assert!(sent.summary.contains("regression:fetch 0.17"), "{}", sent.summary);
    compared(&mut world, Some(0.0));
    (0..3).for_each(|_| world.live());
    assert_eq!(state(&world), Some(Resolved));
}

#[test]
fn a_comparison_without_enough_data_or_of_long_ago_ends_no_alert_and_begins_none() {
    let mut world = World::new(rules());
    compared(&mut world, Some(0.17));
    (0..3).for_each(|_| world.live());
    assert_eq!(state(&world), Some(Firing));
    compared(&mut world, None);
    (0..3).for_each(|_| world.live());
    let data = |world: &World| {
        let page = world.core.alerts_page(world.now.wall, &AlertsQuery::default());
        page.alerts[0].data.as_str()
    };
    assert_eq!((state(&world), data(&world)), (Some(Firing), "insufficient"));
    compared(&mut world, Some(0.0));
    for _ in 0..REGRESSION_STALE_AFTER.as_secs() {
        world.now = world.now.after(SECOND);
    }
    (0..5).for_each(|_| world.live());
    assert_eq!((state(&world), data(&world)), (Some(Firing), "no_data"), "too old to resolve it");
}
