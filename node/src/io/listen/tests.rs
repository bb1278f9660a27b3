//! The listening sockets against real senders.

use std::os::unix::net;

use std::time::Duration;

use crate::limits::{DATAGRAM_BYTES_MAX, DATAGRAMS_PER_CALL, REST_DATAGRAMS_PER_SECOND};
use plimsoll_clock::Deadline;
use tempfile::TempDir;

use super::*;

const UDP: Option<SocketAddr> =
    Some(SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0));

/// A Unix datagram socket, and a sender that is never made to wait.
fn unix() -> (TempDir, Sockets, UnixDatagram) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let sockets = Sockets::open(None, Some(&path), &SocketAccess::default()).unwrap();
    let sender = UnixDatagram::unbound().unwrap();
    sender.connect(path).unwrap();
    sender.set_nonblocking(true).unwrap();
    (dir, sockets, sender)
}

/// Sizes of the datagrams that one turn brings, and how many the kernel reports as dropped.
fn sizes(sockets: &mut Sockets) -> (Vec<usize>, u64) {
    let (mut sizes, mut dropped) = (Vec::new(), 0);
    let taken = sockets.take(&mut Cost::default(), |event| match event {
        SocketEvent::Datagram { bytes, .. } => sizes.push(bytes.len()),
        SocketEvent::Dropped(datagrams) => dropped += datagrams,
        SocketEvent::Failed | SocketEvent::Refused => panic!("a read failed"),
    });
    assert_eq!(taken, SocketPoll { datagrams: sizes.len(), bytes: sizes.iter().sum() });
    (sizes, dropped)
}

#[tokio::test]
async fn datagrams_of_any_size_arrive_whole_and_in_order() {
    let (_dir, mut sockets, sender) = unix();
    for payload in [&b""[..], b"a:1|ms", &[b'x'; 8_000]] {
        sender.send(payload).unwrap();
    }
    sockets.readable().await;
    let (mut read, _) = sizes(&mut sockets);
    while !sockets.is_empty() {
        read.extend(sizes(&mut sockets).0);
    }
    assert_eq!(read, [0, 6, 8_000]);
    assert_eq!(sizes(&mut sockets), (vec![], 0));
}

#[tokio::test]
async fn a_datagram_that_was_cut_is_longer_than_any_allowed() {
    let (_dir, mut sockets, sender) = unix();
    for bytes in [DATAGRAM_BYTES_MAX, 90_000] {
        sender.send(&vec![b'x'; bytes]).unwrap();
    }
    sockets.readable().await;
    assert_eq!(sizes(&mut sockets).0, [DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MAX + 1]);
}

#[tokio::test]
async fn one_turn_takes_a_bounded_number_of_bytes_however_small_datagrams_were_before() {
    let (_dir, mut sockets, sender) = unix();
    let fill = |bytes| (0..9).take_while(|_| sender.send(&vec![b'x'; bytes]).is_ok()).count();
    assert!(fill(50_000) > 3);
    sockets.readable().await;
    assert_eq!(sizes(&mut sockets).0, [50_000; 3]);
    for _small in 0..20 {
        while !sizes(&mut sockets).0.is_empty() {}
        fill(1);
        sockets.readable().await;
    }
    while !sizes(&mut sockets).0.is_empty() {}
    fill(60_000);
    sockets.readable().await;
    let most = BYTES_PER_WAKE + DATAGRAMS_PER_CALL * 60_000;
    assert!(sizes(&mut sockets).0.iter().sum::<usize>() <= most);
    fill(60_000);
    sockets.readable().await;
    assert_eq!(sizes(&mut sockets).0, [60_000; 3]);
}

#[tokio::test]
async fn one_turn_reads_a_bounded_number_of_datagrams_and_reports_more() {
    let mut sockets = Sockets::open(UDP, None, &SocketAccess::default()).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = sockets.udp_address().unwrap();
    for _datagram in 0..300 {
        sender.send_to(b"a:1|ms", address).unwrap();
    }
    sockets.readable().await;
    let first = sizes(&mut sockets).0.len();
    assert!((DATAGRAMS_PER_WAKE..DATAGRAMS_PER_WAKE + DATAGRAMS_PER_CALL).contains(&first));
    assert!(!sockets.is_empty());
    assert_eq!(sizes(&mut sockets), (vec![6; 300 - first], 0));
    assert!(sockets.is_empty());
}

#[tokio::test]
async fn what_was_sent_over_udp_was_read_or_dropped_to_the_last_datagram() {
    let mut sockets = Sockets::open(UDP, None, &SocketAccess::default()).unwrap();
    let udp = &sockets.udp.open.as_ref().unwrap().socket;
    setsockopt(udp, nix::sys::socket::sockopt::RcvBuf, &20_000).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = sockets.udp_address().unwrap();
    let (mut read, mut dropped) = (0, 0);
    for burst in [1_000, 3, 500] {
        let before = (read, dropped);
        for _datagram in 0..burst {
            sender.send_to(b"a:1|ms", address).unwrap();
        }
        while read == before.0 || !sockets.is_empty() {
            sockets.readable().await;
            let (sizes, more) = sizes(&mut sockets);
            (read, dropped) = (read + sizes.len(), dropped + more);
        }
        let now = (read - before.0, usize::try_from(dropped - before.1).unwrap());
        assert_eq!(now.0 + now.1, burst, "read and dropped {now:?}");
        assert_eq!(now.1 > 0, burst > 100, "read and dropped {now:?}");
    }
    assert_eq!(sockets.dropped(), [("udp", dropped), ("unix", 0)]);
}

#[tokio::test]
async fn a_unix_socket_refuses_what_it_has_no_room_for_and_drops_nothing() {
    let (_dir, mut sockets, sender) = unix();
    let (mut sent, mut read, mut refused) = (0, 0, 0);
    while refused < 20 {
        match sender.send(b"a:1|ms") {
            Ok(_) => sent += 1,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                refused += 1;
                sockets.readable().await;
                read += sizes(&mut sockets).0.len();
            }
        }
    }
    assert_eq!(read, sent);
    assert_eq!(sockets.dropped(), [("udp", 0), ("unix", 0)]);
}

/// One datagram over UDP, read as soon as it is there.
async fn read_one(sockets: &mut Sockets, sender: &UdpSocket) {
    sender.send_to(b"a:1|ms", sockets.udp_address().unwrap()).unwrap();
    let mut read = 0;
    while read == 0 {
        sockets.readable().await;
        read = sizes(sockets).0.len();
    }
    assert_eq!(read, 1);
}

fn is_resting(listener: &Listener) -> bool {
    listener.open.as_ref().is_some_and(|open| open.watch.is_none() && !open.rest.is_over())
}

#[tokio::test]
async fn a_socket_that_datagrams_keep_coming_to_rests_and_is_watched_again_once_they_stay_away() {
    let mut sockets = Sockets::open(UDP, None, &SocketAccess::default()).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut rested = false;
    let patience = Deadline::within(Duration::from_secs(30));
    while !rested {
        read_one(&mut sockets, &sender).await;
        rested = is_resting(&sockets.udp);
        assert!(!patience.has_passed(), "it never rests");
    }
    sender.send_to(b"a:1|ms", sockets.udp_address().unwrap()).unwrap();
    assert!(!is_resting(&sockets.udp) || sizes(&mut sockets).0.is_empty());
    let mut read = 0;
    while sockets.udp.open.as_ref().unwrap().watch.is_none() {
        sockets.readable().await;
        read += sizes(&mut sockets).0.len();
    }
    assert_eq!(read, 1);
    read_one(&mut sockets, &sender).await;
}

#[tokio::test]
async fn a_unix_socket_is_read_while_the_other_rests_and_never_rests() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let mut sockets = Sockets::open(UDP, Some(&path), &SocketAccess::default()).unwrap();
    assert!(sockets.udp.open.as_mut().unwrap().rest.begin(Duration::from_secs(3_600)));
    sockets.udp.open.as_mut().unwrap().watch = None;
    let sender = UnixDatagram::unbound().unwrap();
    for _datagram in 0..100 {
        sender.send_to(b"a:1|ms", &path).unwrap();
        sockets.readable().await;
        assert_eq!(sizes(&mut sockets).0, [6]);
        assert!(is_resting(&sockets.udp) && !is_resting(&sockets.unix));
    }
}

#[tokio::test]
async fn a_rest_that_is_ended_leaves_nothing_unread() {
    let mut sockets = Sockets::open(UDP, None, &SocketAccess::default()).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(sockets.udp.open.as_mut().unwrap().rest.begin(Duration::from_secs(3_600)));
    sockets.udp.open.as_mut().unwrap().watch = None;
    sender.send_to(b"a:1|ms", sockets.udp_address().unwrap()).unwrap();
    assert_eq!(sizes(&mut sockets), (vec![], 0));
    sockets.end_rests();
    sockets.readable().await;
    assert_eq!(sizes(&mut sockets).0, [6]);
    for _datagram in 0..100 {
        read_one(&mut sockets, &sender).await;
        assert!(!is_resting(&sockets.udp));
    }
}

#[tokio::test]
async fn a_flood_that_begins_in_a_rest_finds_room() {
    let mut sockets = Sockets::open(UDP, None, &SocketAccess::default()).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let open = sockets.udp.open.as_mut().unwrap();
    // As many datagrams as may come in the longest rest that this socket's buffer allows.
    let longest = rest::longest(drops::receive_bytes(&open.socket));
    let flood = longest.as_micros() * u128::from(REST_DATAGRAMS_PER_SECOND) / 1_000_000;
    let flood = usize::try_from(flood).unwrap();
    assert!(flood >= 100 && open.rest.begin(Duration::from_secs(3_600)));
    open.watch = None;
    let address = sockets.udp_address().unwrap();
    for _datagram in 0..flood {
        sender.send_to(b"bench.op7:8.123|ms", address).unwrap();
    }
    sockets.cut_rests_short();
    let (mut read, mut dropped) = (0, 0);
    while read == 0 || !sockets.is_empty() {
        let (sizes, more) = sizes(&mut sockets);
        (read, dropped) = (read + sizes.len(), dropped + more);
    }
    assert_eq!((read, dropped), (flood, 0));
}

#[tokio::test]
async fn a_rest_cut_short_leaves_nothing_unread_and_others_follow() {
    let mut sockets = Sockets::open(UDP, None, &SocketAccess::default()).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _interval in 0..3 {
        assert!(sockets.udp.open.as_mut().unwrap().rest.begin(Duration::from_secs(3_600)));
        sockets.udp.open.as_mut().unwrap().watch = None;
        for _datagram in 0..20 {
            sender.send_to(b"a:1|ms", sockets.udp_address().unwrap()).unwrap();
        }
        assert_eq!(sizes(&mut sockets), (vec![], 0));
        sockets.cut_rests_short();
        assert_eq!(sizes(&mut sockets), (vec![6; 20], 0));
    }
    let open = sockets.udp.open.as_mut().unwrap();
    let room = drops::receive_bytes(&open.socket);
    assert_eq!(open.rest.on_read(1_000, true), room > 0);
}

fn unix_at(path: &Path) -> Result<Listener, ListenError> {
    Listener::unix(Some(path), &SocketAccess::default())
}

#[tokio::test]
async fn a_socket_of_another_type_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let other = net::UnixListener::bind(&path).unwrap();
    let error = unix_at(&path).err().unwrap().to_string();
    for part in ["listen.unix", "may belong to another program", "choose another path"] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    assert!(net::UnixStream::connect(&path).is_ok());
    drop(other);
}

#[tokio::test]
async fn a_socket_in_use_is_refused_and_a_left_over_one_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let first = UnixDatagram::bind(&path).unwrap();
    let error = unix_at(&path).err().unwrap().to_string();
    assert!(error.contains("listen.unix") && error.contains("another process"), "{error}");
    drop(first);
    assert!(unix_at(&path).is_ok());
    assert!(!path.exists(), "the socket file goes with its listener");
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_left_alone() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = unix_at(file.path()).err().unwrap().to_string();
    assert!(error.contains("not a socket"), "{error}");
    assert!(file.path().exists());
}

#[tokio::test]
async fn a_taken_port_is_named_with_its_key() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = Listener::udp(Some(address)).err().unwrap().to_string();
    assert!(error.contains("listen.udp") && error.contains(&address.to_string()), "{error}");
}

/// Processes that the kernel states as senders of what is there.
fn processes(sockets: &mut Sockets) -> Vec<Option<u32>> {
    let mut processes = Vec::new();
    sockets.take(&mut Cost::default(), |event| {
        if let SocketEvent::Datagram { sender, .. } = event {
            processes.push(sender.map(|sender| sender.pid));
        }
    });
    processes
}

#[tokio::test]
async fn while_a_sender_is_searched_the_kernel_states_each() {
    let (_dir, mut sockets, sender) = unix();
    let own = Some(std::process::id());
    let mut sent = Vec::new();
    for is_searching in [false, true, false] {
        sockets.search_senders(is_searching);
        sender.send(b"a:1|ms").unwrap();
        sockets.readable().await;
        sent.extend(processes(&mut sockets));
    }
    assert_eq!(sent, [None, own, None]);
}

#[tokio::test]
async fn a_socket_for_some_users_states_senders_anyhow_and_still_refuses_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let user = nix::unistd::geteuid().as_raw();
    let users = Some([user].into());
    let access = SocketAccess { users, ..SocketAccess::default() };
    let mut sockets = Sockets::open(None, Some(&path), &access).unwrap();
    let sender = UnixDatagram::unbound().unwrap();
    sender.connect(path).unwrap();
    for is_searching in [true, false] {
        sockets.search_senders(is_searching);
        sender.send(b"a:1|ms").unwrap();
        sockets.readable().await;
        assert_eq!(processes(&mut sockets), [Some(std::process::id())], "{is_searching}");
    }
}
