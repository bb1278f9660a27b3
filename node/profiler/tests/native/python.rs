//! Python and native frames in one stack, with every supported interpreter that is in the path.

use std::io::{BufRead, BufReader, Write, stderr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::program::{native, running, share};

const PROGRAM: &str = "
import functools, hashlib, zlib

def derive():
    hashlib.pbkdf2_hmac('sha256', b'p' * 9, b's' * 16, 160_000)

def squeeze(data=bytes(range(256)) * 16_000):
    zlib.compress(data, 9)

def key(n):
    total = 0
    for i in range(3_000):
        total += i * n
    return total

def order():
    sorted(range(50), key=key)

print('ready', flush=True)
while True:
    for _ in range(32): order()
    squeeze()
    derive()
";

struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// One program for each interpreter; without any the test is skipped, which the report lists.
fn programs() -> Vec<(&'static str, Program)> {
    let start = |name: &'static str| {
        let known = Command::new(name).arg("--version").output().ok()?;
        known.status.success().then_some(())?;
        let mut command = Command::new(name);
        let mut child = command.args(["-c", PROGRAM]).stdout(Stdio::piped()).spawn().ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
        Some((name, Program(child)))
    };
    let found: Vec<_> =
        ["python3.11", "python3.12", "python3.13"].into_iter().filter_map(start).collect();
    if found.is_empty() {
        writeln!(stderr(), "SKIPPED: no CPython 3.11 to 3.13").expect("standard error is open");
    }
    found
}

#[test]
fn native_code_stands_below_the_python_function_that_called_it() {
    for (python, program) in programs() {
        let capture = native(&program.0, 250, Duration::from_secs(9));
        let samples = running(&capture);
        let (whole, torn) = (capture.counts.whole, capture.counts.torn);
        assert!(torn < whole, "{python}: {:?}", capture.counts);

        let at = |frames: &[(&str, &str)], name: &str| frames.iter().position(|f| f.0 == name);
        let is_python = |frames: &[(&str, &str)]| {
            frames[0] == ("<module>", "<string>")
                && !frames.iter().any(|f| f.0.contains("EvalFrame"))
        };
        assert!(share(&samples, is_python) > 0.99, "{python}");

        // Above each function is the library that does the work, which calls others.
        for (function, files) in [("derive", "libcrypto"), ("squeeze", "libz")] {
            let total = share(&samples, |frames| at(frames, function).is_some());
            let native = share(&samples, |frames| {
                let Some(at) = at(frames, function) else { return false };
                let is_library =
                    |file: &str| file.starts_with(files) || file.starts_with("_hashlib");
                let is_kernel = frames.last().unwrap().1 == "[kernel]";
                is_kernel || frames[at..].iter().any(|(_, file)| is_library(file))
            });
            assert!(total > 0.02 && native > 0.8 * total, "{python} {function}: {native} {total}");
        }

        // Python, C, Python: what C calls back stands below C.
        let total = share(&samples, |frames| at(frames, "key").is_some());
        let nested = share(&samples, |frames| {
            let (Some(order), Some(key)) = (at(frames, "order"), at(frames, "key")) else {
                return false;
            };
            let between = &frames[order + 1..key];
            !between.is_empty() && between.iter().all(|(_, file)| file.contains("python"))
        });
        assert!(total > 0.05 && nested == total, "{python}: {nested} of {total}");
    }
}
