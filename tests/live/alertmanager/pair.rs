//! Two aggregators post one alert to one Alertmanager, which notifies once.

use plimsoll_runtime::client::Api;
use plimsoll_tests::alertmanager::Alertmanager;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::process::MeshProcess;
use plimsoll_tests::single_node::SingleNodeMesh;
use plimsoll_tests::statsd::StatsdSender;
use plimsoll_tests::webhook::WebhookReceiver;

use super::{BUDGETS, RULE, fed_until, notifications};

/// Posts that each of the two has made.
const ROUNDS: f64 = 5.0;

async fn posts(api: &Api) -> Option<f64> {
    let taken = "plimsoll_notification_posts_total{receiver=\"alertmanager\",result=\"taken\"}";
    MetricsPage::of(api).await.ok()?.value(taken)
}

#[tokio::test]
async fn a_pair_of_aggregators_makes_one_notification_of_an_alert_and_one_of_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let webhook = WebhookReceiver::accepting().await.unwrap();
    let alertmanager = Alertmanager::start(dir.path(), &webhook).await.unwrap();
    let url = alertmanager.api().url().to_owned();
    let settings = format!("{BUDGETS}[[alertmanager]]\nurl = '{url}'\nresend_every = '1s'\n");
    let mut mesh = SingleNodeMesh::start_with(dir.path(), settings.clone()).await.unwrap();
    let file = dir.path().join("other.toml");
    std::fs::write(&file, settings).unwrap();
    let broker = mesh.stack.broker().url();
    let other = MeshProcess::aggregator_with(dir.path(), &broker, &file).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();

    let both = fed_until(&sender, 30, "both post it repeatedly", async || {
        let (one, other) = (posts(mesh.stack.api()).await?, posts(&other.api).await?);
        (one >= ROUNDS && other >= ROUNDS).then_some(())
    });
    both.await.unwrap();
    let alerts = alertmanager.alerts(RULE).await.unwrap();
    assert_eq!(alerts.len(), 2, "one of the fleet, one of the node: {alerts:?}");
    for scope in ["fleet", "node"] {
        assert_eq!(notifications(&webhook, "firing", scope).len(), 1, "{scope}");
        assert_eq!(notifications(&webhook, "resolved", scope).len(), 0, "{scope}");
    }

    let waiting = "plimsoll_notifications_queued{receiver=\"alertmanager\"}";
    let over = fed_until(&sender, 2, "both have posted the end", async || {
        let ends = notifications(&webhook, "resolved", "fleet").len().min(1)
            + notifications(&webhook, "resolved", "node").len().min(1);
        let waits = MetricsPage::of(mesh.stack.api()).await.ok()?.value(waiting)?
            + MetricsPage::of(&other.api).await.ok()?.value(waiting)?;
        (ends == 2 && waits == 0.0).then_some(())
    });
    over.await.unwrap();
    for scope in ["fleet", "node"] {
        assert_eq!(notifications(&webhook, "resolved", scope).len(), 1, "{scope}");
        assert_eq!(notifications(&webhook, "firing", scope).len(), 1, "{scope}");
    }
    mesh.stack.end().await.unwrap();
}
