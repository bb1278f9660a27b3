//! The drills as an operator runs them: they pass on a sound mesh, and fail when their rule is
//! taken away.

use plimsoll_tests::drill::drill;
use serde_json::Value;

/// The exit code of a drill whose expectation was missed.
const MISSED: Option<i32> = Some(6);

#[tokio::test]
async fn a_slow_node_is_told_of_and_cleared_and_no_sample_is_lost() {
    let drilled = drill("drill-latency", &[]).await.unwrap();
    let (outcome, report) = (&drilled.outcome, &drilled.report);
    assert_eq!(drilled.ended("missed"), [""; 0], "{}", outcome.stderr);
    assert_eq!((outcome.code, &report["passed"]), (Some(0), &Value::Bool(true)));
    let states: Vec<&str> = report["notices"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|arrival| arrival["notice"]["state"].as_str())
        .collect();
    assert!(states.contains(&"firing") && states.contains(&"resolved"), "{report}");
}

#[tokio::test]
async fn a_stopped_broker_costs_no_sample() {
    let drilled = drill("drill-backpressure", &[]).await.unwrap();
    let (outcome, report) = (&drilled.outcome, &drilled.report);
    assert_eq!(drilled.ended("missed"), [""; 0], "{}", outcome.stderr);
    assert_eq!((outcome.code, &report["passed"]), (Some(0), &Value::Bool(true)));
    assert!(drilled.ended("met").len() > 20, "{report}");
}

#[tokio::test]
async fn a_hot_machine_is_told_of_and_cleared_and_the_other_one_is_not() {
    let drilled = drill("drill-hardware", &[]).await.unwrap();
    let (outcome, report) = (&drilled.outcome, &drilled.report);
    assert_eq!(drilled.ended("missed"), [""; 0], "{}", outcome.stderr);
    assert_eq!(drilled.ended("skipped"), [""; 0], "{}", outcome.stderr);
    assert_eq!((outcome.code, &report["passed"]), (Some(0), &Value::Bool(true)));
    let notices = report["notices"].as_array().unwrap();
    let is_told = |notice: &Value, rule: &str, gpu: &str| {
        (&notice["rule"], &notice["state"]) == (&rule.into(), &"firing".into())
            && notice["scope"]["node"] == "node-1"
            && notice["evidence"]["labels"]["gpu"] == gpu
    };
    for rule in ["gpu_hot", "gpu_throttled"] {
        assert!(notices.iter().any(|heard| is_told(&heard["notice"], rule, "0")), "{report}");
    }
}

#[tokio::test]
async fn a_limit_out_of_reach_fails_the_hardware_drill_at_that_rule_alone() {
    let drilled = drill("drill-hardware", &["--plant-miss", "memory_critical"]).await.unwrap();
    let (outcome, report) = (&drilled.outcome, &drilled.report);
    assert_eq!((outcome.code, &report["passed"]), (MISSED, &Value::Bool(false)));
    assert_eq!(drilled.ended("missed"), ["memory_critical firing (node node-1)"]);
    assert_eq!(drilled.ended("skipped"), ["memory_critical resolved (node node-1)"]);
}

#[tokio::test]
async fn without_its_rule_the_latency_drill_fails() {
    let drilled = drill("drill-latency", &["--without-rule"]).await.unwrap();
    let (outcome, report) = (&drilled.outcome, &drilled.report);
    assert_eq!((outcome.code, &report["passed"]), (MISSED, &Value::Bool(false)));
    assert!(!drilled.ended("missed").is_empty(), "{report}");
}
