//! A real Prometheus with the shipped files shows the same values as the aggregator.

mod formats;
mod grafana;
mod native;

use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::promtool_findings;
use plimsoll_tests::oracle::RawSamples;
use plimsoll_tests::process::{await_summary, fleet_samples, operation_row};
use plimsoll_tests::prometheus::Prometheus;
use serde_json::Value;
use std::time::Duration;

/// Far more than two evaluations of the slowest group of rules, and one scrape.
const RULES_WAIT: Duration = Duration::from_secs(60);

/// A mesh that a Prometheus scrapes, after its jobs have ended.
async fn scraped(options: StackOptions) -> (Stack, Prometheus) {
    let dir = options.dir.clone();
    let mut stack = Stack::start(options).await.unwrap();
    let nodes: Vec<_> = stack.stations().iter().map(|station| &station.api).collect();
    let prometheus = Prometheus::start(&dir, stack.api(), &nodes).await.unwrap();

    let enough = |summary: &_| fleet_samples(summary, "epoch_hook") >= 200;
    await_summary(stack.api(), "200 hooks are merged", enough).await.unwrap();
    stack.end_jobs().await.unwrap();
    (stack, prometheus)
}

#[tokio::test]
async fn prometheus_answers_with_the_same_quantiles_and_its_rules_are_healthy() {
    let dir = tempfile::tempdir().unwrap();
    let (stack, prometheus) = scraped(with_jobs(dir.path())).await;
    let raw = RawSamples::of_all(stack.stations()).unwrap();
    for name in ["epoch_hook", "kernel_fetch"] {
        let all = |summary: &_| fleet_samples(summary, name) == raw.count(name);
        let summary = await_summary(stack.api(), "all samples are merged", all).await.unwrap();
        let count =
            format!("plimsoll_latency_samples_total{{scope=\"fleet\",operation=\"{name}\"}}");
        prometheus.await_value(&count, raw.count(name) as f64).await.unwrap();
        let total = &operation_row(&summary, "", name).unwrap().total;
        for (quantile, ns) in [("p50", total.p50_ns), ("p99", total.p99_ns)] {
            let query = format!(
                "plimsoll_latency_{quantile}_seconds\
                 {{scope=\"fleet\",operation=\"{name}\",window=\"total\"}}"
            );
            let seconds = ns.unwrap() as f64 / 1e9;
            assert_eq!(prometheus.value(&query).await.unwrap(), Some(seconds), "{query}");
        }
    }

    prometheus.await_value("sum(up{job=\"plimsoll-aggregator\"})", 1.0).await.unwrap();
    prometheus.await_value("sum(up{job=\"plimsoll-node\"})", 3.0).await.unwrap();
    rules_are_healthy(&prometheus).await;

    for api in [stack.api(), &stack.stations()[0].api] {
        let page = api.get("/metrics").await.unwrap();
        assert_eq!(promtool_findings(&page).unwrap(), "", "{}", api.url());
    }
    stack.end().await.unwrap();
}

async fn rules_are_healthy(prometheus: &Prometheus) {
    let healthy = |rule: &Value| rule["health"] == "ok" && rule["lastError"].is_null();
    let all = until("all rules are healthy", RULES_WAIT, async || {
        let rules = prometheus.rules().await.ok()?;
        rules.iter().all(healthy).then_some(rules)
    });
    let Ok(rules) = all.await else {
        let rules = prometheus.rules().await.unwrap();
        panic!("{:?}", rules.iter().find(|rule| !healthy(rule)));
    };
    let alerting = rules.iter().filter(|rule| rule["type"] == "alerting").count();
    assert!(alerting >= 6, "budgets, queue, reroutes, drops and silence, but only {alerting}");
}
