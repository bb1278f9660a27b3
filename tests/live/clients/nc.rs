//! `nc`, for a shell script.

use std::process::Command;
use std::time::Duration;

use plimsoll_tests::oracle::RawSamples;
use plimsoll_tests::program::run_with_input;
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};

const WAIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn lines_from_nc_over_udp_and_unix_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let mut udp = Command::new("nc");
    udp.args(["-u", "-N", "-w", "1", "127.0.0.1", &mesh.node.udp().unwrap().port().to_string()]);
    let mut unix = Command::new("nc");
    unix.args(["-u", "-U", "-N", "-w", "1"]).arg(mesh.node.socket());
    for command in [udp, unix] {
        let text = "nc_op:1.5:2.25|ms\nnc_op:40|ms|@0.5\n";
        let outcome = run_with_input(command, text, WAIT).await.unwrap();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    }
    let summary = mesh.drain_node().await.unwrap();
    let once = [1_500_000, 2_250_000, 40_000_000, 40_000_000];
    RawSamples::sent("nc_op", &[once, once].concat()).check(&summary, NODE).unwrap();
    mesh.stack.end().await.unwrap();
}
