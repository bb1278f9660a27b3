//! A real nats-server with its own port and directory; killed when dropped.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use tokio::task::JoinHandle;

use crate::child::{Child, free_port, signal, until};

/// Environment variable with the path of the nats-server program; default: the one on PATH.
pub const SERVER_VARIABLE: &str = "PLIMSOLL_NATS_SERVER";

/// Names below a broker's directory: its configuration and its streams.
const CONFIG: &str = "nats.conf";
const ROOM: &str = "32GB";
const STORE: &str = "streams";
const START_WAIT: Duration = Duration::from_secs(20);
const END_WAIT: Duration = Duration::from_secs(20);

pub struct Broker {
    child: Child,
    dir: PathBuf,
    port: u16,
    jetstream: bool,
    settings: String,
}

impl Broker {
    /// Starts a server that stores its streams below `dir`.
    ///
    /// # Errors
    /// When nats-server is not installed (the text has the command that installs it) or does not
    /// start.
    pub async fn start(dir: &Path, jetstream: bool) -> Result<Self> {
        Self::start_with(dir, jetstream, String::new()).await
    }

    /// The same, with further lines of configuration.
    ///
    /// # Errors
    /// When nats-server is not installed (the text has the command that installs it) or does not
    /// start.
    pub async fn start_with(dir: &Path, jetstream: bool, settings: String) -> Result<Self> {
        let port = free_port()?;
        let config = configure(dir, jetstream, &settings)?;
        let mut command = Command::new(server()?);
        command.args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--config"]).arg(config);
        let child = Child::start("nats-server", dir, command)?;
        let broker = Self { child, dir: dir.to_owned(), port, jetstream, settings };
        broker.await_port().await?;
        Ok(broker)
    }

    async fn await_port(&self) -> Result<()> {
        let address = ("127.0.0.1", self.port);
        until("nats-server listens", START_WAIT, async || TcpStream::connect(address).ok())
            .await
            .map(drop)
            .map_err(|error| error.context(self.child.log_tail()))
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Stops the process (SIGSTOP): connections stay open and get no response.
    pub fn pause(&self) {
        self.child.pause();
    }

    /// Resumes the process (SIGCONT).
    pub fn resume(&self) {
        self.child.resume();
    }

    /// Stops and resumes the process in turn until the task is aborted. Then resume it.
    pub fn falter(&self, stopped: Duration, running: Duration) -> JoinHandle<()> {
        let id = self.child.id();
        tokio::spawn(async move {
            loop {
                signal(id, Signal::SIGSTOP);
                tokio::time::sleep(stopped).await;
                signal(id, Signal::SIGCONT);
                tokio::time::sleep(running).await;
            }
        })
    }

    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Starts the server again on the same port with the same streams.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&mut self) -> Result<()> {
        configure(&self.dir, self.jetstream, &self.settings)?;
        self.child.restart()?;
        self.await_port().await
    }

    /// Kills the server and deletes its streams.
    ///
    /// # Errors
    /// When the streams cannot be deleted.
    pub fn wipe(&mut self) -> Result<()> {
        self.kill();
        let store = self.dir.join(STORE);
        std::fs::remove_dir_all(&store)
            .with_context(|| format!("cannot delete {}", store.display()))
    }

    /// Ends the server (SIGTERM), to be restarted: it first delivers what it has received.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn terminate(&mut self) -> Result<()> {
        self.child.terminate(END_WAIT).await.map(drop)
    }

    /// Replaces the settings of the running server (SIGHUP). The server reads them soon after this
    /// returns.
    ///
    /// # Errors
    /// When the configuration file cannot be written.
    pub fn reload(&mut self, settings: &str) -> Result<()> {
        settings.clone_into(&mut self.settings);
        configure(&self.dir, self.jetstream, settings)?;
        self.child.signal(Signal::SIGHUP);
        Ok(())
    }

    /// The server's log, across restarts.
    pub fn log(&self) -> String {
        self.child.log()
    }

    /// Ends the server (SIGTERM).
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn end(mut self) -> Result<ExitStatus> {
        self.child.terminate(END_WAIT).await
    }
}

/// The version of the nats-server that brokers here are started from, such as `2.10.26`.
///
/// # Errors
/// When it is not installed or does not state it.
pub fn installed_version() -> Result<String> {
    let printed = Command::new(server()?).arg("--version").output()?;
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    let version = text.split_whitespace().last().map(|word| word.trim_start_matches('v'));
    version.map(str::to_owned).context("nats-server --version prints nothing")
}

/// JetStream is enabled in the file: enabled by a flag, it would end with the first reload. Streams
/// may reserve [`ROOM`]; by default it is three quarters of the disk's free space, which may be too
/// little for the streams of four shards.
fn configure(dir: &Path, jetstream: bool, settings: &str) -> Result<PathBuf> {
    let streams = match jetstream {
        true => {
            format!("jetstream: {{ store_dir: {:?}, max_file_store: {ROOM} }}\n", dir.join(STORE))
        }
        false => String::new(),
    };
    let config = dir.join(CONFIG);
    std::fs::write(&config, streams + settings)
        .with_context(|| format!("cannot write {}", config.display()))?;
    Ok(config)
}

/// Debian installs the server in /usr/sbin, which is not on every user's PATH.
fn server() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(SERVER_VARIABLE) {
        return Ok(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|dir| dir.join("nats-server"));

    match candidates.into_iter().find(|path| path.is_file()) {
        Some(found) => Ok(found),
        None => bail!(
            "nats-server is not installed; on Debian or Ubuntu: apt-get install nats-server \
             (or set {SERVER_VARIABLE} to its path)"
        ),
    }
}
