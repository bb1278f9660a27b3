//! The judgement of notifications, and the rules with which the drill overrides the shipped ones.

use plimsoll_schemas::alert::{AlertContext, ValueEvidence, WorstNode};
use plimsoll_schemas::ids::{Labels, MeshName, NodeName};
use plimsoll_schemas::rule::file::{load, shipped};
use plimsoll_schemas::rule::{Comparison, RuleText, Rules};

use super::*;

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn laid(args: &HardwareArgs) -> Rules {
    let own = RuleText::new("rules.toml", file_of_rules(args).into()).unwrap();
    load(&[], vec![own], 1, &mut |_| Err(String::new())).unwrap()
}

#[test]
fn shipped_limits_are_judged_sooner_and_one_with_the_flag_is_out_of_reach() {
    let (shipped, plant_miss) = (shipped(), HardwareArgs { plant_miss: Some("gpu_hot".into()) });
    for (args, out_of_reach) in [(HardwareArgs::default(), None), (plant_miss, Some("gpu_hot"))] {
        let laid = laid(&args);
        assert!(laid.budgets.is_empty());
        assert_eq!(laid.thresholds.len(), shipped.thresholds.len());
        for (laid, shipped) in laid.thresholds.iter().zip(&shipped.thresholds) {
            let mut wanted = shipped.clone();
            if RULES.iter().any(|(rule, _)| *rule == laid.name.as_str()) {
                (wanted.fire_after, wanted.clear_after) = (PATIENCE, PATIENCE);
            }
            if out_of_reach == Some(laid.name.as_str()) {
                wanted.value = 1e6;
            }
            assert_eq!(*laid, wanted);
        }
    }
}

#[test]
fn every_rule_that_is_expected_to_fire_is_shipped() {
    let scope = Scope::Node(node("a"));
    for (rule, _) in RULES {
        assert_eq!(shipped_alert(rule, Scope::Node(node("a"))).scope, scope, "{rule}");
    }
}

fn arrival(state: AlertState, value: f64, gpu: Option<&str>, beside: &str) -> Arrival {
    let evidence = Evidence::Value(ValueEvidence {
        metric: "gpu_temperature_celsius".parse().unwrap(),
        labels: Labels::new(gpu.map(|gpu| ("gpu", gpu))).unwrap(),
        value,
        comparison: Comparison::Greater,
        threshold: 75.0,
    });
    let worst = WorstNode {
        node: node(beside),
        labels: Labels::default(),
        samples: 0,
        over: 0,
        share: 0.0,
        share_of_slow: 0.0,
        over_ratio: 0.0,
        hardware: Default::default(),
        bus: Default::default(),
    };
    let change = (AlertState::Pending, state);
    let (mesh, key) =
        (MeshName::new("drill").unwrap(), shipped_alert("gpu_hot", Scope::Node(node("a"))));
    let context = Some(Box::new(AlertContext { worst: vec![worst], ..AlertContext::default() }));
    let notification =
        Notification { context, ..Notification::new(mesh, key, change, 1.0, evidence) };
    Arrival { at: Duration::from_secs(7), notification }
}

#[test]
fn a_notification_counts_only_if_its_evidence_is_of_the_right_node_and_gpu_and_supports_it() {
    use AlertState::{Firing, Resolved};
    let (first, other) = (Some("0"), Some("1"));
    for (state, value, gpu, beside, met) in [
        (Firing, 80.0, first, "a", true),
        (Firing, 75.0, first, "a", false),
        (Firing, 80.0, other, "a", false),
        (Firing, 80.0, None, "a", false),
        (Firing, 80.0, first, "b", false),
        (Resolved, 75.0, first, "a", true),
        (Resolved, 45.0, other, "b", true),
        (Resolved, 80.0, first, "a", false),
    ] {
        let look = judge_arrival(&arrival(state, value, gpu, beside), Of::Gpu(first));
        assert_eq!(look.met, met, "{state:?} {value} {gpu:?} {beside}");
        assert_eq!(look.at, Some(Duration::from_secs(7)));
    }
}
