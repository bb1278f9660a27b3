//! The service over its real socket: who may order, what may be read, and what hostile peers get.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use plimsoll_clock::{Deadline, since_boot};
use plimsoll_profile::pprof::decode;
use plimsoll_profile::{Profile, ValueType};
use plimsoll_profiler::limits::ORDERS_AT_ONCE;
use plimsoll_profiler::order::ProcessId;
use plimsoll_profiler::target::presence::Pin;
use plimsoll_schemas::limits::wire::PROFILER_LINE_BYTES_MAX;
use plimsoll_schemas::time::BootMillis;
use plimsoll_schemas::wire::capture::{CaptureKind, CaptureState, ProfilerOrder, ProfilerResponse};
use tempfile::TempDir;

use crate::program::{Program, first_python, pythons};

const WAIT: Duration = Duration::from_secs(60);
pub(crate) const PROFILER: &str = env!("CARGO_BIN_EXE_plimsoll-profiler");
const SPINS: &str = "
def planted():
    while True:
        sum(range(1000))
print('ready', flush=True)
planted()
";

/// A service, on a socket that it inherits as from the service manager.
pub(crate) struct Service {
    child: Child,
    path: PathBuf,
    _folder: TempDir,
}

impl Service {
    /// One that may read senders of the user of the tests, who may be root.
    fn start() -> Self {
        Self::with(&[&format!("allow_users=['{}']", geteuid().as_raw())])
    }

    pub(crate) fn with(settings: &[&str]) -> Self {
        Self::by(Command::new(PROFILER), settings)
    }

    /// Of the program that a command runs.
    pub(crate) fn by(mut command: Command, settings: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("profiler.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let own = format!("allow_peers=['{}']", geteuid().as_raw());
        command.args(["serve", "--set", &own, "--set", "log.filter=off"]);
        command.args(settings.iter().flat_map(|setting| ["--set", *setting]));
        let child = command.stdin(Stdio::from(OwnedFd::from(listener))).spawn().unwrap();
        Self { child, path, _folder: folder }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Orders, and waits for the response.
    pub(crate) fn order(&self, order: &ProfilerOrder) -> (ProfilerResponse, Vec<u8>) {
        response(send(self.connect(), order))
    }

    fn states(&self, order: &ProfilerOrder) -> (String, String) {
        let (response, profile) = self.order(order);
        assert_eq!(profile.len(), 0);
        let (state, reason) = response.state.labels();
        (state.to_owned(), reason.to_owned())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn send(mut stream: UnixStream, order: &ProfilerOrder) -> UnixStream {
    let line = serde_json::to_string(order).unwrap();
    // A service that refuses may have closed the connection before it came.
    let _refused = stream.write_all(format!("{line}\n").as_bytes());
    stream
}

fn response(stream: UnixStream) -> (ProfilerResponse, Vec<u8>) {
    let mut stream = BufReader::new(stream);
    let (mut line, mut profile) = (String::new(), Vec::new());
    stream.read_line(&mut line).unwrap();
    let response: ProfilerResponse = serde_json::from_str(&line).unwrap();
    // What it has not read of the order resets the connection behind the response.
    let end = stream.read_to_end(&mut profile);
    assert!(end.is_ok() || response.bytes == 0, "{end:?}");
    assert_eq!(profile.len() as u64, response.bytes);
    (response, profile)
}

fn order_of(program: &Program, alive_at: Option<BootMillis>) -> ProfilerOrder {
    let pid = program.child.id();
    ProfilerOrder {
        kind: CaptureKind::Cpu,
        native: false,
        pid,
        seconds: 1,
        hz: 100,
        full_paths: false,
        alive_at,
    }
}

/// Of a program that sends now. Python may start within the ten milliseconds by which the kernel
/// states a start, so that it would count as one that started after it had sent.
fn order_of_sender(program: &Program) -> ProfilerOrder {
    order_of(program, Some(BootMillis(since_boot().0 + 10)))
}

fn of(state: &str, reason: &str) -> (String, String) {
    (state.to_owned(), reason.to_owned())
}

fn planted_share(profile: &[u8]) -> f64 {
    let profile: Profile = decode(profile).unwrap();
    assert_eq!(*profile.value_type(), ValueType::wall());
    let planted: u64 = profile
        .samples()
        .filter(|sample| {
            sample.stack.frames().iter().any(|frame| frame.function.as_str() == "planted")
        })
        .map(|sample| sample.count)
        .sum();
    let all: u64 = profile.samples().map(|sample| sample.count).sum();
    planted as f64 / all as f64
}

#[test]
fn a_sender_is_captured_and_its_profile_comes_back() {
    for python in pythons() {
        let (service, program) = (Service::start(), Program::start(&python, SPINS));
        let (response, profile) = service.order(&order_of_sender(&program));
        assert_eq!(response.state.labels(), ("kept", ""), "{response:?}");
        let facts = response.facts;
        assert_eq!((&*facts.rung, facts.pid), ("profiler", program.child.id()));
        // Before 3.11 the file's name alone states the version.
        assert!(python.version.starts_with(&facts.python), "{facts:?}");
        assert!(facts.command.starts_with("python"), "{facts:?}");
        assert_eq!(facts.samples + facts.torn + facts.lost, 100);
        assert!(planted_share(&profile) > 0.9);
    }
}

#[test]
fn a_process_is_permitted_by_its_owner_or_as_a_sender() {
    let python = pythons().pop_first().expect("there is one");
    let program = Program::start(&python, SPINS);
    let closed = Service::with(&[]);
    let not_permitted = of("refused", "process_not_permitted");
    assert_eq!(closed.states(&order_of(&program, None)), not_permitted);
    if geteuid().is_root() {
        let (response, _) = closed.order(&order_of_sender(&program));
        assert_eq!(response.state.labels(), ("refused", "process_not_permitted"));
        assert!(response.facts.fix.contains("user 0: add it to allow_users"));
    }

    let open = Service::start();
    assert_eq!(open.order(&order_of(&program, None)).0.state, CaptureState::Kept);
    // What was sent before it started, or in the tick in which it did, another process sent.
    let not_found = of("refused", "process_not_found");
    let pid = ProcessId(program.child.id().cast_signed());
    let started_by = Pin::new(pid).unwrap().started_by();
    let before = BootMillis(started_by.0 - 1);
    assert_eq!(open.states(&order_of(&program, Some(before))), not_found);
    assert_eq!(open.order(&order_of(&program, Some(started_by))).0.state, CaptureState::Kept);
    let none = ProfilerOrder { pid: i32::MAX.cast_unsigned(), ..order_of(&program, None) };
    assert_eq!(open.states(&none), not_found);
    let itself = ProfilerOrder { pid: open.child.id(), ..none };
    assert_eq!(open.states(&itself), of("failed", "not_supported"));
}

#[test]
fn a_bounded_number_of_orders_is_carried_out_and_ends_with_their_peer() {
    let python = pythons().pop_first().expect("there is one");
    let (service, program) = (Service::start(), Program::start(&python, SPINS));
    let long = ProfilerOrder { seconds: 60, ..order_of_sender(&program) };
    let most = || (1..ORDERS_AT_ONCE).map(|_| send(service.connect(), &long));
    let held: Vec<UnixStream> = most().collect();
    // Beside them, and whole.
    assert_eq!(service.order(&order_of_sender(&program)).0.state, CaptureState::Kept);
    let last = send(service.connect(), &long);
    assert_eq!(service.states(&long), of("failed", "profiler_busy"));

    drop((held, last));
    let deadline = Deadline::within(WAIT);
    let short = order_of_sender(&program);
    while service.order(&short).0.state != CaptureState::Kept {
        assert!(!deadline.has_passed(), "the first order did not end");
    }
}

#[test]
fn a_process_that_ends_leaves_a_torn_profile() {
    let python = pythons().pop_first().expect("there is one");
    let (service, mut program) = (Service::start(), Program::start(&python, SPINS));
    let order = ProfilerOrder { seconds: 30, ..order_of_sender(&program) };
    let stream = send(service.connect(), &order);
    // Until it is under way, and has some samples.
    let some = Deadline::within(Duration::from_millis(500));
    while some.pause(Duration::from_millis(10)) {}
    program.child.kill().unwrap();
    let (response, profile) = response(stream);
    assert_eq!(response.state.labels().0, "torn", "{response:?}");
    assert!(planted_share(&profile) > 0.9);
}

#[test]
fn captures_of_one_thread_share_nothing_but_it() {
    let python = pythons().pop_first().expect("there is one");
    let service = Service::start();
    let start = |text: &str| Program::start(&python, text);
    let [planted, mut ends] = [start(SPINS), start(SPINS)];
    let other = start(&SPINS.replace("planted", "other"));
    let rare = |program: &Program, seconds| {
        let order = ProfilerOrder { hz: 19, seconds, ..order_of_sender(program) };
        send(service.connect(), &order)
    };
    let (left, torn) = (rare(&other, 60), rare(&ends, 30));
    let kept = [rare(&planted, 3), rare(&other, 3)];
    let some = Deadline::within(Duration::from_secs(1));
    while some.pause(Duration::from_millis(10)) {}
    drop(left);
    ends.child.kill().unwrap();

    assert_eq!(response(torn).0.state.labels().0, "torn");
    let shares = kept.map(response).map(|(response, profile)| {
        assert_eq!(response.state, CaptureState::Kept, "{response:?}");
        let facts = response.facts;
        assert_eq!(facts.samples + facts.torn + facts.lost, 3 * 19, "{facts:?}");
        planted_share(&profile)
    });
    assert!(shares[0] > 0.9 && shares[1] == 0.0, "{shares:?}");
    // The one whose peer left has ended: there is room for all.
    let _held: Vec<UnixStream> = (1..ORDERS_AT_ONCE).map(|_| rare(&planted, 60)).collect();
    assert_eq!(service.order(&order_of_sender(&planted)).0.state, CaptureState::Kept);
}

#[test]
fn a_service_that_is_stopped_and_goes_on_keeps_its_captures() {
    let python = pythons().pop_first().expect("there is one");
    let (service, program) = (Service::start(), Program::start(&python, SPINS));
    let order = |hz| ProfilerOrder { seconds: 3, hz, ..order_of_sender(&program) };
    let running = [19, 100].map(|hz| send(service.connect(), &order(hz)));
    let pid = Pid::from_raw(service.child.id().cast_signed());
    for signal in [Signal::SIGSTOP, Signal::SIGCONT] {
        // Until they are under way, and until it has stopped.
        let some = Deadline::within(Duration::from_millis(500));
        while some.pause(Duration::from_millis(10)) {}
        kill(pid, signal).unwrap();
    }
    for response in running.map(response) {
        assert_eq!(response.0.state, CaptureState::Kept, "{:?}", response.0);
    }
}

#[test]
fn hostile_peers_cost_only_their_own_connection() {
    let python = pythons().pop_first().expect("there is one");
    let (service, program) = (Service::start(), Program::start(&python, SPINS));
    let endless = vec![b'x'; PROFILER_LINE_BYTES_MAX + 1];
    for bytes in [
        &b"\n"[..],
        b"{}\n",
        b"\xff\xfe\n",
        b"{\"pid\":-1,\"seconds\":1,\"hz\":1}\n",
        b"{\"pid\":1,\"seconds\":0,\"hz\":1}\n",
        b"{\"pid\":4294967295,\"seconds\":1,\"hz\":1}\n",
        b"{\"pid\":1,\"seconds\":1,\"hz\":4294967295}\n",
        b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n",
        &endless,
        b"{\"pid\":1", // Without an end it is refused after a while.
    ] {
        let mut stream = service.connect();
        let _refused = stream.write_all(bytes);
        let (response, _) = response(stream);
        assert_eq!(response.state.labels(), ("failed", "other"), "{bytes:?}");
        assert!(!response.facts.fix.is_empty());
    }
    drop(service.connect());
    let deadline = Deadline::within(WAIT);
    while service.order(&order_of_sender(&program)).0.state != CaptureState::Kept {
        assert!(!deadline.has_passed(), "it does not serve any more");
    }
}

#[test]
fn a_user_who_is_not_listed_cannot_order() {
    const NOBODY: u32 = 65_534;
    if !geteuid().is_root() {
        // Root alone can act as another user.
        return writeln!(std::io::stderr(), "SKIPPED: needs root").unwrap();
    }
    let service = Service::start();
    let folder = service.path.parent().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder, Clone::clone(&open)).unwrap();
    std::fs::set_permissions(&service.path, open).unwrap();
    let script = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); \
                  print(s.makefile().readline())";
    let mut command = Command::new(first_python().path);
    command.args(["-c", script]).arg(&service.path).uid(NOBODY).gid(NOBODY);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"profiler_refused\"") && text.contains("allow_peers"), "{text}");
}

#[test]
fn a_socket_of_its_own_replaces_that_of_a_dead_process() {
    let python = pythons().pop_first().expect("there is one");
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("own.sock");
    drop(UnixListener::bind(&path).unwrap());
    let own = geteuid().as_raw();
    let set = [
        format!("socket={}", path.display()),
        format!("allow_peers=['{own}']"),
        format!("allow_users=['{own}']"),
        "log.filter=off".to_owned(),
    ];
    let mut command = Command::new(PROFILER);
    command.arg("serve").stdin(Stdio::null());
    command.args(set.iter().flat_map(|set| ["--set", &**set]));
    let service = Service { child: command.spawn().unwrap(), path, _folder: folder };

    let deadline = Deadline::within(WAIT);
    while UnixStream::connect(&service.path).is_err() {
        assert!(!deadline.has_passed(), "it does not listen");
    }
    let program = Program::start(&python, SPINS);
    while service.order(&order_of_sender(&program)).0.state != CaptureState::Kept {
        assert!(!deadline.has_passed(), "it does not serve");
    }
}

#[test]
fn without_a_socket_or_with_a_wrong_setting_it_does_not_start() {
    for (arguments, code, expected) in [
        (&["--set", "allow_peers=[]"][..], 4, "standard input is not a listening Unix socket"),
        (&["--set", "allow_peers=['no such']"], 3, "this machine has no user \"no such\""),
        (&["--set", "sockets=x"], 3, "sockets"),
        (&["--print-config"], 0, "allow_peers"),
        (&["--set", "allow_peers=['0']", "--check-config"], 0, "configuration is valid"),
    ] {
        let mut command = Command::new(PROFILER);
        let output = command.arg("serve").args(arguments).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8([&output.stdout[..], &output.stderr[..]].concat()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}
