//! One node's sender: a thread that sends each sample when it is due, or as soon as the socket
//! takes it. What is due at once shares datagrams. A Unix socket that is full makes the sender
//! wait; over UDP the kernel drops what finds no room.

use std::fmt::Write;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};
use plimsoll_clock::{Deadline, Stopwatch};
use plimsoll_mesh::statsd::StatsdSender;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::time::nanos;

use super::datagrams::Sizes;
use super::schedule::Schedule;

/// Bytes of one datagram over a Unix socket.
const DATAGRAM_BYTES: usize = 4_096;
/// Bytes of one datagram over UDP: what fits into an Ethernet frame on any path, as in clients.
const UDP_DATAGRAM_BYTES: usize = 1_432;

/// What a sender has done.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) samples: u64,
    /// The datagrams in which they were.
    pub(super) sizes: Sizes,
    /// How long after it was due each sample was handed over.
    pub(super) late: Histogram,
    /// From the start until the last was handed over.
    pub(super) took: Duration,
}

/// What a sender sends.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) schedule: Schedule,
    pub(super) node: u32,
    pub(super) ms: u64,
    pub(super) link: StatsdSender,
    /// Most samples in one datagram.
    pub(super) per_datagram: u64,
}

/// A sender that was started.
pub(super) type Sender = JoinHandle<Result<Sent>>;

/// Starts a sender; `watch` runs from the start of the schedule.
pub(super) fn start(task: Task, watch: Stopwatch) -> Result<Sender> {
    let thread = std::thread::Builder::new().name(format!("load-{}", task.node));
    Ok(thread.spawn(move || send(&task, watch))?)
}

/// What a sender has done, once it has ended.
pub(super) fn end(sender: Sender) -> Result<Sent> {
    sender.join().map_err(|_| anyhow!("a sender panicked"))?
}

fn send(task: &Task, watch: Stopwatch) -> Result<Sent> {
    let datagram_bytes = match task.link {
        StatsdSender::Unix(_) => DATAGRAM_BYTES,
        StatsdSender::Udp(_) => UDP_DATAGRAM_BYTES,
    };

    let (mut sent, mut lines, mut dues) = (Sent::default(), String::new(), Vec::new());
    let mut numbers = task.schedule.of_node(task.node).peekable();

    while let Some(n) = numbers.next() {
        wait_until(watch, task.schedule.due(n));
        let line = format!("load.{}:{}|ms|#drill:load\n", task.schedule.operation(n), task.ms);
        // Writing to a string cannot fail.
        let _written = lines.write_str(&line);
        dues.push(task.schedule.due(n));
        let next = numbers.peek().map(|next| task.schedule.due(*next));
        let more = next.is_some_and(|due| due <= watch.elapsed());
        let has_room = lines.len() + 2 * line.len() <= datagram_bytes;
        if more && has_room && (dues.len() as u64) < task.per_datagram {
            continue;
        }
        task.link.send(&lines)?;
        sent.samples += dues.len() as u64;
        sent.sizes.add(dues.len() as u64);
        sent.took = watch.elapsed();
        for due in dues.drain(..) {
            sent.late.record(nanos(sent.took.saturating_sub(due)));
        }
        lines.clear();
    }

    Ok(sent)
}

fn wait_until(watch: Stopwatch, due: Duration) {
    let left = due.saturating_sub(watch.elapsed());
    if !left.is_zero() {
        let _over = Deadline::within(left).pause(left);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::unix::net::UnixDatagram;

    use super::*;

    const READ_WAIT: Duration = Duration::from_secs(30);

    #[test]
    fn a_socket_that_is_read_late_makes_samples_late_and_never_fewer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(READ_WAIT)).unwrap();
        let schedule =
            Schedule { count: 5_000, rate: 1_000_000, nodes: 2, operations: 2, burst_after: None };
        let link = StatsdSender::unix(&path).unwrap();
        let task = Task { schedule, node: 1, ms: 5, link, per_datagram: 64 };
        let stall = Duration::from_millis(300);
        let sender = start(task, Stopwatch::start()).unwrap();
        let held = Deadline::within(stall);
        while held.pause(stall) {}
        let (mut buffer, mut lines) = (vec![0; 2 * DATAGRAM_BYTES], [0; 2]);
        while lines.iter().sum::<u64>() < 2_500 {
            let read = socket.recv(&mut buffer).unwrap();
            for line in std::str::from_utf8(&buffer[..read]).unwrap().lines() {
                let known = ["load.0:5|ms|#drill:load", "load.1:5|ms|#drill:load"];
                lines[known.iter().position(|known| *known == line).unwrap()] += 1;
            }
        }
        let sent = end(sender).unwrap();
        assert_eq!((lines, sent.samples, sent.late.count()), ([1_250; 2], 2_500, 2_500));
        assert_eq!(sent.sizes.samples(), 2_500);
        // The socket holds a few datagrams; what follows is late by as long as it was not read.
        assert!(sent.late.max_ns() >= nanos(stall / 2), "{}", sent.late.max_ns());
    }

    #[test]
    fn a_datagram_over_udp_has_at_most_as_many_samples_as_were_asked_for_and_fit() {
        let schedule = Schedule { count: 200, rate: 0, nodes: 1, operations: 1, burst_after: None };
        // A line has 24 bytes, and room for one more stays.
        for (per_datagram, sizes) in [(1, vec![1; 200]), (7, [vec![7; 28], vec![4]].concat())]
            .into_iter()
            .chain([(1_000, vec![58, 58, 58, 26])])
        {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_read_timeout(Some(READ_WAIT)).unwrap();
            let link = StatsdSender::udp(socket.local_addr().unwrap()).unwrap();
            let task = Task { schedule, node: 0, ms: 5, link, per_datagram };
            let sent = end(start(task, Stopwatch::start()).unwrap()).unwrap();
            let mut buffer = vec![0; 2 * UDP_DATAGRAM_BYTES];
            let mut lines = || {
                let read = socket.recv(&mut buffer).unwrap();
                assert!(read <= UDP_DATAGRAM_BYTES, "{read} bytes");
                std::str::from_utf8(&buffer[..read]).unwrap().lines().count()
            };
            let got: Vec<_> = sizes.iter().map(|_| lines()).collect();
            assert_eq!((got, sent.samples), (sizes.clone(), 200));
            assert_eq!(sent.sizes.datagrams(), sizes.len() as u64);
        }
    }
}
