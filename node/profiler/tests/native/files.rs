//! Programs in unusual states: deleted, in mounts of their own, stopped, deep in a recursion, with
//! hostile names.

use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use plimsoll_profile::{ThreadState, flame, svg};
use plimsoll_profiler::output::End;
use plimsoll_profiler::refusal::Refusal;
use plimsoll_profiler::sampler::Cancel;

use crate::program::{Built, captured, name, running, share};
use crate::shares::{C, assert_shares};

#[test]
fn a_deleted_program_keeps_its_names() {
    let program = Built::c(C, &[]).start();
    std::fs::remove_file(&program.path).unwrap();
    assert_shares(&running(&program.capture()), ["main", "major", "minor"], name(&program.path));
}

#[test]
fn a_program_that_only_its_own_mounts_show_has_its_names() {
    if !geteuid().is_root() {
        return;
    }
    let built = Built::c(C, &[]);
    let folder = built.path.parent().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec"]);
    // Over the folder in which the program was: there is none of its path here.
    command.arg(
        "cp $1/program $1/../$$ && mount -t tmpfs none $1 && mv $1/../$$ $1/own && exec $1/own",
    );
    command.arg("sh").arg(folder);
    assert!(!folder.join("own").exists());
    let program = built.start_by(command);
    assert_shares(&running(&program.capture()), ["main", "major", "minor"], "own mounts");
}

#[test]
fn a_stopped_program_is_off_the_processor_all_the_time() {
    let program = Built::c(C, &[]).start();
    let pid = Pid::from_raw(program.child.id().cast_signed());
    kill(pid, Signal::SIGSTOP).unwrap();
    let capture = captured(&program.child, 100, 1, &Cancel::default());
    assert_eq!(capture.ended, End::Complete);
    let samples: Vec<_> = capture.profile.samples().collect();
    let waiting: u64 = samples
        .iter()
        .filter(|sample| sample.labels.state == Some(ThreadState::Waiting))
        .map(|sample| sample.count)
        .sum();
    // Some of the first ticks may be of a thread that has yet to stop.
    assert!(10 * waiting > 9 * capture.counts.ticks, "{samples:?} {:?}", capture.counts);
    assert_eq!(capture.counts.torn, 0);
}

const DEEP: &str = r#"
#include <stdio.h>
volatile unsigned long x;
__attribute__((noinline)) void spin(void) { for (;;) x++; }
__attribute__((noinline)) void dive(long n) { volatile char room[ROOM]; room[n % ROOM] = 1; if (n) dive(n - 1); else spin(); x++; }
int main(void) { puts("ready"); fflush(stdout); dive(DEPTH); }
"#;

#[test]
fn a_deep_recursion_keeps_the_frames_near_its_leaf() {
    // Of the last one fewer frames are known than a profile keeps: the copy of the stack ends.
    for (depth, room, is_cut, least) in [
        ("100", "64", false, 101),
        ("200", "64", true, 101),
        ("5000", "64", true, 101),
        ("20", "4096", true, 6),
    ] {
        let text = DEEP.replace("DEPTH", depth).replace("ROOM", room);
        let program = Built::c(&text, &["-fno-optimize-sibling-calls"]).start();
        let capture = program.capture();
        let shape = share(&running(&capture), |frames| {
            let dives = frames.iter().filter(|(function, _)| *function == "dive").count();
            let root = if is_cut { frames[0].0 == "[truncated]" } else { dives == 101 };
            root && frames.last().unwrap().0 == "spin" && dives >= least
        });
        assert!(shape > 0.9, "{depth}: {shape}");
    }
}

#[test]
fn names_of_functions_never_become_markup() {
    let hostile = "<b onclick=\"x()\">&\n;</b>";
    let built = Built::c(C, &[]);
    built.tool(&["--redefine-sym", &format!("major={hostile}"), "program"]);
    let program = built.start();
    let capture = program.capture();
    assert_shares(&running(&capture), ["main", hostile, "minor"], "renamed");
    let graph = flame::of_profile(&capture.profile, Some(ThreadState::Running));
    let picture = svg::render("hostile", &graph);
    assert!(picture.contains("&lt;b onclick") && !picture.contains("<b onclick"));
}

#[test]
fn a_program_without_python_is_refused_with_the_option_that_reads_it() {
    use plimsoll_profiler::order::Order;
    use plimsoll_profiler::reader::Paths;
    let program = Built::c(C, &[]).start();
    let pid = program.child.id().cast_signed();
    let order = Order::new(pid, 100, 1, Paths::Short).unwrap();
    let refusal = plimsoll_profiler::capture(&order, &Default::default()).unwrap_err();
    assert!(matches!(refusal, Refusal::NotPython { .. }), "{refusal}");
    assert!(refusal.to_string().contains("--native"), "{refusal}");
}
