//! The node as a process that receives SIGTERM, whatever its senders and its broker do; and one
//! that gets more than it can take.
//!
//! Needs nats-server on the PATH (or named in PLIMSOLL_NATS_SERVER).

#![expect(clippy::unwrap_used, reason = "helpers of tests stop at the first surprise")]

#[path = "leaving/flood.rs"]
mod flood;
#[path = "leaving/running.rs"]
mod running;

use std::net::UdpSocket;
use std::time::Duration;

use plimsoll_clock::Stopwatch;
use running::{Broker, NOWHERE, Node};

/// `plimsoll-node`'s exit code when it ends with unsent data.
const UNDRAINED: Option<i32> = Some(5);

#[test]
fn a_node_ends_although_its_senders_never_pause() {
    let broker = Broker::start();
    let mut node = Node::start(&broker.url());
    node.await_line("broker connected");
    // Packed, so that reading a datagram takes the node longer than writing it.
    let datagram = format!("op:{}1|ms\n", "1.5:".repeat(1_900)).repeat(7);
    let floods = [datagram.clone(), datagram].map(|datagram| {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(node.address("udp")).unwrap();
        std::thread::spawn(move || while sender.send(datagram.as_bytes()).is_ok() {})
    });
    node.await_metric("plimsoll_agent_samples_total", |samples| samples > 100_000.0);
    node.terminate();
    node.await_end(Some(0));
    floods.into_iter().for_each(|flood| flood.join().unwrap());
}

#[test]
fn a_second_signal_ends_a_node_at_once_despite_a_silent_broker() {
    let broker = Broker::start();
    let mut node = Node::start(&broker.url());
    node.await_line("broker connected");
    broker.pause();
    node.terminate();
    node.await_line("node draining");
    node.terminate();
    node.await_line("second shutdown signal");
    node.await_end(UNDRAINED);
}

#[test]
fn a_node_without_a_broker_names_the_address_and_no_secret() {
    let watch = Stopwatch::start();
    let mut node = Node::start(&NOWHERE.replace("//", "//ann:hush@"));
    let line = node.await_line("broker unreachable");
    assert!(watch.elapsed() >= Duration::from_secs(2), "{:?}", watch.elapsed());
    for part in ["WARN", "connection refused", "bus.url", "nats://..@127.0.0.1:1"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert!(!line.contains("hush"), "{line}");
    node.terminate();
    node.await_line("node draining");
    node.terminate();
    node.await_end(UNDRAINED);
}
