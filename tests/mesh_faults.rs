//! Every scenario of `drill-faults`, each as an operator would run it. The drill's verdict
//! is not taken on trust: the sets in its table must add up here too.

use plimsoll_tests::drill::{Drilled, drill};
use serde_json::Value;

/// Runs one scenario; true unless this machine does not allow it.
async fn survives(scenario: &str, reasons: &[&str], unexplained_max: u64) -> Option<Drilled> {
    let drilled = drill("drill-faults", &["--only", scenario]).await.unwrap();
    let Drilled { outcome, report, .. } = &drilled;
    assert_eq!(drilled.ended("missed"), [""; 0], "{}", outcome.stderr);
    if drilled.ended("met").is_empty() {
        eprintln!("{scenario} did not run: {:?}", drilled.ended("skipped"));
        return None;
    }
    assert_eq!((outcome.code, &report["passed"]), (Some(0), &Value::Bool(true)));
    adds_up(report, reasons, unexplained_max);
    Some(drilled)
}

/// Per node: what was sent and measured is merged once or lost for one of these reasons, save so
/// many that nobody can name.
fn adds_up(report: &Value, reasons: &[&str], unexplained_max: u64) {
    let accounts = report["accounts"].as_array().unwrap();
    assert!(!accounts.is_empty(), "{report}");
    for account in accounts {
        let number = |key: &str| account[key].as_u64().unwrap();
        let lost = account["lost"].as_object().unwrap();
        assert!(lost.keys().all(|reason| reasons.contains(&reason.as_str())), "{account}");
        let lost: u64 = lost.values().map(|count| count.as_u64().unwrap()).sum();
        let (sent, told) = (number("sent") + number("own"), number("merged") + lost);
        assert_eq!(sent, told + number("unexplained"), "{account}");
        assert!(number("unexplained") <= unexplained_max, "{account}");
        for none in ["held", "unaccounted", "duplicated"] {
            assert_eq!(number(none), 0, "{none}: {account}");
        }
        assert!(number("sent") > 0, "{account}");
    }
}

#[tokio::test]
async fn a_broker_stopped_for_half_a_minute_costs_no_sample() {
    survives("broker-stopped", &[], 0).await;
}

#[tokio::test]
async fn a_broker_killed_and_started_again_costs_no_sample() {
    survives("broker-killed", &[], 0).await;
}

#[tokio::test]
async fn a_broker_that_lost_its_store_costs_no_sample() {
    survives("broker-wiped", &[], 0).await;
}

#[tokio::test]
async fn a_broker_away_for_600_intervals_costs_no_sample_and_bounded_memory() {
    let drilled = survives("broker-absent", &[], 0).await.unwrap();
    let curve = drilled.written("broker-absent/resident.csv").unwrap();
    assert!(curve.lines().count() > 200, "a reading every 200 ms for a minute: {curve}");
}

#[tokio::test]
async fn a_node_killed_while_the_broker_is_away_loses_what_was_in_its_last_interval() {
    survives("node-killed", &["crash"], 100).await;
}

#[tokio::test]
async fn an_aggregator_killed_and_started_again_costs_no_sample() {
    survives("aggregator-killed", &[], 0).await;
}

#[tokio::test]
async fn broker_aggregator_and_node_killed_at_once_cost_the_last_interval() {
    survives("all-killed", &["crash"], 0).await;
}

#[tokio::test]
async fn a_broker_that_loses_its_store_in_that_costs_no_more() {
    survives("all-wiped", &["crash"], 0).await;
}

#[tokio::test]
async fn what_is_sent_again_after_no_confirmation_was_heard_is_merged_once() {
    survives("deaf", &["crash"], 0).await;
}

#[tokio::test]
async fn faults_in_a_row_without_time_to_recover_cost_no_more_than_each_alone() {
    survives("storm", &["crash"], 0).await;
}

#[tokio::test]
async fn a_full_disk_under_the_spool_costs_no_sample() {
    survives("disk-full", &[], 0).await;
}

#[tokio::test]
async fn a_breach_while_the_aggregator_is_away_is_counted_and_told_late() {
    survives("late-breach", &[], 0).await;
}
