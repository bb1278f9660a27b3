//! The formats of a page from a real aggregator, read by what is not ours.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::{MetricsPage, get_accepting, promtool_findings};
use plimsoll_tests::process::{await_summary, fleet_samples};
use plimsoll_tests::program::run_with_input;
use serde_json::Value;

const WAIT: Duration = Duration::from_secs(60);
const OPENMETRICS: &str = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
const PROTOBUF: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                        encoding=delimited,text/plain;q=0.5";

async fn busy(dir: &std::path::Path) -> Stack {
    let aggregator_settings = "[metrics]\nnodes_max = 2\naliases = true\n".to_owned();
    let options = StackOptions { aggregator_settings, ..with_jobs(dir) };
    let stack = Stack::start(options).await.unwrap();
    let some = |summary: &_| fleet_samples(summary, "epoch_hook") >= 30;
    await_summary(stack.api(), "hooks are merged", some).await.unwrap();
    stack
}

/// `prometheus_client`'s own parser, in the environment that `deploy/test` makes.
async fn read_by_python(page: &[u8]) -> Value {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let mut command = Command::new(here.join(".venv/bin/python"));
    command.arg(here.join("python/openmetrics.py"));
    let page = std::str::from_utf8(page).unwrap();
    let outcome = run_with_input(command, page, WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{}\n(deploy/test installs the packages)", outcome.stderr);
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[tokio::test]
async fn every_format_is_negotiated_and_exports_its_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let stack = busy(dir.path()).await;
    let api = stack.api();
    let (headers, page) = get_accepting(api, "/metrics", OPENMETRICS, "identity").await.unwrap();
    assert!(headers["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    let read = read_by_python(&page).await;
    assert_eq!(read["plimsoll_latency_seconds"]["type"], "histogram");
    assert_eq!(read["plimsoll_latency_seconds"]["unit"], "seconds");
    assert_eq!(read["plimsoll_samples_merged"]["type"], "counter");
    assert_eq!(read["plimsoll_node_merged_samples"]["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(read["publish_rerouted"]["type"], "unknown");
    let (_, page) = get_accepting(api, "/metrics/nodes", OPENMETRICS, "identity").await.unwrap();
    let read = read_by_python(&page).await;
    assert_eq!(read["plimsoll_node_merged_samples"]["nodes"].as_array().unwrap().len(), 3);
    assert!(read["plimsoll_samples_merged"].is_null());
    let (headers, page) = get_accepting(api, "/metrics/nodes", "*/*", "identity").await.unwrap();
    assert_eq!(headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(headers["vary"], "accept, accept-encoding");
    let text = String::from_utf8(page).unwrap();
    // Old names break the linter's rules.
    let findings = promtool_findings(&text).unwrap();
    let about_ours = findings.lines().filter(|line| line.starts_with("plimsoll_"));
    assert_eq!(about_ours.collect::<Vec<_>>(), [""; 0]);
    let (headers, page) = get_accepting(api, "/metrics", PROTOBUF, "gzip").await.unwrap();
    assert!(headers["content-type"].to_str().unwrap().contains("encoding=delimited"));
    assert_eq!(
        (&headers["content-encoding"], &page[..2]),
        (&"gzip".parse().unwrap(), &[31, 139][..])
    );
    stack.end().await.unwrap();
}

#[tokio::test]
async fn concurrent_requests_share_one_page() {
    const ASKERS: usize = 50;
    let dir = tempfile::tempdir().unwrap();
    let stack = busy(dir.path()).await;
    let request = || {
        let api = stack.api().clone();
        tokio::spawn(async move {
            get_accepting(&api, "/metrics/nodes", "*/*", "gzip").await.unwrap().1
        })
    };
    let requests: Vec<_> = (0..ASKERS).map(|_| request()).collect();
    for answer in requests {
        assert_eq!(answer.await.unwrap()[..2], [31, 139]);
    }
    let page = MetricsPage::of(stack.api()).await.unwrap();
    let of = |name: &str, rest: &str| {
        page.value(&format!("{name}{{page=\"nodes\",format=\"text\"{rest}}}")).unwrap()
    };
    let answers = of("plimsoll_aggregator_responses_total", ",encoding=\"gzip\"");
    assert_eq!(answers, ASKERS as f64);
    let made = of("plimsoll_aggregator_pages_total", "");
    assert!((1.0..answers).contains(&made), "{made} of {answers}");
    stack.end().await.unwrap();
}
