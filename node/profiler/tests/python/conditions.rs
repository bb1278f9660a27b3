//! Processes in unusual conditions: stopped, blocked in the kernel, with a file that is gone, was
//! stripped or lies where only they see it, and of a version that does not exist yet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, geteuid, mkfifo};
use plimsoll_clock::Deadline;
use plimsoll_profile::ThreadState;
use plimsoll_profiler::capture;
use plimsoll_profiler::order::Order;
use plimsoll_profiler::reader::Paths;
use plimsoll_profiler::refusal::Refusal;
use plimsoll_profiler::sampler::Cancel;
use tempfile::TempDir;

use crate::program::{Program, Python, first_python, pythons, stacks};

const RESTS: &str = "
import time
def rest():
    print('ready', flush=True)
    time.sleep(1000)
rest()
";

fn leaf(program: &Program) -> (String, ThreadState) {
    let capture = program.capture(100);
    let stacks = stacks(&capture);
    let most = stacks.first().unwrap_or_else(|| panic!("{:?}", capture.counts));
    (most.functions().last().expect("there is a frame").to_string(), most.state)
}

#[test]
fn a_stopped_process_is_read_and_stays_stopped() {
    for python in pythons() {
        let program =
            Program::start(&python, &RESTS.replace("time.sleep(1000)", "while True: pass"));
        let pid = Pid::from_raw(program.pid());
        kill(pid, Signal::SIGSTOP).unwrap();
        assert_eq!(leaf(&program), ("rest".to_owned(), ThreadState::Waiting), "{python:?}");
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert!(stat.contains(") T "), "{stat}");
    }
}

/// Each signal that has a handler renames it.
const NOTES_SIGNALS: &str = "
import signal
def note(*_):
    open('/proc/self/comm', 'w').write('signalled')
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, note)
print('ready', flush=True)
while True: pass
";

#[test]
fn a_process_that_is_read_gets_no_signal() {
    for python in pythons() {
        let program = Program::start(&python, NOTES_SIGNALS);
        let is_signalled = || {
            let name = fs::read_to_string(format!("/proc/{}/comm", program.pid())).unwrap();
            name.trim() == "signalled"
        };
        let mut order = Order::new(program.pid(), 500, 1, Paths::Full).unwrap();
        order.native = true;
        assert!(capture(&order, &Cancel::default()).unwrap().counts.whole > 0, "{python:?}");
        assert!(!is_signalled(), "{python:?}");

        // One would have been noted.
        kill(Pid::from_raw(program.pid()), Signal::SIGUSR2).unwrap();
        let deadline = Deadline::within(Duration::from_secs(20));
        while !is_signalled() && deadline.pause(Duration::from_millis(10)) {}
        assert!(is_signalled(), "{python:?}");
    }
}

/// Its child waits for a pipe before it executes anything, and the parent for the child, in a sleep
/// that signals do not end.
const BLOCKED: &str = "
import os, sys
def block():
    print('ready', flush=True)
    open_pipe = (os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)
    os.posix_spawn('/bin/true', ['true'], {}, file_actions=[open_pipe])
block()
";

#[test]
fn a_process_that_the_kernel_blocks_is_read() {
    for python in pythons() {
        let folder = TempDir::new().unwrap();
        let pipe = folder.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        let command = Command::new(&python.path);
        let program = Program::start_with(command, BLOCKED, &[pipe.to_str().unwrap()]);
        let found = leaf(&program);
        let stat = fs::read_to_string(format!("/proc/{}/stat", program.pid())).unwrap();
        fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        assert_eq!(found, ("block".to_owned(), ThreadState::Waiting), "{python:?}");
        assert!(stat.contains(") D "), "{stat}");
    }
}

/// A copy of an interpreter, and a command that runs it with the modules of the original.
fn copy(python: &Python, folder: &Path) -> (PathBuf, Command) {
    let copy = folder.join(python.path.file_name().unwrap());
    // By another process: a file that this one has written may be busy while other tests fork.
    assert!(Command::new("cp").arg(&python.path).arg(&copy).status().unwrap().success());
    let prefix = "import sys; print(sys.base_prefix)";
    let output = Command::new(&python.path).args(["-c", prefix]).output().unwrap();
    let mut command = Command::new(&copy);
    command.env("PYTHONHOME", String::from_utf8(output.stdout).unwrap().trim());
    (copy, command)
}

#[test]
fn a_program_whose_file_was_removed_is_read() {
    for python in pythons() {
        let folder = TempDir::new().unwrap();
        let (copy, command) = copy(&python, folder.path());
        let program = Program::start_by(command, RESTS);
        fs::remove_file(copy).unwrap();
        assert_eq!(leaf(&program).0, "rest", "{python:?}");
    }
}

#[test]
fn a_program_without_symbols_is_read() {
    for python in pythons() {
        let folder = TempDir::new().unwrap();
        let (copy, command) = copy(&python, folder.path());
        let stripped = Command::new("strip").arg("--strip-all").arg(&copy).status();
        if !stripped.is_ok_and(|status| status.success()) {
            continue;
        }
        assert_eq!(leaf(&Program::start_by(command, RESTS)).0, "rest", "{python:?}");
    }
}

#[test]
fn a_program_that_only_its_own_mounts_show_is_read() {
    if !geteuid().is_root() {
        return;
    }
    for python in pythons() {
        let folder = TempDir::new().unwrap();
        let (name, folder) = (python.path.file_name().unwrap(), folder.path().to_str().unwrap());
        let (_, mut by_copy) = copy(&python, &PathBuf::from(folder));
        let home = by_copy.get_envs().next().unwrap().1.unwrap().to_owned();
        fs::remove_file(Path::new(folder).join(name)).unwrap();

        by_copy = Command::new("unshare");
        by_copy.env("PYTHONHOME", home).args(["--mount", "sh", "-c"]);
        by_copy.arg("mount -t tmpfs none $1 && cp $2 $1 && exec $1/${2##*/} $3");
        by_copy.args(["sh", folder, python.path.to_str().unwrap()]);
        let program = Program::start_by(by_copy, RESTS);
        assert!(!Path::new(folder).join(name).exists());
        assert_eq!(leaf(&program).0, "rest", "{python:?}");
    }
}

/// Overwrites the version that an interpreter publishes about itself.
const LATER: &str = "
import ctypes, sys
for line in open('/proc/self/maps'):
    if ' rw' not in line or not ('python' in line): continue
    start, end = (int(word, 16) for word in line.split()[0].split('-'))
    head = b'xdebugpy' + sys.hexversion.to_bytes(8, 'little')
    at = ctypes.string_at(start, end - start).find(head)
    if at >= 0:
        ctypes.c_uint64.from_address(start + at + 8).value = 0x030f00f0
print('ready', flush=True)
import time; time.sleep(1000)
";

#[test]
fn a_version_that_is_not_known_yet_is_named() {
    // One that publishes its version, in a file of its own.
    let python = pythons().into_iter().rev().find(|python| python.minor >= 13);
    let Some(python) = python else { return };
    let program = Program::start(&python, LATER);
    let refusal = program.try_capture(100, 1).expect_err("there is no such layout");
    assert!(matches!(refusal, Refusal::Version { .. }), "{refusal}");
    let text = refusal.to_string();
    assert!(text.contains("CPython 3.15.0") && text.contains("3.9 to 3.14"), "{text}");
}

#[test]
fn a_link_of_another_name_is_the_same_program() {
    let python = first_python();
    let folder = TempDir::new().unwrap();
    let link = folder.path().join("train");
    std::os::unix::fs::symlink(&python.path, &link).unwrap();
    assert_eq!(leaf(&Program::start_by(Command::new(link), RESTS)).0, "rest");
}
