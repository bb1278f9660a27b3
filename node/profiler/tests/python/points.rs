//! Stacks at known points, beside those that CPython itself prints of them.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plimsoll_clock::Deadline;
use tempfile::TempDir;

use crate::program::{NamedStack, Program, Python, pythons, stacks};

/// One thread holds the lock inside C, others wait for it or for something else, each below other
/// kinds of calls. A thread prints its number before it gets to its point.
const POINTS: &str = "
import asyncio, ctypes, faulthandler, functools, signal, sys, threading, time

def rest():
    time.sleep(1000)

def generator():
    rest()
    yield 1

def delegating():
    yield from generator()

class Kept:
    def __init__(self):
        next(delegating())

    @property
    def made(self):
        return Kept()

    def __getitem__(self, _):
        return self.made

    def __enter__(self):
        self[1]

    def __exit__(self, *_):
        pass

def in_objects():
    with object.__new__(Kept):
        pass

async def inner():
    rest()

async def outer():
    await inner()

def in_coroutines():
    asyncio.run(outer())

def in_recursion(depth=40):
    return in_recursion(depth - 1) if depth else rest()

def in_calls_by_c():
    sorted([1, 2], key=functools.partial(max, 3, key=lambda _: [rest() for _ in [1]]))

def on_a_lock():
    held = threading.Lock()
    with held:
        held.acquire()

def polling():
    while True:
        time.sleep(0.001)

def run(function):
    started.release()
    function()

started = threading.Semaphore(0)
functions = [in_objects, in_coroutines, in_recursion, in_calls_by_c, on_a_lock, polling]
for function in functions:
    threading.Thread(target=run, args=[function], daemon=True).start()
    started.acquire()
time.sleep(0.5)
# By its handler in C, at once: it needs no lock.
faulthandler.register(signal.SIGUSR1, open(sys.argv[1], 'wb', 0), all_threads=True)
hold = ctypes.PyDLL(None).sleep
print('ready', flush=True)
hold(1000)
";

/// Function and line of each frame, root first.
type Frames = Vec<(String, u32)>;

/// The stacks of a dump, leaf first: `  File "PATH", line N in NAME`.
fn dumped(text: &str) -> BTreeSet<Frames> {
    let of_threads = text.split("\n\n").map(|part| {
        let lines = part.lines().filter_map(|line| line.trim().strip_prefix("File \""));
        let frames = lines.filter_map(|line| {
            let (file, rest) = line.split_once("\", line ")?;
            let (number, name) = rest.split_once(" in ")?;
            // The frame by which the interpreter calls a class has neither file nor line.
            (file != "__init__").then(|| (name.to_owned(), number.parse().unwrap_or(0)))
        });
        let mut frames: Frames = frames.collect();
        frames.reverse();
        frames
    });
    of_threads.filter(|frames| !frames.is_empty()).collect()
}

fn captured(stack: &NamedStack) -> Frames {
    let frames = stack.frames().iter().filter(|frame| !frame.file.as_str().is_empty());
    let plain = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    frames.map(|frame| (plain(frame.function.as_str()), frame.line)).collect()
}

/// What the process itself prints about its threads.
fn dump(program: &Program, path: &std::path::Path) -> BTreeSet<Frames> {
    kill(Pid::from_raw(program.pid()), Signal::SIGUSR1).expect("it runs");
    let deadline = Deadline::within(Duration::from_secs(20));
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        let found = dumped(&text);
        if found.len() == 7 && text.ends_with('\n') {
            return found;
        }
        assert!(deadline.pause(Duration::from_millis(20)), "{text}");
    }
}

fn check(python: &Python) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("dump");
    let mut command = std::process::Command::new(&python.path);
    command.args(["-X", "faulthandler"]);
    let program = Program::start_with(command, POINTS, &[path.to_str().unwrap()]);
    let capture = program.capture(200);
    // The most frequent one of each thread: it may be on its way there when the capture starts.
    let mut threads = BTreeSet::new();
    let mut stacks = stacks(&capture);
    stacks.retain(|stack| threads.insert(stack.thread.clone()));
    let own: BTreeSet<Frames> = stacks.iter().map(captured).collect();
    assert_eq!(own, dump(&program, &path), "{python:?} {:?}", capture.counts);
    assert_eq!(capture.counts.whole, 7 * capture.counts.ticks, "{python:?} {:?}", capture.counts);
}

#[test]
fn stacks_are_those_that_faulthandler_prints() {
    pythons().iter().for_each(check);
}
