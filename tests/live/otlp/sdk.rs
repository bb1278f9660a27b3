//! The official SDK for Python in each of its ways: every count is exact, and every quantile lies
//! in the bucket in which its producer counted it, and within the bound that is stated with it.

use plimsoll_schemas::summary::Quantiles;
use plimsoll_tests::metrics_page::{MetricsPage, await_value};
use plimsoll_tests::oracle::RawSamples;
use plimsoll_tests::process::{node_row, operation_row};
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};

use super::producer::{Way, count, export, mesh, rounds};

/// The bounds of the explicit histograms of `otlp_client.py`.
const BOUNDS_NS: [u64; 10] = [
    5_000_000,
    10_000_000,
    18_000_000,
    25_000_000,
    50_000_000,
    75_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
];
const MS: u64 = 1_000_000;

/// Where a producer's bucket that holds `ns` begins and ends: of 160 exponential ones over eighteen
/// doublings there are eight to a doubling, so that none is wider than a tenth of its value.
fn bucket(way: Way, ns: u64) -> (u64, u64) {
    if way.exponential {
        return (ns - ns / 10, ns + ns / 10 + 512);
    }
    let above = BOUNDS_NS.partition_point(|bound| *bound < ns);
    (above.checked_sub(1).map_or(0, |below| BOUNDS_NS[below]), BOUNDS_NS[above])
}

fn check(way: Way, shown: &Quantiles, values: &[u64]) {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    assert_eq!(shown.count, sorted.len() as u64, "{way:?}");
    let stated = shown.approximate.expect("quantiles from wide buckets are approximate");
    for (percent, shown, (least, most)) in
        [(50, shown.p50_ns, stated.p50_ns), (99, shown.p99_ns, stated.p99_ns)]
    {
        let exact = sorted[(sorted.len() * percent).div_ceil(100) - 1];
        let (from, to) = bucket(way, exact);
        let shown = shown.unwrap();
        let context = format!("{way:?}: p{percent} of {exact} is {shown}, from {least} to {most}");
        assert!((least..=most).contains(&exact), "{context}");
        assert!((least..=most).contains(&shown), "{context}");
        assert!(shown >= from && shown <= to + to / 1_000, "{context}, not from {from} to {to}");
    }
}

/// Nothing was lost, and nothing more is there than was sent.
async fn settled(mesh: &mut SingleNodeMesh) -> plimsoll_schemas::summary::Summary {
    let summary = mesh.drain_node().await.unwrap();
    let ledger = &node_row(&summary, NODE).unwrap().ledger;
    assert!(ledger.lost.is_empty(), "{ledger:?}");
    let rows = summary.operations.iter().filter(|row| row.scope.node() == NODE);
    assert_eq!(ledger.merged, rows.map(|row| row.total.count).sum::<u64>());
    summary
}

#[tokio::test]
async fn every_way_of_the_sdk_brings_each_sample_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = mesh(dir.path()).await;
    let named = |n: usize| format!("way_{n}");
    for (n, way) in Way::all().into_iter().enumerate() {
        let sent = rounds(n as u64, 500);
        export(&mesh, way, &named(n), &named(n), &sent).await.unwrap();
    }
    let job = "node=\"fed\"";
    let shop = "service=\"shop\"";
    let increments = format!("plimsoll_job_count_otlp_count_total{{{job},{shop}");
    let value = |gauge: &str| format!("plimsoll_job_value_{gauge}{{{job},{shop}}}");
    for (series, value) in [
        // Each producer adds 1, 2 and 3.
        (format!("{increments},zone=\"x\"}}"), 48.0),
        (value("otlp_level"), 3.0),
        (value("otlp_gauge"), -7.5),
    ] {
        await_value(mesh.stack.api(), &series, value).await.unwrap();
    }
    let page = MetricsPage::of(&mesh.node.api).await.unwrap();
    // Three rounds and the final export of the meter; three spans.
    for (protocol, signal, exports) in [("http", "metrics", 16.0), ("grpc", "traces", 12.0)] {
        let labels = format!("outcome=\"taken\",protocol=\"{protocol}\",signal=\"{signal}\"");
        let taken = page.value(&format!("plimsoll_agent_otlp_requests_total{{{labels}}}"));
        assert_eq!(taken, Some(exports), "{labels}");
    }
    assert_eq!(page.sum("plimsoll_agent_otlp_requests_total"), 56.0);
    let summary = settled(&mut mesh).await;
    for (n, way) in Way::all().into_iter().enumerate() {
        for scope in [NODE, ""] {
            let row = operation_row(&summary, scope, &named(n)).expect("it is shown");
            check(way, &row.total, &rounds(n as u64, 500).concat());
        }
    }
    let spans: Vec<_> = [MS, 2 * MS, 3 * MS].repeat(8);
    let spans = RawSamples::sent("http_get", &spans);
    let mut spans_alone = summary.clone();
    spans_alone.operations.retain(|row| row.operation == "http_get");
    spans.check(&spans_alone, NODE).unwrap();
    mesh.stack.end().await.unwrap();
}

#[tokio::test]
async fn producers_of_one_metric_are_kept_apart_and_one_that_restarts_is_counted_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = mesh(dir.path()).await;
    let way = |protocol, exponential| Way { protocol, cumulative: true, exponential, gzip: false };
    let (a, b) = (rounds(1, 300), rounds(2, 400));
    let (http, grpc) = (way("http", false), way("grpc", true));
    let (first, second) = tokio::join!(
        export(&mesh, http, "a", "shared", &a),
        export(&mesh, http, "b", "shared", &b)
    );
    first.and(second).unwrap();

    // The first producer restarts from zero, beside one that is new.
    let (again, third) = tokio::join!(
        export(&mesh, http, "a", "shared", &a),
        export(&mesh, grpc, "c", "shared", &b)
    );
    again.and(third).unwrap();

    let summary = settled(&mut mesh).await;
    assert_eq!(count(&summary, NODE, "shared"), 900 + 1_200 + 900 + 1_200);
    assert_eq!(count(&summary, "", "shared"), 4_200);
    mesh.stack.end().await.unwrap();
}
