//! Forged messages at the broker.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::Stack;
use plimsoll_schemas::limits::wire::COUNT_MAX;
use plimsoll_schemas::wire::{Body, Bus};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::{MetricsPage, promtool_findings};
use plimsoll_tests::oracle::check_drained;
use plimsoll_tests::process::{await_summary, fleet_samples, node_row};
use plimsoll_tests::publisher::Publisher;

use super::forgery::{GHOST, all, header, message};

const WAIT: Duration = Duration::from_secs(20);
/// More incarnations of one node than are distinguished or stored.
const LIVES: u64 = 300;

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

#[tokio::test]
async fn a_node_that_claims_impossible_totals_ends_nothing_and_bends_no_other_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    let mut publisher = Publisher::connect(stack.broker().url()).await.unwrap();
    // Each life claims as many samples and messages as a reader accepts, and shows none.
    let subject = format!("plimsoll.v1.local.normal.{GHOST}.bus");
    for incarnation in 1..=LIVES {
        let header = header(GHOST, incarnation, COUNT_MAX, COUNT_MAX);
        let body = Body::Bus(Bus { attempted: u64::MAX, ..Bus::default() });
        publisher.publish(&subject, message(header, body)).await.unwrap();
    }
    let received = |summary: &_| {
        node_row(summary, GHOST).is_ok_and(|row| row.ledger.recorded == LIVES * COUNT_MAX)
    };
    let summary = await_summary(stack.api(), "its totals are read", received).await;
    let summary = summary.unwrap_or_else(|error| panic!("{error}\n{}", stack.aggregator_log()));
    let ledger = &node_row(&summary, GHOST).unwrap().ledger;
    assert!(ledger.merged == 0 && !ledger.is_settled(), "{ledger:?}");
    let page = stack.api().get("/metrics").await.unwrap();
    assert_eq!(promtool_findings(&page).unwrap(), "");
    stack.check_alive().unwrap();
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
}
