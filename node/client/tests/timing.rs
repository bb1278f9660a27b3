//! Scope guards, futures and expected intervals, in this process and without a node: what was
//! recorded is read from the account.

use std::future::{Future, pending, ready};
use std::panic::catch_unwind;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use plimsoll_client::{Config, ConfigError, Operation, Stats, configure, stats};

/// Polls once; a future of these tests is done then or never.
fn poll_once<F: Future>(future: F) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// One test, since there is one account in a process.
#[test]
fn each_way_of_timing_records_its_series() {
    configure(Config::new().enable(true)).unwrap();
    let operation = Operation::new("epoch_hook");
    let mut before = stats();
    let mut grown = |what: &str, recorded: u64, cancelled: u64, corrections_cut: u64| {
        let now = stats();
        let difference = Stats {
            recorded: now.recorded - before.recorded,
            cancelled: now.cancelled - before.cancelled,
            corrections_cut: now.corrections_cut - before.corrections_cut,
            ..Stats::default()
        };
        assert_eq!(
            difference,
            Stats { recorded, cancelled, corrections_cut, ..Stats::default() },
            "{what}"
        );
        before = now;
    };

    drop(operation.start());
    operation.start().stop();
    grown("guards", 2, 0, 0);
    operation.start().cancel();
    grown("a cancelled guard", 0, 0, 0);
    let panicked = catch_unwind(|| {
        let _timer = operation.start();
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panicked.is_err());
    grown("a guard in a panic", 1, 0, 0);

    assert!(poll_once(operation.time_future(ready(()))));
    grown("a future that is done", 1, 0, 0);
    assert!(!poll_once(operation.time_future(pending::<()>())));
    grown("a future that is dropped", 0, 1, 0);
    drop(operation.time_future(pending::<()>()));
    grown("a future that was never polled", 0, 0, 0);

    let paced = operation.expected_interval(Duration::from_millis(10));
    for (ms, recorded) in [(5, 1), (10, 1), (19, 1), (20, 2), (45, 4)] {
        paced.record(Duration::from_millis(ms));
        grown("an expected interval", recorded, 0, 0);
    }
    operation.expected_interval(Duration::from_nanos(1)).record(Duration::from_millis(1));
    grown("an expected interval far too short", 10_001, 0, 1_000_000 - 1 - 10_000);
    operation.expected_interval(Duration::ZERO).record(Duration::from_secs(1));
    grown("no expected interval", 1, 0, 0);

    assert_eq!(operation.time(|| Ok::<_, ()>(7)), Ok(7));
    assert_eq!(operation.time(|| Err::<(), _>("broken")), Err("broken"));
    grown("closures", 2, 0, 0);

    assert_eq!(configure(Config::new().timers(false)), Err(ConfigError::Started));
    let account = stats();
    assert_eq!(account.recorded, account.acknowledged + account.refused + account.held);
}
