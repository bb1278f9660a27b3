//! How a process is run as a service: by systemd, behind probes, on hosts of a cloud, on a machine
//! where none of its directories exists, and by someone who mistypes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::Signal;
use plimsoll_mesh::broker::Broker;
use plimsoll_mesh::child::{free_port, until};
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::process::{MeshProcess, await_summary, node_row};
use plimsoll_tests::program::{RunningProgram, program};
use plimsoll_tests::single_node::SingleNodeMesh;
use plimsoll_tests::statsd::StatsdSender;

const WAIT: Duration = Duration::from_secs(20);
/// A name that no process has.
const POD: &str = "pod.example.org";
const BOTH: [&str; 2] = ["plimsoll-node", "plimsoll-aggregator"];

/// One of both programs, with addresses that no other test has.
fn command(name: &str, mesh: &str, broker: &str) -> Command {
    let mut command = program(name).unwrap();
    command.args(["--nats", broker, "--mesh", mesh, "--http", "127.0.0.1:0"]);
    if name == BOTH[0] {
        command.args(["--udp", "127.0.0.1:0"]);
    }
    command
}

/// The socket of a service manager, which reads what it is sent.
struct ServiceManager {
    received: mpsc::Receiver<String>,
}

impl ServiceManager {
    fn listen(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        let (sender, received) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 256];
            while let Ok(length) = socket.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]).trim().to_owned();
                if sender.send(text).is_err() {
                    break;
                }
            }
        });
        Self { received }
    }

    fn next(&self) -> String {
        self.received.recv_timeout(WAIT).expect("the process reports in time")
    }
}

#[tokio::test]
async fn systemd_learns_of_start_life_and_end() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), true).await.unwrap();
    for name in BOTH {
        let path = dir.path().join(name);
        let manager = ServiceManager::listen(&path);
        let mut command = command(name, "local", &broker.url());
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
        let running = RunningProgram::start(command).unwrap();
        assert_eq!(manager.next(), "READY=1", "{name}");
        for _ in 0..3 {
            assert_eq!(manager.next(), "WATCHDOG=1", "{name}");
        }
        running.signal(Signal::SIGTERM);
        while manager.next() != "STOPPING=1" {}
        assert_eq!(running.end(WAIT).await.unwrap().code, Some(0), "{name}");
    }
}

/// The status of a page that is asked for by this name.
fn status(port: u16, host: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1).map(str::to_owned)
}

#[tokio::test]
async fn probes_have_an_address_of_their_own_while_pages_listen_on_loopback() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), true).await.unwrap();
    for name in BOTH {
        let port = free_port().unwrap();
        let mut command = command(name, "local", &broker.url());
        command.args(["--set", &format!("http.health_address=0.0.0.0:{port}")]);
        let running = RunningProgram::start(command).unwrap();
        let ready = async || status(port, POD, "/readyz").filter(|status| status == "200");
        until("it is ready", WAIT, ready).await.unwrap();
        assert_eq!(status(port, POD, "/healthz").as_deref(), Some("200"), "{name}");
        for path in ["/metrics", "/metrics/summary", "/api/v1/nodes", "/"] {
            assert_eq!(status(port, "127.0.0.1", path).as_deref(), Some("404"), "{name} {path}");
        }
        running.signal(Signal::SIGTERM);
        let ended = running.end(WAIT).await.unwrap();
        assert_eq!(ended.code, Some(0), "{name}");
        assert!(!ended.stderr.contains("listens beyond this machine"), "{name}: {ended:?}");
    }
}

#[tokio::test]
async fn a_node_named_as_its_cloud_host_is_shown_by_that_name() {
    const NAME: &str = "ip-10-0-0-1.ec2.internal";
    let dir = tempfile::tempdir().unwrap();
    let options = StackOptions { nodes: 0, ..with_jobs(dir.path()) };
    let mut stack = Stack::start(options).await.unwrap();
    let history = dir.path().join("history");
    let flags = ["--history", history.to_str().unwrap()];
    let node = MeshProcess::node_with(NAME, dir.path(), &stack.broker().url(), &flags).await;
    let mut node = node.unwrap();
    StatsdSender::unix(node.socket()).unwrap().send("epoch_hook:1:2:3|ms").unwrap();
    let is_merged = |summary: &_| node_row(summary, NAME).is_ok_and(|row| row.ledger.merged == 3);
    await_summary(stack.api(), "its samples are merged", is_merged).await.unwrap();
    assert!(history.join("ip-10-0-0-1=ec2=internal").is_dir());
    assert_eq!(node.terminate(WAIT).await.unwrap().code(), Some(0), "{}", node.log());
    let is_settled = |summary: &_| node_row(summary, NAME).is_ok_and(|row| row.ledger.is_settled());
    await_summary(stack.api(), "its ledger is settled", is_settled).await.unwrap();
    stack.end().await.unwrap();
}

#[tokio::test]
async fn a_first_start_makes_the_directories_that_its_settings_name() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), true).await.unwrap();
    let of = |path: &str| dir.path().join(path).display().to_string();
    let settings = [
        [("spool.path", of("lib/node/spool")), ("listen.unix", of("run/node/socket"))],
        [("state.path", of("lib/a/state")), ("history.path", of("lib/h/history"))],
    ];
    for (name, settings) in BOTH.into_iter().zip(settings) {
        let mut command = command(name, "local", &broker.url());
        for (key, path) in &settings {
            command.args(["--set", &format!("{key}={path}")]);
        }
        let running = RunningProgram::start(command).unwrap();
        let all = async || settings.iter().all(|(_, path)| Path::new(path).exists()).then_some(());
        until("all are there", WAIT, all).await.unwrap();
        running.signal(Signal::SIGTERM);
        assert_eq!(running.end(WAIT).await.unwrap().code, Some(0), "{name}");
    }
}

#[tokio::test]
async fn rejected_lines_are_logged_with_an_example_and_a_build_names_itself() {
    let dir = tempfile::tempdir().unwrap();
    let SingleNodeMesh { stack, mut node } = SingleNodeMesh::start(dir.path()).await.unwrap();
    let sender = StatsdSender::unix(node.socket()).unwrap();
    for _ in 0..450 {
        sender.send("epoch_hook=12.5").unwrap();
    }
    let line = "lines rejected, with the newest; logged at doubling counts of each reason";
    let is_logged = async || {
        let log = node.log();
        let found = log.lines().any(|text| {
            let parts = [line, "reason=\"shape\"", "count=256", "example=\"epoch_hook=12.5\""];
            parts.into_iter().all(|part| text.contains(part))
        });
        found.then_some(())
    };
    until("the 256th rejected line is logged", WAIT, is_logged).await.unwrap();
    assert!(node.log().matches(line).count() <= 9, "{}", node.log());
    for (api, process) in [(stack.api(), "aggregator"), (&node.api, "agent")] {
        let page = api.get("/metrics").await.unwrap();
        let info = format!("plimsoll_{process}_build_info");
        let row = page.lines().find(|row| row.starts_with(&info)).expect("a build names itself");
        for part in ["version=\"0.1.0\"", "commit=\"unknown\"", "} 1"] {
            assert!(row.contains(part), "{row}");
        }
    }
    node.terminate(WAIT).await.unwrap();
    stack.end().await.unwrap();
}

#[tokio::test]
async fn a_mesh_that_is_new_beside_others_is_logged() {
    let dir = tempfile::tempdir().unwrap();
    let options = StackOptions { nodes: 0, ..with_jobs(dir.path()) };
    let mut stack = Stack::start(options).await.unwrap();
    let mut mistyped = command(BOTH[1], "lokal", &stack.broker().url());
    let port = free_port().unwrap();
    mistyped.args(["--set", &format!("http.health_address=127.0.0.1:{port}")]);
    let running = RunningProgram::start(mistyped).unwrap();
    let ready = async || status(port, POD, "/readyz").filter(|status| status == "200");
    until("it is ready", WAIT, ready).await.unwrap();
    running.signal(Signal::SIGTERM);
    let log = running.end(WAIT).await.unwrap().stderr;
    for part in ["this mesh is new to the broker", "mesh=lokal", "others=\"local\""] {
        assert!(log.contains(part), "{part}: {log}");
    }
    stack.end().await.unwrap();
}
