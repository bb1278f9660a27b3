//! The drills as an operator runs them: they pass on a sound mesh, and fail when their rule is
//! taken away.

use std::time::Duration;

use plimsoll_tests::outcome::{Outcome, Swept, nobody_left, program, run};
use serde_json::Value;

const WAIT: Duration = Duration::from_secs(240);
/// The exit code of a drill whose expectation was missed.
const MISSED: Option<i32> = Some(6);

async fn drill(name: &str, flags: &[&str]) -> (Outcome, Value) {
    let swept = Swept::new().unwrap();
    let mut command = program(name).unwrap();
    command.arg("--json").args(flags).arg("--dir").arg(swept.path());
    let outcome = run(command, WAIT).await.unwrap();
    let report = serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    nobody_left(&swept.path()).await.unwrap();
    (outcome, report)
}

/// Names of the expectations that ended in this way.
fn ended<'a>(report: &'a Value, verdict: &str) -> Vec<&'a str> {
    let expectations = report["expectations"].as_array().unwrap().iter();
    expectations
        .filter(|expectation| expectation["verdict"] == verdict)
        .map(|expectation| expectation["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_slow_node_is_told_of_and_cleared_and_no_sample_is_lost() {
    let (outcome, report) = drill("drill-latency", &[]).await;
    assert_eq!(ended(&report, "missed"), [""; 0], "{}", outcome.stderr);
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
    let (outcome, report) = drill("drill-backpressure", &[]).await;
    assert_eq!(ended(&report, "missed"), [""; 0], "{}", outcome.stderr);
    assert_eq!((outcome.code, &report["passed"]), (Some(0), &Value::Bool(true)));
    assert!(ended(&report, "met").len() > 20, "{report}");
}

#[tokio::test]
async fn without_its_rule_the_latency_drill_fails() {
    let (outcome, report) = drill("drill-latency", &["--without-rule"]).await;
    assert_eq!((outcome.code, &report["passed"]), (MISSED, &Value::Bool(false)));
    assert!(!ended(&report, "missed").is_empty(), "{report}");
}
