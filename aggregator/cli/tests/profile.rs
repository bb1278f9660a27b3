//! `plimsoll profile` with a real interpreter: a capture and its files.

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
        let about = "import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 14))";
        let is_supported = |python: &&&str| {
            let asked = Command::new(python).args(["-c", about]).stderr(Stdio::null()).status();
            asked.is_ok_and(|status| status.success())
        };
        let Some(python) = ["python3", "/usr/bin/python3"].iter().find(is_supported) else {
            writeln!(stderr(), "SKIPPED: no CPython 3.9 to 3.14").expect("it is open");
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
fn a_capture_is_a_table_or_a_file_of_each_form() {
    let folder = tempfile::tempdir().unwrap();
    let Some(job) = Job::start(&folder.path().join("train.py"), "slow") else { return };
    let pid = job.pid();

    let table = stdout(&plimsoll(&["cpu", "--pid", &pid, "--seconds", "1"]));
    assert!(table.contains("SELF    TOTAL  FUNCTION"), "{table}");
    assert!(table.contains("main (") && table.contains("augment ("), "{table}");

    for (name, start) in [("a.svg", &b"<svg"[..]), ("a.pb.gz", &[0x1f, 0x8b])] {
        let path = folder.path().join(name);
        let output = ["-o", path.to_str().unwrap(), "--seconds", "1", "--full-paths"];
        stdout(&plimsoll(&[&["cpu", "--pid", &pid][..], &output].concat()));
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(start), "{name}");
    }
}

#[test]
fn what_cannot_be_captured_names_the_fix() {
    let own = std::process::id().to_string();
    for (arguments, code, wanted) in [
        (vec!["cpu", "--pid", "1", "--seconds", "601"], 2, "601 is not in 1..=600"),
        (vec!["cpu", "--pid", "0"], 2, "0 is not in 1.."),
        (vec!["cpu", "--pid", "1", "-o", "a.txt"], 1, "end it with .svg or .pb.gz"),
        (vec!["cpu", "--pid", &own], 1, "is not CPython and loads no libpython"),
    ] {
        let output = plimsoll(&arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(wanted), "{arguments:?}: {error}");
    }
}
