//! Programs that tests compile and read, and what a capture of one shows.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use plimsoll_clock::Deadline;
use plimsoll_profile::{Sample, ThreadState};
use plimsoll_profiler::capture;
use plimsoll_profiler::order::Order;
use plimsoll_profiler::output::Capture;
use plimsoll_profiler::reader::Paths;
use plimsoll_profiler::sampler::Cancel;
use tempfile::TempDir;

/// A running program; it ends with the value.
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) path: PathBuf,
    _folder: TempDir,
}

/// A file in a folder of its own.
pub(crate) struct Built {
    folder: TempDir,
    pub(crate) path: PathBuf,
}

/// Samples of which a share of a quarter is sure to 5 points, with four standard deviations.
const RUNNING_MIN: u64 = 1_200;
const LONGEST: Duration = Duration::from_secs(58);

impl Built {
    pub(crate) fn c(text: &str, flags: &[&str]) -> Self {
        Self::by(Command::new("cc").args(["-pthread", "-O2"]).args(flags), "program.c", text)
    }

    pub(crate) fn rust(text: &str, flags: &[&str]) -> Self {
        Self::by(
            Command::new("rustc").args(["-O", "-Cdebuginfo=0"]).args(flags),
            "program.rs",
            text,
        )
    }

    fn by(compiler: &mut Command, name: &str, text: &str) -> Self {
        let folder = TempDir::new().expect("there is room for a folder");
        let source = folder.path().join(name);
        fs::write(&source, text).expect("there is room for a file");
        let path = folder.path().canonicalize().expect("it was made now").join("program");
        let status = compiler.arg(&source).arg("-o").arg(&path).status();
        assert!(status.expect("the compiler starts").success());
        Self { folder, path }
    }

    /// Another file in the same folder, made of the program by a tool.
    pub(crate) fn tool(&self, arguments: &[&str]) {
        let mut command = Command::new("objcopy");
        let status = command.args(arguments).current_dir(self.folder.path()).status();
        assert!(status.expect("objcopy starts").success(), "{arguments:?}");
    }

    /// Runs it until it prints a line.
    pub(crate) fn start(self) -> Program {
        let command = Command::new(&self.path);
        self.start_by(command)
    }

    /// By a command that becomes it.
    pub(crate) fn start_by(self, mut command: Command) -> Program {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut String::new()).expect("it prints");
        Program { child, path: self.path, _folder: self.folder }
    }
}

impl Program {
    pub(crate) fn capture(&self) -> Capture {
        native(&self.child, 1_000, Duration::from_secs(2))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Until the program has computed for a time, however busy the machine is.
pub(crate) fn native(child: &Child, hz: u32, computed: Duration) -> Capture {
    let cancel = Cancel::default();
    thread::scope(|scope| {
        let running = scope.spawn(|| captured(child, hz, 60, &cancel));
        let (deadline, end) = (Deadline::within(LONGEST), used(child) + computed);
        while used(child) < end && deadline.pause(Duration::from_millis(20)) {}
        cancel.cancel();
        running.join().expect("it does not panic")
    })
}

pub(crate) fn captured(child: &Child, hz: u32, seconds: u32, cancel: &Cancel) -> Capture {
    let pid = i32::try_from(child.id()).expect("Linux has fewer processes");
    let mut order = Order::new(pid, hz, seconds, Paths::Full).expect("within the bounds");
    order.native = true;
    capture(&order, cancel).expect("it can be sampled")
}

/// Processor time of a program, to 10 ms.
fn used(child: &Child) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
    let (_, after) = stat.rsplit_once(')').expect("the name has brackets");
    let ticks = after.split_ascii_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(10 * ticks)
}

/// The stacks of threads that ran. There must be enough of them that a share is sure to 5 points.
pub(crate) fn running(capture: &Capture) -> Vec<Sample<'_>> {
    let all = capture.profile.samples();
    let found: Vec<_> =
        all.filter(|sample| sample.labels.state == Some(ThreadState::Running)).collect();
    let count: u64 = found.iter().map(|sample| sample.count).sum();
    assert!(count >= RUNNING_MIN, "{:?} {:?}", capture.counts, capture.native);
    found
}

/// The share of the samples whose stack is accepted.
pub(crate) fn share(samples: &[Sample<'_>], is_it: impl Fn(&[(&str, &str)]) -> bool) -> f64 {
    let sum = |samples: &mut dyn Iterator<Item = &Sample<'_>>| {
        samples.map(|sample| sample.count).sum::<u64>() as f64
    };
    let frames = |sample: &Sample<'_>| {
        let frames = sample.stack.frames().iter();
        is_it(&frames.map(|f| (f.function.as_str(), f.file.as_str())).collect::<Vec<_>>())
    };
    sum(&mut samples.iter().filter(|sample| frames(sample))) / sum(&mut samples.iter())
}

pub(crate) fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("tests name their files")
}
