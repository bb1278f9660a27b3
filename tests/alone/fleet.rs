//! A fleet whose nodes reconnect, and one whose nodes misuse the mesh in every way at once. The
//! aggregator's pages and checkpoints give way to all else, so beside tests that compute they would
//! not be seen for minutes.

use plimsoll_bus::limits::STREAM_USE_EVERY;
use plimsoll_tests::drill::run_drill;
use serde_json::Value;

#[tokio::test]
async fn each_of_forty_nodes_reconnects_by_itself_after_a_restart() {
    check_reconnects(&[]).await;
}

#[tokio::test]
async fn forty_nodes_reconnect_over_tls_each_with_its_own_key() {
    check_reconnects(&["--secured"]).await;
}

async fn check_reconnects(more: &[&str]) {
    let flags = "--nodes 40 --connections 40 --seconds 12 --restart-broker 4s";
    let flags: Vec<&str> = flags.split(' ').chain(more.iter().copied()).collect();
    let run = run_drill("drill-fleet", &flags).await.unwrap();
    let (report, stderr) = (&run.report, &run.output.stderr);
    assert_eq!(run.expectations("missed"), [""; 0], "{stderr}");
    let met = run.expectations("met");
    for name in ["ledger exact", "nothing lost", "all connections back", "connects are spread"] {
        assert!(met.contains(&name), "{name} is not met: {stderr}");
    }
    let restart = &report["fleet"]["restart"];
    // Nodes, the probe's and the aggregator's.
    assert_eq!(restart["connections"], Value::from(42), "{report}");
    // How many there are depends on how often the machine lets a checkpoint be written.
    assert!(run.fleet_number("confirmations") > 0, "{report}");
    // The aggregator's alone: it looks at four streams, reads two and goes on to look at those.
    // Only the time until all are back makes them more.
    let requests = restart["jetstream_requests"].as_u64().unwrap();
    let looks = 2.0 * restart["back_seconds"].as_f64().unwrap() / STREAM_USE_EVERY.as_secs_f64();
    assert!((requests as f64) < 40.0 + looks, "{requests} requests of 40 nodes: {report}");
}

#[tokio::test]
async fn whatever_forty_nodes_do_at_once_each_ledger_stays_exact() {
    let usual = "--nodes 40 --seconds 12 --leave --hostile 2 --skewed 2 --fast 1 --scrapers 1";
    let flags = format!("{usual} --largest 4s --restart-nodes 7s");
    let flags: Vec<&str> = flags.split(' ').collect();
    let run = run_drill("drill-fleet", &flags).await.unwrap();
    let (report, stderr) = (&run.report, &run.output.stderr);
    let met = run.expectations("met");
    for name in ["ledger exact", "nothing lost", "ended"] {
        assert!(met.contains(&name), "{name} is not met: {stderr}");
    }
    assert_eq!(run.fleet_number("restarted"), 20, "{report}");
    // Each usual node's own messages and its final one; the fast node's 1 200. When they are due is
    // fixed before the start, and a slow machine makes them wait but not fewer: nothing is lost.
    assert_eq!(run.fleet_number("messages"), 40 * 13 + 1_201, "{report}");
    // In 40 large messages of 475 KiB, and all others of some 2 KiB.
    let bytes = run.fleet_number("messages") * run.fleet_number("bytes_per_message");
    assert!(bytes > 40 * 450 * 1_024, "{bytes} bytes: {report}");
    let scrapes = &report["fleet"]["scrapes"];
    // Pages give way to all else, so how many are served depends on the machine.
    let served = scrapes["took"]["count"].as_u64().unwrap();
    assert!(served > 0, "no page was served: {report}");
}
