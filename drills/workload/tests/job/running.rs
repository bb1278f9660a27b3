//! A running job with a directory of its own; it is killed when dropped.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use plimsoll_clock::Deadline;

/// Longer than any test here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(5);

pub(crate) struct Running {
    dir: tempfile::TempDir,
    socket: Option<UnixDatagram>,
    child: Child,
    deadline: Deadline,
}

/// How a job ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) summary: serde_json::Value,
    pub(crate) stderr: String,
}

/// The program, untouched by the environment of the test.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll-workload"));
    command.env_remove("PLIMSOLL_STATSD");
    command
}

impl Running {
    /// Starts a job whose node is there already.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_prepared(flags, |running_dir| {
            Some(UnixDatagram::bind(running_dir.join("sock")).unwrap())
        })
    }

    /// Starts a job whose node is away.
    pub(crate) fn start_alone(flags: &[&str]) -> Self {
        Self::start_prepared(flags, |_| None)
    }

    /// Starts a job after `prepare` has seen its directory.
    pub(crate) fn start_prepared(
        flags: &[&str],
        prepare: impl FnOnce(&std::path::Path) -> Option<UnixDatagram>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let socket = prepare(dir.path());
        let child = program()
            .env("PLIMSOLL_STATSD", format!("unix://{}", at("sock").display()))
            .args(["--json", "--dir"])
            .arg(at("kernels"))
            .arg("--raw")
            .arg(at("raw"))
            .arg("--commands")
            .arg(at("commands"))
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut running = Self { dir, socket: None, child, deadline: Deadline::within(PATIENCE) };
        running.socket = socket.inspect(wait_little);
        running
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Lets the node appear.
    pub(crate) fn bind(&mut self) {
        let socket = UnixDatagram::bind(self.path("sock")).unwrap();
        wait_little(&socket);
        self.socket = Some(socket);
    }

    /// Waits until the file is there.
    pub(crate) fn await_file(&self, name: &str) {
        while !self.path(name).exists() {
            assert!(self.deadline.pause(STEP), "{name} did not appear");
        }
    }

    /// Appends a line to the commands file.
    pub(crate) fn command(&self, line: &str) {
        let file = OpenOptions::new().create(true).append(true).open(self.path("commands"));
        writeln!(file.unwrap(), "{line}").unwrap();
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// The next datagram; none once the job has ended and all are read.
    pub(crate) fn next(&mut self) -> Option<String> {
        let socket = self.socket.as_ref().expect("the node is there");
        let mut bytes = [0; 256];
        loop {
            let has_ended = self.child.try_wait().unwrap().is_some();
            if let Ok(len) = socket.recv(&mut bytes) {
                return Some(String::from_utf8(bytes[..len].to_vec()).unwrap());
            }
            if has_ended {
                return None;
            }
            assert!(!self.deadline.has_passed(), "no datagram came and no end");
        }
    }

    /// The next latency of `epoch_hook`, in nanoseconds; datagrams before it are passed over.
    pub(crate) fn next_hook(&mut self) -> u64 {
        loop {
            let datagram = self.next().expect("the job goes on");
            if let Some(millis) = datagram.strip_prefix("epoch_hook:") {
                return millis.strip_suffix("|ms").unwrap().replace('.', "").parse().unwrap();
            }
        }
    }

    /// All datagrams from here to the end.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// The raw file, each line as the datagram that it accounts for.
    pub(crate) fn raw_as_datagrams(&self) -> Vec<String> {
        let raw = fs::read_to_string(self.path("raw")).unwrap();
        raw.lines().map(as_datagram).collect()
    }

    /// Waits for the end, reading no more datagrams.
    pub(crate) fn ended(&mut self) -> Ended {
        while self.child.try_wait().unwrap().is_none() {
            assert!(self.deadline.pause(STEP), "the job did not end");
        }
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let summary = serde_json::from_str(&stdout)
            .unwrap_or_else(|error| panic!("{error} in {stdout:?}; {stderr}"));
        Ended { status: self.child.wait().unwrap(), summary, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_little(socket: &UnixDatagram) {
    socket.set_read_timeout(Some(STEP)).unwrap();
}

/// True for the datagrams that the raw file accounts for.
pub(crate) fn is_latency(datagram: &str) -> bool {
    datagram.contains("|ms")
}

/// Written apart from the program's own formatting: digits and a point, no arithmetic.
fn as_datagram(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let nanos = format!("{:0>7}", words[1]);
    let (whole, part) = nanos.split_at(nanos.len() - 6);
    let label = words.get(2).map(|label| format!("|#{}", label.replace('=', ":")));
    format!("{}:{whole}.{part}|ms{}", words[0], label.unwrap_or_default())
}
