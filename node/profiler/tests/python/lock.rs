//! Who holds the global interpreter lock, and whether it collects garbage.

use plimsoll_profile::ThreadState;
use plimsoll_profiler::capture;
use plimsoll_profiler::order::{Order, Threads};
use plimsoll_profiler::output::Capture;
use plimsoll_profiler::reader::Paths;
use plimsoll_profiler::sampler::{COLLECTING, Cancel};

use crate::program::{NamedStack, Program, pythons, stacks};

fn capture_of_holder(program: &Program) -> Capture {
    let mut order = Order::new(program.pid(), 200, 1, Paths::Full).unwrap();
    order.threads = Threads::GilHolder;
    capture(&order, &Cancel::default()).expect("it can be read")
}

const HOLDERS: &str = "
import ctypes, threading, time
def hold():
    ctypes.PyDLL(None).usleep(1_000_000_000)
def release():
    ctypes.CDLL(None).usleep(1_000_000_000)
def wait():
    while True: time.sleep(0.001)
for function in [release, wait]:
    threading.Thread(target=function, daemon=True).start()
print('ready', flush=True)
# Nothing else runs afterwards.
LAST()
";

#[test]
fn only_the_thread_that_holds_the_lock_counts() {
    for python in pythons() {
        // A call of C that keeps the lock.
        let program = Program::start(&python, &HOLDERS.replace("LAST", "hold"));
        let capture = capture_of_holder(&program);
        let held = stacks(&capture);
        // It may be on its way there when the capture starts.
        let is_holder = |stack: &&NamedStack| {
            stack.functions().last() == Some(&"hold") && stack.state == ThreadState::Waiting
        };
        let count: u64 = held.iter().filter(is_holder).map(|stack| stack.count).sum();
        assert!(count >= capture.counts.ticks * 8 / 10, "{python:?} {:?}", capture.counts);

        // All rest: no thread has it for longer than some microseconds.
        let program = Program::start(&python, &HOLDERS.replace("LAST", "release"));
        let capture = capture_of_holder(&program);
        assert!(capture.counts.whole * 2 < capture.counts.ticks, "{python:?} {:?}", capture.counts);
    }
}

const GARBAGE: &str = "
import gc, threading, time
kept = [[] for _ in range(300_000)]
def collect():
    while True: gc.collect()
def rest():
    time.sleep(1000)
gc.disable()
threading.Thread(target=rest, daemon=True).start()
print('ready', flush=True)
WORK
";

#[test]
fn a_thread_that_collects_garbage_has_a_leaf_that_states_it() {
    for python in pythons() {
        for (work, is_collecting) in [("collect()", true), ("while True: pass", false)] {
            let capture = Program::start(&python, &GARBAGE.replace("WORK", work)).capture(200);
            let stacks = stacks(&capture);
            let marked = stacks.iter().filter(|s| s.functions().last() == Some(&COLLECTING));
            let counts: Vec<_> = marked.map(|s| (s.functions()[..2].to_vec(), s.count)).collect();
            let all: u64 = counts.iter().map(|(_, count)| count).sum();
            let wanted = if is_collecting { vec!["<module>", "collect"] } else { vec![] };
            assert!(counts.iter().all(|(functions, _)| *functions == wanted), "{counts:?}");
            assert_eq!(all * 2 > capture.counts.ticks, is_collecting, "{python:?} {counts:?}");
        }
    }
}
