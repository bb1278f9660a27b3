//! More datagrams than a node can take: what was sent was read or dropped, to the last one.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use crate::running::{NOWHERE, Node};

const READ: &str = "plimsoll_agent_datagrams_total";
const SAMPLES: &str = "plimsoll_agent_samples_total";
const UDP_DROPPED: &str = "plimsoll_agent_kernel_dropped_datagrams_total{socket=\"udp\"}";
const UNIX_DROPPED: &str = "plimsoll_agent_kernel_dropped_datagrams_total{socket=\"unix\"}";

/// More than fits into a receive buffer of 8 MiB.
const FLOOD: u32 = 50_000;

#[test]
fn what_was_sent_over_udp_was_recorded_or_counted_as_dropped_also_when_a_burst_was_the_last() {
    let node = Node::start(NOWHERE);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(node.address("udp")).unwrap();
    let send = |datagrams| {
        (0..datagrams).for_each(|_| assert_eq!(sender.send(b"op:1.5|ms").unwrap(), 9));
    };
    let account = |sent: u32| {
        let names = [READ, UDP_DROPPED, SAMPLES];
        let [read, dropped, samples] =
            node.await_metrics(names, |[read, dropped, _]| read + dropped >= f64::from(sent));
        assert_eq!((read + dropped, samples), (f64::from(sent), read));
        dropped
    };
    send(7);
    assert_eq!(account(7), 0.0);
    node.pause();
    send(FLOOD);
    node.resume();
    let first = account(7 + FLOOD);
    assert!(first > 1_000.0, "{first}");
    let got = node.await_line("kernel drops datagrams");
    for part in ["WARN", "socket=\"listen.udp\"", "receive_buffer_bytes=", "datagrams="] {
        assert!(got.contains(part), "{part} is not in {got}");
    }
    node.pause();
    send(FLOOD);
    node.resume();
    assert!(account(7 + 2 * FLOOD) > first);
}

#[test]
fn what_a_sender_who_does_not_wait_got_rid_of_over_a_unix_socket_was_recorded() {
    let node = Node::start(NOWHERE);
    let sender = UnixDatagram::unbound().unwrap();
    sender.connect(node.unix()).unwrap();
    sender.set_nonblocking(true).unwrap();
    let (mut sent, mut refused) = (0_u32, 0_u32);
    for _datagram in 0..FLOOD {
        match sender.send(b"op:1.5|ms") {
            Ok(_) => sent += 1,
            Err(error) if error.kind() == ErrorKind::WouldBlock => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent > 0 && refused > 0, "{sent} sent, {refused} refused");
    let names = [READ, SAMPLES, UNIX_DROPPED];
    let figures = node.await_metrics(names, |[read, ..]| read >= f64::from(sent));
    assert_eq!(figures, [f64::from(sent), f64::from(sent), 0.0]);
}
