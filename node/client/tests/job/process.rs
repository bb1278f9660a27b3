//! A job in a process of its own: this test program once more, told which part to play.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use plimsoll_clock::Deadline;

pub(crate) const PART: &str = "PLIMSOLL_TEST_PART";
pub(crate) const FOLDER: &str = "PLIMSOLL_TEST_FOLDER";
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Job {
    child: Child,
    log: PathBuf,
}

/// A folder for one test, with a place for the node's socket.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("node.stream")
    }

    fn log(&self) -> PathBuf {
        self.file("standard_error")
    }

    /// Lines of the library on the standard error of the last job.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.log()).unwrap();
        log.lines().filter(|line| line.starts_with("plimsoll: ")).map(str::to_owned).collect()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn start(&self, part: &str) -> Job {
        self.start_with(part, &[])
    }

    pub(crate) fn start_with(&self, part: &str, variables: &[(&str, &str)]) -> Job {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "parts::part", "--test-threads=1"])
            .env(PART, part)
            .env(FOLDER, self.folder.path())
            .env("PLIMSOLL_ENABLE", "1")
            .env("PLIMSOLL_ENABLE_TIMERS", "1")
            .env("PLIMSOLL_ENABLE_SHARDS", "1")
            .env("PLIMSOLL_STREAM", self.socket())
            .env("PLIMSOLL_FLUSH_MS", "20")
            // The tests themselves may run as a rank.
            .env("PLIMSOLL_RANKS", "off")
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(self.log()).unwrap())
            .spawn();
        Job { child: child.unwrap(), log: self.log() }
    }

    /// Lets a part that waits for a file of this name go on.
    pub(crate) fn signal(&self, name: &str) {
        std::fs::write(self.file(name), "").unwrap();
    }

    pub(crate) fn poll_for(&self, name: &str) {
        poll_for(&self.file(name));
    }
}

pub(crate) fn poll_for(file: &Path) {
    poll_until(&format!("{} comes", file.display()), || file.exists());
}

pub(crate) fn poll_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Deadline::within(PATIENCE);
    while !is_so() {
        assert!(until.pause(Duration::from_millis(5)), "{what}: not in time");
    }
}

impl Job {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    pub(crate) fn poll_end(&mut self) -> ExitStatus {
        let until = Deadline::within(PATIENCE);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(until.pause(Duration::from_millis(5)), "the job does not end");
        }
    }

    pub(crate) fn ends_well(mut self) {
        let is_well = self.poll_end().success();
        assert!(is_well, "{}", std::fs::read_to_string(&self.log).unwrap());
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
