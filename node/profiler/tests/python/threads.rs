//! Threads: their numbers and names, what each of them does, and how often.

use std::collections::BTreeSet;
use std::process::Command;

use plimsoll_profile::{ThreadState, WAITING_FOR_GIL};
use tempfile::NamedTempFile;

use crate::program::{NamedStack, Program, first_python, pythons, stacks};

const THREADS: &str = "
import ctypes, threading, time

def spin():
    x = 0
    while True:
        x += 1  # line: spin

def rest():
    time.sleep(1000)  # line: rest

def lock():
    held = threading.Lock()
    held.acquire()
    held.acquire()  # line: lock

def named(function):
    ctypes.CDLL(None).prctl(15, function.__name__.encode())
    print(function.__name__, threading.get_native_id(), flush=True)
    started.release()
    function()  # line: named

started = threading.Semaphore(0)
for function in [rest, lock, spin, spin]:
    threading.Thread(target=named, args=[function], daemon=True).start()
    started.acquire()
print('main', threading.get_native_id(), flush=True)
print('ready', flush=True)
rest()
";

#[test]
fn each_thread_has_its_number_name_stack_and_activity() {
    for python in pythons() {
        let program = Program::start(&python, THREADS);
        let capture = program.capture(400);
        let stacks = stacks(&capture);
        let line = |name| program.script.line(name);
        assert_eq!(program.printed.len(), 5);
        let threads: BTreeSet<_> = stacks.iter().map(|stack| &stack.thread).collect();
        assert_eq!(threads.len(), 5);

        for printed in &program.printed {
            let (name, id) = printed.split_once(' ').expect("a name and a number");
            let of_thread: Vec<_> =
                stacks.iter().filter(|s| s.thread.ends_with(&format!(" {id}"))).collect();
            let count = |state| -> u64 {
                of_thread.iter().filter(|s| s.state == state).map(|s| s.count).sum()
            };
            let (running, gil) = (count(ThreadState::Running), count(ThreadState::Gil));
            let waiting = count(ThreadState::Waiting);
            let taken = capture.counts.ticks;

            if name == "spin" {
                // Two threads share the lock. Of 100 samples and more, each has both at least five
                // times even where other processes have most of the processors.
                assert_eq!(of_thread[0].thread, format!("spin {id}"));
                let is_marked = |s: &&NamedStack| s.functions().last() == Some(&WAITING_FOR_GIL);
                let marked = of_thread.iter().copied().filter(is_marked).map(|s| s.count);
                assert_eq!(marked.sum::<u64>(), gil);
                // Woken before it was once seen to wait for the lock, it waits for something.
                assert_eq!(running + gil + waiting, taken, "{python:?}");
                assert!(20 * waiting <= taken, "{waiting} of {taken}: {python:?}");
                assert!(running >= 5 && gil >= 5, "{running} {gil} of {taken}: {python:?}");
                for stack in of_thread {
                    let own = stack.of_script(&program.script);
                    let [.., caller, (function, at)] = own[..] else { panic!("{stack:?}") };
                    assert_eq!(caller, ("named", line("named")));
                    assert!(function == "spin" && at.abs_diff(line("spin")) <= 1, "{at}");
                }
            } else {
                // It may be on its way there when the capture starts.
                let function = if name == "main" { "rest" } else { name };
                assert!(2 * waiting > taken, "{waiting} of {taken}: {python:?} {name}");
                let last = of_thread[0].of_script(&program.script).pop();
                assert_eq!(last, Some((function, line(function))));
            }
        }
        let counts = capture.counts;
        assert_eq!((counts.torn, counts.whole), (0, 5 * counts.ticks));
    }
}

const SHARES: &str = "
import os, sys, time
def heavy():
    for _ in range(60_000):
        pass

def light():
    for _ in range(20_000):
        pass

spent = os.open(sys.argv[1], os.O_WRONLY)
heavy_ns = light_ns = 0
clock = time.perf_counter_ns
print('ready', flush=True)
while True:
    begun = clock()
    heavy()
    between = clock()
    light()
    heavy_ns, light_ns = heavy_ns + between - begun, light_ns + clock() - between
    os.pwrite(spent, b'%20d%20d' % (heavy_ns, light_ns), 0)
";

#[test]
fn functions_are_counted_in_proportion_to_their_time() {
    for python in pythons() {
        let spent = NamedTempFile::new().expect("there is room for a file");
        let path = spent.path().to_str().expect("it is of letters");
        let program = Program::start_with(Command::new(&python.path), SHARES, &[path]);
        // What the program itself measured of both: without a processor either goes on.
        let own = || -> [u64; 2] {
            let text = std::fs::read_to_string(spent.path()).expect("it is there");
            let mut fields = text.split_ascii_whitespace().map(|field| field.parse().unwrap());
            [fields.next().unwrap_or(0), fields.next().unwrap_or(0)]
        };
        let before = own();
        let capture = program.capture(400);
        let after = own();

        let count = |function: &str| -> u64 {
            let stacks = stacks(&capture);
            let own = stacks.iter().filter(|stack| stack.functions().last() == Some(&function));
            own.map(|stack| stack.count).sum()
        };
        let counted = [count("heavy"), count("light")];
        let percent = |[heavy, light]: [u64; 2]| 100 * heavy / (heavy + light);
        assert!(counted.iter().sum::<u64>() >= 100, "{counted:?} {:?}", capture.counts);
        let spent = [after[0] - before[0], after[1] - before[1]];
        // Of 100 samples the error is within 15 points with 3.4 deviations, of 400 with 7.
        let error = percent(counted).abs_diff(percent(spent));
        assert!(error <= 15, "{counted:?} {spent:?} {python:?}");
    }
}

const PARTLY: &str = "
import time
clock = time.thread_time
def work():
    end = clock() + 0.001
    while clock() < end: pass
def rest():
    time.sleep(0.003)
print('ready', flush=True)
while True:
    work()
    rest()
";

#[test]
fn a_thread_that_was_woken_waits_until_it_has_a_processor() {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let load = "print('ready', flush=True)\nwhile True: pass";
    let first = first_python();
    let _load: Vec<Program> = (0..processors).map(|_| Program::start(&first, load)).collect();
    let (mut work, mut rest) = (0, 0);
    for python in pythons() {
        let program = Program::start(&python, PARTLY);
        // As often as continuous profiles, and so often that it has seldom run in between.
        for hz in [100, 1_000] {
            let capture = program.capture(hz);
            let stacks = stacks(&capture);
            let running = |leaf: &str| -> u64 {
                let running = stacks.iter().filter(|s| s.state == ThreadState::Running);
                let own = running.filter(|s| s.functions().last() == Some(&leaf));
                own.map(|stack| stack.count).sum()
            };
            work += running("work");
            rest += running("rest");
        }
    }
    // Where each that can run counts as running, it is a quarter and more.
    assert!(work >= 50 && 10 * rest <= work, "{work} {rest}");
}

const SUBINTERPRETER: &str = "
import time
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
kept = interpreters.create()
def first(): time.sleep(0.1)
def second(): time.sleep(0.1)
print('ready', flush=True)
while True:
    first()
    second()
";

#[test]
fn a_thread_with_states_in_two_interpreters_is_read_each_time() {
    for python in pythons() {
        let capture = Program::start(&python, SUBINTERPRETER).capture(100);
        let stacks = stacks(&capture);
        let count = |function: &str| -> u64 {
            let of = stacks.iter().filter(|stack| stack.functions().contains(&function));
            of.map(|stack| stack.count).sum()
        };
        let (first, second) = (count("first"), count("second"));
        assert!(first >= 20 && second >= 20, "{first} {second} {python:?}");
    }
}

#[test]
fn every_tick_is_taken_or_missed() {
    let python = pythons().pop_first().expect("there is one");
    let program = "print('ready', flush=True)\nwhile True: pass";
    let capture = Program::start(&python, program).capture(1_000);
    assert_eq!(capture.counts.ticks + capture.counts.missed, 1_000);
    assert!(capture.profile.duration_ns >= 1_000_000_000);
}
