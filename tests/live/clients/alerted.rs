//! A job that follows the alerts about itself, in Python.

use plimsoll_tests::program::run;
use plimsoll_tests::single_node::SingleNodeMesh;

use super::python::{WAIT, script};

const BUDGETS: &str = "
[[budget]]
name = 'epoch_hook'
window = '10s'
fire_after = 1
clear_after = 1
";

#[tokio::test]
async fn a_job_is_called_when_its_alert_fires_and_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start_with(dir.path(), BUDGETS.to_owned()).await.unwrap();
    let mut job = script("alerted_job.py");
    job.env("PLIMSOLL_SOCKET", mesh.node.socket()).env("PLIMSOLL_URL", mesh.stack.api().url());
    let outcome = run(job, WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);

    let mut lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines.pop(), Some("read resolved [] ''"), "{}", outcome.stdout);
    // The fleet has this one node, so its alert changes within the same second or the next.
    for expected in ["firing critical epoch_hook node fed", "resolved critical epoch_hook node fed"]
    {
        assert_eq!(lines.iter().filter(|line| **line == expected).count(), 1, "{lines:?}");
    }
    assert!(lines.contains(&"firing critical epoch_hook fleet "), "{lines:?}");
    mesh.drain_node().await.unwrap();
    mesh.stack.end().await.unwrap();
}
