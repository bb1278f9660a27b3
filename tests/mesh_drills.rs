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
async fn without_its_rule_the_latency_drill_fails() {
    let drilled = drill("drill-latency", &["--without-rule"]).await.unwrap();
    let (outcome, report) = (&drilled.outcome, &drilled.report);
    assert_eq!((outcome.code, &report["passed"]), (MISSED, &Value::Bool(false)));
    assert!(!drilled.ended("missed").is_empty(), "{report}");
}
