//! Python programs that tests read: how they start, and what a capture of one shows.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use plimsoll_profile::{Frame, Stack, ThreadState};
use plimsoll_profiler::capture;
use plimsoll_profiler::order::Order;
use plimsoll_profiler::output::Capture;
use plimsoll_profiler::reader::Paths;
use plimsoll_profiler::refusal::Refusal;
use plimsoll_profiler::sampler::Cancel;
use tempfile::TempDir;

/// An interpreter of a supported version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Python {
    pub(crate) version: String,
    pub(crate) path: PathBuf,
    pub(crate) minor: u32,
}

/// A running program; it ends with the value.
pub(crate) struct Program {
    pub(crate) child: Child,
    /// What it printed up to the line `ready`.
    pub(crate) printed: Vec<String>,
    pub(crate) script: Script,
}

/// A program's file. Its lines may end in a mark: `# line: NAME`.
pub(crate) struct Script {
    pub(crate) path: PathBuf,
    text: String,
    _folder: TempDir,
}

/// One stack with its names.
#[derive(Clone, Debug)]
pub(crate) struct NamedStack {
    /// Name and number.
    pub(crate) thread: String,
    pub(crate) state: ThreadState,
    pub(crate) stack: Stack,
    pub(crate) count: u64,
}

const NAMES: [&str; 8] = [
    "python3",
    "python3.9",
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    "python3.14",
    "/usr/bin/python3",
];
const ABOUT: &str = "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable); \
                     print(getattr(sys, '_is_gil_enabled', lambda: True)())";

/// Every supported interpreter in the path and of pyenv, one of each file. Without one a test is
/// skipped, which the report of the gate lists.
pub(crate) fn pythons() -> BTreeSet<Python> {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let of_pyenv = std::fs::read_dir(Path::new(&home).join(".pyenv/versions"));
    let of_pyenv = of_pyenv.into_iter().flatten().flatten();
    let of_pyenv = of_pyenv.map(|version| version.path().join("bin/python3"));
    let names = NAMES.into_iter().map(PathBuf::from).chain(of_pyenv);
    let found: BTreeSet<Python> = names.filter_map(|name| python(&name)).collect();
    if found.is_empty() {
        writeln!(stderr(), "SKIPPED: no CPython 3.9 to 3.14").expect("standard error is open");
    }
    found
}

/// The one that is called `python3`: a user without rights may read its files.
pub(crate) fn first_python() -> Python {
    python(Path::new("/usr/bin/python3")).or_else(|| pythons().pop_first()).expect("there is one")
}

fn python(name: &Path) -> Option<Python> {
    let output = Command::new(name).args(["-c", ABOUT]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut lines = text.lines();
    let (version, path, has_gil) = (lines.next()?, lines.next()?, lines.next()?);
    let minor: u32 = version.split('.').nth(1)?.parse().ok()?;
    let path = Path::new(path).canonicalize().ok()?;
    let is_supported = version.starts_with("3.") && (9..=14).contains(&minor) && has_gil == "True";
    is_supported.then(|| Python { version: version.to_owned(), path, minor })
}

impl Python {
    /// The name that the version keeps of a function: before 3.11 without what it is part of.
    pub(crate) fn name_of<'a>(&self, qualified: &'a str) -> &'a str {
        let last = || qualified.rsplit_once('.').map_or(qualified, |(_, last)| last);
        if self.minor < 11 { last() } else { qualified }
    }
}

impl Script {
    pub(crate) fn new(text: &str) -> Self {
        let folder = TempDir::new().expect("there is room for a folder");
        let path = folder.path().canonicalize().expect("it was made now").join("program.py");
        std::fs::write(&path, text).expect("there is room for a file");
        Self { path, text: text.to_owned(), _folder: folder }
    }

    /// The number of the line with this mark.
    pub(crate) fn line(&self, name: &str) -> u32 {
        let mark = format!("# line: {name}");
        let at =
            self.text.lines().position(|line| line.ends_with(&mark)).expect("the mark is there");
        u32::try_from(at + 1).expect("programs are short")
    }
}

impl Program {
    /// Runs a program until it prints `ready`.
    pub(crate) fn start(python: &Python, text: &str) -> Self {
        Self::start_by(Command::new(&python.path), text)
    }

    pub(crate) fn start_by(command: Command, text: &str) -> Self {
        Self::start_with(command, text, &[])
    }

    /// With arguments for the program.
    pub(crate) fn start_with(mut command: Command, text: &str, arguments: &[&str]) -> Self {
        let script = Script::new(text);
        command.arg(&script.path).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the interpreter starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let lines = output.lines().map(|line| line.expect("the program prints text"));
        let printed: Vec<String> = lines.take_while(|line| line != "ready").collect();
        Self { child, printed, script }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("Linux has fewer processes")
    }

    pub(crate) fn capture(&self, rate_hz: u32) -> Capture {
        self.try_capture(rate_hz, 1).expect("the program can be read")
    }

    pub(crate) fn try_capture(&self, rate_hz: u32, seconds: u32) -> Result<Capture, Refusal> {
        let order =
            Order::new(self.pid(), rate_hz, seconds, Paths::Full).expect("within the bounds");
        capture(&order, &Cancel::default())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// All stacks of a capture, the most frequent first; the counts must balance.
pub(crate) fn stacks(capture: &Capture) -> Vec<NamedStack> {
    let samples = capture.profile.samples();
    let mut stacks: Vec<_> = samples
        .map(|sample| NamedStack {
            thread: sample.labels.thread.to_string(),
            state: sample.labels.state.expect("each has one"),
            stack: sample.stack.clone(),
            count: sample.count,
        })
        .collect();
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.count));
    assert_eq!(stacks.iter().map(|stack| stack.count).sum::<u64>(), capture.counts.whole);
    stacks
}

impl NamedStack {
    pub(crate) fn frames(&self) -> &[Arc<Frame>] {
        self.stack.frames()
    }

    pub(crate) fn functions(&self) -> Vec<&str> {
        self.frames().iter().map(|frame| frame.function.as_str()).collect()
    }

    /// Function and line of each frame of the script, root first.
    pub(crate) fn of_script(&self, script: &Script) -> Vec<(&str, u32)> {
        let path = script.path.to_str().expect("folders of tests are UTF-8");
        let own = self.frames().iter().filter(|frame| frame.file.as_str() == path);
        own.map(|frame| (frame.function.as_str(), frame.line)).collect()
    }
}
