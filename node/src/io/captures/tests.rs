//! Profilers that answer, die, hang or send garbage, on real sockets.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::thread;

use plimsoll_schemas::time::BootMillis;
use plimsoll_schemas::wire::capture::{CaptureFacts, CaptureRefusal, CaptureState};
use tempfile::TempDir;

use super::*;

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("profiler.sock")
    }

    fn settings(&self) -> CaptureSettings {
        CaptureSettings { enabled: true, socket: self.socket(), full_paths: true }
    }

    /// Asks a profiler that answers with these bytes, and closes or keeps its connection.
    async fn ask(&self, answer: Vec<u8>, wait: Duration, closes: bool) -> CaptureEnd {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let profiler = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut order = [0; 512];
            let read = stream.read(&mut order).unwrap();
            let order: ProfilerOrder = serde_json::from_slice(&order[..read]).unwrap();
            let _written = stream.write_all(&answer);
            (order, (!closes).then_some(stream))
        });
        let end = ask(&self.socket(), id(), &order(), wait, &Weak::new()).await;
        assert_eq!(profiler.join().unwrap().0, order());
        assert_eq!(end.id, id());
        end
    }
}

fn id() -> CaptureId {
    CaptureId::derived(&[b"a"])
}

fn order() -> ProfilerOrder {
    let alive_at = Some(BootMillis(20));
    ProfilerOrder {
        kind: CaptureKind::Cpu,
        native: false,
        pid: 7,
        seconds: 1,
        hz: 100,
        full_paths: true,
        alive_at,
    }
}

fn line(state: CaptureState, bytes: u64) -> Vec<u8> {
    let facts = CaptureFacts { samples: 3, ..CaptureFacts::default() };
    let mut line = serde_json::to_vec(&ProfilerResponse { state, facts, bytes }).unwrap();
    line.push(b'\n');
    line
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_profile_comes_with_its_facts() {
    let profile = vec![9; 100_000];
    let answer = [line(CaptureState::Kept, 100_000), profile.clone()].concat();
    let end = Place::new().ask(answer, LONG, true).await;
    assert_eq!((end.state, end.facts.samples), (CaptureState::Kept, 3));
    assert_eq!(end.profile, profile);

    let refused = CaptureState::Refused(CaptureRefusal::ProcessNotPermitted);
    let end = Place::new().ask(line(refused, 0), LONG, true).await;
    assert_eq!((end.state, end.profile.len()), (refused, 0));
}

#[tokio::test]
async fn a_profiler_that_dies_hangs_or_answers_garbage_has_its_reason() {
    let kept = |bytes| line(CaptureState::Kept, bytes);
    let short = Duration::from_millis(50);
    for (answer, wait, closes, expected) in [
        (Vec::new(), LONG, true, CaptureFailure::ProfilerEnded),
        (kept(5), LONG, true, CaptureFailure::ProfilerEnded),
        (Vec::new(), short, false, CaptureFailure::ProfilerTimeout),
        (kept(5), short, false, CaptureFailure::ProfilerTimeout),
        (b"garbage\n".to_vec(), LONG, true, CaptureFailure::ProfilerResponse),
        (b"{\"state\":\"new\"}\n".to_vec(), LONG, true, CaptureFailure::ProfilerResponse),
        (line(CaptureState::Running, 0), LONG, true, CaptureFailure::ProfilerResponse),
        (kept(0), LONG, true, CaptureFailure::ProfilerResponse),
        (kept(u64::MAX), LONG, true, CaptureFailure::ProfilerResponse),
        (line(CaptureState::Expired, 5), LONG, true, CaptureFailure::ProfilerResponse),
        ([kept(2), vec![1; 3]].concat(), LONG, true, CaptureFailure::ProfilerResponse),
        (vec![b'x'; 100_000], LONG, false, CaptureFailure::ProfilerResponse),
    ] {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(80)]).into_owned();
        let end = Place::new().ask(answer, wait, closes).await;
        assert_eq!(end.state, CaptureState::Failed(expected), "{shown}: {end:?}");
    }
}

#[tokio::test]
async fn the_client_inside_answers_for_its_own_process_alone() {
    let place = Place::new();
    let answer = [line(CaptureState::Kept, 3), vec![7; 3]].concat();
    // The kernel states that this process listens, whatever the number in the name.
    for (pid, expected) in [
        (std::process::id(), CaptureState::Kept),
        (1, CaptureState::Failed(CaptureFailure::NoProfiler)),
    ] {
        let name = format!("plimsoll-captures.{pid}");
        let name = SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&name).unwrap();
        let answer = answer.clone();
        thread::spawn(move || listener.accept().unwrap().0.write_all(&answer));

        let mut profiler = Profiler::new(&place.settings());
        let order = ProfilerOrder { pid, ..order() };
        profiler.start(CaptureStart { id: id(), order, past: None, from_outside: false });
        let end = profiler.next().await;
        assert_eq!(end.state, expected, "{pid}");
        assert!(end.facts.fix.contains("plimsoll-profiler.socket"), "{end:?}");
    }
}

#[tokio::test]
async fn without_a_profiler_the_failure_names_the_command() {
    let place = Place::new();
    let mut profiler = Profiler::new(&place.settings());
    profiler.start(CaptureStart { id: id(), order: order(), past: None, from_outside: false });
    let end = profiler.next().await;
    assert_eq!((end.id, end.state), (id(), CaptureState::Failed(CaptureFailure::NoProfiler)));
    assert!(end.facts.fix.contains("systemctl enable --now plimsoll-profiler.socket"), "{end:?}");
}

#[tokio::test]
async fn a_capture_that_is_stopped_returns_what_was_taken() {
    let place = Place::new();
    let listener = UnixListener::bind(place.socket()).unwrap();
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // The order, and the end of the connection's other half.
        stream.read_to_end(&mut Vec::new()).unwrap();
        stream.write_all(&[line(CaptureState::Torn, 3), vec![7; 3]].concat()).unwrap();
    });
    let mut profiler = Profiler::new(&place.settings());
    profiler.start(CaptureStart { id: id(), order: order(), past: None, from_outside: true });
    profiler.stop(CaptureId::derived(&[b"another"]));
    profiler.stop(id());
    let end = profiler.next().await;
    assert_eq!((end.state, end.profile.len()), (CaptureState::Torn, 3));
    assert!(profiler.open.is_empty());
    served.join().unwrap();
}
