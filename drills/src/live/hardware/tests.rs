//! The rules with which the drill overrides the shipped ones.

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::rule::file::{load, shipped};
use plimsoll_schemas::rule::{RuleText, Rules};

use super::*;

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
    let scope = Scope::Node(NodeName::new("a").unwrap());
    for (rule, _) in RULES {
        assert_eq!(ProvokedAlert::of_rule(rule, scope.clone()).key.scope, scope, "{rule}");
    }
}
