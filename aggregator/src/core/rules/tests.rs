//! Rules on their own interface: a fleet in, findings out.

use plimsoll_schemas::ids::RuleName;

use super::*;
use crate::core::Core;
use crate::core::tests::{MS, Speaker, core, deliver, inputs, start};

const OWN: SelfCounts = SelfCounts {
    undecodable: 0,
    undeliverable: 0,
    task_restarts: 0,
    has_unsaved: false,
    quiet: BTreeSet::new(),
};

/// A core of which node `a` is over the limit of its budget and `b` is not.
fn uneven() -> Core {
    let mut core = core();
    for (node, ms) in [("a", 40), ("b", 1)] {
        deliver(&mut core, start(), &Speaker::new(node).send(start(), ms * MS, 200));
    }
    core
}

fn found(core: &Core, active: &ActiveAlerts<'_>) -> Vec<(String, Finding)> {
    let rules = Arc::new(core.rules().clone());
    let mut evaluator = Evaluator::new(rules, start().mono);
    evaluator.observe(start().wall, inputs(core), OWN);
    let (rules, own) = (core.rules(), &evaluator.self_monitoring);
    let (found, _) = evaluation::judge(start().wall, rules, inputs(core), active, own);
    let of_hook = found.into_iter().filter(|of| of.key.rule.as_str() == "epoch_hook");
    of_hook.map(|of| (of.key.scope.to_string(), of.finding)).collect()
}

#[test]
fn only_breaches_and_findings_about_active_alerts_are_returned() {
    let core = uneven();
    let breach = |scope: &str| (scope.to_owned(), Finding::Breach);
    assert_eq!(found(&core, &ActiveAlerts::default()), [breach("fleet"), breach("node a")]);
    let key = |scope| AlertKey {
        rule: RuleName::new("epoch_hook").unwrap(),
        scope,
        operation: Operation::new("epoch_hook").unwrap(),
    };
    let node = |name| Scope::Node(NodeName::new(name).unwrap());
    let keys = ["b", "gone"].map(|name| key(node(name)));
    let all = found(&core, &keys.iter().collect());
    let others = [("node b", Finding::Clear), ("node gone", Finding::NoData)];
    let others = others.map(|(scope, finding)| (scope.to_owned(), finding));
    assert_eq!(all[..2], [breach("fleet"), breach("node a")]);
    assert_eq!(all[2..], others);
}

#[test]
fn other_rules_have_other_limits_and_evidence_ends_with_its_rule() {
    let core = uneven();
    let mut evaluator = Evaluator::new(Arc::new(core.rules().clone()), start().mono);
    let key = AlertKey {
        rule: RuleName::new("epoch_hook").unwrap(),
        scope: Scope::Fleet,
        operation: Operation::new("epoch_hook").unwrap(),
    };
    let evidence = |evaluator: &Evaluator| evaluator.evidence(start().wall, &key, inputs(&core));
    let Some(Evidence::Latency(found)) = evidence(&evaluator) else { panic!("no evidence") };
    assert_eq!((found.samples, found.over), (400, 200));
    assert!(!evaluator.limits().is_empty());
    evaluator.replace(Arc::new(Rules::from(Vec::new())));
    assert_eq!((evidence(&evaluator), evaluator.limits()), (None, Vec::new()));
}
