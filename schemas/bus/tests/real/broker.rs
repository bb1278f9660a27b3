//! A broker that belongs to one test and does not outlive it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plimsoll_clock::Deadline;
use tempfile::TempDir;

const START_WAIT: Duration = Duration::from_secs(10);

/// A `nats-server` process, its store and its port.
pub(crate) struct Broker {
    dir: TempDir,
    settings: String,
    port: u16,
    child: Option<Child>,
}

impl Broker {
    /// With JetStream and nothing else. Its room is not that of a disk that may be nearly full.
    pub(crate) async fn with_streams() -> Self {
        Self::start("jetstream: { store_dir: $STORE, max_file_store: 8GB }").await
    }

    pub(crate) async fn without_streams() -> Self {
        Self::start("").await
    }

    /// With a configuration file of these lines; `$STORE` is replaced by the store's path.
    pub(crate) async fn start(settings: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut broker = Self { dir, settings: settings.to_owned(), port: 0, child: None };
        broker.spawn("-1");
        broker.port = broker.poll_port().await;
        broker
    }

    /// A client's address of it.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Ends it the hard way.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
            // A stopped process keeps its port until it is continued.
            let _ = kill(pid, Signal::SIGCONT);
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts it again on the same port and store.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.spawn(&self.port.to_string());
    }

    /// Starts it again with another configuration.
    pub(crate) fn restart_with(&mut self, settings: &str) {
        settings.clone_into(&mut self.settings);
        self.restart();
    }

    /// Deletes everything that it stored.
    pub(crate) fn wipe(&mut self) {
        self.kill();
        fs::remove_dir_all(self.store()).unwrap();
    }

    /// Stops it without its connections noticing; returns once no thread of it runs.
    pub(crate) async fn pause(&self) {
        poll_until_stopped(self.signal(Signal::SIGSTOP)).await;
    }

    pub(crate) fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) -> u32 {
        let id = self.child.as_ref().expect("the broker runs").id();
        kill(Pid::from_raw(i32::try_from(id).unwrap()), signal).unwrap();
        id
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn spawn(&mut self, port: &str) {
        let config = self.dir.path().join("nats.conf");
        let store = format!("{:?}", self.store());
        fs::write(&config, self.settings.replace("$STORE", &store)).unwrap();
        let binary = std::env::var("PLIMSOLL_NATS_SERVER").unwrap_or("nats-server".to_owned());
        let log = fs::File::create(self.dir.path().join("log")).unwrap();
        let child = Command::new(binary)
            .arg("-c")
            .arg(&config)
            .args(["-a", "127.0.0.1", "-p", port, "--ports_file_dir"])
            .arg(self.dir.path())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("nats-server is installed"));
    }

    /// The server writes its assigned port into a file named after its process.
    async fn poll_port(&self) -> u16 {
        let id = self.child.as_ref().expect("the broker runs").id();
        let path = self.dir.path().join(format!("nats-server_{id}.ports"));
        let deadline = Deadline::within(START_WAIT);
        while !deadline.has_passed() {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let ports: Option<serde_json::Value> = serde_json::from_str(&text).ok();
            let port = ports.as_ref().and_then(|ports| ports["nats"][0].as_str()?.rsplit_once(':'));
            if let Some((_, port)) = port {
                return port.parse().unwrap();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        panic!("nats-server did not start: {log}");
    }
}

async fn poll_until_stopped(id: u32) {
    let deadline = Deadline::within(START_WAIT);
    while !is_stopped(id) {
        assert!(!deadline.has_passed(), "nats-server does not stop");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn is_stopped(id: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{id}/task")).unwrap().flatten();
    // The state follows the name, which is in brackets and may hold any text.
    let state = |stat: String| stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('T'));
    let mut stats =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    stats.all(|stat| state(stat) == Some(true))
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}
