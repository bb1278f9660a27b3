//! Programs that change as fast as they can: a stack that is reported is one that the program can
//! have, but for few of functions that take less time than a line of memory from core to core.

use plimsoll_profile::Frame;

use crate::program::{NamedStack, Program, Python, pythons, stacks};

/// Each `f` calls the `g` of its number, from one line, and nothing else.
const PAIRS: &str = "
import threading

class Pair:
    pass

PAIR = '''
def f%d():
    x = 1
    g%d()  # call
    x = 2

def g%d():
    y = 1
    y = 2
'''
source = ''.join(PAIR.replace('%d', str(n)) for n in range(4))
exec(compile(source, 'pairs', 'exec'))

def run(rounds):
    for _ in range(rounds):
        f0(); f1(); f2(); f3()

print('ready', flush=True)
";

fn name(frame: &Frame) -> &str {
    frame.function.as_str()
}

/// Of a function of a pair, each of which has nine lines.
fn first_line(frame: &Frame) -> u32 {
    let (kind, number) = frame.function.as_str().split_at(1);
    let number: u32 = number.parse().expect("functions of pairs are numbered");
    9 * number + if kind == "f" { 2 } else { 7 }
}

/// What no run of the program has: a function below one that does not call it.
fn impossible(stack: &NamedStack) -> Option<&'static str> {
    let frames: Vec<_> =
        stack.frames().iter().filter(|frame| frame.file.as_str() == "pairs").collect();
    let is_in_body = |frame: &Frame| (0..=3).contains(&frame.line.wrapping_sub(first_line(frame)));
    match frames[..] {
        [] => None,
        [f] if !name(f).starts_with('f') => Some("a g without its f"),
        [f, g] if name(f)[1..] != name(g)[1..] => Some("a g of another f"),
        [f, g] if !name(f).starts_with('f') || !name(g).starts_with('g') => Some("f and f"),
        // The call is on the third line. Of a caller that moved on the line is not known.
        [f, _] if f.line != 0 && f.line != first_line(f) + 2 => Some("not the line of the call"),
        [.., leaf] if !is_in_body(leaf) => Some("a line of another function"),
        [_] | [_, _] => None,
        _ => Some("too deep"),
    }
}

fn check(program: &Program, rate_hz: u32, whole_min: u64) {
    let capture = program.capture(rate_hz);
    let stacks = stacks(&capture);
    let wrong: Vec<_> = stacks.iter().filter_map(|s| Some((impossible(s)?, s))).collect();
    let wrong_samples: u64 = wrong.iter().map(|(_, stack)| stack.count).sum();
    // Caller and callee of two moments in up to 3 % of samples, where the cores are far apart.
    assert!(10 * wrong_samples <= capture.counts.whole, "{wrong:#?} {:?}", capture.counts);

    let of_pairs = |stack: &&NamedStack| stack.frames().iter().any(|f| f.file.as_str() == "pairs");
    let of_pairs: u64 = stacks.iter().filter(of_pairs).map(|stack| stack.count).sum();
    assert!(of_pairs >= whole_min, "{of_pairs} {:?}", capture.counts);
}

/// Those before 3.11 give the time of short functions to their callers.
fn with_short_functions() -> impl Iterator<Item = Python> {
    pythons().into_iter().filter(|python| python.minor >= 11)
}

#[test]
fn functions_that_take_nanoseconds_seldom_mix() {
    for python in with_short_functions() {
        let program = Program::start(&python, &format!("{PAIRS}run(10**12)\n"));
        check(&program, 1_000, 50);
    }
}

#[test]
fn threads_that_come_and_go_at_full_speed_leave_whole_stacks() {
    let threads = "
while True:
    threads = [threading.Thread(target=run, args=[3_000]) for n in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
";
    for python in pythons() {
        let program = Program::start(&python, &format!("{PAIRS}{threads}"));
        check(&program, 500, 3);
    }
}

/// Each round makes code objects of its own, in memory that the last round's had.
const MADE: &str = "
TEXT = '''
def f%d():
    g%d()

def g%d():
    sum(range(10_000))

for _ in range(20):
    f%d()
'''
print('ready', flush=True)
n = 10
while True:
    n = n + 1 if n < 99 else 10
    exec(compile(TEXT.replace('%d', str(n)), 'made%d' % n, 'exec'), {})
";

#[test]
fn a_code_object_in_the_place_of_another_has_its_own_name() {
    for python in pythons() {
        let capture = Program::start(&python, MADE).capture(1_000);
        let stacks = stacks(&capture);
        for stack in &stacks {
            let of: Vec<_> =
                stack.frames().iter().filter(|f| f.file.as_str().starts_with("made")).collect();
            let numbers: Vec<&str> = of.iter().map(|frame| &frame.file.as_str()[4..]).collect();
            assert!(numbers.windows(2).all(|pair| pair[0] == pair[1]), "{stack:#?}");
            for frame in of.iter().filter(|frame| name(frame) != "<module>") {
                assert_eq!(name(frame)[1..], frame.file.as_str()[4..], "{stack:#?}");
            }
        }
        println!("{:?}", capture.counts);
        assert!(
            stacks.iter().any(|stack| stack.functions().last().is_some_and(|f| f.starts_with('g')))
        );
    }
}

#[test]
fn a_recursion_at_full_speed_is_read() {
    let fib = "
def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)  # line: fib

print('ready', flush=True)
while True:
    fib(18)
";
    for python in pythons() {
        let program = Program::start(&python, fib);
        let capture = program.capture(500);
        let line = program.script.line("fib");
        let stacks = stacks(&capture);
        let is_wrong = |stack: &&NamedStack| {
            let own = stack.of_script(&program.script);
            // The module, and `fib` at most so often as its argument allows.
            let callers = own.get(1..own.len().max(2) - 1).unwrap_or_default();
            let are_calls = callers.iter().all(|at| [("fib", line), ("fib", 0)].contains(at));
            !(1..=19).contains(&own.len()) || !are_calls
        };
        let wrong: Vec<_> = stacks.iter().filter(is_wrong).collect();
        let wrong_samples: u64 = wrong.iter().map(|stack| stack.count).sum();
        assert!(10 * wrong_samples <= capture.counts.whole, "{wrong:#?} {:?}", capture.counts);
        assert!(capture.counts.whole >= 50, "{:?}", capture.counts);
    }
}

const LENGTHS: &str = "
import time

def short(): x = 1; x = 2

def long():
    x = 1; x = 2; x = 3; x = 4; x = 5; x = 6; x = 7; x = 8; x = 9; x = 10; x = 11; x = 12
    x = 1; x = 2; x = 3; x = 4; x = 5; x = 6; x = 7; x = 8; x = 9; x = 10; x = 11; x = 12
    x = 1; x = 2; x = 3; x = 4; x = 5; x = 6; x = 7; x = 8; x = 9; x = 10; x = 11; x = 12

def deep(): middle()
def middle(): long()

def run(rounds):
    for _ in range(rounds):
        deep(); long(); short()

print('ready', flush=True)
run(10**12)
";

#[test]
fn a_deeper_stack_is_as_likely_to_be_read_as_a_shallow_one() {
    for python in with_short_functions() {
        let capture = Program::start(&python, LENGTHS).capture(1_000);
        let count = |function: &str| -> u64 {
            let stacks = stacks(&capture);
            let of = stacks.iter().filter(|stack| stack.functions().get(2) == Some(&function));
            of.map(|stack| stack.count).sum()
        };
        let (deep, long) = (count("deep"), count("long"));
        // Both run the same 36 statements, `deep` below two more calls: 50 % to 67 % of the time.
        assert!(deep + long >= 100, "{deep} {long} {:?}", capture.counts);
        let share = 100 * deep / (deep + long);
        assert!((35..=80).contains(&share), "{deep} {long} {python:?}");
    }
}
