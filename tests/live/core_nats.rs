//! A broker without streams: no replay is possible, and live samples count.

use plimsoll_mesh::stack::{Stack, StackOptions, Station};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::get_any_status;
use plimsoll_tests::oracle::check_drained;
use plimsoll_tests::process::{await_summary, fleet_samples};

#[tokio::test]
async fn without_streams_live_samples_are_merged_and_the_summary_reports_core() {
    let dir = tempfile::tempdir().unwrap();
    let options = StackOptions { jetstream: false, ..with_jobs(dir.path()) };
    let mut stack = Stack::start(options).await.unwrap();
    let enough = |summary: &_| fleet_samples(summary, "epoch_hook") >= 100;
    let live = await_summary(stack.api(), "100 hooks are merged", enough).await.unwrap();
    assert_eq!(live.broker, "core");
    let (status, body) = get_any_status(stack.api(), "/readyz").await.unwrap();
    assert_eq!((status, body.as_str()), (200, "ready, broker is core\n"));
    let warning = "broker has no JetStream for this account: what is published while no aggregator";
    let logs = stack.stations().iter().map(Station::node_log);
    for log in logs.chain([stack.aggregator().log()]) {
        assert_eq!(log.matches(warning).count(), 1, "{log}");
    }
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
    stack.end().await.unwrap();
}
