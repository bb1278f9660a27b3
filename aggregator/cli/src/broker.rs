//! A real nats-server of one's own: a free port, its own directory, ended with its owner.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;

use crate::child::{Child, free_port, until};

/// Names another server binary than the one on the PATH.
pub const SERVER_VARIABLE: &str = "PLIMSOLL_NATS_SERVER";

/// Below a broker's directory: its settings, and what it keeps.
const CONFIG: &str = "nats.conf";
const STORE: &str = "streams";
const START_WAIT: Duration = Duration::from_secs(20);
const END_WAIT: Duration = Duration::from_secs(20);

/// A nats-server process.
pub struct Broker {
    child: Child,
    dir: PathBuf,
    port: u16,
    jetstream: bool,
    settings: String,
}

impl Broker {
    /// Starts a server that keeps its streams under `dir`.
    ///
    /// # Errors
    /// When there is no nats-server, with the command that installs one, or it does not start.
    pub async fn start(dir: &Path, jetstream: bool) -> Result<Self> {
        Self::start_with(dir, jetstream, String::new()).await
    }

    /// The same with further lines of configuration.
    ///
    /// # Errors
    /// When there is no nats-server, with the command that installs one, or it does not start.
    pub async fn start_with(dir: &Path, jetstream: bool, settings: String) -> Result<Self> {
        let port = free_port()?;
        let child = spawn(dir, port, jetstream, &settings)?;
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

    /// Its address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Its process's id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its process.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Stops it in its tracks; connections stay open and nobody answers.
    pub fn pause(&self) {
        self.child.signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.child.signal(Signal::SIGCONT);
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Starts it again after it was killed, on the same port and with the same streams.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&mut self) -> Result<()> {
        self.child = spawn(&self.dir, self.port, self.jetstream, &self.settings)?;
        self.await_port().await
    }

    /// Kills it and deletes everything that it kept.
    ///
    /// # Errors
    /// When its store cannot be deleted.
    pub fn wipe(&mut self) -> Result<()> {
        self.kill();
        let store = self.dir.join(STORE);
        std::fs::remove_dir_all(&store).with_context(|| format!("cannot empty {}", store.display()))
    }

    /// Ends it in order, to be started again: what it has read it still passes on.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn terminate(&mut self) -> Result<()> {
        self.child.terminate(END_WAIT).await.map(drop)
    }

    /// Gives the running server other settings, without a new start. The server reads them soon
    /// after this returns.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn reload(&mut self, settings: &str) -> Result<()> {
        settings.clone_into(&mut self.settings);
        configure(&self.dir, self.jetstream, settings)?;
        self.child.signal(Signal::SIGHUP);
        Ok(())
    }

    /// What the next start of the server is to have: streams or none.
    pub fn set_jetstream(&mut self, jetstream: bool) {
        self.jetstream = jetstream;
    }

    /// What the server has logged so far, in all its lives.
    #[must_use]
    pub fn log(&self) -> String {
        self.child.log()
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn end(mut self) -> Result<ExitStatus> {
        self.child.terminate(END_WAIT).await
    }
}

fn spawn(dir: &Path, port: u16, jetstream: bool, settings: &str) -> Result<Child> {
    let config = configure(dir, jetstream, settings)?;
    let mut command = Command::new(server()?);
    command.args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--config"]).arg(config);
    Child::start("nats-server", dir, command)
}

/// JetStream stands in the file: switched on by a flag, it would end with the first reload.
fn configure(dir: &Path, jetstream: bool, settings: &str) -> Result<PathBuf> {
    let streams = match jetstream {
        true => format!("jetstream: {{ store_dir: {:?} }}\n", dir.join(STORE)),
        false => String::new(),
    };
    let config = dir.join(CONFIG);
    std::fs::write(&config, streams + settings)
        .with_context(|| format!("cannot write {}", config.display()))?;
    Ok(config)
}

/// Debian keeps the server in /usr/sbin, which is not on every user's PATH.
fn server() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(SERVER_VARIABLE) {
        return Ok(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|place| place.join("nats-server"));
    match places.into_iter().find(|place| place.is_file()) {
        Some(found) => Ok(found),
        None => bail!(
            "nats-server is not installed; on Debian or Ubuntu: apt-get install nats-server \
             (or name one with {SERVER_VARIABLE})"
        ),
    }
}
