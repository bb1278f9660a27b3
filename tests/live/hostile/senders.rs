//! Who may send samples to a node, and under which names.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use plimsoll_mesh::child::{log_field, until};
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Operation, Seq, Series};
use plimsoll_schemas::own_operations::{MESSAGE_DELIVERY, OWN_OPERATIONS, PUBLISH};
use plimsoll_schemas::wire::Latency;
use plimsoll_schemas::wire::frame::{Frame, encode};
use plimsoll_tests::process::{await_summary, fleet_samples, operation_row};
use plimsoll_tests::statsd::StatsdSender;
use serde_json::{Value, from_str, json};

const WAIT: Duration = Duration::from_secs(30);
/// 50 minutes, which no message takes.
const FORGED_MS: u64 = 3_000_000;
const LINES: u64 = 300;
const RESERVED: &str = "plimsoll_agent_rejected_lines_total{reason=\"reserved\"}";
const NOT_ALLOWED: &str = "plimsoll_agent_rejected_lines_total{reason=\"not_allowed\"}";
const FRAMES_NOT_ALLOWED: &str = "plimsoll_agent_rejected_frames_total{reason=\"not_allowed\"}";

fn frame(operations: &[&str]) -> Vec<u8> {
    let mut histogram = Histogram::default();
    histogram.record_n(FORGED_MS * 1_000_000, 9);
    let series = |name: &&str| (Series::plain(Operation::new(*name).unwrap()), histogram.clone());
    let histograms = operations.iter().map(series).collect();
    let latency = Latency { histograms, ..Latency::default() };
    encode(&Frame { client: "job".to_owned(), seq: Seq(1), clamped: 0, latency, last: false })
        .unwrap()
}

/// An OTLP request with a histogram for each operation.
fn export(operations: &[&str]) -> String {
    let point = json!({
        "startTimeUnixNano": "1700000000000000000",
        "timeUnixNano": "1700000001000000000",
        "count": "9",
        "sum": 27_000.0,
        "explicitBounds": [2_999.0],
        "bucketCounts": ["0", "9"],
    });
    let histogram = json!({ "aggregationTemporality": 1, "dataPoints": [point] });
    let metric = |name: &&str| json!({ "name": name, "unit": "s", "histogram": histogram });
    let metrics: Vec<Value> = operations.iter().map(metric).collect();
    json!({ "resourceMetrics": [{ "scopeMetrics": [{ "metrics": metrics }] }] }).to_string()
}

/// An application whose page has a histogram under the node's own name and one under its own. Its
/// counts grow with each page.
fn application() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (round, stream) in (1_u64..).zip(listener.incoming()) {
            let Ok(mut stream) = stream else { return };
            let _request = stream.read(&mut [0; 4_096]);
            let of = |name: &str| {
                format!(
                    "# TYPE {name} histogram\n{name}_bucket{{le=\"1\"}} 0\n\
                     {name}_bucket{{le=\"+Inf\"}} {round}\n{name}_sum {round}\n\
                     {name}_count {round}\n"
                )
            };
            let page = of(PUBLISH) + &of("scraped_seconds");
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\n";
            let length = page.len();
            let _gone = write!(stream, "{head}content-length: {length}\r\n\r\n{page}");
        }
    });
    url
}

async fn await_least(stack: &Stack, series: &str, least: f64) -> f64 {
    let value = async || {
        let value = stack.stations()[0].api.metric(series).await.ok()??;
        (value >= least).then_some(value)
    };
    let what = format!("{series} is {least} or more");
    until(&what, WAIT, value).await.unwrap_or_else(|error| panic!("{error:#}"))
}

fn stream_of(dir: &Path) -> String {
    format!("stream = {:?}\n", dir.join("node.stream"))
}

#[tokio::test]
async fn jobs_cannot_send_samples_as_the_meshs_own_by_any_way() {
    let dir = tempfile::tempdir().unwrap();
    let node_settings = format!(
        "[listen]\n{}[otlp]\nhttp = \"127.0.0.1:0\"\nunit = \"s\"\n\
         [[scrape]]\nurl = {:?}\nevery_seconds = 1\nunit = \"s\"\n",
        stream_of(dir.path()),
        application(),
    );
    let options =
        StackOptions { nodes: 1, node_settings, udp: true, ..StackOptions::new(dir.path()) };
    let mut stack = Stack::start(options).await.unwrap();
    let station = &stack.stations()[0];
    // Labels make it no other operation: a budget judges all of its series.
    let lines: String = (0..LINES).map(|n| format!("publish:{FORGED_MS}|ms|#n:{n}\n")).collect();
    let lines = lines + &format!("message_delivery:{FORGED_MS}|h\nhonest:1|ms\npublish:1|c");
    StatsdSender::unix(&station.socket).unwrap().send(&lines).unwrap();
    StatsdSender::udp(station.udp().unwrap()).unwrap().send(lines).unwrap();
    let forged = 2 * (LINES + 1) + 2 * OWN_OPERATIONS.len() as u64;

    let operations = [&OWN_OPERATIONS[..], &["honest"]].concat();
    let mut stream = UnixStream::connect(dir.path().join("node.stream")).unwrap();
    stream.write_all(&frame(&operations)).unwrap();
    stream.read_exact(&mut [0; 8]).unwrap();

    let otlp = log_field(&station.node_log(), "otlp_http").unwrap();
    let request = reqwest::Client::new().post(format!("http://{otlp}/v1/metrics"));
    let request = request.header("content-type", "application/json").body(export(&operations));
    let answer: Value = from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap();
    let rejected = &answer["partialSuccess"];
    assert_eq!(rejected["rejectedDataPoints"], "3", "{answer}");
    let text = rejected["errorMessage"].as_str().unwrap();
    assert!(text.contains("the mesh records its own latencies under this name"), "{text}");

    // Each page adds one.
    await_least(&stack, RESERVED, forged as f64 + 2.0).await;
    let honest = 2 + 9 + 9;
    let all = |summary: &_| {
        fleet_samples(summary, "honest") == honest
            && fleet_samples(summary, PUBLISH) > 0
            && fleet_samples(summary, "scraped_seconds") > 1
    };
    let summary = await_summary(stack.api(), "honest samples are merged", all).await.unwrap();
    for operation in [PUBLISH, MESSAGE_DELIVERY] {
        let row = operation_row(&summary, "", operation);
        let greatest = row.map_or(0, |row| row.total.max_ns);
        assert!(greatest < FORGED_MS * 500_000, "{operation}: {greatest} ns");
    }
    let drained = stack.drain().await.unwrap();
    assert!(drained.nodes[0].ledger.is_settled(), "{:?}", drained.nodes[0].ledger);
}

#[tokio::test]
async fn unix_sockets_take_samples_of_listed_users_alone() {
    let me = nix::unistd::geteuid().as_raw();
    for (users, is_admitted) in [(format!("\"{}\"", me + 1), false), (format!("\"{me}\""), true)] {
        let dir = tempfile::tempdir().unwrap();
        let node_settings = format!("[listen]\n{}users = [{users}]\n", stream_of(dir.path()));
        let options = StackOptions { nodes: 1, node_settings, ..StackOptions::new(dir.path()) };
        let mut stack = Stack::start(options).await.unwrap();
        let station = &stack.stations()[0];
        let sender = StatsdSender::unix(&station.socket).unwrap();
        (0..LINES).for_each(|_| sender.send("honest:1|ms").unwrap());
        let mut stream = UnixStream::connect(dir.path().join("node.stream")).unwrap();
        // A refused client may be gone before it has written.
        let _written = stream.write_all(&frame(&["honest"]));
        let answer = stream.read_exact(&mut [0; 8]);
        assert_eq!(answer.is_ok(), is_admitted, "{answer:?}");
        if is_admitted {
            await_least(&stack, "plimsoll_agent_values_total", LINES as f64).await;
        } else {
            assert_eq!(await_least(&stack, NOT_ALLOWED, LINES as f64).await, LINES as f64);
            assert_eq!(await_least(&stack, FRAMES_NOT_ALLOWED, 1.0).await, 1.0);
            let log = stack.stations()[0].node_log();
            let warnings = log.matches("listen.users lacks its user").count();
            assert!((2..=12).contains(&warnings), "{warnings} in {log}");
        }
        let drained = stack.drain().await.unwrap();
        let expected = if is_admitted { LINES + 9 } else { 0 };
        assert_eq!(fleet_samples(&drained, "honest"), expected, "{users}");
    }
}

#[tokio::test]
async fn unix_sockets_have_the_mode_and_group_of_the_settings() {
    let dir = tempfile::tempdir().unwrap();
    let group = nix::unistd::getegid().as_raw();
    for (settings, mode) in
        [(String::new(), 0o660), (format!("mode = \"0620\"\ngroup = \"{group}\"\n"), 0o620)]
    {
        let node_settings = format!("[listen]\n{}{settings}", stream_of(dir.path()));
        let options = StackOptions { nodes: 1, node_settings, ..StackOptions::new(dir.path()) };
        let stack = Stack::start(options).await.unwrap();
        for path in [stack.stations()[0].socket.clone(), dir.path().join("node.stream")] {
            let found = std::fs::symlink_metadata(&path).unwrap();
            let found = (found.permissions().mode() & 0o7777, found.gid());
            assert_eq!(found, (mode, group), "{}", path.display());
        }
        stack.end().await.unwrap();
    }
}
