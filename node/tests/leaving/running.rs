//! A node and a broker as processes of one test, ended with it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plimsoll_clock::Deadline;
use tempfile::TempDir;

/// An address at which no broker is.
pub(crate) const NOWHERE: &str = "nats://127.0.0.1:1";

const PATIENCE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(5);

/// What `look` returns, as soon as it returns something.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Deadline::within(PATIENCE);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(deadline.pause(STEP), "{what} did not come");
    }
}

struct Process(Child);

impl Process {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
    }

    fn pause(&self) {
        self.signal(Signal::SIGSTOP);
        let stat = format!("/proc/{}/stat", self.0.id());
        until("a stopped process", || {
            fs::read_to_string(&stat).ok()?.contains(") T ").then_some(())
        });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A stopped process is woken first, or it would keep its port; an ended one is reaped.
        if let Ok(None) = self.0.try_wait() {
            self.signal(Signal::SIGCONT);
            let _ended = self.0.kill();
            let _reaped = self.0.wait();
        }
    }
}

/// A `nats-server` with JetStream.
pub(crate) struct Broker {
    process: Process,
    dir: TempDir,
}

impl Broker {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let binary = std::env::var("PLIMSOLL_NATS_SERVER").unwrap_or("nats-server".to_owned());
        let child = Command::new(binary)
            .args(["-a", "127.0.0.1", "-p", "-1", "-js", "-sd"])
            .arg(dir.path().join("store"))
            .arg("--ports_file_dir")
            .arg(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self { process: Process(child.expect("nats-server is installed")), dir }
    }

    pub(crate) fn url(&self) -> String {
        let path = self.dir.path().join(format!("nats-server_{}.ports", self.process.0.id()));
        until("the broker's port", || {
            let text = fs::read_to_string(&path).ok()?;
            let ports: serde_json::Value = serde_json::from_str(&text).ok()?;
            Some(ports["nats"][0].as_str()?.to_owned())
        })
    }

    /// Stops it without its connections noticing.
    pub(crate) fn pause(&self) {
        self.process.pause();
    }
}

/// A `plimsoll-node` with its socket and its pages on free ports.
pub(crate) struct Node {
    process: Process,
    dir: TempDir,
}

impl Node {
    pub(crate) fn start(url: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_plimsoll-node"))
            .args(["--name", "n", "--nats", url, "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .arg("--unix")
            .arg(dir.path().join("sock"))
            .stderr(log)
            .spawn();
        let node = Self { process: Process(child.unwrap()), dir };
        node.await_line("node started");
        node
    }

    /// Where it listens: `udp` or `http`.
    pub(crate) fn address(&self, which: &str) -> String {
        let started = self.await_line("node started");
        let (_, address) = started.split_once(&format!("{which}=\"")).unwrap();
        address.split('"').next().unwrap().to_owned()
    }

    /// The first line of its log that holds `text`.
    pub(crate) fn await_line(&self, text: &str) -> String {
        until(text, || {
            let log = fs::read_to_string(self.dir.path().join("log")).ok()?;
            log.lines().find(|line| line.contains(text)).map(str::to_owned)
        })
    }

    /// The path of its Unix datagram socket.
    pub(crate) fn unix(&self) -> PathBuf {
        self.dir.path().join("sock")
    }

    /// Stops it; what is sent to it waits in its sockets.
    pub(crate) fn pause(&self) {
        self.process.pause();
    }

    pub(crate) fn resume(&self) {
        self.process.signal(Signal::SIGCONT);
    }

    pub(crate) fn await_metric(&self, name: &str, fits: impl Fn(f64) -> bool) {
        self.await_metrics([name], |[value]| fits(value));
    }

    /// Waits until these metrics, read at one time, fit.
    pub(crate) fn await_metrics<const N: usize>(
        &self,
        names: [&str; N],
        fits: impl Fn([f64; N]) -> bool,
    ) -> [f64; N] {
        let address = self.address("http");
        until(&format!("{names:?}"), || {
            let mut stream = TcpStream::connect(&address).ok()?;
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
            let mut page = String::new();
            stream.read_to_string(&mut page).ok()?;
            let row = |name| page.lines().find_map(|line| line.strip_prefix(name));
            let values = names.map(|name| row(name).and_then(|row| row.trim().parse().ok()));
            let values = values.map(|value: Option<f64>| value.unwrap_or(f64::NAN));
            fits(values).then_some(values)
        })
    }

    pub(crate) fn terminate(&mut self) {
        self.process.signal(Signal::SIGTERM);
    }

    /// Waits for its end with this exit code.
    pub(crate) fn await_end(&mut self, code: Option<i32>) {
        let status = until("the node's end", || self.process.0.try_wait().unwrap());
        let log = fs::read_to_string(self.dir.path().join("log")).unwrap();
        assert_eq!(status.code(), code, "{log}");
    }
}
