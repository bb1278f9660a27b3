//! Orders of captures over a broker with the shipped permissions, to a real node with a real
//! profiler, of a real Python job. Whatever is ordered, no sample of the job is lost.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use nix::unistd::geteuid;
use plimsoll_bus::{
    BusConfig, ConnectionRole, Credentials, Listener, Messenger, Secret, TlsFiles,
    UnacknowledgedMessage,
};
use plimsoll_clock::Clock;
use plimsoll_mesh::site::Site;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_profile::Profile;
use plimsoll_profile::pprof::decode;
use plimsoll_schemas::ids::{Labels, MeshName, NodeName, Operation};
use plimsoll_schemas::permissions::{BrokerUser, inbox_prefix};
use plimsoll_schemas::subject::{answer_filter, capture_subject};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::capture::{
    CaptureFailure, CaptureId, CaptureKind, CaptureOrder, CaptureRefusal, CaptureRequest,
    CaptureResponse, CaptureState, CaptureStep, ProcessSelector,
};
use plimsoll_schemas::wire::signature::ConfirmKey;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::process::fleet_samples;
use plimsoll_tests::program::{program, run};
use plimsoll_tests::publisher::Publisher;
use tokio::time::timeout;

pub(crate) const WAIT: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
pub(crate) const NODE: &str = "node-1";
const ASKER: &str = "test";
/// A job that sends `step` and has one function that takes nearly all of its time. A line of input
/// has it answer orders itself. It ends when its input does, and prints how many samples it sent.
const JOB: &str = "
import select, socket, sys, time
from plimsoll import captures
out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
out.connect(sys.argv[1])

def planted():
    until = time.monotonic() + 0.05
    while time.monotonic() < until:
        sum(range(100))

sent = 0
while True:
    if select.select([sys.stdin], [], [], 0)[0]:
        if not sys.stdin.readline():
            break
        captures.listen(sys.argv[1])
    planted()
    out.send(b'step:50|ms|#rank:3')
    sent += 1
print(sent)
";

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// A job whose name in the kernel is `planted-job`. From second 30 to 54 it is in `planted`, else
/// in `usual`; it ends after 61 s, and prints when it started and how many samples it sent.
const JOB_OF_A_MINUTE: &str = "
import socket, sys, time
open('/proc/self/comm', 'w').write('planted-job')
out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
out.connect(sys.argv[1])
start, sent = time.time(), 0

def planted():
    until = time.monotonic() + 0.05
    while time.monotonic() < until: sum(range(100))

def usual():
    until = time.monotonic() + 0.05
    while time.monotonic() < until: sum(range(100))

while time.time() < start + 61:
    planted() if 30 <= time.time() - start < 54 else usual()
    out.send(b'step:50|ms|#rank:3')
    sent += 1
print(start, sent)
";

/// A mesh of one node, its profiler, and a job.
pub(crate) struct Place {
    pub(crate) stack: Stack,
    profiler: Child,
    pub(crate) job: Child,
    messenger: Messenger,
    responses: Listener,
    key: ConfirmKey,
    _publisher: Publisher,
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    async fn start() -> Self {
        Self::start_with("", job).await
    }

    /// With more settings of the node, and this job.
    pub(crate) async fn start_with(more: &str, job: impl Fn(&Path) -> Child) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let site = Site::make(dir, &mesh(), &[NODE.to_owned()]).unwrap();
        let digits = "5a".repeat(32);
        let key_file = dir.join("confirm.key");
        fs::write(&key_file, &digits).unwrap();
        fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
        let socket = dir.join("profiler.sock");
        let confirm = format!("[confirm]\nkey_file = {key_file:?}\n");
        let captures = format!("[captures]\nenabled = true\nsocket = {socket:?}\n{more}");
        let token = dir.join("token");
        fs::write(&token, TOKEN).unwrap();
        fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
        let http = format!("[http]\ntoken_file = {token:?}\n");

        let options = StackOptions {
            nodes: 1,
            // The shipped configuration has it.
            jetstream: false,
            broker_settings: site.broker_settings().unwrap(),
            aggregator_settings: format!("{}{confirm}{http}", site.bus_settings("aggregator")),
            node_settings: format!("{}{confirm}{captures}", site.bus_settings("node-{node}")),
            ..StackOptions::new(dir)
        };
        let mut stack = Stack::start(options).await.unwrap();
        let config = BusConfig {
            credentials: Credentials::Nkey(Secret::File(site.seed_file("aggregator"))),
            tls: TlsFiles { ca_file: Some(site.ca_file()), client: None },
            inbox_prefix: inbox_prefix(&mesh(), BrokerUser::Aggregator),
            role: ConnectionRole::Few,
            ..BusConfig::new(stack.broker().url(), "orders".to_owned(), mesh())
        };
        let publisher = Publisher::connect_with(config).await.unwrap();
        let messenger = publisher.messenger();
        let responses = messenger.listen(answer_filter(&mesh(), ASKER));
        let (profiler, job) = (profiler(&socket), job(&stack.stations()[0].socket));
        let key = ConfirmKey::from_hex(&digits).unwrap();

        Self { stack, profiler, job, messenger, responses, key, _publisher: publisher, folder }
    }

    /// Sends a request until the node responds to it: what is published before the subscription
    /// of this test, or the node's, finds no receiver.
    async fn request(&mut self, request: &CaptureRequest, key: &ConfirmKey) -> CaptureResponse {
        let payload = request.encode(&mesh(), key);
        loop {
            self.publish(payload.clone());
            let number = request.number;
            let response = timeout(SECOND, async {
                loop {
                    let received = self.responses.next().await.expect("the connection stays open");
                    let response = CaptureResponse::decode(&received.payload).unwrap();
                    if response.number == number {
                        return response;
                    }
                }
            });
            if let Ok(response) = response.await {
                return response;
            }
        }
    }

    fn publish(&self, payload: Vec<u8>) {
        let (subject, headers) = (capture_subject(&mesh(), &node()), Vec::new());
        let payload = Bytes::from(payload);
        self.messenger.publish(UnacknowledgedMessage { subject, headers, payload }).unwrap();
    }

    async fn order(&mut self, name: &str, order: &CaptureOrder) -> CaptureResponse {
        let key = self.key.clone();
        self.request(&request(name, CaptureStep::Order(order.clone())), &key).await
    }

    /// Orders, and waits until its state is final.
    async fn poll_outcome(&mut self, name: &str, order: &CaptureOrder) -> CaptureResponse {
        let clock = Clock::start();
        let until = clock.now().mono.plus(WAIT);
        loop {
            let response = self.order(name, order).await;
            if response.state.is_final() {
                return response;
            }
            assert!(clock.now().mono < until, "{response:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the profiler is under way. The node has asked it once the state is this one, and
    /// it has read the order soon after.
    async fn poll_running(&mut self, name: &str, order: &CaptureOrder) {
        while self.order(name, order).await.state != CaptureState::Running {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    async fn profile(&mut self, name: &str, bytes: u64) -> Profile {
        let (key, mut profile) = (self.key.clone(), Vec::new());
        for chunk in 0..128 {
            let request = request(name, CaptureStep::Chunk(chunk));
            profile.extend(self.request(&request, &key).await.chunk);
            if profile.len() as u64 == bytes {
                break;
            }
        }
        decode(&profile).unwrap()
    }

    /// Samples that the job has sent in all.
    pub(crate) fn end_job(&mut self) -> u64 {
        drop(self.job.stdin.take());
        let mut output = String::new();
        let stdout = self.job.stdout.take().unwrap();
        std::io::Read::read_to_string(&mut { stdout }, &mut output).unwrap();
        assert!(self.job.wait().unwrap().success());
        output.trim().parse().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for child in [&mut self.profiler, &mut self.job] {
            let _ended = child.kill();
            let _status = child.wait();
        }
    }
}

fn mesh() -> MeshName {
    MeshName::new("local").unwrap()
}

fn node() -> NodeName {
    NodeName::new(NODE).unwrap()
}

/// The service on a socket that it inherits, as from the service manager.
fn profiler(socket: &Path) -> Child {
    let _former = fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    let own = geteuid().as_raw();
    let mut command = program("plimsoll-profiler").unwrap();
    command.arg("serve").stdin(Stdio::from(OwnedFd::from(listener)));
    for key in ["allow_peers", "allow_users"] {
        command.args(["--set", &format!("{key}=['{own}']")]);
    }
    command.spawn().unwrap()
}

pub(crate) fn job(socket: &Path) -> Child {
    python(JOB, socket)
}

pub(crate) fn python(job: &str, socket: &Path) -> Child {
    let mut command = Command::new("python3");
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/../node/client-python");
    command.env("PYTHONPATH", client);
    command.args(["-c", job]).arg(socket).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

fn request(name: &str, step: CaptureStep) -> CaptureRequest {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let id = CaptureId::derived(&[name.as_bytes()]);
    CaptureRequest { number, asker: ASKER.to_owned(), node: node(), id, step }
}

fn now() -> Wall {
    Clock::start().now().wall
}

/// The job by what it sends.
fn by_series() -> CaptureOrder {
    CaptureOrder {
        kind: CaptureKind::Cpu,
        native: false,
        past: None,
        process: ProcessSelector {
            pid: None,
            operation: Some(Operation::new("step").unwrap()),
            labels: Labels::new([("rank", "3"), ("node", NODE)]).unwrap(),
        },
        seconds: 2,
        interval_seconds: None,
        hz: 100,
        start_at: now().plus(SECOND),
        expires_at: now().plus(WAIT),
        rule: None,
    }
}

fn by_pid(job: &Child, seconds: u32) -> CaptureOrder {
    let process = ProcessSelector { pid: Some(job.id()), ..ProcessSelector::default() };
    CaptureOrder { process, seconds, ..by_series() }
}

/// The function that is a leaf, or calls the leaf, in the most samples.
fn top_function(profile: &Profile) -> String {
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    for sample in profile.samples() {
        let frames = sample.stack.frames();
        let own = frames.iter().rev().find(|frame| frame.file.as_str() == "<string>");
        let name = own.map_or("", |frame| frame.function.as_str());
        *counts.entry(name.to_owned()).or_default() += sample.count;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).expect("it has samples").0
}

#[tokio::test]
async fn an_order_brings_the_profile_of_the_sender_and_each_other_order_its_reason() {
    let mut place = Place::start().await;
    let kept = place.poll_outcome("first", &by_series()).await;
    assert_eq!(kept.state, CaptureState::Kept, "{kept:?}");
    assert_eq!((&*kept.facts.rung, kept.facts.pid), ("profiler", place.job.id()));
    let profile = place.profile("first", kept.bytes).await;
    assert_eq!(top_function(&profile), "planted");
    assert!(kept.facts.samples > 100, "{kept:?}");

    let refused = CaptureState::Refused;
    let wrong = ConfirmKey::from_hex(&"5b".repeat(32)).unwrap();
    let forged = request("forged", CaptureStep::Order(by_series()));
    let forged = place.request(&forged, &wrong).await;
    assert_eq!(forged.state, refused(CaptureRefusal::Signature));
    let other = CaptureRequest {
        node: NodeName::new("node-2").unwrap(),
        ..request("other", CaptureStep::Order(by_series()))
    };
    let key = place.key.clone();
    let other = place.request(&other, &key).await;
    assert_eq!(other.state, refused(CaptureRefusal::OtherNode));
    let past = Wall(now().0 - 30 * 1_000_000_000);
    let expired = CaptureOrder { start_at: past, expires_at: past.plus(SECOND), ..by_series() };
    assert_eq!(place.order("expired", &expired).await.state, CaptureState::Expired);
    let replayed = CaptureOrder { seconds: 60, ..by_series() };
    let replayed = place.order("first", &replayed).await;
    assert_eq!(replayed.state, refused(CaptureRefusal::Replayed));
    // Fifty at once: one runs, and the profiler is killed under it.
    let long = by_pid(&place.job, 60);
    let key = place.key.clone();
    for n in 0..50 {
        let request = request(&format!("many-{n}"), CaptureStep::Order(long.clone()));
        place.publish(request.encode(&mesh(), &key));
    }
    let first = place.order("many-0", &long).await;
    assert!(!first.state.is_final(), "{first:?}");
    let busy = place.order("many-49", &long).await;
    assert_eq!(busy.state, refused(CaptureRefusal::Busy));
    place.poll_running("many-0", &long).await;
    place.profiler.kill().unwrap();
    place.profiler.wait().unwrap();
    let killed = place.poll_outcome("many-0", &long).await;
    assert_eq!(killed.state, CaptureState::Failed(CaptureFailure::ProfilerEnded), "{killed:?}");
    let order = by_pid(&place.job, 1);
    let without = place.poll_outcome("without", &order).await;
    assert_eq!(without.state, CaptureState::Failed(CaptureFailure::NoProfiler));
    assert!(without.facts.fix.contains("plimsoll-profiler.socket"), "{without:?}");

    // The client inside answers what no profiler reads from outside.
    place.job.stdin.as_mut().unwrap().write_all(b"listen\n").unwrap();
    let order = by_pid(&place.job, 2);
    let inside = place.poll_outcome("inside", &order).await;
    assert_eq!((inside.state, &*inside.facts.rung), (CaptureState::Kept, "client"), "{inside:?}");
    assert!(inside.facts.fix.contains("plimsoll-profiler.socket"), "{inside:?}");
    let profile = place.profile("inside", inside.bytes).await;
    assert_eq!(top_function(&profile), "planted");

    // It is there again.
    place.profiler = profiler(&place.folder.path().join("profiler.sock"));
    let order = by_pid(&place.job, 1);
    assert_eq!(place.poll_outcome("again", &order).await.state, CaptureState::Kept);

    let page = MetricsPage::of(&place.stack.stations()[0].api).await.unwrap();
    let ordered = page.value("plimsoll_agent_captures_ordered_total");
    assert_eq!(ordered, Some(page.sum("plimsoll_agent_captures_total")), "{page:?}");
    let busy = "plimsoll_agent_captures_total{outcome=\"refused\",reason=\"busy\"}";
    assert_eq!(page.value(busy), Some(49.0), "{page:?}");

    let sent = place.end_job();
    let drained = place.stack.drain().await.unwrap();
    assert_eq!(fleet_samples(&drained, "step"), sent);
}

/// The first function that `plimsoll profile query` lists, and all that it prints.
async fn queried(place: &Place, from: f64, to: f64) -> (String, String) {
    let mut command = program("plimsoll").unwrap();
    let range = [from, to].map(|at| at.to_string());
    command.args(["profile", "query", "--from", &range[0], "--to", &range[1], "--node", NODE]);
    command.args(["--url", place.stack.api().url(), "--token-file"]);
    command.arg(place.folder.path().join("token")).env_remove("PLIMSOLL_TOKEN");
    let output = run(command, WAIT).await.unwrap();
    assert_eq!(output.code, Some(0), "{output:?}");
    let functions = output.stdout.lines();
    let first = functions.skip_while(|line| !line.contains("FUNCTION")).nth(1).unwrap_or_default();
    (first.to_owned(), output.stdout)
}

#[tokio::test]
async fn a_function_of_a_past_minute_is_first_in_its_range_and_absent_before() {
    let folder = tempfile::tempdir().unwrap();
    let more = format!(
        "[profiles]\ncontinuous = true\njobs = false\nprocesses = ['planted-job']\n\
         directory = {:?}\n",
        folder.path()
    );
    let of_a_minute = |socket: &Path| python(JOB_OF_A_MINUTE, socket);
    let mut place = Place::start_with(&more, of_a_minute).await;
    let mut output = String::new();
    let stdout = place.job.stdout.take().unwrap();
    let read = tokio::task::spawn_blocking(move || {
        std::io::Read::read_to_string(&mut { stdout }, &mut output).map(|_| output)
    });
    let output = timeout(2 * WAIT, read).await.unwrap().unwrap().unwrap();
    let (start, sent) = output.trim().split_once(' ').unwrap();
    let (start, sent): (f64, u64) = (start.parse().unwrap(), sent.parse().unwrap());

    let (first, all) = queried(&place, start + 30.0, start + 54.0).await;
    assert!(first.contains("planted"), "{all}");
    // A profile of 10 s is in the range that its middle is in.
    let (first, all) = queried(&place, start + 13.0, start + 24.0).await;
    assert!(first.contains("usual") && !all.contains("planted"), "{all}");

    let page = MetricsPage::of(&place.stack.stations()[0].api).await.unwrap();
    let turns = page.value("plimsoll_agent_profiles_turns_total").unwrap();
    let active = page.value("plimsoll_agent_profiles_active").unwrap();
    assert_eq!(turns, page.sum("plimsoll_agent_profiles_total") + active, "{page:?}");
    let stored = "plimsoll_agent_profiles_total{outcome=\"stored\",reason=\"\"}";
    assert!(page.value(stored) >= Some(4.0), "{page:?}");
    let drained = place.stack.drain().await.unwrap();
    assert_eq!(fleet_samples(&drained, "step"), sent);
}
