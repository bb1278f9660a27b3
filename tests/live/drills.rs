//! Drills that must not pass: without a broker to disturb, and without the rule that they expect.

use std::time::Duration;

use plimsoll_tests::drill::{MISSED, run_drill};
use plimsoll_tests::process::fleet_samples;
use plimsoll_tests::program::{ScratchDir, program, run};
use plimsoll_tests::single_node::SingleNodeMesh;
use serde_json::Value;

#[tokio::test]
async fn a_drill_without_a_bus_never_passes() {
    let drills =
        ["drill-latency", "drill-hardware", "drill-backpressure", "drill-faults", "drill-load"];
    for drill in drills {
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
async fn a_load_arrives_whole_and_its_deliveries_are_measured() {
    let flags = ["--count", "3001", "--rate", "1000", "--nodes", "2", "--operations", "3"];
    let run = run_drill("drill-load", &flags).await.unwrap();
    run.assert_passed();
    let load = &run.report["load"];
    let figures = ["sent", "merged", "unnamed"].map(|key| load[key].as_u64().unwrap());
    assert_eq!((figures, &load["lost"]), ([3_001, 3_001, 0], &serde_json::json!({})));
    let seconds = |key: &str| load["delivery"][key].as_f64().unwrap();
    let times = ["p50", "p95", "p99", "max"].map(seconds);
    assert!(times.is_sorted() && times[0] > 0.0, "{load}");
    assert!(load["duration_seconds"].as_f64().unwrap() >= 3.0, "{load}");
}

#[tokio::test]
async fn a_burst_of_ten_times_the_load_loses_nothing_over_the_unix_socket() {
    let flags = ["--count", "103000", "--rate", "1000", "--burst-after", "1", "--nodes", "2"];
    let run = run_drill("drill-load", &flags).await.unwrap();
    run.assert_passed();
    let load = &run.report["load"];
    let counts = ["sent", "merged", "unnamed"].map(|key| load[key].as_u64().unwrap());
    assert_eq!((counts, &load["lost"]), ([103_000, 103_000, 0], &serde_json::json!({})));
    // One second before, ten of the burst and two after: without it 103 s.
    assert!(load["duration_seconds"].as_f64().unwrap() < 60.0, "{load}");
}

#[tokio::test]
async fn of_a_burst_over_udp_every_datagram_is_read_or_named_and_few_are_lost() {
    let flags =
        ["--udp", "--count", "10300", "--rate", "100", "--burst-after", "1", "--nodes", "2"];
    let run =
        run_drill("drill-load", &[&flags[..], &["--per-datagram", "1"]].concat()).await.unwrap();
    run.assert_passed();
    let load = &run.report["load"];
    let [sent, merged, unnamed] =
        ["sent", "merged", "unnamed"].map(|key| load[key].as_u64().unwrap());
    let lost = load["lost"].get("kernel_dropped").map_or(0, |lost| lost.as_u64().unwrap());
    assert_eq!((sent, merged + lost, unnamed), (10_300, 10_300, 0), "{load}");
    let datagrams = ["sent", "read", "dropped", "unnamed", "unnamed_samples"];
    let datagrams = datagrams.map(|key| load["datagrams"][key].as_u64().unwrap());
    assert_eq!(datagrams, [10_300, merged, lost, 0, 0], "one sample each");
}

#[tokio::test]
async fn a_load_over_udp_of_which_a_sample_is_nowhere_fails() {
    let run = run_drill("drill-load", &["--udp", "--plant-miss"]).await.unwrap();
    let load = &run.report["load"];
    assert_eq!((run.output.code, &load["unnamed"]), (MISSED, &1.into()), "{load}");
    assert_eq!(run.expectations("missed"), ["every sample accounted for"]);
    assert_eq!(load["datagrams"]["unnamed"], 0, "{load}");
}

#[tokio::test]
async fn a_load_passes_through_a_mesh_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let (broker, aggregator) = (mesh.stack.broker().url(), mesh.stack.api().url());
    let aggregator = aggregator.trim_start_matches("http://");
    let flags = ["--count", "200", "--broker", &broker, "--aggregator", aggregator];
    let run = run_drill("drill-load", &[&flags[..], &["--mesh", "local"]].concat()).await.unwrap();
    run.assert_passed();
    let figures = ["sent", "merged", "unnamed"].map(|key| run.report["load"][key].as_u64());
    assert_eq!(figures, [Some(200), Some(200), Some(0)], "{}", run.report);
    let summary = mesh.stack.api().summary().await.unwrap();
    assert_eq!(fleet_samples(&summary, "load.0"), 200, "the mesh that ran before has them");
    assert!(mesh.stack.check_alive().is_ok(), "and goes on");
}

#[tokio::test]
async fn a_load_of_which_a_sample_is_nowhere_fails() {
    let run = run_drill("drill-load", &["--plant-miss"]).await.unwrap();
    assert_eq!((run.output.code, &run.report["load"]["unnamed"]), (MISSED, &1.into()));
    assert_eq!(run.expectations("missed"), ["every sample accounted for"]);
}

#[tokio::test]
async fn without_its_rule_the_latency_drill_fails() {
    let run = run_drill("drill-latency", &["--without-rule"]).await.unwrap();
    let (output, report) = (&run.output, &run.report);
    assert_eq!((output.code, &report["passed"]), (MISSED, &Value::Bool(false)));
    assert!(!run.expectations("missed").is_empty(), "{report}");
}
