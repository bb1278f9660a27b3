//! The past over HTTP and in the command, through kills of the aggregator and a lost state file.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::{Stack, bin_dir};
use plimsoll_schemas::histogram::rank;
use plimsoll_schemas::summary::{
    BottlenecksPage, HistoryPage, HistoryPoint, MetricHistoryPage, MetricHistoryPages, MetricKind,
    NodeHistory, OperationsPage,
};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::oracle::{RawSamples, check_drained};
use serde_json::from_str;

const WAIT: Duration = Duration::from_secs(60);
/// Operations that only jobs time; a node adds its own.
pub(crate) const JOBS: [&str; 2] = ["epoch_hook", "kernel_fetch"];

pub(crate) async fn query(stack: &Stack, parameters: &str) -> HistoryPage {
    let path = format!("/api/v1/query?{parameters}");
    from_str(&stack.api().get(&path).await.unwrap()).unwrap()
}

fn count(page: &HistoryPage) -> u64 {
    count_of(&page.points)
}

fn count_of(points: &[HistoryPoint]) -> u64 {
    points.iter().map(|point| point.count).sum()
}

pub(crate) async fn await_samples(stack: &Stack, least: u64) -> u64 {
    let enough = async || {
        let page = stack.api().get("/api/v1/query?operation=epoch_hook&last=1h").await.ok()?;
        Some(count(&from_str(&page).ok()?)).filter(|count| *count >= least)
    };
    until("more hooks are in the history", WAIT, enough).await.unwrap()
}

/// Every count equals the jobs' own, in one point and in points of 10 s, and each quantile lies
/// within its bounds.
async fn check(stack: &Stack, raw: &RawSamples) {
    for operation in JOBS {
        let values = raw.values(operation);
        let whole =
            query(stack, &format!("operation={operation}&last=1h&quantiles=0.5,0.99")).await;
        let slots = query(stack, &format!("operation={operation}&last=15m&step=10s")).await;
        let counted = (count(&whole), count(&slots));
        assert_eq!(counted, (raw.count(operation), raw.count(operation)), "{operation}");
        for found in &whole.points[0].quantiles {
            let rank = rank(found.quantile, values.len() as u64);
            let exact = values[usize::try_from(rank - 1).unwrap()] as f64 / 1e9;
            assert!(found.lower <= exact && exact <= found.upper, "{found:?} {exact}");
        }
    }
}

/// Each node counts and sets a tenth: ten of them are not 1 in floating point, one by one.
fn send_metrics(stack: &Stack) {
    for station in stack.stations() {
        let socket = UnixDatagram::unbound().unwrap();
        socket.send_to(b"epoch_hook.tokens:0.1|c\nmemory:0.1|g", &station.socket).unwrap();
    }
}

/// The counter and the gauge are whole, in one point and in points of 10 s, by time and by run.
async fn check_metrics(stack: &Stack, sent: u64) {
    let mut sums = Vec::new();
    for range in ["last=1h", "last=15m&step=10s"] {
        let page = format!("/api/v1/query?metric=epoch_hook.tokens&per=epoch_hook.tokens&{range}");
        let page: MetricHistoryPage = from_str(&stack.api().get(&page).await.unwrap()).unwrap();
        let of = (page.kind, page.operation.as_deref());
        assert_eq!(of, (MetricKind::Counter, Some("epoch_hook")));
        let used = || page.points.iter().filter(|point| point.count > 0);
        assert!(used().all(|point| point.ratio == Some(1.0)), "{page:?}");
        sums.push(used().map(|point| point.sum).sum::<f64>());

        // Both at once are what each is alone.
        let both = format!("/api/v1/query?metric=epoch_hook.tokens&metric=memory&{range}");
        let both: MetricHistoryPages = from_str(&stack.api().get(&both).await.unwrap()).unwrap();
        let sum = |page: &MetricHistoryPage| page.points.iter().map(|of| of.sum).sum::<f64>();
        assert_eq!(sum(&both.pages[0]), sum(&page));
        assert_eq!(both.pages[0].operation, page.operation);
        let page = format!("/api/v1/query?metric=memory&{range}");
        let page: MetricHistoryPage = from_str(&stack.api().get(&page).await.unwrap()).unwrap();
        let used: Vec<_> = page.points.iter().filter(|point| point.count > 0).collect();
        assert_eq!((page.kind, used.is_empty()), (MetricKind::Gauge, false));
        assert!(used.iter().all(|point| point.mean == Some(0.1)), "{used:?}");
    }
    // The first is rounded once, as a product is.
    assert_eq!(sums[0].to_bits(), (sent as f64 * 0.1).to_bits());
    assert!((sums[1] - sums[0]).abs() < 1e-9, "{sums:?}");
}

#[tokio::test]
async fn the_past_is_exact_although_the_aggregator_is_killed_and_loses_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    let mut had = 0;
    let mut sent = 0;
    for _ in 0..4 {
        send_metrics(&stack);
        sent += stack.stations().len() as u64;
        had = await_samples(&stack, had + 60).await;
        stack.kill_aggregator();
        stack.restart_aggregator().await.unwrap();
    }
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
    let raw = RawSamples::of_all(stack.stations()).unwrap();
    check(&stack, &raw).await;
    check_metrics(&stack, sent).await;
    // The streams bring everything again to an aggregator without a state.
    stack.kill_aggregator();
    std::fs::remove_file(dir.path().join("state.redb")).unwrap();
    // The nodes have ended, so nothing but the aggregator can be waited for.
    stack.launch_aggregator().unwrap();
    let ready = async || stack.api().is_ready().await.then_some(());
    until("the aggregator is ready", WAIT, ready).await.unwrap();
    check(&stack, &raw).await;
    check_metrics(&stack, sent).await;
    let listed: OperationsPage =
        from_str(&stack.api().get("/api/v1/operations").await.unwrap()).unwrap();
    assert!(JOBS.iter().all(|name| listed.operations.iter().any(|other| other == name)));
    let near = stack.api().request("GET", "/api/v1/query?operation=epoch_hok", None).await;
    let near = near.unwrap_err();
    assert!(format!("{near:#}").contains("similar: \"epoch_hook\""), "{near:#}");
    let other = stack.api().request("GET", "/api/v1/query?operation=memory", None).await;
    let other = format!("{:#}", other.unwrap_err());
    assert!(other.contains("\"memory\" is a metric: use metric=memory"), "{other}");
    let program = bin_dir().unwrap().join("plimsoll");
    let mut command = Command::new(program);
    command.args(["query", "epoch_hook", "--last", "1h", "--over", "18ms", "--url"]);
    let output = command.arg(stack.api().url()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let row: Vec<&str> = text.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(row[2], raw.count("epoch_hook").to_string(), "{text}");
}

/// Counters, gauges and shares of nodes, from their own histories.
async fn check_metrics_of(stack: &Stack, name: &str, nodes: &[NodeHistory]) {
    let tokens = async || {
        let page = "/api/v1/query?metric=epoch_hook.tokens&node=*&last=15m";
        let page: MetricHistoryPage = from_str(&stack.api().get(page).await.ok()?).ok()?;
        let sum: f64 = page.points.iter().map(|point| point.sum).sum();
        ((sum - nodes.len() as f64 * 0.1).abs() < 1e-9).then_some(page)
    };
    let page = until("each node has its tenth of a token", WAIT, tokens).await.unwrap();
    let of = (page.kind, page.operation.as_deref(), page.nodes.unwrap().len());
    assert_eq!(of, (MetricKind::Counter, Some("epoch_hook"), nodes.len()));
    assert!(page.points.iter().any(|point| point.per_operation_second > Some(0.0)));
    let page = format!("/api/v1/query?metric=memory&node={name}&last=15m");
    let page: MetricHistoryPage = from_str(&stack.api().get(&page).await.unwrap()).unwrap();
    assert_eq!((page.kind, page.points[0].last), (MetricKind::Gauge, Some(0.1)));

    // The last interval of its jobs may end between two queries.
    let shares = async || {
        let path = format!("/api/v1/bottlenecks?node={name}&last=15m");
        let page: BottlenecksPage = from_str(&stack.api().get(&path).await.ok()?).ok()?;
        let hooks = page.operations.iter().find(|of| of.operation == "epoch_hook")?.count;
        let samples = query(stack, &format!("operation=epoch_hook&node={name}&last=15m")).await;
        (hooks == count(&samples)).then_some(page)
    };
    let page = until("shares have each sample of the node", WAIT, shares).await.unwrap();
    assert!(page.operations.iter().all(|of| of.share.is_some()), "{page:?}");
    let node = page.node.unwrap();
    assert_eq!((node.node.as_str(), node.error), (name, None));
}

/// Nodes are killed too: what they had sent is in their histories, what was lost with them is not.
#[tokio::test]
async fn the_past_of_nodes_is_exact_by_the_second() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    let mut had = await_samples(&stack, 120).await;
    for station in 0..stack.stations().len() {
        stack.kill_node(station);
        stack.restart_node(station).await.unwrap();
        had = await_samples(&stack, had + 60).await;
    }
    send_metrics(&stack);
    stack.end_jobs().await.unwrap();
    // All that is recorded is sealed, stored and confirmed before the two are compared. On a busy
    // machine a node's intervals are late, so that a second may lack what the next one has twice.
    let equal = async || {
        let of_nodes = query(&stack, "operation=epoch_hook&node=*&last=15m&step=1s").await;
        let of_fleet = query(&stack, "operation=epoch_hook&last=1h").await;
        let complete = of_nodes.points.iter().filter(|point| point.completeness > Some(0.9));
        let is_complete = complete.count() >= 3;
        (is_complete && count(&of_nodes) == count(&of_fleet)).then_some(of_nodes)
    };
    let what = "nodes and fleet agree, and three seconds are complete";
    let page = until(what, WAIT, equal).await.unwrap();
    assert!(count(&page) >= had);
    let nodes = page.nodes.unwrap();
    assert_eq!(nodes.len(), stack.stations().len());
    assert!(nodes.iter().all(|node| node.error.is_none() && node.samples > 0), "{nodes:?}");
    assert_eq!(nodes.iter().map(|node| node.samples).sum::<u64>(), count_of(&page.points));
    assert_eq!((page.resolution.as_str(), page.step_seconds), ("1s", 1.0));
    let begin = page.points.iter().find(|point| point.count > 0).unwrap().from_seconds;
    // One series of one node, and one that no series has.
    let name = &stack.stations()[0].name.clone();
    let phase = |label: &str| format!("operation=epoch_hook&node={name}&last=15m&label={label}");
    let of_first = query(&stack, &format!("operation=epoch_hook&node={name}&last=15m")).await;
    assert_eq!(Some(count(&of_first)), nodes.iter().find(|n| n.node == *name).map(|n| n.samples));
    assert_eq!(count(&query(&stack, &phase("rank=none")).await), 0);
    check_metrics_of(&stack, name, &nodes).await;
    // A node that is gone is named, and what it had is missing, also after a kill of the
    // aggregator.
    stack.kill_node(0);
    stack.kill_aggregator();
    stack.launch_aggregator().unwrap();
    let ready = async || stack.api().is_ready().await.then_some(());
    until("the aggregator is ready", WAIT, ready).await.unwrap();
    let page = query(&stack, &format!("operation=epoch_hook&node=*&from={begin}")).await;
    let nodes = page.nodes.unwrap();
    let silent: Vec<_> = nodes.iter().filter(|node| node.error.is_some()).collect();
    assert_eq!((silent.len(), &silent[0].node), (1, name));
    assert!(silent[0].error.as_ref().unwrap().starts_with("no answer: the node is away"));
    assert!(page.points[0].completeness < Some(0.9), "{:?}", page.points[0].completeness);
    assert_eq!(count_of(&page.points), nodes.iter().map(|node| node.samples).sum::<u64>());
    let error = stack.api().get("/api/v1/heatmap?operation=epoch_hook&node=*").await.unwrap_err();
    assert!(format!("{error:#}").contains("heatmap"), "{error:#}");
}
