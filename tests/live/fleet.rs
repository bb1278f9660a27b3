//! The fleet drill at a small scale, on a mesh of its own: every sample of every simulated node
//! arrives, through a broker's restart, wrong clocks and floods as well, and both aggregators of a
//! pair answer the same.

use plimsoll_tests::drill::{MISSED, run_drill};
use serde_json::Value;

#[tokio::test]
async fn every_sample_of_fifty_nodes_arrives() {
    let flags = ["--nodes", "50", "--seconds", "6", "--leave"];
    let run = run_drill("drill-fleet", &flags).await.unwrap();
    // The run is too short to judge whether they keep up.
    let skipped = ["the broker keeps up", "the aggregator keeps up"];
    assert_eq!(run.expectations("skipped"), skipped, "{}", run.output.stderr);
    assert_eq!(run.expectations("missed"), [""; 0], "{}", run.output.stderr);
    let report = &run.report;
    assert_eq!((run.output.code, &report["passed"]), (Some(0), &Value::Bool(true)));
    assert!(run.expectations("met").contains(&"ledger exact"), "{report}");
    // Three operations of fifty samples a second, and one probe.
    assert_eq!(run.fleet_number("samples"), 50 * 6 * 150 + 6);
    assert_eq!(run.fleet_number("acknowledged"), run.fleet_number("messages"));
    assert!(report["fleet"]["freshness"]["count"].as_u64().unwrap() > 0, "{report}");
    assert!(report["fleet"]["timeline"].as_array().unwrap().len() >= 6, "{report}");
}

#[tokio::test]
async fn a_restarted_broker_wrong_clocks_and_floods_cost_no_sample() {
    let flags = ["--nodes", "40", "--seconds", "9", "--restart-broker", "3s"];
    let odd = ["--hostile", "4", "--skewed", "6"];
    let run = run_drill("drill-fleet", &[&flags[..], &odd[..]].concat()).await.unwrap();
    let report = &run.report;
    assert_eq!(run.expectations("missed"), [""; 0], "{}", run.output.stderr);
    assert_eq!((run.output.code, &report["passed"]), (Some(0), &Value::Bool(true)));
    assert!(run.expectations("met").contains(&"ledger exact"), "{report}");
    assert!(run.expectations("met").contains(&"nothing lost"), "{report}");
    let longest = report["fleet"]["acknowledgement"]["max"].as_f64().unwrap();
    assert!(longest > 1.0, "the broker was away for three seconds: {report}");
    assert_eq!(run.fleet_number("acknowledged"), run.fleet_number("messages"));
}

#[tokio::test]
async fn a_pair_of_aggregators_answers_the_same_after_random_faults_under_tls() {
    let flags = ["--nodes", "20", "--connections", "20", "--secured", "--pair"];
    let faults = ["--faults-every", "6s", "--seconds", "40"];
    let run = run_drill("drill-fleet", &[&flags[..], &faults[..]].concat()).await.unwrap();
    let report = &run.report;
    assert_eq!(run.expectations("missed"), [""; 0], "{}", run.output.stderr);
    assert_eq!((run.output.code, &report["passed"]), (Some(0), &Value::Bool(true)));
    for name in ["ledger exact", "nothing lost", "pair equal", "recovered"] {
        assert!(run.expectations("met").contains(&name), "{name}: {}", run.output.stderr);
    }
    let fleet = &report["fleet"];
    assert!(fleet["faults"].as_array().unwrap().len() >= 2, "{}", fleet["faults"]);
    assert_eq!(fleet["restarted"], 2, "of twenty nodes");
    let pair = &fleet["pair"];
    assert_eq!((&pair["nodes"], &pair["differences"]), (&Value::from(21), &Value::from(0)));
    // Each sample of three operations, of the probe, and of each group once more.
    assert!(pair["samples"].as_u64().unwrap() >= run.fleet_number("samples"), "{pair}");
    assert!(pair["buckets"].as_u64().unwrap() > 100, "{pair}");
    let rows = fleet["timeline"].as_array().unwrap();
    let last = rows.last().unwrap();
    for name in ["broker", "aggregator", "second_aggregator", "generator"] {
        for figure in ["resident_bytes", "handles", "threads"] {
            assert!(last["usage"][name][figure].as_u64().unwrap() > 0, "{name}: {last}");
        }
    }
    assert!(rows.iter().any(|row| row["second_ledger"]["merged"].as_f64() > Some(0.0)), "{last}");
}

#[tokio::test]
async fn an_aggregator_with_other_groups_than_its_pair_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("second.toml");
    std::fs::write(&file, "rollup_labels = []\n").unwrap();
    let flags = ["--nodes", "5", "--seconds", "4", "--pair", "--second-settings"];
    let flags = [&flags[..], &[file.to_str().unwrap()]].concat();
    let run = run_drill("drill-fleet", &flags).await.unwrap();
    assert_eq!(run.expectations("missed"), ["pair equal"], "{}", run.output.stderr);
    assert_eq!(run.output.code, MISSED);
    assert!(run.expectations("met").contains(&"ledger exact"), "{}", run.report);
}
