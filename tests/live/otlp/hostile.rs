//! A node that receives large and compressed bodies stays small and continues.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_tests::metrics_page::MetricsPage;

use super::producer::{Way, export, mesh, rounds};

const WAIT: Duration = Duration::from_secs(30);
const MIB: f64 = 1024.0 * 1024.0;

/// This number of zeros, as gzip packs them.
fn bomb(bytes: usize) -> Vec<u8> {
    let mut gzip = Command::new("gzip");
    let mut gzip = gzip.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = gzip.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(&vec![0; bytes]).unwrap());
    let packed = gzip.wait_with_output().unwrap().stdout;
    writer.join().unwrap();
    packed
}

#[tokio::test]
async fn a_node_under_bombs_and_large_bodies_stays_small_and_takes_what_is_honest() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = mesh(dir.path()).await;
    let url = format!("http://{}/v1/metrics", mesh.node.otlp("http").unwrap());
    let bodies = [("gzip", bomb(100_000_000)), ("identity", vec![0; 100_000_000])];
    // Each on a connection of its own: the node closes those of which it has not read all.
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    for n in 0..40 {
        let (encoding, body) = bodies[n % 2].clone();
        let request = client.post(&url).header("content-type", "application/x-protobuf");
        let request = request.header("content-encoding", encoding).body(body);
        // The node stops reading early, so the response may be lost with the connection.
        if let Ok(answer) = request.send().await {
            assert_eq!(answer.status(), 413, "{encoding}");
        }
    }
    let page = until("all refused", WAIT, async || {
        let page = MetricsPage::of(&mesh.node.api).await.ok()?;
        let refused = "outcome=\"too_large\",protocol=\"http\",signal=\"metrics\"";
        let refused = page.value(&format!("plimsoll_agent_otlp_requests_total{{{refused}}}"))?;
        (refused == 40.0).then_some(page)
    })
    .await
    .unwrap();
    assert_eq!(page.value("plimsoll_agent_otlp_buffered_bytes"), Some(0.0));
    let resident = page.value("process_resident_memory_bytes").unwrap() / MIB;
    // A debug build takes twice what a release does.
    assert!(resident < 64.0, "{resident} MiB");
    let way = Way { protocol: "http", cumulative: false, exponential: false, gzip: true };
    export(&mesh, way, "honest", "honest", &rounds(1, 10)).await.unwrap();
    mesh.stack.end().await.unwrap();
}
