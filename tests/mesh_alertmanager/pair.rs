//! Two aggregators beside each other tell one Alertmanager of one alert: people hear it once.

use plimsoll_mesh::api::Api;
use plimsoll_tests::alertmanager::Alertmanager;
use plimsoll_tests::fed::Fed;
use plimsoll_tests::feed::Feed;
use plimsoll_tests::hook::Hook;
use plimsoll_tests::lone::Lone;
use plimsoll_tests::page::Page;

use super::{BUDGETS, RULE, fed_until, notifications};

/// Rounds in which each of the two has told it.
const ROUNDS: f64 = 5.0;

async fn posts(api: &Api) -> Option<f64> {
    let taken = "plimsoll_notice_posts_total{receiver=\"alertmanager\",result=\"taken\"}";
    Page::of(api).await.ok()?.value(taken)
}

#[tokio::test]
async fn a_pair_of_aggregators_makes_one_notification_of_an_alert_and_one_of_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let hook = Hook::taking().await.unwrap();
    let alertmanager = Alertmanager::start(dir.path(), &hook).await.unwrap();
    let url = alertmanager.api().url().to_owned();
    let settings = format!("{BUDGETS}[[alertmanager]]\nurl = '{url}'\nresend_every = '1s'\n");
    let mut mesh = Fed::start_with(dir.path(), settings.clone()).await.unwrap();
    let file = dir.path().join("other.toml");
    std::fs::write(&file, settings).unwrap();
    let broker = mesh.stack.broker().url();
    let other = Lone::aggregator_with(dir.path(), &broker, &file).await.unwrap();
    let feed = Feed::unix(mesh.node.socket()).unwrap();

    let both = fed_until(&feed, 30, "both tell it again and again", async || {
        let (one, other) = (posts(mesh.stack.api()).await?, posts(&other.api).await?);
        (one >= ROUNDS && other >= ROUNDS).then_some(())
    });
    both.await.unwrap();
    let alerts = alertmanager.alerts(RULE).await.unwrap();
    assert_eq!(alerts.len(), 2, "one of the fleet, one of the node: {alerts:?}");
    for scope in ["fleet", "node"] {
        assert_eq!(notifications(&hook, "firing", scope).len(), 1, "{scope}");
        assert_eq!(notifications(&hook, "resolved", scope).len(), 0, "{scope}");
    }

    let waiting = "plimsoll_notices_waiting{receiver=\"alertmanager\"}";
    let over = fed_until(&feed, 2, "both have told of the end", async || {
        let ends = notifications(&hook, "resolved", "fleet").len().min(1)
            + notifications(&hook, "resolved", "node").len().min(1);
        let waits = Page::of(mesh.stack.api()).await.ok()?.value(waiting)?
            + Page::of(&other.api).await.ok()?.value(waiting)?;
        (ends == 2 && waits == 0.0).then_some(())
    });
    over.await.unwrap();
    for scope in ["fleet", "node"] {
        assert_eq!(notifications(&hook, "resolved", scope).len(), 1, "{scope}");
        assert_eq!(notifications(&hook, "firing", scope).len(), 1, "{scope}");
    }
    mesh.stack.end().await.unwrap();
}
