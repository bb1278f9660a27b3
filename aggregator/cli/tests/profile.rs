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

/// Without an interpreter of a version that can be read, a test is skipped.
fn supported_python() -> Option<&'static str> {
    let about = "import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 14))";
    let is_supported = |python: &&str| {
        let asked = Command::new(python).args(["-c", about]).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(is_supported);
    if found.is_none() {
        writeln!(stderr(), "SKIPPED: no CPython 3.9 to 3.14").expect("it is open");
    }
    found
}

/// A job that ends with the value.
struct Job(Child);

impl Job {
    /// `None` without an interpreter of a version that can be read.
    fn start(script: &Path, speed: &str) -> Option<Self> {
        let python = supported_python()?;
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
        (vec!["cpu", "--pid", "1", "-o", "a.txt"], 1, "end it with one of .svg .html"),
        (vec!["cpu", "--pid", &own], 1, "is not CPython and loads no libpython"),
    ] {
        let output = plimsoll(&arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(wanted), "{arguments:?}: {error}");
    }
}

/// The pprof file of Go, in a form.
fn converted(folder: &Path, name: &str, more: &[&str]) -> String {
    let path = folder.join(name);
    let output = ["show", GO, "-o", path.to_str().unwrap()];
    stdout(&plimsoll(&[&output[..], more].concat()));
    std::fs::read_to_string(&path).unwrap()
}

const GO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/pprof/go_cpu.pb.gz");

#[test]
fn a_file_of_another_tool_is_shown_and_converted() {
    let first = |more: &[&str]| -> String {
        let table = stdout(&plimsoll(&[&["show", GO, "--top", "3"], more].concat()));
        let lines: Vec<&str> = table.trim_end().lines().collect();
        assert_eq!(lines.len(), 4, "{table}");
        lines[1].to_owned()
    };
    assert_eq!(first(&[]), "  28.1 %   69.6 %  sort.partition (sort/zsortinterface.go:157)");
    let by_total = first(&["--sort", "total"]);
    assert_eq!(by_total, "     0 %   98.8 %  main.main (example/main.go:9)");

    let folder = tempfile::tempdir().unwrap();
    for (name, words) in [
        ("a.svg", "<svg"),
        ("a.html", "<!DOCTYPE html>"),
        ("a.speedscope.json", "file-format-schema.json"),
        ("a.trace.json", "traceEvents"),
        ("a.collapsed", "main.augment (example/main.go:"),
        ("a.json", "cumulative_seconds"),
    ] {
        let text = converted(folder.path(), name, &["--colour", "module"]);
        assert!(text.contains(words), "{name}");
    }
    let json = stdout(&plimsoll(&["show", GO, "--json", "--top", "1"]));
    let summary: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(summary["top_functions"][0]["name"], "main.main");
    assert_eq!(summary["top_functions"][0]["cumulative_seconds"], 2.57);
    assert_eq!(summary["profile_id"].as_str().unwrap().len(), 16);
}

#[test]
fn no_form_of_a_redacted_profile_names_a_file_or_thread() {
    let folder = tempfile::tempdir().unwrap();
    let plain = converted(folder.path(), "plain.folded", &[]);
    assert!(plain.contains("main.go") && plain.contains("main.augment"));
    for ending in ["svg", "html", "speedscope.json", "trace.json", "folded", "json"] {
        let text = converted(folder.path(), &format!("r.{ending}"), &["--redact"]);
        let named = ["main.go", "loader", "go_cpu", "/usr/"].into_iter();
        let named: Vec<&str> = named.filter(|name| text.contains(name)).collect();
        assert!(named.is_empty(), "{ending}: {named:?}");
        assert!(text.contains("main.augment"), "{ending}");
        let hidden = converted(folder.path(), &format!("f.{ending}"), &["--redact=functions"]);
        assert!(!hidden.contains("augment") && hidden.contains("function-"), "{ending}");
    }
}

#[test]
fn two_files_are_compared_by_functions() {
    let table = stdout(&plimsoll(&["diff", GO, GO]));
    assert_eq!(table.trim_end().lines().count(), 1, "{table}");
    let json = stdout(&plimsoll(&["diff", GO, GO, "--json"]));
    assert_eq!(json.trim_end(), "{\n  \"top_functions\": [],\n  \"unit\": \"seconds\"\n}");
    let folder = tempfile::tempdir().unwrap();
    for name in ["d.json", "d.pb.gz"] {
        let path = folder.path().join(name);
        stdout(&plimsoll(&["diff", GO, GO, "-o", path.to_str().unwrap()]));
        assert_eq!(path.metadata().unwrap().len() > 1_000, name == "d.pb.gz", "{name}");
    }
    for name in ["d.svg", "d.html"] {
        let path = folder.path().join(name);
        stdout(&plimsoll(&["diff", GO, GO, "--redact", "-o", path.to_str().unwrap()]));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("culprit more") && !text.contains("main.go"), "{name}");
    }
}

#[test]
fn a_file_that_is_no_profile_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.pb.gz");
    let path = path.to_str().unwrap();
    for (bytes, words) in [
        (&b"\x1f\x8bnonsense"[..], "gzip: "),
        (b"\xff\xff\xff", "the file is malformed"),
        (b"", "does not start with an empty text"),
    ] {
        std::fs::write(path, bytes).unwrap();
        for arguments in [vec!["show", path], vec!["diff", GO, path]] {
            let output = plimsoll(&arguments);
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(error.contains(path) && error.contains(words), "{error}");
        }
    }
}

/// Records an epoch, computes in a child, and leaves a trace as PyTorch does.
const TRAIN: &str = r#"
import json, os, subprocess, sys, time

def augment(end):
    while time.perf_counter() < end:
        pass

augment(time.perf_counter() + 1.5)
if sys.argv[1:] != ["child"]:
    subprocess.run([sys.executable, __file__, "child"])
    with open(os.environ["PLIMSOLL_EPOCHS_FILE"], "a") as file:
        file.write('{"process":1,"operation":"epoch","ns":1500000}\n')
    if "PLIMSOLL_TRACE_DIR" in os.environ:
        event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 2000}
        with open(os.environ["PLIMSOLL_TRACE_DIR"] + "/r0.pt.trace.json", "w") as file:
            json.dump({"traceEvents": [event]}, file)
sys.exit(3)
"#;

#[test]
fn a_run_leaves_profiles_of_its_processes_and_its_operators() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("train.py");
    let Some(python) = supported_python() else { return };
    std::fs::write(&script, TRAIN).unwrap();

    for (what, first) in [("cpu", "augment ("), ("cpu,trace", "aten::mm")] {
        let traces = folder.path().join(what);
        let ran = Command::new(PLIMSOLL)
            .args(["run", "--name", "v42", "--profile", what, "--trace-dir"])
            .arg(&traces)
            .args(["--socket", "/nonexistent", "--", python])
            .arg(&script)
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(3), "{ran:?}");

        let text = std::fs::read_to_string(traces.join("v42.json")).unwrap();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found["epoch_time_ms"], serde_json::json!([1.5]), "{text}");
        let top = &found["top_ops"][0];
        assert!(top["name"].as_str().unwrap().starts_with(first), "{text}");
        assert_eq!(top["device"], "cpu");
        assert!(traces.join("v42.cpu.svg").exists());
        let profile = traces.join("v42.cpu.pb.gz");
        let table = stdout(&plimsoll(&["show", profile.to_str().unwrap(), "--json"]));
        let summary: serde_json::Value = serde_json::from_str(&table).unwrap();
        let seconds = summary["total_seconds"].as_f64().unwrap();
        // Of 1.5 s in each of two processes; each is found within half a second.
        assert!((1.2..3.3).contains(&seconds), "{summary}");
    }
}
