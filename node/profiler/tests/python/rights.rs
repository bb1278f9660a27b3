//! What may be read: by another user, with one capability, and in another pid namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use nix::unistd::geteuid;
use plimsoll_profile::Name;
use plimsoll_profile::pprof::decode;
use plimsoll_profiler::capture;
use plimsoll_profiler::order::Order;
use plimsoll_profiler::reader::Paths;
use plimsoll_profiler::sampler::Cancel;
use plimsoll_schemas::wire::capture::{CaptureFailure, CaptureKind, CaptureState, ProfilerOrder};
use tempfile::TempDir;

use crate::program::{Program, first_python, pythons};
use crate::serve::{PROFILER, Service};

const RESTS: &str = "print('ready', flush=True)\nimport time\ntime.sleep(1000)\n";

/// A service of a user who may not read the processes of root, but for the capabilities. It runs a
/// copy in the folder.
fn of_another_user(capabilities: &str, folder: &TempDir) -> Service {
    let listed = "allow_users=['root']";
    if !geteuid().is_root() {
        return Service::with(&[listed]);
    }
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
    command.arg(&copy);
    Service::by(command, &[listed])
}

fn order(pid: u32) -> ProfilerOrder {
    ProfilerOrder {
        kind: CaptureKind::Cpu,
        native: false,
        pid,
        seconds: 1,
        hz: 50,
        full_paths: true,
        alive_at: None,
    }
}

#[test]
fn one_capability_is_enough_to_read_another_users_process() {
    if !geteuid().is_root() {
        return;
    }
    let program = Program::start(&first_python(), RESTS);
    let folder = TempDir::new().unwrap();
    let service = of_another_user(",+sys_ptrace", &folder);
    let (response, bytes) = service.order(&order(program.child.id()));
    assert_eq!(response.state, CaptureState::Kept, "{response:?}");
    let profile = decode(&bytes).unwrap();
    let sample = profile.samples().next().expect("there is a stack");
    let expected = format!("<module> ({}:3)", program.script.path.display());
    assert_eq!(sample.stack.frames()[0].to_string(), expected);
    assert!(
        sample.count > 25 && sample.labels.thread.as_str().ends_with(&program.pid().to_string())
    );
    let comments: Vec<&str> = profile.comments().map(Name::as_str).collect();
    assert!(comments.contains(&"plimsoll.rung=profiler"), "{comments:?}");
}

#[test]
fn a_process_of_another_user_is_closed_and_the_fix_is_named() {
    // Of root, as the first process is; it need not be a Python one, as rights come first.
    let folder = TempDir::new().unwrap();
    let (response, _) = of_another_user("", &folder).order(&order(1));
    let denied = CaptureState::Failed(CaptureFailure::Denied);
    assert_eq!(response.state, denied, "{response:?}");
    let fix = response.facts.fix;
    assert!(fix.contains("it belongs to user 0") && fix.contains("CAP_SYS_PTRACE"), "{fix}");
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
    let order = Order::new(children.trim().parse().unwrap(), 50, 1, Paths::Short).unwrap();
    let capture = capture(&order, &Cancel::default()).unwrap();
    assert!(capture.counts.whole > 25, "{:?}", capture.counts);
}
