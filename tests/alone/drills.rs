//! The drills as an operator runs them pass on a sound mesh, and fail at a limit out of reach.

use plimsoll_tests::drill::{MISSED, run_drill};
use serde_json::Value;

#[tokio::test]
async fn a_slow_node_alerts_and_resolves_and_no_sample_is_lost() {
    let run = run_drill("drill-latency", &[]).await.unwrap();
    run.assert_passed();
    let report = &run.report;
    let states: Vec<&str> = report["notifications"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|arrival| arrival["notification"]["state"].as_str())
        .collect();
    assert!(states.contains(&"firing") && states.contains(&"resolved"), "{report}");
}

#[tokio::test]
async fn a_stopped_broker_costs_no_sample() {
    let run = run_drill("drill-backpressure", &[]).await.unwrap();
    run.assert_passed();
    assert!(run.expectations("met").len() > 20, "{}", run.report);
}

#[tokio::test]
async fn a_hot_machine_alerts_and_resolves_and_the_other_one_does_not() {
    let run = run_drill("drill-hardware", &[]).await.unwrap();
    run.assert_passed();
    let report = &run.report;
    let notifications = report["notifications"].as_array().unwrap();
    let is_firing = |notification: &Value, rule: &str, gpu: &str| {
        (&notification["rule"], &notification["state"]) == (&rule.into(), &"firing".into())
            && notification["scope"]["node"] == "node-1"
            && notification["evidence"]["labels"]["gpu"] == gpu
    };
    for rule in ["gpu_hot", "gpu_throttled"] {
        assert!(
            notifications.iter().any(|arrival| is_firing(&arrival["notification"], rule, "0")),
            "{report}"
        );
    }
}

#[tokio::test]
async fn a_limit_out_of_reach_fails_the_hardware_drill_at_that_rule_alone() {
    let run = run_drill("drill-hardware", &["--plant-miss", "memory_critical"]).await.unwrap();
    let (output, report) = (&run.output, &run.report);
    assert_eq!((output.code, &report["passed"]), (MISSED, &Value::Bool(false)));
    assert_eq!(run.expectations("missed"), ["memory_critical firing (node node-1)"]);
    assert_eq!(run.expectations("skipped"), ["memory_critical resolved (node node-1)"]);
}
