//! How a capture ends, and what is refused: processes that exit, change, or are no CPython.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use plimsoll_clock::Deadline;
use plimsoll_profiler::capture;
use plimsoll_profiler::order::Order;
use plimsoll_profiler::output::{Capture, End};
use plimsoll_profiler::reader::Paths;
use plimsoll_profiler::refusal::Refusal;
use plimsoll_profiler::sampler::Cancel;
use tempfile::TempDir;

use crate::program::{NamedStack, Program, pythons, stacks};

/// Starts a capture and lets the program do `act` a while later: the margin is for a busy machine.
fn captured_while(act: &str) -> Vec<(End, Capture, Program)> {
    let ends = pythons().into_iter().map(|python| {
        let text =
            format!("import os, sys, time\nprint('ready', flush=True)\ntime.sleep(1.5)\n{act}\n");
        let program = Program::start(&python, &text);
        let capture = program.try_capture(200, 30).expect("it runs");
        (capture.ended, capture, program)
    });
    ends.collect()
}

#[test]
fn an_exit_ends_the_capture_and_keeps_what_was_read() {
    for act in ["sys.exit()", "os._exit(3)", "os.kill(os.getpid(), 9)"] {
        for (ended, capture, _program) in captured_while(act) {
            assert_eq!(ended, End::Exited, "{act}");
            assert!(!stacks(&capture).is_empty(), "{act}");
            assert!(capture.profile.duration_ns < 20_000_000_000, "the order was for 30 s");
        }
    }
}

#[test]
fn another_program_in_the_same_process_ends_the_capture() {
    let same = "os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(1000)'])";
    let other = "os.execv('/bin/sleep', ['sleep', '1000'])";
    for act in [same, other] {
        for (ended, capture, _program) in captured_while(act) {
            assert_eq!(ended, End::Replaced, "{act}");
            let stacks = stacks(&capture);
            let mut files =
                stacks.iter().flat_map(NamedStack::frames).map(|frame| frame.file.as_str());
            assert!(files.all(|file| file != "<string>"), "of the second program: {act}");
            assert!(!stacks.is_empty());
        }
    }
}

#[test]
fn a_cancelled_capture_returns_what_it_has() {
    let python = pythons().pop_first().expect("there is one");
    let program = Program::start(&python, "print('ready', flush=True)\nwhile True: pass\n");
    let order = Order::new(program.pid(), 100, 600, Paths::Short).unwrap();
    let cancel = Cancel::default();
    let canceller = cancel.clone();
    let capture = thread::scope(|scope| {
        let running = scope.spawn(|| capture(&order, &cancel));
        canceller.cancel();
        running.join().expect("it does not panic")
    });
    assert_eq!(capture.unwrap().ended, End::Cancelled);
}

fn refusal(pid: u32) -> Refusal {
    let order = Order::new(i32::try_from(pid).unwrap(), 100, 1, Paths::Short).unwrap();
    capture(&order, &Cancel::default()).expect_err("it cannot be captured")
}

/// A process of `program`, once it executes that.
fn poll_started(program: &Path) -> Child {
    let child = Command::new(program).arg("1000").spawn().unwrap();
    let deadline = Deadline::within(Duration::from_secs(60));
    let maps = format!("/proc/{}/maps", child.id());
    while !fs::read_to_string(&maps).unwrap().contains(program.to_str().unwrap()) {
        assert!(deadline.pause(Duration::from_millis(1)), "{program:?} does not start");
    }
    child
}

fn refusal_of(program: &Path) -> Refusal {
    let mut child = poll_started(&program.canonicalize().unwrap());
    let refusal = refusal(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    refusal
}

#[test]
fn a_program_that_is_no_python_is_named() {
    let refusal = refusal_of(Path::new("/bin/sleep"));
    assert!(matches!(refusal, Refusal::NotPython { .. }), "{refusal}");
    assert!(refusal.to_string().contains("sleep"), "{refusal}");
}

#[test]
fn an_unsupported_version_is_named_with_the_supported_ones() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("python3.8");
    // By another process: a file that this one has written may be busy while other tests fork.
    assert!(Command::new("cp").arg("/bin/sleep").arg(&path).status().unwrap().success());
    let text = refusal_of(&path).to_string();
    assert!(text.contains("CPython 3.8 ") && text.contains("3.9 to 3.14"), "{text}");
}

#[test]
fn a_process_that_ended_is_refused() {
    let mut ended = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    let pid = ended.id();
    ended.wait().unwrap();
    let refusal = refusal(pid);
    assert!(matches!(refusal, Refusal::NoProcess(_)), "{refusal}");
}
