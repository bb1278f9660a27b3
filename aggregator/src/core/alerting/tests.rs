//! Alerting on its own interface: findings in, notifications out.

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::ids::Operation;

use super::*;
use crate::core::Core;
use crate::core::rules::{Finding, Hysteresis};
use crate::core::tests::{MS, Speaker, core, deliver, situation, start};

fn key() -> AlertKey {
    AlertKey {
        rule: RuleName::new("epoch_hook").unwrap(),
        scope: Scope::Fleet,
        operation: Operation::new("epoch_hook").unwrap(),
    }
}

fn slow() -> Core {
    let mut core = core();
    deliver(&mut core, start(), &Speaker::new("a").send(start(), 40 * MS, 200));
    core
}

fn find(alerting: &mut Alerting, core: &Core, finding: Finding) {
    let hysteresis = Hysteresis { fire_after: 1, clear_after: 1 };
    let found = vec![AlertFinding { key: key(), finding, hysteresis }];
    let time = EvaluationTime::present(start().wall);
    alerting.on_findings(time, found, situation(core));
}

#[test]
fn a_finding_moves_its_alert_and_notifies_once_with_evidence_and_context() {
    let core = slow();
    let mut alerting = Alerting::new(MeshName::new("m").unwrap());
    for finding in [Finding::Breach, Finding::Breach, Finding::NoData, Finding::Clear] {
        find(&mut alerting, &core, finding);
    }
    let sent: Vec<_> = alerting.changes().iter().map(|notification| notification.state).collect();
    assert_eq!(sent, [AlertState::Firing, AlertState::Resolved]);
    let fires = &alerting.changes()[0];
    assert!(matches!(fires.evidence, Evidence::Latency(_)), "{fires:?}");
    assert_eq!(fires.context.as_ref().unwrap().worst[0].node.as_str(), "a");
    assert_eq!(alerting.notifications.counts.raised, 2);
}

#[test]
fn what_stays_as_it_is_costs_no_checkpoint_and_what_was_stored_is_restored() {
    let core = slow();
    let mut alerting = Alerting::new(MeshName::new("m").unwrap());
    assert!(!alerting.has_changed());
    find(&mut alerting, &core, Finding::Breach);
    assert!(alerting.has_changed());
    let stored = alerting.checkpoint(core.rules());
    find(&mut alerting, &core, Finding::Breach);
    assert!(!alerting.has_changed());
    let mut restored = Alerting::restore(MeshName::new("m").unwrap(), stored);
    assert_eq!(restored.alerts.state(&key()), AlertState::Firing);
    let gone = |of: &AlertKey| *of == key();
    restored.end(start().wall, gone, AlertEndReason::RuleRemoved, situation(&core));
    assert_eq!(restored.changes().last().unwrap().ended, Some(AlertEndReason::RuleRemoved));
    assert!(restored.has_changed() && restored.alerts.active().next().is_none());
}
