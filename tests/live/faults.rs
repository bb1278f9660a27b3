//! Every scenario of `drill-faults`, as an operator runs it. The sums in its report are checked
//! here again, independently of its verdict.

use plimsoll_schemas::own_operations::OWN_LOST;
use plimsoll_tests::capability::{mount_refusal, semaphore_refusal, skip};
use plimsoll_tests::drill::{DrillRun, MISSED, run_drill};
use serde_json::Value;

/// Runs one scenario, which must pass.
async fn survives(scenario: &str, reasons: &[&str], unexplained_max: u64) -> DrillRun {
    survives_with(&[], scenario, reasons, unexplained_max).await
}

async fn survives_with(
    flags: &[&str],
    scenario: &str,
    reasons: &[&str],
    unexplained_max: u64,
) -> DrillRun {
    let flags = [flags, &["--only", scenario]].concat();
    let run = run_drill("drill-faults", &flags).await.unwrap();
    run.assert_passed();
    adds_up(&run.report, reasons, unexplained_max);
    run
}

/// Per node: every sample sent or measured is merged once or lost for one of these reasons, except
/// for at most `unexplained_max` samples.
fn adds_up(report: &Value, reasons: &[&str], unexplained_max: u64) {
    let accounts = report["accounts"].as_array().unwrap();
    assert!(!accounts.is_empty(), "{report}");
    for account in accounts {
        let number = |key: &str| account[key].as_u64().unwrap();
        let lost = account["lost"].as_object().unwrap();
        let own = (!reasons.is_empty()).then_some(OWN_LOST);
        let is_known = |reason: &str| reasons.contains(&reason) || own == Some(reason);
        assert!(lost.keys().all(|reason| is_known(reason)), "{account}");
        let lost: u64 = lost.values().map(|count| count.as_u64().unwrap()).sum();
        let (sent, explained) = (number("sent") + number("own"), number("merged") + lost);
        assert_eq!(sent, explained + number("unexplained"), "{account}");
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
async fn a_broker_unreachable_for_600_intervals_costs_no_sample_and_bounded_memory() {
    let run = survives("broker-absent", &[], 0).await;
    let curve = run.read_file("broker-absent/resident.csv").unwrap();
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
async fn what_is_resent_without_a_confirmation_is_merged_once() {
    survives("deaf", &["crash"], 0).await;
}

#[tokio::test]
async fn faults_in_a_row_without_time_to_recover_cost_no_more_than_each_alone() {
    survives("storm", &["crash"], 0).await;
}

#[tokio::test]
async fn a_full_disk_under_the_spool_costs_no_sample() {
    if let Some(refusal) = mount_refusal() {
        let run = run_drill("drill-faults", &["--only", "disk-full"]).await.unwrap();
        let passed = (run.output.code, &run.report["passed"]);
        assert_eq!(passed, (MISSED, &Value::Bool(false)), "a drill without a disk proves nothing");
        assert_eq!(run.expectations("skipped").len(), 1, "{}", run.output.stderr);
        skip(&refusal);
    } else {
        survives("disk-full", &[], 0).await;
    }
}

#[tokio::test]
async fn slow_fetches_on_one_node_alert_and_resolve() {
    survives("slow-fetches", &[], 0).await;
}

#[tokio::test]
async fn violations_and_retries_of_a_job_alert_and_resolve() {
    let run = survives("job-counters", &[], 0).await;
    for rule in ["isolation_violations", "compile_retries"] {
        assert_eq!(states(&run.report, rule), ["firing", "resolved"], "{}", run.report);
    }
}

#[tokio::test]
async fn a_stream_that_refuses_opens_breakers_and_costs_no_sample() {
    let run = survives("breaker", &[], 0).await;
    let states = states(&run.report, "breaker_open");
    assert!(states.contains(&"firing") && states.contains(&"resolved"), "{}", run.report);
}

/// States of a rule's notifications, in the order in which they came.
fn states<'a>(report: &'a Value, rule: &str) -> Vec<&'a str> {
    let notifications = report["notifications"].as_array().unwrap().iter();
    let of_rule = notifications.filter(|arrival| arrival["notification"]["rule"] == rule);
    of_rule.filter_map(|arrival| arrival["notification"]["state"].as_str()).collect()
}

#[tokio::test]
async fn faults_of_a_cluster_one_after_the_other_cost_no_sample() {
    survives_with(&["--cluster-seconds", "20"], "cluster-storm", &[], 0).await;
}

#[tokio::test]
async fn what_a_killed_node_answered_is_merged_once_or_named() {
    run_drill("drill-faults", &["--only", "kill-loop"]).await.unwrap().assert_passed();
}

#[tokio::test]
async fn what_a_node_on_a_full_disk_answered_is_merged_once_or_named_too() {
    if let Some(refusal) = mount_refusal() {
        // Tried by `a_full_disk_under_the_spool_costs_no_sample`: the drill skips.
        return skip(&refusal);
    }
    run_drill("drill-faults", &["--only", "kill-loop-full"]).await.unwrap().assert_passed();
}

#[tokio::test]
async fn pools_of_short_workers_lose_no_more_than_their_last_moments() {
    if let Some(refusal) = semaphore_refusal() {
        return skip(&refusal);
    }
    run_drill("drill-faults", &["--only", "short-workers"]).await.unwrap().assert_passed();
}

#[tokio::test]
async fn depth_passes_its_mark_behind_a_slow_link_and_comes_back() {
    survives("queue-depth", &[], 0).await;
}

#[tokio::test]
async fn drops_at_the_byte_bound_are_named() {
    survives("byte-bound", &["outbox_full"], 0).await;
}

#[tokio::test]
async fn a_round_trip_of_three_seconds_is_kept_up_with() {
    survives("long-link", &[], 0).await;
}

#[tokio::test]
async fn a_breach_during_a_backlog_alerts_at_once() {
    // Beside other tests a job computes late; the backlog lasts for longer still.
    survives_with(&["--fresh-seconds", "20"], "fresh-breach", &[], 0).await;
}

#[tokio::test]
async fn drills_that_plant_a_miss_fail_at_it() {
    for (scenario, missed) in [
        ("slow-fetches", &["kernel_fetch firing (node node-1)", "kernel_fetch firing (fleet)"][..]),
        ("kill-loop", &["none unnamed"]),
    ] {
        let flags = ["--plant-miss", "--kill-seconds", "5", "--only", scenario];
        let run = run_drill("drill-faults", &flags).await.unwrap();
        assert_eq!(run.output.code, MISSED, "{}", run.output.stderr);
        let missed: Vec<String> = missed.iter().map(|name| format!("{scenario}: {name}")).collect();
        assert_eq!(run.expectations("missed"), missed, "{}", run.report);
    }
}

#[tokio::test]
async fn a_breach_without_an_aggregator_is_counted_and_notified_late() {
    survives("late-breach", &[], 0).await;
}
