//! Default labels of a client reach the roll-ups that need no settings, now and in the past. One
//! operation's statistics are those that the client has itself.

use plimsoll_mesh::child::until;
use plimsoll_schemas::summary::{HistoryPage, StatisticsPage, SummaryStats};
use plimsoll_tests::metrics_page::await_value;
use plimsoll_tests::program::run;
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use plimsoll_tests::statsd::StatsdSender;
use serde_json::Value;

use super::python::{WAIT, script};

/// Status, body and page of a request for statistics.
async fn statistics(mesh: &SingleNodeMesh, query: &str) -> (u16, String) {
    let url = format!("{}/api/v1/statistics{query}", mesh.stack.api().url());
    let response = reqwest::get(url).await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test]
async fn labels_of_a_job_are_groups_without_any_settings() {
    let dir = tempfile::tempdir().unwrap();
    let own_past = dir.path().join("own-past").display().to_string();
    let flags = ["--label", "role=trainer", "--history", own_past.as_str()];
    let mesh = SingleNodeMesh::start_node_with(dir.path(), &flags).await.unwrap();
    let mut command = script("labelled_client.py");
    command.env("PLIMSOLL_SOCKET", mesh.node.socket());
    command.env("PLIMSOLL_LABELS", "run=r7");
    let outcome = run(command, WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let own: SummaryStats = serde_json::from_str(&outcome.stdout).unwrap();
    for (label, value, samples) in
        [("run", "r7", 1_000.0), ("rank", "3", 1_000.0), ("role", "trainer", 400.0)]
    {
        let labels = format!("rollup=\"{label}\",operation=\"step\",{label}=\"{value}\"");
        let series = format!("plimsoll_latency_samples_total{{scope=\"rollup\",{labels}}}");
        await_value(mesh.stack.api(), &series, samples).await.unwrap();
    }
    let loader = "plimsoll_latency_samples_total{scope=\"rollup\",rollup=\"role\",\
                  operation=\"step\",role=\"loader\"}";
    await_value(mesh.stack.api(), loader, 600.0).await.unwrap();

    // The same in the past of the fleet, and in the node's own: a sample's own label comes first.
    for (scope, samples) in [
        ("rollup=role&value=trainer", 400),
        ("rollup=role&value=loader", 600),
        ("node=fed&label=role%3Dtrainer", 400),
        ("node=fed&label=role%3Dloader", 600),
        ("node=fed&label=role%3Dtrainer&label=rank%3D3", 400),
        ("node=fed&label=run%3Dr7", 1_000),
    ] {
        let path = format!("/api/v1/query?operation=step&last=1h&{scope}");
        let all = async || {
            let page = mesh.stack.api().get(&path).await.ok()?;
            let page: HistoryPage = serde_json::from_str(&page).ok()?;
            (page.points[0].count == samples).then_some(())
        };
        until(&format!("{samples} samples of {scope}"), WAIT, all).await.unwrap();
    }

    for query in ["", "&window=1h", "&node=fed", "&window=total&node=fed"] {
        let (status, text) = statistics(&mesh, &format!("?operation=step{query}")).await;
        assert_eq!(status, 200, "{text}");
        let page: StatisticsPage = serde_json::from_str(&text).unwrap();
        let scope = if query.contains("node") { NODE } else { "" };
        assert_eq!((page.scope.node(), page.stats.count), (scope, own.count));
        let names = [own, page.stats].map(|stats| serde_json::to_value(stats).unwrap());
        let fields = |of: &Value| of.as_object().unwrap().clone();
        for (name, expected) in fields(&names[0]) {
            let (found, expected) = (names[1][&name].as_f64().unwrap(), expected.as_f64().unwrap());
            assert!((found / expected - 1.0).abs() < 0.003, "{name}: {found}, not {expected}");
        }
        let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert!(fields(&printed).keys().eq(fields(&names[1]).keys()), "{printed}");
    }

    let windows = "one of 10s, 1m, 5m, 30m, 1h, 2h, 6h, 1d, 3d, 30d, total";
    for (query, status, part) in [
        ("?operation=stop", 404, "no samples of \"stop\" from fleet; "),
        ("?operation=step&node=n9", 404, "node \"n9\" is unknown; "),
        ("?operation=step&window=7m", 400, windows),
        ("?operation=step&node=fed&window=30d", 400, "set windows.nodes_up_to"),
        ("", 400, "operation is missing"),
        ("?operation=%00%ff&node=%", 400, "operation is "),
        ("?operation=a&operation=b", 400, "given twice"),
        ("?operation[]=a&&==", 400, "unknown parameter"),
    ] {
        let (found, text) = statistics(&mesh, query).await;
        assert!(found == status && text.contains(part), "{query}: {found} {text}");
    }
    mesh.stack.end().await.unwrap();
}

#[tokio::test]
async fn a_changed_roll_up_is_taken_without_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    let send = || sender.send("step:1|ms|#run:r7,phase:train").unwrap();
    let samples = async |label: &str, value: &str| {
        let labels = format!("rollup=\"{label}\",operation=\"step\",{label}=\"{value}\"");
        let series = format!("plimsoll_latency_samples_total{{scope=\"rollup\",{labels}}}");
        mesh.stack.api().metric(&series).await.ok().flatten()
    };
    (0..100).for_each(|_| send());
    let all = async || samples("run", "r7").await.filter(|samples| *samples == 100.0);
    until("the run has a group", WAIT, all).await.unwrap();
    std::fs::write(dir.path().join("aggregator.toml"), "rollup_labels = ['phase', 'run']").unwrap();
    let defined = async || {
        send();
        samples("phase", "train").await
    };
    until("the phase has a group", WAIT, defined).await.unwrap();
    assert!(samples("run", "r7").await.unwrap() > 100.0, "the run keeps what it had");
    mesh.stack.end().await.unwrap();
}
