//! Clients on real sockets, well behaved and otherwise.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_clock::{Deadline, since_boot};
use plimsoll_schemas::ids::{Operation, Series};
use plimsoll_schemas::limits::wire::FRAME_BYTES_MAX;
use plimsoll_schemas::wire::Latency;
use plimsoll_schemas::wire::frame::{PREFIX_BYTES, encode};

use super::*;
use crate::io::connections::READY_MAX;
use crate::limits::CLIENT_CONNECTIONS_MAX;

struct Place {
    folder: tempfile::TempDir,
    frames: Frames,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let frames =
            Frames::listen(Some(&folder.path().join("s.stream")), &SocketAccess::default())
                .unwrap();
        Self { folder, frames }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("s.stream")
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Takes until nothing is left; returns what came, in short.
    async fn take_all(&mut self) -> Vec<Result<u64, &'static str>> {
        self.frames.readable().await;
        let mut came = Vec::new();
        loop {
            let taken = self.frames.take(|frame| {
                came.push(frame.as_ref().map(|sent| sent.frame.seq.0).map_err(FrameError::reason));
                at_once(frame)
            });
            self.frames.answer(NoteNumber::ALL);
            if taken == SocketPoll::default() {
                return came;
            }
        }
    }

    fn ended(&mut self) -> Vec<&'static str> {
        self.frames.drain_ended().collect()
    }
}

fn frame(seq: u64) -> Vec<u8> {
    let series = Series::plain(Operation::new("tokens").unwrap());
    let latency = Latency { counters: vec![(series, 1.0)], ..Latency::default() };
    encode(&Frame { client: "job".to_owned(), seq: Seq(seq), clamped: 0, latency, last: false })
        .unwrap()
}

/// A frame that takes many reads.
fn large(seq: u64) -> Vec<u8> {
    let series = |n| Series::plain(Operation::new(format!("{n:0100}")).unwrap());
    let latency =
        Latency { counters: (0..2_000).map(|n| (series(n), 1.0)).collect(), ..Latency::default() };
    encode(&Frame { client: "job".to_owned(), seq: Seq(seq), clamped: 0, latency, last: false })
        .unwrap()
}

/// Records a frame whose answer waits for no note.
fn at_once(sent: Result<SentFrame, FrameError>) -> Option<FrameAnswer> {
    sent.ok().map(|sent| FrameAnswer { seq: sent.frame.seq, note: NoteNumber::default() })
}

fn answer(stream: &mut UnixStream) -> u64 {
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    u64::from_be_bytes(answer)
}

fn is_closed(stream: &mut UnixStream) -> bool {
    matches!(stream.read(&mut [0]), Ok(0) | Err(_))
}

#[tokio::test]
async fn frames_of_several_clients_are_handed_over_and_answered() {
    let mut place = Place::new();
    let (mut one, mut two) = (place.connect(), place.connect());
    one.write_all(&[frame(1), frame(2)].concat()).unwrap();
    two.write_all(&frame(7)).unwrap();
    let mut came = place.take_all().await;
    came.sort_unstable();
    assert_eq!(came, [Ok(1), Ok(2), Ok(7)]);
    assert_eq!((answer(&mut one), answer(&mut one), answer(&mut two)), (1, 2, 7));
    assert_eq!(place.frames.clients(), 2);
    drop((one, two));
    assert_eq!(place.take_all().await, []);
    assert_eq!((place.frames.clients(), place.ended()), (0, vec![]));
}

#[tokio::test]
async fn a_frame_that_comes_byte_by_byte_is_whole_in_the_end() {
    let mut place = Place::new();
    let mut client = place.connect();
    let bytes = frame(3);
    let (last, before) = bytes.split_last().unwrap();
    for byte in before {
        client.write_all(&[*byte]).unwrap();
        assert_eq!(place.take_all().await, []);
    }
    client.write_all(&[*last]).unwrap();
    assert_eq!(place.take_all().await, [Ok(3)]);
    assert_eq!(answer(&mut client), 3);
}

#[tokio::test]
async fn a_client_that_dies_within_a_frame_costs_only_that_frame() {
    let mut place = Place::new();
    let (mut dying, mut other) = (place.connect(), place.connect());
    let whole = frame(1);
    dying.write_all(&[&whole[..], &frame(2)[..20]].concat()).unwrap();
    dying.shutdown(Shutdown::Both).unwrap();
    drop(dying);
    other.write_all(&frame(5)).unwrap();
    let mut came = place.take_all().await;
    came.sort_unstable();
    // The answer to its first frame reaches no client; that frame was taken all the same.
    assert_eq!(came, [Ok(1), Ok(5)]);
    assert_eq!(place.frames.clients(), 1);
    assert_eq!(place.ended().len(), 1);
    assert_eq!(answer(&mut other), 5);
}

#[tokio::test]
async fn a_frame_cut_short_is_counted_as_truncated() {
    let mut place = Place::new();
    let mut dying = place.connect();
    dying.write_all(&frame(2)[..20]).unwrap();
    assert_eq!(place.take_all().await, []);
    drop(dying);
    assert_eq!(place.take_all().await, []);
    assert_eq!((place.frames.clients(), place.ended()), (0, vec!["truncated"]));
}

#[tokio::test]
async fn an_invalid_frame_is_logged_and_disconnected_unanswered() {
    let too_long = u32::try_from(FRAME_BYTES_MAX + 1).unwrap().to_be_bytes().to_vec();
    let no_frame = [&4_u32.to_be_bytes()[..], b"\x81\xa1aa"].concat();
    for (bytes, reason) in [(too_long, "too_large"), (no_frame, "shape")] {
        let mut place = Place::new();
        let mut client = place.connect();
        client.write_all(&bytes).unwrap();
        assert_eq!(place.take_all().await, [Err(reason)]);
        assert!(is_closed(&mut client));
        assert_eq!((place.frames.clients(), place.ended()), (0, vec![]));
    }
}

#[tokio::test]
async fn a_promised_length_takes_no_memory() {
    let mut place = Place::new();
    let mut client = place.connect();
    client.write_all(&u32::try_from(FRAME_BYTES_MAX).unwrap().to_be_bytes()).unwrap();
    assert_eq!(place.take_all().await, []);
    let open = place.frames.0.as_ref().unwrap();
    assert_eq!(open.buffered, PREFIX_BYTES);
}

#[tokio::test]
async fn buffers_have_a_bound_for_all_clients_together() {
    let mut place = Place::new();
    let promise = u32::try_from(FRAME_BYTES_MAX).unwrap().to_be_bytes();
    let almost = [&promise[..], &vec![0; FRAME_BYTES_MAX - 1]].concat();
    let mut clients = Vec::new();
    for _ in 0..FRAME_BUFFERS_BYTES_MAX / FRAME_BYTES_MAX + 2 {
        let mut client = place.connect();
        client.set_nonblocking(true).unwrap();
        let mut rest = &almost[..];
        while !rest.is_empty() {
            match client.write(rest) {
                Ok(bytes) => rest = &rest[bytes..],
                Err(_) if !place.ended().is_empty() => break,
                Err(_) => assert_eq!(place.take_all().await, []),
            }
        }
        clients.push(client);
    }
    let open = place.frames.0.as_ref().unwrap();
    assert!(open.buffered <= FRAME_BUFFERS_BYTES_MAX, "{}", open.buffered);
    let held: usize = open.clients.values().map(Client::buffered).sum();
    assert_eq!(open.buffered, held);
    assert!(place.frames.clients() < clients.len());
}

#[tokio::test]
async fn a_client_that_reads_no_answers_is_disconnected() {
    let mut place = Place::new();
    let mut client = place.connect();
    client.set_nonblocking(true).unwrap();
    let bytes = frame(1);
    let mut ended = Vec::new();
    for _ in 0..1_000_000 {
        match client.write(&bytes) {
            Ok(written) if written == bytes.len() => continue,
            _ => {}
        }
        place.take_all().await;
        ended.extend(place.ended());
        if !ended.is_empty() {
            break;
        }
    }
    assert_eq!(ended, ["unread"]);
    assert_eq!(place.frames.clients(), 0);
}

#[tokio::test]
async fn one_client_too_many_is_turned_away() {
    let mut place = Place::new();
    let mut clients = Vec::new();
    for _ in 0..CLIENT_CONNECTIONS_MAX {
        clients.push(place.connect());
        place.take_all().await;
    }
    let mut excess = place.connect();
    place.take_all().await;
    assert!(is_closed(&mut excess));
    assert_eq!(place.frames.clients(), CLIENT_CONNECTIONS_MAX);
    assert_eq!(place.ended(), ["turned_away"]);
}

#[tokio::test]
async fn one_turn_takes_a_bounded_amount() {
    let mut place = Place::new();
    let mut client = place.connect();
    client.write_all(&frame(1).repeat(1_000)).unwrap();
    place.frames.readable().await;
    let taken = place.frames.take(at_once);
    let frames_in_a_read = 16 * 1024 / frame(1).len() + 1;
    assert!(taken.datagrams <= FRAMES_PER_WAKE + READY_MAX * frames_in_a_read, "{taken:?}");
    assert!(taken.datagrams < 1_000);
}

#[tokio::test]
async fn busy_clients_are_read_in_turn() {
    let mut place = Place::new();
    let busy = 2 * READY_MAX;
    let mut clients: Vec<_> = (0..busy).map(|_| place.connect()).collect();
    place.take_all().await;
    for (client, seq) in clients.iter_mut().zip(1..) {
        client.write_all(&frame(seq).repeat(1_000)).unwrap();
    }

    // Each turn has enough with half of them.
    let mut read = std::collections::BTreeSet::new();
    place.frames.readable().await;
    for _turn in 0..4 {
        place.frames.take(|frame| {
            read.extend(frame.as_ref().ok().map(|sent| sent.frame.seq.0));
            at_once(frame)
        });
        place.frames.answer(NoteNumber::ALL);
    }
    assert_eq!(read.len(), busy);
}

#[tokio::test]
async fn one_turn_accepts_a_bounded_number_of_clients() {
    let mut place = Place::new();
    let _clients: Vec<_> = (0..POLLS_PER_WAKE + 10).map(|_| place.connect()).collect();
    place.frames.readable().await;
    assert_eq!(place.frames.take(|_| None), SocketPoll::default());
    assert_eq!(place.frames.clients(), POLLS_PER_WAKE);
    assert!(!place.frames.is_empty());
    place.take_all().await;
    assert_eq!(place.frames.clients(), POLLS_PER_WAKE + 10);
    assert!(place.frames.is_empty());
}

#[tokio::test]
async fn what_was_read_keeps_no_memory_for_what_is_left() {
    let mut place = Place::new();
    let mut client = place.connect();
    client.set_nonblocking(true).unwrap();
    let bytes = [&large(1)[..], &frame(2)[..1]].concat();
    let (mut rest, mut came) = (&bytes[..], Vec::new());
    while !rest.is_empty() || came.is_empty() {
        rest = &rest[client.write(rest).unwrap_or_default()..];
        came.extend(place.take_all().await);
    }
    assert_eq!(came, [Ok(1)]);
    let clients = &place.frames.0.as_ref().unwrap().clients;
    let taken: Vec<_> = clients.values().map(Client::heap_bytes).collect();
    assert_eq!(taken, [1]);
}

/// Descriptors belong to the whole process, so this one takes them all in a process of its own.
#[test]
fn without_a_descriptor_to_spare_a_client_is_turned_away() {
    const ALONE: &str = "PLIMSOLL_TEST_DESCRIPTORS";
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return runtime.unwrap().block_on(turn_away_without_a_descriptor());
    }
    let name = "io::frames::tests::without_a_descriptor_to_spare_a_client_is_turned_away";
    let mut alone = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 64; exec \"$0\" --exact \"$1\" --test-threads=1"])
        .arg(std::env::current_exe().unwrap())
        .arg(name)
        .env(ALONE, "1")
        .spawn()
        .unwrap();
    let until = Deadline::within(Duration::from_secs(60));
    while alone.try_wait().unwrap().is_none() {
        if !until.pause(Duration::from_millis(5)) {
            alone.kill().unwrap();
        }
    }
    assert!(alone.wait().unwrap().success());
}

async fn turn_away_without_a_descriptor() {
    let mut place = Place::new();
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    files.pop();
    let mut client = place.connect();
    place.take_all().await;
    assert!(is_closed(&mut client));
    assert_eq!((place.frames.clients(), place.ended()), (0, vec!["no_descriptor"]));
    drop(files);
    client = place.connect();
    client.write_all(&frame(1)).unwrap();
    assert_eq!(place.take_all().await, [Ok(1)]);
}

#[tokio::test]
async fn a_path_in_use_or_of_another_kind_is_refused_and_a_left_over_one_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.stream");
    let refused = |part: &str| {
        let error =
            Frames::listen(Some(&path), &SocketAccess::default()).err().unwrap().to_string();
        assert!(error.contains("listen.stream") && error.contains(part), "{error}");
    };
    let listening = UnixListener::bind(&path).unwrap();
    refused("another process listens");
    drop(listening);
    let frames = Frames::listen(Some(&path), &SocketAccess::default()).unwrap();
    drop(frames);
    assert!(!path.exists(), "the socket file goes with its listener");
    let datagrams = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    refused("may belong to another program");
    drop(datagrams);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "mine").unwrap();
    refused("not a socket");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

/// Records a frame whose answer waits.
fn later(sent: Result<SentFrame, FrameError>) -> Option<FrameAnswer> {
    sent.ok().map(|sent| FrameAnswer { seq: sent.frame.seq, note: NoteNumber::ALL })
}

fn has_no_answer(stream: &mut UnixStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read(&mut [0; 8]);
    stream.set_nonblocking(false).unwrap();
    read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn answers_wait_for_their_note_also_those_of_a_client_that_sends_no_more() {
    let mut place = Place::new();
    let (mut open, mut half) = (place.connect(), place.connect());
    open.write_all(&[frame(1), frame(2)].concat()).unwrap();
    half.write_all(&frame(7)).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    place.frames.readable().await;
    while place.frames.take(later) != SocketPoll::default() {}
    place.frames.answer(NoteNumber::default());
    assert!(has_no_answer(&mut open) && has_no_answer(&mut half) && place.frames.is_awaited());
    place.frames.answer(NoteNumber::ALL);
    assert_eq!((answer(&mut open), answer(&mut open), answer(&mut half)), (1, 2, 7));
    assert!(is_closed(&mut half) && !place.frames.is_awaited());
    assert_eq!((place.frames.clients(), place.ended()), (1, vec![]));
}

#[tokio::test]
async fn while_reading_is_paused_frames_stay_where_they_are() {
    let mut place = Place::new();
    let mut client = place.connect();
    client.write_all(&frame(1)).unwrap();
    place.frames.pause(true);
    let waited = tokio::time::timeout(Duration::from_millis(20), place.frames.readable()).await;
    assert!(waited.is_err(), "the driver would spin");
    assert_eq!(place.frames.take(|_| panic!("it must stay unread")), SocketPoll::default());
    place.frames.pause(false);
    assert_eq!(place.take_all().await, [Ok(1)]);
    assert_eq!(answer(&mut client), 1);
}

#[tokio::test]
async fn with_too_many_answers_that_wait_frames_stay_unread() {
    let mut place = Place::new();
    let mut client = place.connect();
    client.set_nonblocking(true).unwrap();
    let (bytes, mut taken) = (frame(1), 0);
    while taken < FRAME_ANSWERS_MAX {
        while client.write(&bytes).is_ok_and(|written| written == bytes.len()) {}
        place.frames.readable().await;
        taken += place.frames.take(later).datagrams;
    }
    assert!(taken < 2 * FRAME_ANSWERS_MAX, "{taken}");
    assert_eq!(place.frames.take(later), SocketPoll::default());
    let waited = tokio::time::timeout(Duration::from_millis(20), place.frames.readable()).await;
    assert!(waited.is_err(), "the driver would spin");
    place.frames.answer(NoteNumber::ALL);
    assert_eq!(place.ended(), [""; 0], "they find room together");
    assert!(place.frames.take(later).datagrams > 0);
}

#[tokio::test]
async fn a_closed_socket_still_answers_and_leaves_its_path_to_a_successor() {
    let mut place = Place::new();
    let (mut waiting, mut idle) = (place.connect(), place.connect());
    waiting.write_all(&frame(1)).unwrap();
    place.frames.readable().await;
    while place.frames.take(later) != SocketPoll::default() {}
    assert_eq!(place.frames.clients(), 2);
    place.frames.close();
    assert!(is_closed(&mut idle) && place.frames.clients() == 1);
    let successor = Frames::listen(Some(&place.path()), &SocketAccess::default()).unwrap();
    place.frames.answer(NoteNumber::ALL);
    assert_eq!((answer(&mut waiting), place.frames.clients()), (1, 0));
    assert!(is_closed(&mut waiting) && place.path().exists());
    drop(successor);
}

#[tokio::test]
async fn an_absent_socket_is_never_readable() {
    let mut absent = Frames::absent();
    let waited = tokio::time::timeout(Duration::ZERO, absent.readable()).await;
    assert!(waited.is_err());
    assert_eq!(absent.take(|_| None), SocketPoll::default());
}

#[tokio::test]
async fn a_frame_comes_with_the_process_that_connected_and_when() {
    let mut place = Place::new();
    let mut client = place.connect();
    client.write_all(&frame(1)).unwrap();
    place.frames.readable().await;
    let mut processes = Vec::new();
    for (number, before) in [(2, 0), (3, 1)] {
        place.frames.readable().await;
        while processes.len() == before {
            place.frames.take(|sent| {
                processes.extend(sent.as_ref().ok().and_then(|sent| sent.process));
                at_once(sent)
            });
        }
        let accepted_by = since_boot();
        assert!(processes[0].alive_at <= accepted_by);
        // Until the clock shows another instant.
        while since_boot() == accepted_by {
            std::thread::yield_now();
        }
        client.write_all(&frame(number)).unwrap();
    }
    assert_eq!(processes[0].pid, std::process::id());
    // Who sends later may have been given the connection.
    assert_eq!(processes[0], processes[1]);
}
