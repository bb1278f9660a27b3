//! A node that is killed right after an answer: its ledger has every answered sample, merged or
//! lost by name, and none twice.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use plimsoll_clock::Deadline;
use plimsoll_mesh::child::until;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Operation, Seq, Series};
use plimsoll_schemas::wire::Latency;
use plimsoll_schemas::wire::frame::{Frame, encode};
use plimsoll_tests::process::{MeshProcess, fleet_samples, node_row};
use plimsoll_tests::rng::SeededRng;
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use serde_json::json;

const WAIT: Duration = Duration::from_secs(60);
const KILLS: u64 = 4;
/// Samples of one body and of one frame; far more than the node takes of itself in a life.
const SAMPLES: u64 = 1_000;
const OTLP: &str = "otlp_op";
const FRAMES: &str = "frame_op";

/// One delta, which follows the one before.
fn body(number: u64) -> String {
    let second = 1_000_000_000;
    let start = 1_700_000_000 * second + number * second;
    let point = json!({
        "startTimeUnixNano": start.to_string(),
        "timeUnixNano": (start + second).to_string(),
        "count": SAMPLES.to_string(),
        "sum": 1.0,
        "explicitBounds": [0.001, 0.002],
        "bucketCounts": [SAMPLES.to_string(), "0", "0"],
    });
    let histogram = json!({ "aggregationTemporality": 1, "dataPoints": [point] });
    let metric = json!({ "name": OTLP, "unit": "s", "histogram": histogram });
    json!({ "resourceMetrics": [{ "scopeMetrics": [{ "metrics": [metric] }] }] }).to_string()
}

fn frame(seq: u64) -> Vec<u8> {
    let mut histogram = Histogram::default();
    histogram.record_n(5_000_000, SAMPLES);
    let series = Series::plain(Operation::new(FRAMES).unwrap());
    let latency = Latency { histograms: vec![(series, histogram)], ..Latency::default() };
    encode(&Frame { client: "job".to_owned(), seq: Seq(seq), clamped: 0, latency, last: false })
        .unwrap()
}

/// What was answered so far.
#[derive(Default)]
struct Answered {
    bodies: u64,
    frames: u64,
}

impl Answered {
    async fn post(&mut self, client: &reqwest::Client, url: &str) {
        let request = client.post(url).header("content-type", "application/json");
        let answer = request.body(body(self.bodies)).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (200, "{}"));
        self.bodies += 1;
    }

    fn send(&mut self, stream: &mut UnixStream) {
        stream.write_all(&frame(self.frames + 1)).unwrap();
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).unwrap();
        self.frames += 1;
        assert_eq!(u64::from_be_bytes(answer), self.frames);
    }
}

/// Starts the node with a log and sockets of its own, since a log has its addresses.
async fn start(mesh: &mut SingleNodeMesh, dir: &Path, life: u64) {
    let own = dir.join(life.to_string());
    std::fs::create_dir(&own).unwrap();
    let (settings, spool) = (own.join("node.toml"), dir.join("spool"));
    std::fs::write(&settings, "[otlp]\nhttp = '127.0.0.1:0'\n").unwrap();
    let flags = ["--config", settings.to_str().unwrap(), "--spool", spool.to_str().unwrap()];
    let broker = mesh.stack.broker().url();
    mesh.node = MeshProcess::node_with(NODE, &own, &broker, &flags).await.unwrap();
}

/// What a node has printed that was started there.
fn logs(dir: &Path) -> String {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let logs = files.filter(|path| path.extension().is_some_and(|of| of == "log"));
    logs.map(|path| std::fs::read_to_string(path).unwrap_or_default()).collect()
}

#[tokio::test]
async fn whatever_a_killed_node_answered_is_merged_or_lost_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    mesh.drain_node().await.unwrap();
    let (mut rng, mut answered) = (SeededRng::new(15), Answered::default());
    for life in 0..KILLS {
        start(&mut mesh, dir.path(), life).await;
        let url = format!("http://{}/v1/metrics", mesh.node.otlp("http").unwrap());
        let client = reqwest::Client::new();
        let mut stream = UnixStream::connect(mesh.node.stream()).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        // Somewhere within an interval, or soon after its end.
        let end = Deadline::within(Duration::from_millis(rng.next_u64() % 1_500));
        while !end.has_passed() {
            answered.post(&client, &url).await;
            answered.send(&mut stream);
        }
        // The last answer is that of either protocol by turns; nothing else is under way.
        if life % 2 == 0 {
            answered.post(&client, &url).await;
        } else {
            answered.send(&mut stream);
        }
        mesh.node.signal(Signal::SIGKILL);
        mesh.node.end(WAIT).await.unwrap();
    }
    start(&mut mesh, dir.path(), KILLS).await;
    mesh.drain_node().await.unwrap();
    let sent = [answered.bodies, answered.frames].map(|answers| answers * SAMPLES);
    let account = RefCell::new(String::new());
    // A report of a killed incarnation that was sent again may be read after the final message.
    let accounted = until("every answer is merged or lost by name", WAIT, async || {
        let summary = mesh.stack.api().summary().await.ok()?;
        let merged = [OTLP, FRAMES].map(|operation| fleet_samples(&summary, operation));
        assert!(merged[0] <= sent[0] && merged[1] <= sent[1], "doubled: {merged:?} of {sent:?}");
        let missing = sent.iter().sum::<u64>() - merged.iter().sum::<u64>();
        let ledger = &node_row(&summary, NODE).ok()?.ledger;
        let crashed = ledger.lost.get("crash").copied().unwrap_or(0);
        account.replace(format!("{missing} of {sent:?} are missing: {ledger:?}"));
        // Besides them only what the node measured of itself.
        (missing..missing + SAMPLES).contains(&crashed).then_some(())
    });
    if let Err(error) = accounted.await {
        let lives = (0..=KILLS).map(|life| logs(&dir.path().join(life.to_string())));
        let logs = lives.collect::<Vec<_>>().join("\n");
        panic!("{error}: {}\n{logs}", account.take());
    }
    mesh.stack.end().await.unwrap();
}
