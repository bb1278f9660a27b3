//! Samples that applications export as Prometheus text arrive exactly, whatever else their pages
//! contain.

mod app;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(crate) use app::App;
use app::{flooding, hanging};
use plimsoll_mesh::child::{Child, free_port, until};
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_runtime::client::Api;
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::{MetricsPage, await_value, promtool_findings};
use plimsoll_tests::process::{MeshProcess, node_row, operation_row};
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};

const WAIT: Duration = Duration::from_secs(30);

/// A mesh whose node reads the pages of these `[[scrape]]` sections.
async fn mesh(dir: &Path, sections: &str) -> SingleNodeMesh {
    let config = dir.join("node.toml");
    std::fs::write(&config, sections).unwrap();
    let options = StackOptions { nodes: 0, ..with_jobs(dir) };
    let mut stack = Stack::start(options).await.unwrap();
    let (broker, config) = (stack.broker().url(), config.to_str().unwrap());
    let node = MeshProcess::node_with(NODE, dir, &broker, &["--config", config]).await.unwrap();
    SingleNodeMesh { stack, node }
}

fn section(url: &str, more: &str) -> String {
    format!("[[scrape]]\nurl = \"{url}\"\nevery_seconds = 1\n{more}\n")
}

/// A figure of one target, under its name.
fn of(figure: &str, url: &str) -> String {
    format!("plimsoll_agent_scrape_{figure}{{target=\"{url}\"}}")
}

/// Waits until two more pages of a target were read. The second was requested after this call.
async fn scraped(node: &Api, url: &str) {
    let pages = of("pages_total", url);
    let before = node.metric(&pages).await.unwrap().unwrap_or(0.0);
    until("two more pages were read", WAIT, async || {
        node.metric(&pages).await.ok().flatten().filter(|now| *now >= before + 2.0)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_application_is_counted_exactly_over_its_restart_and_beside_bad_targets() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port().unwrap();
    let url = format!("http://127.0.0.1:{port}/metrics");
    let (_hanging, hangs) = hanging();
    let (endless, garbage) = (flooding(b"a 1\n"), flooding(b"\xff\x00{{{}\n"));
    let unused = format!("http://127.0.0.1:{}/metrics", free_port().unwrap());
    let mut app = App::start(port);
    app.count("/before", &[0.2; 7], 9);
    let sections = [
        section(&url, "labels = [\"app=fetcher\"]"),
        section(&hangs, ""),
        section(&endless, ""),
        section(&garbage, ""),
        section(&unused, ""),
    ];
    let mut mesh = mesh(dir.path(), &sections.concat()).await;
    let node_api = mesh.node.api.clone();
    scraped(&node_api, &url).await;
    app.count("/a", &[0.03; 90], 5);
    app.count("/a", &[0.01; 10], 1);
    scraped(&node_api, &url).await;
    drop(app);
    let mut app = App::start(port);
    app.count("/a", &[0.03; 300], 40);
    app.count("/b", &[0.06; 50], 0);
    scraped(&node_api, &url).await;
    app.count("/b", &[2.0; 3], 4);
    scraped(&node_api, &url).await;
    bad_targets_fail(&node_api, [&hangs, &endless, &garbage, &unused]).await;
    let page = node_api.get("/metrics").await.unwrap();
    assert_eq!(promtool_findings(&page).unwrap(), "");
    let job = |name: &str| format!("plimsoll_job_{name}{{node=\"fed\",app=\"fetcher\"}}");
    for (series, value) in [
        (job("count_fetch_hits_total"), 50.0),
        (job("count_fetch_sizes_count_total"), 453.0),
        (job("count_fetch_sizes_sum_total"), 906.0),
        (job("value_fetch_depth"), 3.0),
    ] {
        await_value(mesh.stack.api(), &series, value).await.unwrap();
    }
    let summary = mesh.drain_node().await.unwrap();
    for scope in [NODE, ""] {
        let total = &operation_row(&summary, scope, "fetch_seconds").unwrap().total;
        assert_eq!(total.count, 90 + 10 + 300 + 50 + 3, "{scope:?}");
        let p50 = Duration::from_nanos(total.p50_ns.unwrap());
        assert!((18..=50).contains(&p50.as_millis()), "{p50:?} lies in its bucket");
    }
    let ledger = &node_row(&summary, NODE).unwrap().ledger;
    assert!(ledger.lost.is_empty(), "{ledger:?}");
    mesh.stack.end().await.unwrap();
}

/// Each scrape fails again and again, for its own reason.
async fn bad_targets_fail(node_api: &Api, [hangs, endless, garbage, unused]: [&str; 4]) {
    for (reasons, target) in [
        (&["answer_timeout"][..], hangs),
        // On a busy machine its timeout may come before its size limit.
        (&["too_long", "body_timeout"], endless),
        (&["too_long", "body_timeout"], garbage),
        (&["connect"], unused),
    ] {
        await_value(node_api, &of("up", target), 0.0).await.unwrap();
        until("every look fails for its reason", WAIT, async || {
            let page = MetricsPage::of(node_api).await.ok()?;
            let failures = reasons.iter().filter_map(|reason| {
                let labels = format!("{{reason=\"{reason}\",target=\"{target}\"}}");
                page.value(&format!("plimsoll_agent_scrape_failures_total{labels}"))
            });
            (failures.sum::<f64>() >= 3.0).then_some(())
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn a_page_full_of_gauges_is_taken_whole_and_in_its_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port().unwrap();
    let mut command = Command::new("prometheus-node-exporter");
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let _exporter = Child::start("exporter", dir.path(), command)
        .expect("on Debian or Ubuntu: apt-get install prometheus-node-exporter");
    let url = |path: &str| format!("http://127.0.0.1:{port}/metrics{path}");
    let (all, few, some) = (url(""), url("?few"), url("?some"));
    let mesh = mesh(
        dir.path(),
        &[
            section(&all, "series_max = 10000\nlabels = [\"of=all\"]"),
            section(&few, "series_max = 7\nlabels = [\"of=few\"]"),
            section(&some, "allow = [\"node_load*\"]\nlabels = [\"of=some\"]"),
            "[interval]\nseries_max = 10000\n".to_owned(),
        ]
        .concat(),
    )
    .await;
    let exporter = Api::at(&format!("127.0.0.1:{port}")).unwrap();
    let node = &mesh.node.api;
    until("every row but those without a value is a series", WAIT, async || {
        let rows = exporter.get("/metrics").await.ok()?;
        let rows = rows.lines().filter(|row| !row.starts_with('#') && !row.ends_with("NaN"));
        let (rows, taken) = (rows.count() as f64, node.metric(&of("series", &all)).await.ok()??);
        (rows > 100.0 && rows == taken).then_some(())
    })
    .await
    .unwrap();
    await_value(node, &of("series", &few), 7.0).await.unwrap();
    await_value(node, &of("series", &some), 3.0).await.unwrap();
    await_value(node, &of("rejected_series_total", &all), 0.0).await.unwrap();
    let load = "plimsoll_job_value_node_load15{node=\"fed\",of=\"some\"}";
    until("the load arrives", WAIT, async || mesh.stack.api().metric(load).await.ok().flatten())
        .await
        .unwrap();
    mesh.stack.end().await.unwrap();
}
