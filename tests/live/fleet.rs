//! The fleet drill at a small scale, on a mesh of its own: every sample of every simulated node
//! arrives, through a broker's restart, wrong clocks and floods as well.

use plimsoll_tests::drill::run_drill;
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
