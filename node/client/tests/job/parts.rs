//! What the jobs do. Each asserts about the library from within; what arrives outside is
//! asserted by the test that started it.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use plimsoll_client::{
    Config, Counter, FlushOutcome, Gauge, HitCounter, Operation, configure, flush, shard_summary,
    start_read, stats,
};
use plimsoll_clock::Deadline;
use plimsoll_schemas::time::nanos;

use crate::process::{FOLDER, PART, poll_for};
use crate::{forking, stepping};

pub(crate) const LONG: Duration = Duration::from_secs(60);

#[test]
fn part() {
    let Ok(part) = std::env::var(PART) else { return };
    match part.as_str() {
        "everything" => everything(),
        "exit" => exit(),
        "status" => status(),
        "idle" => idle(),
        "churn" => churn(),
        "stress" => stress(),
        "afterthought" => afterthought(),
        "many_series" => many_series(),
        "waits" => waits(),
        "refused" => refused(),
        "disabled" => disabled(),
        "profilers" => profilers(),
        "scopes" => scopes(),
        "in_code" => in_code(),
        "unreachable" => unreachable(),
        "killed" => killed(),
        "ticking" => ticking(),
        "extremes" => extremes(),
        "steps" => stepping::steps(),
        "steps_forked" => stepping::fork_within_a_step(),
        "fork" => forking::fork(),
        "fork_busy" => forking::fork_beside_busy_threads(),
        "fork_threads" => forking::record_first_in_another_thread_of_a_child(),
        "fork_orphan" => forking::leave_a_child_behind(),
        other => panic!("no part is called {other}"),
    }
}

pub(crate) fn file(name: &str) -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER).unwrap_or_default()).join(name)
}

/// A latency for each `n`, spread over three decades.
pub(crate) fn latency(n: u64) -> u64 {
    10_000 + n * 7_919 % 10_000_000
}

fn everything() {
    let threads = (0..4).map(|thread| {
        thread::spawn(move || {
            let fetch = Operation::with_labels("kernel_fetch", [("outcome", "hit")]);
            let hook = Operation::new("epoch_hook");
            for n in 0..10_000 {
                hook.record_ns(latency(thread * 10_000 + n));
                fetch.record(Duration::from_micros(n));
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    Counter::new("tokens").add(5);
    Counter::new("tokens").add(7);
    let cache = HitCounter::new("cache");
    [true, true, false].into_iter().for_each(|is_hit| cache.count(is_hit));
    Gauge::new("loss").set(0.5);
    Gauge::new("loss").set(f64::NAN);
    assert!(flush(LONG).is_delivered(), "{:?}", stats());
    Gauge::new("loss").set(0.25);
    let stats = stats();
    assert_eq!((stats.recorded, stats.acknowledged, stats.held), (80_000, 80_000, 0));
    assert_eq!((stats.not_finite, stats.folded, stats.refused), (1, 0, 0));
}

fn status() {
    let hook = Operation::new("epoch_hook");
    (0..10).for_each(|n| hook.record_ns(latency(n)));
    std::process::exit(std::env::var("STATUS").unwrap().parse().unwrap());
}

fn exit() {
    let hook = Operation::new("epoch_hook");
    thread::spawn(move || (0..1_000).for_each(|n| hook.record_ns(n))).join().unwrap();
    (1_000..2_000).for_each(|n| hook.record_ns(n));
    std::process::exit(0);
}

/// For how long the part `idle` sleeps, and works.
pub(crate) const SPAN: Duration = Duration::from_millis(50);

fn idle() {
    let cpu = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
    let work = move || {
        let until = cpu() + SPAN;
        while cpu() < until {}
    };
    let waited = Operation::with_labels("waited", [("phase", "train")]).with_idle();
    let timer = waited.start();
    assert!(!Deadline::within(SPAN).pause(SPAN));
    timer.stop();
    let worked = Operation::new("worked").with_idle();
    let timer = worked.start();
    work();
    drop(timer);
    let helped = Operation::new("helped").with_idle();
    thread::scope(|scope| {
        let _timer = helped.start();
        scope.spawn(work).join().unwrap();
    });
    waited.start().cancel();
    let longest = Operation::new(&"x".repeat(128));
    let _other = longest.with_idle().start();
    assert_eq!(stats().folded, 1);
}

fn churn() {
    let hook = Operation::new("epoch_hook");
    for _ in 0..250 {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|n| hook.record_ns(latency(n))));
            }
        });
    }
}

fn stress() {
    let hook = Operation::new("epoch_hook");
    let fetch = Operation::new("kernel_fetch");
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for n in 0..500_000_u64 {
                    hook.record_ns(latency(n));
                    if n % 4 == thread {
                        fetch.record_ns(latency(n));
                    }
                }
            });
        }
    });
}

/// Records when its thread's own variables are taken down.
struct Afterthought(Operation);

impl Drop for Afterthought {
    fn drop(&mut self) {
        self.0.record_ns(5_000);
    }
}

thread_local! {
    static AFTERTHOUGHT: RefCell<Option<Afterthought>> = const { RefCell::new(None) };
}

fn afterthought() {
    let hook = Operation::new("epoch_hook");
    let leave_one = move || AFTERTHOUGHT.set(Some(Afterthought(hook)));
    // The variable that is first touched last goes first, so both orders come about.
    let before = thread::spawn(move || {
        leave_one();
        hook.record_ns(1_000);
    });
    let after = thread::spawn(move || {
        hook.record_ns(1_000);
        leave_one();
    });
    before.join().unwrap();
    after.join().unwrap();
}

fn many_series() {
    for series in 0..600 {
        let operation = Operation::with_labels("many", [("n", series.to_string())]);
        for n in 0..200 {
            operation.record_ns(1 << (n % 40));
            operation.record_ns(latency(n * 977 + series));
        }
    }
    // A busy machine may need longer than an exit waits.
    assert_eq!(flush(LONG), FlushOutcome::Delivered);
}

/// Flushes of the job that waits for its node.
const ROUNDS: u64 = 20;

fn waits() {
    let hook = Operation::new("epoch_hook");
    for _ in 0..ROUNDS {
        (0..100).for_each(|n| hook.record_ns(latency(n)));
        assert!(!flush(Duration::from_millis(1)).is_delivered(), "no node can have answered");
    }
    assert_eq!(stats().held, ROUNDS * 100);
    std::fs::write(file("recorded"), (ROUNDS * 100).to_string()).unwrap();
    assert!(flush(LONG).is_delivered(), "{:?}", stats());
}

fn refused() {
    let hook = Operation::new("epoch_hook");
    (0..10).for_each(|n| hook.record_ns(n));
    assert!(flush(LONG).is_delivered(), "{:?}", stats());
    (0..7).for_each(|n| hook.record_ns(n));
    assert!(flush(LONG).is_delivered(), "{:?}", stats());
    let stats = stats();
    assert_eq!((stats.refused, stats.frames_refused, stats.acknowledged), (10, 1, 7));
}

/// Two uses of each profiler that is off, beside values that need the master switch alone.
fn profilers() {
    let hook = Operation::new("epoch_hook");
    for _ in 0..2 {
        hook.record_ns(5);
        drop(hook.start());
        hook.with_idle().start().stop();
        start_read("shard").end(1, 1);
    }
    assert_eq!(flush(LONG), FlushOutcome::Delivered);
    assert_eq!((stats().recorded, shard_summary().reads), (2, 0));
}

fn scopes() {
    let hook = Operation::with_labels("epoch_hook", [("zone", "x")]);
    assert_eq!(hook.time(|| Ok::<_, ()>(7)), Ok(7));
    assert_eq!(hook.time(|| Err::<(), _>("broken")), Err("broken"));
    let panicked = std::panic::catch_unwind(|| {
        let _never = hook.time(|| -> Result<(), ()> { std::panic::resume_unwind(Box::new(())) });
    });
    assert!(panicked.is_err());
    let mut timer = hook.start();
    timer.fail();
    timer.stop();
    for n in 0..11 {
        start_read(&format!("shard{n}")).end(100, 10);
    }
    let slow = start_read("slow");
    let _over = Deadline::within(Duration::from_millis(50)).pause(Duration::from_millis(50));
    slow.end(1, 1);
    drop(start_read("broken"));
    let cache = HitCounter::with_labels("cache", [("level", "1")]);
    [true, true, false].into_iter().for_each(|is_hit| cache.count(is_hit));
    let summary = shard_summary();
    assert_eq!((summary.reads, summary.failed, summary.slow), (13, 1, 1));
    assert_eq!((summary.bytes, summary.rows, &*summary.slowest[0].0), (1_101, 111, "slow"));
    assert_eq!(flush(LONG), FlushOutcome::Delivered);
}

/// The environment switches everything off.
fn in_code() {
    let hook = Operation::new("epoch_hook");
    hook.record_ns(5);
    assert_eq!(flush(LONG), FlushOutcome::Disabled);
    configure(Config::new().enable(true).shards(false).label("run", "r8")).unwrap();
    drop(hook.start());
    start_read("shard").end(1, 1);
    assert_eq!(flush(LONG), FlushOutcome::Delivered);
    assert_eq!((stats().recorded, shard_summary().reads), (1, 0));
}

fn unreachable() {
    assert_eq!(flush(LONG), FlushOutcome::Delivered, "there is nothing");
    Operation::new("epoch_hook").record_ns(5);
    assert_eq!(flush(Duration::from_secs(1)), FlushOutcome::Unreachable { held: 1 });
}

fn disabled() {
    let hook = Operation::new("epoch_hook");
    hook.record_ns(5);
    drop(hook.start());
    Counter::new("tokens").add(1);
    Gauge::new("loss").set(1.0);
    assert_eq!(hook.time(|| Err::<(), _>(7)), Err(7));
    start_read("shard").end(1, 1);
    assert_eq!(flush(LONG), FlushOutcome::Disabled);
    assert_eq!(shard_summary().reads, 0);
    let stats = stats();
    assert!(!stats.enabled);
    assert_eq!(stats.recorded, 0);
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let name = std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap();
        assert_ne!(name.trim(), "plimsoll-flush");
    }
}

fn killed() {
    let hook = Operation::new("epoch_hook");
    (0..1_000).for_each(|n| hook.record_ns(n));
    assert!(flush(LONG).is_delivered(), "{:?}", stats());
    hook.record_ns(1);
    std::fs::write(file("ready"), "").unwrap();
    poll_for(&file("never"));
}

/// Records every few milliseconds until it is killed; a file gets the time of each record.
fn ticking() {
    let pid = std::process::id().to_string();
    let call = Operation::with_labels("ticking", [("pid", &pid)]);
    let mut times = File::create(file(&pid)).unwrap();
    loop {
        call.record_ns(1);
        times.write_all(&monotonic_ns().to_be_bytes()).unwrap();
        let _over = Deadline::within(TICK).pause(TICK);
    }
}

const TICK: Duration = Duration::from_millis(5);

/// The same clock in every process.
pub(crate) fn monotonic_ns() -> u64 {
    nanos(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().into())
}

fn extremes() {
    let hook = Operation::new("epoch_hook");
    (0..100_000).for_each(|_| hook.record_ns(u64::MAX));
    hook.record_ns(0);
    Operation::new("not a name").record_ns(1);
    Operation::new("paced").expected_interval(Duration::from_millis(10)).record_ns(45_000_000);
    assert!(Operation::try_new("also no name", [("a", "b")]).is_err());
    assert_eq!(stats().folded, 1);
}
