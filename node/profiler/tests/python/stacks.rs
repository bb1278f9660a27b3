//! What a stack shows: functions, files and lines of everything that Python can run.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_profile::Frame;

use crate::program::{NamedStack, Program, pythons, stacks};

/// The stack on which a program stands still once it got there.
fn last_stack(program: &Program) -> NamedStack {
    let capture = program.capture(100);
    let stacks = stacks(&capture);
    let most = stacks.first().expect("the most frequent one is first");
    assert!(2 * most.count > capture.counts.ticks, "{:?} {stacks:#?}", capture.counts);
    most.clone()
}

const CALLS: &str = "
import time

def block():
    time.sleep(1000)  # line: block

def generator():
    block()  # line: generator
    yield 1

def comprehension():
    return [  # line: head
        next(g) for g in [generator()]  # line: comprehension
    ]

call = lambda: comprehension()  # line: lambda

class Sorted:
    def key(self, _):
        return call()  # line: key

    def sort(self):
        sorted([1], key=self.key)  # line: sort

print('ready', flush=True)
Sorted().sort()  # line: module
";

#[test]
fn calls_by_python_and_by_c_have_exact_lines() {
    for python in pythons() {
        let program = Program::start(&python, CALLS);
        let stack = last_stack(&program);
        let line = |name| program.script.line(name);
        let mut expected = vec![
            ("<module>", line("module")),
            ("Sorted.sort", line("sort")),
            ("Sorted.key", line("key")),
            ("<lambda>", line("lambda")),
            ("comprehension", line("head")),
            ("comprehension.<locals>.<listcomp>", line("comprehension")),
            ("generator", line("generator")),
            ("block", line("block")),
        ];
        // Comprehensions have no frame of their own since 3.12.
        if python.minor >= 12 {
            expected.remove(5);
            expected[4].1 = line("comprehension");
        }
        expected.iter_mut().for_each(|(name, _)| *name = python.name_of(name));
        assert_eq!(stack.of_script(&program.script), expected, "{python:?}");
        assert_eq!(stack.frames().len(), expected.len());
    }
}

const COROUTINES: &str = "
import asyncio, time

async def inner():
    time.sleep(1000)  # line: inner

async def middle():
    return await inner()  # line: middle

async def stream():
    yield await middle()  # line: stream

async def main():
    async for _ in stream():  # line: main
        pass

print('ready', flush=True)
asyncio.run(main())
";

#[test]
fn coroutines_show_who_awaits_them() {
    for python in pythons() {
        let program = Program::start(&python, COROUTINES);
        let stack = last_stack(&program);
        let own = stack.of_script(&program.script);
        let names = ["main", "stream", "middle", "inner"];
        let expected: Vec<_> = names.map(|name| (name, program.script.line(name))).into();
        assert_eq!(own[1..], expected, "{python:?}");
        assert!(stack.functions().contains(&python.name_of("Handle._run")));
    }
}

const NAMES: &str = r#"
import time

LONG = 'n' * 10_000
made = {}
SOURCE = '''
def élan(f):
    return f()
def 名前(f):
    return f()
def 𐐀(f):
    return f()
def LONG(f):


    return f()
'''
exec(compile(SOURCE.replace('LONG', LONG), '<made <up>;>', 'exec'), made)

def marked(f):
    return f()

name = 'co_qualname' if hasattr(marked.__code__, 'co_qualname') else 'co_name'
marked.__code__ = marked.__code__.replace(**{name: '<b onclick="x()">&amp;;</b>\ud800'})
print('ready', flush=True)
marked(lambda: made['élan'](lambda: made['名前'](lambda: made['𐐀'](
    lambda: made[LONG](lambda: time.sleep(1000))))))
"#;

#[test]
fn names_of_any_script_length_and_form_are_kept() {
    for python in pythons() {
        let stack = last_stack(&Program::start(&python, NAMES));
        let long = format!("{}…", "n".repeat(253));
        let expected = [
            "<module>",
            "<b onclick=\"x()\">&amp;;</b>\u{fffd}",
            "<lambda>",
            "élan",
            "<lambda>.<locals>.<lambda>",
            "名前",
            "<lambda>.<locals>.<lambda>.<locals>.<lambda>",
            "𐐀",
        ];
        let expected = expected.map(|name| python.name_of(name));
        assert_eq!(stack.functions()[..8], expected, "{python:?}");
        let is_long = |frame: &&Arc<Frame>| frame.function.as_str() == long;
        let made = stack.frames().iter().find(is_long).expect("it runs");
        assert_eq!((made.file.as_str(), made.line), ("<made <up>;>", 11));
    }
}

const RECURSION: &str = "
import sys, time
sys.setrecursionlimit(10_000)

def dive(depth):
    if depth:
        return dive(depth - 1)  # line: dive
    time.sleep(1000)  # line: bottom

print('ready', flush=True)
dive(1_000)
";

#[test]
fn of_a_deep_recursion_the_leaf_most_frames_are_kept() {
    for python in pythons() {
        let program = Program::start(&python, RECURSION);
        let capture = program.capture(1_000);
        let stack = stacks(&capture).remove(0);
        assert!(2 * stack.count > capture.counts.ticks, "{python:?} {:?}", capture.counts);
        assert!(capture.counts.ticks > 20, "{python:?} {:?}", capture.counts);
        assert!(stack.stack.is_truncated());
        let own = stack.of_script(&program.script);
        let (bottom, above) = own.split_last().expect("there are frames");
        assert_eq!(*bottom, ("dive", program.script.line("bottom")), "{python:?}");
        assert_eq!(above.len(), 126);
        let lines: BTreeSet<_> = above.iter().collect();
        assert_eq!(lines.into_iter().collect::<Vec<_>>(), [&("dive", program.script.line("dive"))]);
    }
}

const MOVING: &str = "
import sys
sys.setrecursionlimit(10_000)

def leaf():
    for _ in range(2_000):
        pass  # line: leaf

def dive(depth):
    if depth:
        return dive(depth - 1)
    while True:
        leaf()

print('ready', flush=True)
dive(1_000)
";

#[test]
fn a_deep_recursion_whose_leaf_runs_is_marked_as_truncated() {
    for python in pythons() {
        let capture = Program::start(&python, MOVING).capture(1_000);
        let stacks = stacks(&capture);
        let is_of_dive = |s: &NamedStack| s.stack.is_truncated() && s.functions()[1] == "dive";
        let of_dive: u64 = stacks.iter().filter(|s| is_of_dive(s)).map(|s| s.count).sum();
        // It may still be on its way down.
        assert!(10 * of_dive > 9 * capture.counts.whole, "{python:?} {:?}", capture.counts);
        assert!(capture.counts.whole > 20, "{python:?} {:?}", capture.counts);
        assert!(stacks.iter().any(|stack| stack.functions().last() == Some(&"leaf")));
    }
}
