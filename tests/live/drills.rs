//! Drills that must not pass: without a broker to disturb, and without the rule that they expect.

use std::time::Duration;

use plimsoll_tests::drill::{MISSED, run_drill};
use plimsoll_tests::program::{ScratchDir, program, run};
use serde_json::Value;

#[tokio::test]
async fn a_drill_without_a_bus_never_passes() {
    for drill in ["drill-latency", "drill-hardware", "drill-backpressure", "drill-faults"] {
        let place = ScratchDir::new().unwrap();
        let mut command = program(drill).unwrap();
        command.arg("--dir").arg(place.path());
        command.env("PLIMSOLL_NATS_SERVER", place.path().join("nats-server"));
        let ended = run(command, Duration::from_secs(60)).await.unwrap();
        assert_ne!(ended.code, Some(0), "{drill}: {ended:?}");
        assert!(ended.stderr.contains("nats-server"), "{drill}: {ended:?}");
    }
}

#[tokio::test]
async fn without_its_rule_the_latency_drill_fails() {
    let run = run_drill("drill-latency", &["--without-rule"]).await.unwrap();
    let (output, report) = (&run.output, &run.report);
    assert_eq!((output.code, &report["passed"]), (MISSED, &Value::Bool(false)));
    assert!(!run.expectations("missed").is_empty(), "{report}");
}
