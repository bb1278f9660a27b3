//! More datagrams than a node can read: what was sent equals what was recorded plus what the kernel
//! reports as dropped, to the last sample.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::sys::signal::Signal;
use plimsoll_mesh::child::until;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::process::{MeshProcess, fleet_samples, node_row};
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};

const WAIT: Duration = Duration::from_secs(20);
/// Datagrams of one flood: several times what the largest socket buffer holds.
const DATAGRAMS: u64 = 60_000;
const SAMPLES: u64 = 20;
const DROPPED: &str = "plimsoll_agent_kernel_dropped_datagrams_total{socket=\"udp\"}";

fn datagram() -> String {
    "flood:12.5|ms\n".repeat(usize::try_from(SAMPLES).unwrap())
}

/// Waits until the node has counted this number of datagrams. Returns how many were dropped.
async fn accounted(node: &MeshProcess, datagrams: u64) -> u64 {
    let what = format!("{datagrams} datagrams are accounted for");
    let page = until(&what, WAIT, async || {
        let page = MetricsPage::of(&node.api).await.ok()?;
        let read = page.value("plimsoll_agent_datagrams_total")?;
        let dropped = page.value(DROPPED)?;
        assert!(read + dropped <= datagrams as f64, "{read} read and {dropped} dropped");
        (read + dropped == datagrams as f64).then_some(page)
    });
    let dropped = page.await.unwrap().value(DROPPED).unwrap();
    format!("{dropped:.0}").parse().unwrap()
}

/// The log reports the drops and a remedy: a larger buffer if it is small.
fn assert_drops_logged(mesh: &SingleNodeMesh) {
    let log = mesh.node.log();
    let has_remedy =
        log.contains("sysctl -w net.core.rmem_max=") || log.contains("use listen.unix");
    assert!(log.contains("kernel drops datagrams") && has_remedy, "{log}");
}

async fn recorded(mut mesh: SingleNodeMesh) -> u64 {
    let summary = mesh.drain_node().await.unwrap();
    let count = fleet_samples(&summary, "flood");
    mesh.stack.end().await.unwrap();
    count
}

#[tokio::test]
async fn a_udp_flood_is_recorded_or_counted_as_dropped_in_the_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(mesh.node.udp().unwrap()).unwrap();
    let payload = datagram();
    // First a node that does not read at all, so that the end of the flood is lost with certainty
    // and no later datagram reveals it. Then one that reads as fast as it can.
    mesh.node.signal(Signal::SIGSTOP);
    let flood = || {
        let mut sent = (0..DATAGRAMS).map(|_| socket.send(payload.as_bytes()).unwrap());
        assert!(sent.all(|bytes| bytes == payload.len()));
    };
    flood();
    mesh.node.signal(Signal::SIGCONT);
    let dropped_at_rest = accounted(&mesh.node, DATAGRAMS).await;
    assert!(dropped_at_rest > DATAGRAMS / 2, "{dropped_at_rest} of {DATAGRAMS} were dropped");
    flood();
    let dropped = accounted(&mesh.node, 2 * DATAGRAMS).await;
    assert_drops_logged(&mesh);
    let count = recorded(mesh).await;
    assert_eq!(count + dropped * SAMPLES, 2 * DATAGRAMS * SAMPLES);
}

#[tokio::test]
async fn of_a_client_that_numbers_its_datagrams_the_ledger_holds_what_the_kernel_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(mesh.node.udp().unwrap()).unwrap();
    mesh.node.signal(Signal::SIGSTOP);
    for n in 0..DATAGRAMS {
        let head = format!("_seq|flooder|{}|{}|{SAMPLES}\n", n + 1, n * SAMPLES);
        socket.send((head + &datagram()).as_bytes()).unwrap();
    }
    mesh.node.signal(Signal::SIGCONT);
    let dropped = accounted(&mesh.node, DATAGRAMS).await;
    assert!(dropped > DATAGRAMS / 2, "{dropped} of {DATAGRAMS} were dropped");
    let tail = format!("_seq|flooder|{}|{}|0", DATAGRAMS + 1, DATAGRAMS * SAMPLES);
    socket.send(tail.as_bytes()).unwrap();
    let summary = mesh.drain_node().await.unwrap();
    let lost = &node_row(&summary, NODE).unwrap().ledger.lost;
    assert_eq!(lost.get("socket").copied(), Some(dropped * SAMPLES), "{lost:?}");
    assert_eq!(fleet_samples(&summary, "flood") + dropped * SAMPLES, DATAGRAMS * SAMPLES);
    mesh.stack.end().await.unwrap();
}

#[tokio::test]
async fn a_unix_datagram_flood_is_recorded_whole_and_the_rest_stays_with_the_sender() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let socket = UnixDatagram::unbound().unwrap();
    socket.connect(mesh.node.socket()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let payload = datagram();
    let send = || match socket.send(payload.as_bytes()) {
        Ok(_) => 1,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => panic!("{error}"),
    };
    mesh.node.signal(Signal::SIGSTOP);
    let mut sent: u64 = (0..1_000).map(|_| send()).sum();
    assert!(
        (1..1_000).contains(&sent),
        "{sent} of 1000 were accepted from a node that does not read"
    );
    mesh.node.signal(Signal::SIGCONT);
    sent += (0..DATAGRAMS).map(|_| send()).sum::<u64>();
    let count = recorded(mesh).await;
    assert_eq!(count, sent * SAMPLES);
}
