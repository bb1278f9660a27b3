//! Tags with characters that no label allows, up to the page that Prometheus' own linter checks.

use plimsoll_tests::metrics_page::{MetricsPage, await_value, promtool_findings};
use plimsoll_tests::process::fleet_samples;
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use plimsoll_tests::statsd::{StatsdSender, await_datagrams};

#[tokio::test]
async fn strange_tags_are_normalised_and_escaped_and_never_break_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    let long = "v".repeat(5_000);
    for line in [
        "strange:1|ms|#q:\"a\\b\",e:\u{1f600},no value,:,::,key with blanks:x\ty".to_owned(),
        "hits:1|c|#q:\"a\\b\"".to_owned(),
        "hits:2|c|#e:\u{1f600}".to_owned(),
        format!("hits:4|c|#long:{long}"),
        format!("hits:8|c|#longest:{}", "v".repeat(10_000)),
    ] {
        sender.send(line).unwrap();
    }
    await_datagrams(&mesh.node.api, 5).await.unwrap();
    let api = mesh.stack.api();
    for (labels, value) in [
        ("q=\"\\\"a\\\\b\\\"\"".to_owned(), 1.0),
        ("e=\"\u{1f600}\"".to_owned(), 2.0),
        (format!("long=\"{}\"", &long[..128]), 4.0),
    ] {
        let series = format!("plimsoll_job_count_hits_total{{node=\"{NODE}\",{labels}}}");
        await_value(api, &series, value).await.unwrap();
    }
    for api in [api, &mesh.node.api] {
        let text = api.get("/metrics").await.unwrap();
        assert_eq!(promtool_findings(&text).unwrap(), "");
    }
    let page = MetricsPage::of(&mesh.node.api).await.unwrap();
    let too_long = page.value("plimsoll_agent_rejected_lines_total{reason=\"too_long\"}");
    assert_eq!(too_long, Some(1.0));
    let summary = mesh.drain_node().await.unwrap();
    assert_eq!(fleet_samples(&summary, "strange"), 1);
    mesh.stack.end().await.unwrap();
}
