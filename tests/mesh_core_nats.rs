//! A broker without streams: nothing can be replayed, and what is said live still counts.

use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::lone::{fleet_count, summary_when};
use plimsoll_tests::oracle::check_mesh;
use plimsoll_tests::page::answer;

#[tokio::test]
async fn without_streams_live_samples_are_merged_and_the_summary_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let options = StackOptions { jetstream: false, ..with_jobs(dir.path()) };
    let mut stack = Stack::start(options).await.unwrap();
    let enough = |summary: &_| fleet_count(summary, "epoch_hook") >= 100;
    let live = summary_when(stack.api(), "100 hooks are merged", enough).await.unwrap();
    assert_eq!(live.broker, "core");
    let (status, told) = answer(stack.api(), "/readyz").await.unwrap();
    assert_eq!((status, told.as_str()), (200, "ready, broker is core\n"));
    let drained = stack.drain().await.unwrap();
    check_mesh(&drained, stack.stations()).unwrap();
    stack.end().await.unwrap();
}
