//! A program that runs to its end, its output, and a directory that leaves no process behind.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plimsoll_clock::Deadline;
use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::bin_dir;

/// How long a program may take to end its children after SIGTERM.
const END_WAIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// What a program that has exited leaves.
#[derive(Clone, Debug)]
pub struct ProgramOutput {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A running program. When dropped, it receives SIGTERM and then SIGKILL.
pub struct RunningProgram {
    process: Child,
    stdout: File,
    stderr: File,
}

/// One of the mesh's own programs.
///
/// # Errors
/// When it is not built.
pub fn program(name: &str) -> Result<Command> {
    Ok(Command::new(bin_dir()?.join(name)))
}

impl RunningProgram {
    /// Starts a program.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn start(command: Command) -> Result<Self> {
        Self::start_reading(command, Stdio::null())
    }

    /// Starts a program that reads `input`.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn start_with_input(command: Command, input: &str) -> Result<Self> {
        let mut file = tempfile::tempfile()?;
        file.write_all(input.as_bytes())?;
        file.rewind()?;
        Self::start_reading(command, file.into())
    }

    fn start_reading(mut command: Command, stdin: Stdio) -> Result<Self> {
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let named = format!("{:?} does not start", command.get_program());
        let process = command
            .stdin(stdin)
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?)
            .spawn()
            .context(named)?;
        Ok(Self { process, stdout, stderr })
    }

    /// Sends a signal to this process alone.
    pub fn signal(&self, signal: Signal) {
        if let Ok(id) = i32::try_from(self.process.id()) {
            let _ended_before = kill(Pid::from_raw(id), signal);
        }
    }

    /// Its standard error so far.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn stderr(&self) -> Result<String> {
        // The position in the file is the program's too.
        let mut bytes = vec![0; usize::try_from(self.stderr.metadata()?.len())?];
        self.stderr.read_exact_at(&mut bytes, 0)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Waits until the program exits.
    ///
    /// # Errors
    /// When it does not exit in time.
    pub async fn end(mut self, wait: Duration) -> Result<ProgramOutput> {
        let mut status = None;
        let deadline = Deadline::within(wait);
        while status.is_none() && !deadline.has_passed() {
            status = poll_status(&mut self.process).await?;
        }
        let (stdout, stderr) =
            (read_from_start(&mut self.stdout)?, read_from_start(&mut self.stderr)?);
        let status = status.with_context(|| format!("no end within {wait:?}\n{stderr}"))?;
        Ok(ProgramOutput { code: status.code(), stdout, stderr })
    }
}

async fn poll_status(process: &mut Child) -> Result<Option<std::process::ExitStatus>> {
    let status = process.try_wait()?;
    if status.is_none() {
        tokio::time::sleep(POLL).await;
    }
    Ok(status)
}

/// Parent and child share one position in the file, so reading starts with a rewind.
fn read_from_start(file: &mut File) -> Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.signal(Signal::SIGTERM);
        let deadline = Deadline::within(END_WAIT);
        while matches!(self.process.try_wait(), Ok(None)) && deadline.pause(POLL) {}
        let _ended_before = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Runs a program to its end.
///
/// # Errors
/// When it does not start or does not end in time.
pub async fn run(command: Command, wait: Duration) -> Result<ProgramOutput> {
    RunningProgram::start(command)?.end(wait).await
}

/// Runs a program to its end that reads `input`.
///
/// # Errors
/// When it does not start or does not end in time.
pub async fn run_with_input(
    command: Command,
    input: &str,
    wait: Duration,
) -> Result<ProgramOutput> {
    RunningProgram::start_with_input(command, input)?.end(wait).await
}

/// Processes whose command line names `dir`: id and command line.
pub fn processes_naming(dir: &Path) -> Vec<(i32, String)> {
    let ids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    ids.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(dir.to_str()?).then_some((id, line))
    })
    .collect()
}

/// Waits until no command line of a process names `dir`.
///
/// # Errors
/// Names those that still do.
pub async fn await_no_processes(dir: &Path) -> Result<()> {
    let gone = async || processes_naming(dir).is_empty().then_some(());
    until("every process of the mesh has ended", END_WAIT, gone)
        .await
        .with_context(|| format!("left behind: {:?}", processes_naming(dir)))
}

/// A temporary directory. When dropped, it kills every process whose command line names it, so that
/// the grandchildren of a killed program end too.
pub struct ScratchDir(tempfile::TempDir);

impl ScratchDir {
    /// A new, empty directory.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn new() -> Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix("plimsoll-test-").tempdir()?))
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        for (id, _) in processes_naming(self.0.path()) {
            let _ended_before = kill(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}
