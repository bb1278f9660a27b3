//! Forged messages at the broker.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::Stack;
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::oracle::check_drained;
use plimsoll_tests::process::{await_summary, fleet_samples};
use plimsoll_tests::publisher::Publisher;

use super::forgery::{GHOST, all};

const WAIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn every_forged_message_is_counted_by_reason_and_harms_no_good_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    let mut publisher = Publisher::connect(stack.broker().url()).await.unwrap();
    let mut sent: BTreeMap<String, f64> = BTreeMap::new();
    for forged in all() {
        publisher.publish(&forged.subject, forged.payload).await.unwrap();
        *sent.entry(forged.reason.to_owned()).or_default() += 1.0;
    }
    let (api, total) = (stack.api().clone(), sent.values().sum::<f64>());
    let counted = until("every forged message is counted", WAIT, async || {
        let page = MetricsPage::of(&api).await.ok()?;
        (page.sum("plimsoll_aggregator_undecodable_messages_total") >= total).then_some(page)
    });
    let page = counted.await.unwrap();
    assert_eq!(page.by_label("plimsoll_aggregator_undecodable_messages_total", "reason"), sent);
    let enough = |summary: &_| fleet_samples(summary, "epoch_hook") >= 60;
    await_summary(stack.api(), "60 hooks are merged", enough).await.unwrap();
    stack.check_alive().unwrap();
    let drained = stack.drain().await.unwrap();
    assert!(drained.nodes.iter().all(|row| row.node != GHOST), "no ghost is listed");
    check_drained(&drained, stack.stations()).unwrap();
}
