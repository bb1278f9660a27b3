//! What the program prints and returns: for a process that may be read, one that may not, and none.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use nix::unistd::geteuid;
use plimsoll_profile::pprof::decode;
use plimsoll_profiler::order::ProcessId;
use plimsoll_profiler::probe::probe;
use tempfile::TempDir;

use crate::program::{Program, pythons};

const PROFILER: &str = env!("CARGO_BIN_EXE_plimsoll-profiler");
const RESTS: &str = "print('ready', flush=True)\nimport time\ntime.sleep(1000)\n";

fn text(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(text).expect("it prints text")
}

fn run(arguments: &[&str]) -> Output {
    Command::new(PROFILER).args(arguments).output().expect("it was built")
}

#[test]
fn a_readable_process_is_open_on_every_rung() {
    for python in pythons() {
        let program = Program::start(&python, RESTS);
        let found = probe(ProcessId(program.pid()));
        assert_eq!((found.states, found.memory), (Ok(()), Ok(())));
        let version = found.stacks.expect("the memory is open").expect("it is supported");
        assert_eq!(version.to_string(), python.version);

        let output = run(&["--pid", &program.pid().to_string(), "--probe"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output).contains(&format!("open (CPython {version})")), "{output:?}");
    }
}

/// Runs the program as a user who may not read the process that it is given, but for the
/// capabilities.
fn as_another_user(capabilities: &str, arguments: &[&str]) -> Output {
    if !geteuid().is_root() {
        return run(arguments);
    }
    let folder = TempDir::new().unwrap();
    let copy = folder.path().join("profiler");
    // By another process: a file that this one has written may be busy while other tests fork.
    assert!(Command::new("cp").arg(PROFILER).arg(&copy).status().unwrap().success());
    for path in [folder.path(), &copy] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(format!("--inh-caps=-all{capabilities}"));
    command.arg(format!("--ambient-caps=-all{capabilities}"));
    command.arg(&copy).args(arguments).output().unwrap()
}

#[test]
fn one_capability_is_enough_to_read_another_users_process() {
    let python = pythons().pop_first().expect("there is one");
    let program = Program::start(&python, RESTS);
    let pid = program.pid().to_string();
    let order = ["--pid", &pid, "--seconds", "1", "--rate", "50"];
    let folded = as_another_user(",+sys_ptrace", &order);
    assert_eq!(folded.status.code(), Some(0), "{folded:?}");
    let expected = format!("<module> ({}:3) ", program.script.path.display());
    assert!(most_frequent(&folded, &expected) > 25);
}

#[test]
fn a_process_of_another_user_is_closed_and_the_fix_is_named() {
    // Of root, as the first process is; it need not be a Python one, as rights come first.
    let first = ["--pid", "1"];
    let refused = as_another_user("", &first);
    assert_eq!(refused.status.code(), Some(11), "{refused:?}");
    let probed = as_another_user("", &["--pid", "1", "--probe"]);
    assert_eq!(probed.status.code(), Some(11), "{probed:?}");
    assert!(text(&probed).contains("states of threads: open"), "{probed:?}");
    for output in [refused, probed] {
        let text = text(&output);
        assert!(text.contains("it belongs to user 0") && text.contains("CAP_SYS_PTRACE"), "{text}");
    }
}

/// The count of the first folded stack, which must contain `expected`.
fn most_frequent(folded: &Output, expected: &str) -> u64 {
    let text = String::from_utf8_lossy(&folded.stdout);
    let first = text.lines().next().expect("there is a stack");
    assert!(first.contains(expected), "{first}");
    first.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("its count is at its end")
}

#[test]
fn a_capture_is_written_as_folded_stacks_or_pprof() {
    let python = pythons().pop_first().expect("there is one");
    let program = Program::start(&python, RESTS);
    let pid = program.pid().to_string();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("stacks");

    let short = ["--pid", &pid, "--seconds", "1", "--rate", "50"];
    let folded = run(&short);
    assert_eq!(folded.status.code(), Some(0), "{folded:?}");
    let expected = format!("<module> ({}:3) ", program.script.path.display());
    assert!(most_frequent(&folded, &expected) > 25);
    assert!(String::from_utf8_lossy(&folded.stderr).contains("samples taken"), "{folded:?}");

    let pprof = run(&[&short[..], &["--format", "pprof", "-o", file.to_str().unwrap()]].concat());
    assert_eq!((pprof.status.code(), pprof.stdout.len()), (Some(0), 0), "{pprof:?}");
    let read = decode(&fs::read(&file).unwrap()).unwrap();
    let facts = &read.facts;
    assert_eq!(facts.samples_taken + facts.samples_torn + facts.samples_lost, 50);
    let sample = read.samples().next().expect("there is a stack");
    assert!(sample.count > 25 && sample.labels.thread.as_str().ends_with(&pid), "{sample:?}");
}

#[test]
fn wrong_orders_and_processes_have_their_exit_codes() {
    let none = i32::MAX.to_string();
    let table: [(&[&str], i32, &str); 6] = [
        (&["--pid", &none], 1, "there is none"),
        (&["--pid", &none, "--probe"], 1, "there is no such process"),
        (&["--pid", "0"], 2, "pid is 0"),
        (&["--pid", "1", "--rate", "2000"], 2, "choose 1 to 1000"),
        (&["--pid", "1", "--seconds", "0"], 2, "choose 1 to 600"),
        (&[], 2, "--pid"),
    ];
    for (arguments, code, expected) in table {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(text(&output).contains(expected), "{arguments:?}: {output:?}");
    }
    let help = text(&run(&["--help"]));
    assert!(help.contains("Examples:") && help.contains("11 a process may not be read"), "{help}");
}

/// A process in a pid namespace of its own has other numbers for its threads than we have.
#[test]
fn threads_of_a_container_are_found_by_the_numbers_they_have_here() {
    let mut command = Command::new("unshare");
    // Without root, a user namespace is needed as well.
    let own_user: &[&str] = if geteuid().is_root() { &[] } else { &["--map-root-user"] };
    let python = pythons().pop_first().expect("there is one");
    command.args(own_user).args(["--pid", "--fork", "--kill-child"]).arg(&python.path);
    let program = Program::start_by(command, &format!("import os\nprint(os.getpid())\n{RESTS}"));
    assert_eq!(program.printed, ["1"]);

    let parent = program.pid();
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    let pid = children.trim();
    let output = run(&["--pid", pid, "--seconds", "1", "--rate", "50"]);
    let path = program.script.path.display();
    assert!(most_frequent(&output, &format!("<module> ({path}:5) ")) > 25);
}
