//! `plimsoll profile` with a real interpreter: a capture, its files, and the difference of two.

use std::io::{BufRead, BufReader, Write, stderr};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

/// Each step computes next to nothing in `forward` and waits; a slow one spends half of its time in
/// `augment`, which a healthy one never calls.
const PROGRAM: &str = "
import sys, time

def augment(end):
    while time.perf_counter() < end:
        pass

def forward():
    return sum(range(100))

def main(is_slow):
    print('ready', flush=True)
    while True:
        forward()
        if is_slow:
            augment(time.perf_counter() + 0.01)
        time.sleep(0.01)

main(sys.argv[1] == 'slow')
";

/// A job that ends with the value.
struct Job(Child);

impl Job {
    /// `None` without an interpreter of a version that can be read.
    fn start(script: &Path, speed: &str) -> Option<Self> {
        let about = "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))";
        let is_supported = |python: &&&str| {
            let asked = Command::new(python).args(["-c", about]).stderr(Stdio::null()).status();
            asked.is_ok_and(|status| status.success())
        };
        let Some(python) = ["python3", "/usr/bin/python3"].iter().find(is_supported) else {
            writeln!(stderr(), "SKIPPED: no CPython 3.11 to 3.13").expect("it is open");
            return None;
        };

        std::fs::write(script, PROGRAM).unwrap();
        let mut command = Command::new(python);
        let mut child = command.arg(script).arg(speed).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Some(Self(child))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn plimsoll(arguments: &[&str]) -> Output {
    Command::new(PLIMSOLL).arg("profile").args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_slow_process_differs_from_its_peer_by_the_planted_function() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let script = folder.path().join("train.py");
    let Some(slow) = Job::start(&script, "slow") else { return };
    let Some(healthy) = Job::start(&script, "healthy") else { return };

    let (culprit, peer) = (at("slow.pb.gz"), at("healthy.pb.gz"));
    for (job, file) in [(&slow, &culprit), (&healthy, &peer)] {
        let capture = ["cpu", "--pid", &job.pid(), "--seconds", "2", "-o", file];
        assert_eq!(stdout(&plimsoll(&capture)), "");
    }

    let text = stdout(&plimsoll(&["diff", &culprit, &peer]));
    let first = text.lines().nth(2).unwrap();
    assert!(first.contains("augment (") && first.contains("train.py:"), "{text}");
    assert!(first.trim_start().starts_with('+'), "{text}");

    let svg = at("diff.svg");
    stdout(&plimsoll(&["diff", &culprit, &peer, "-o", &svg]));
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("augment"), "{}", &svg[..200]);
}

#[test]
fn a_capture_is_a_table_or_a_file_of_each_form() {
    let folder = tempfile::tempdir().unwrap();
    let Some(job) = Job::start(&folder.path().join("train.py"), "slow") else { return };
    let pid = job.pid();

    let table = stdout(&plimsoll(&["cpu", "--pid", &pid, "--seconds", "1"]));
    assert!(table.contains("SELF    TOTAL  FUNCTION"), "{table}");
    assert!(table.contains("main (") && table.contains("augment ("), "{table}");

    for (name, start) in [("a.svg", "<svg"), ("a.json", "{\"kind\""), ("a.folded", "<module>")] {
        let path = folder.path().join(name);
        let output = ["-o", path.to_str().unwrap(), "--seconds", "1", "--full-paths"];
        stdout(&plimsoll(&[&["cpu", "--pid", &pid][..], &output].concat()));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(start) && text.contains("augment"), "{name}: {text:.200}");
    }
}

#[test]
fn what_cannot_be_captured_names_the_fix() {
    let own = std::process::id().to_string();
    for (arguments, code, wanted) in [
        (vec!["cpu", "--pid", "1", "--seconds", "601"], 2, "choose 1 to 600"),
        (vec!["cpu", "--pid", "0"], 2, "pid is 0: choose the number of a process"),
        (vec!["cpu", "--pid", "1", "-o", "a.txt"], 1, "end it with .svg, .json, .folded or .pb.gz"),
        (vec!["cpu", "--pid", &own], 1, "is not CPython and loads no libpython"),
        (vec!["diff", "absent.pb.gz", "absent.pb.gz"], 1, "absent.pb.gz: No such file"),
    ] {
        let output = plimsoll(&arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(wanted), "{arguments:?}: {error}");
    }
}
