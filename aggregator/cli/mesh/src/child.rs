//! A child process, killed when dropped.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plimsoll_clock::Deadline;

/// Interval at which a process is polled for its exit.
const POLL: Duration = Duration::from_millis(10);

/// Sends a signal to a process of this user; has no effect on one that has ended.
pub(crate) fn signal(id: u32, signal: Signal) {
    if let Ok(id) = i32::try_from(id) {
        let _ended_before = kill(Pid::from_raw(id), signal);
    }
}

/// A running process, killed when dropped.
pub struct Child {
    name: String,
    command: Command,
    process: Process,
    log: PathBuf,
}

impl Child {
    /// Starts `command` with its output in `<dir>/<name>.log` and in a process group of its
    /// own: Ctrl-C in the terminal then reaches this process alone, which ends its children in
    /// the right order.
    ///
    /// # Errors
    /// When the program is missing or cannot be run.
    pub fn start(name: &str, dir: &Path, mut command: Command) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let log = dir.join(format!("{name}.log"));
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let process = spawn(name, &mut command)?;
        Ok(Self { name: name.to_owned(), command, process, log })
    }

    /// Starts the same command again, with the same log; kills the process first if it still runs.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        self.process = spawn(&self.name, &mut self.command)?;
        Ok(())
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal; has no effect on a process that has ended.
    pub fn signal(&self, signal: Signal) {
        self::signal(self.process.id(), signal);
    }

    /// Stops the process (SIGSTOP): connections stay open and get no response.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Resumes the process (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Asks the process to end (SIGTERM), and does not wait for it.
    pub fn request_end(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// The exit status, if the process has ended.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.process.try_wait()?)
    }

    /// Checks that the process runs.
    ///
    /// # Errors
    /// When it has ended; the text has the end of its log.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.ended()? {
            Some(status) => bail!("{} ended early with {status}\n{}", self.name, self.log_tail()),
            None => Ok(()),
        }
    }

    /// Waits for the process to end.
    ///
    /// # Errors
    /// When it runs longer than `wait`; the text has the end of its log.
    pub async fn wait(&mut self, wait: Duration) -> Result<ExitStatus> {
        let deadline = Deadline::within(wait);
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if deadline.has_passed() {
                bail!("{} did not end within {wait:?}\n{}", self.name, self.log_tail());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Sends SIGTERM and waits for the process to end.
    ///
    /// # Errors
    /// When it runs longer than `wait`.
    pub async fn terminate(&mut self, wait: Duration) -> Result<ExitStatus> {
        self.request_end();
        self.wait(wait).await
    }

    /// Kills the process (SIGKILL) and reaps it.
    pub fn kill(&mut self) {
        // A stopped process would take SIGKILL only after it resumes.
        self.resume();
        let _ended_before = self.process.kill();
        let _reaped = self.process.wait();
    }

    /// Standard output and error so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The last lines of the log, for an error message.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(15)..];
        format!("--- end of the log of {} ---\n{}", self.name, tail.join("\n"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(name: &str, command: &mut Command) -> Result<Process> {
    command.spawn().with_context(|| format!("cannot start {name}: {:?}", command.get_program()))
}

/// The value of a field of a log line, without its quotes: the last one in the log.
pub fn log_field(log: &str, field: &str) -> Option<String> {
    let (_, rest) = log.rsplit_once(&format!(" {field}="))?;
    let value = rest.split_whitespace().next()?;
    Some(value.trim_matches('"').to_owned())
}

/// Polls until `attempt` returns a value or `wait` is over.
///
/// # Errors
/// When it has returned none by then; `what` names what was awaited.
pub async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    wait: Duration,
    mut attempt: impl FnMut() -> F,
) -> Result<T> {
    let deadline = Deadline::within(wait);
    loop {
        if let Some(found) = attempt().await {
            return Ok(found);
        }
        if deadline.has_passed() {
            bail!("{what}: not within {wait:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The ports to choose from. They are below those that Linux and macOS assign to outgoing
/// connections, so a server that is down finds its port free when it starts again.
const PORTS: Range<u16> = 10_240..32_768;

/// A free TCP port of loopback. Other callers of this function receive other ports as long as this
/// process runs: it holds the UDP port of the same number as a mark.
///
/// # Errors
/// When no port is free.
pub fn free_port() -> Result<u16> {
    static HELD: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    // Processes that start together begin their search in different places.
    let begin = std::process::id().wrapping_mul(257) % u32::from(PORTS.end - PORTS.start);
    let begin = PORTS.start + u16::try_from(begin)?;
    let last = held.last().and_then(|socket| socket.local_addr().ok());
    // Onwards from the last one: all ports before it are held.
    let begin = last.map_or(begin, |address| address.port() + 1);

    for port in (begin..PORTS.end).chain(PORTS.start..begin) {
        let Ok(mark) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            held.push(mark);
            return Ok(port);
        }
    }

    bail!("no free port among {PORTS:?}")
}
