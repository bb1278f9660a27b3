//! A forked child counts nothing of its parent's, and both lose nothing of their own.

#![expect(unsafe_code, reason = "to fork is what is tested, and it can only be done unsafely")]

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork as fork_process};
use plimsoll_client::{Counter, Operation, flush, stats};
use plimsoll_clock::Deadline;

use crate::node::{Manner, Node};
use crate::parts::{LONG, file, latency};
use crate::process::{Place, poll_for};

/// Runs `child` in a forked process, which then exits as any process does.
pub(crate) fn forked(child: impl FnOnce()) -> Pid {
    // SAFETY: a child of several threads may strictly do little; that it can record, as forked
    // workers of real jobs do, is what is tested here.
    match unsafe { fork_process() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            child();
            // SAFETY: ends this process. That of the standard library waits for a lock that a
            // thread may have held which started or ended beside the fork.
            unsafe { libc::exit(0) }
        }
    }
}

pub(crate) fn poll_ended_well(child: Pid) {
    let until = Deadline::within(LONG);
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG)).unwrap() {
            WaitStatus::StillAlive if until.pause(Duration::from_millis(1)) => {}
            WaitStatus::StillAlive => kill(child, Signal::SIGKILL).unwrap(),
            status => return assert_eq!(status, WaitStatus::Exited(child, 0)),
        }
    }
}

pub(crate) fn fork() {
    let hook = Operation::new("epoch_hook");
    let tokens = Counter::new("tokens");
    (0..1_000).for_each(|n| hook.record_ns(latency(n)));
    tokens.add(1_000);
    let silent = forked(|| {});
    let busy = forked(|| {
        (0..10).for_each(|n| hook.record_ns(latency(n)));
        Operation::new("of_the_child").record_ns(5);
        tokens.add(10);
        assert_eq!(stats().recorded, 11);
        let grandchild = forked(|| hook.record_ns(7_000));
        poll_ended_well(grandchild);
    });
    hook.record_ns(9_000);
    poll_ended_well(silent);
    poll_ended_well(busy);
    assert_eq!(stats().recorded, 1_001);
}

pub(crate) fn fork_beside_busy_threads() {
    let hook = Operation::new("epoch_hook");
    let are_forked = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..2_000_000).for_each(|n| hook.record_ns(latency(n))));
        }
        scope.spawn(|| {
            // Handles are made and threads come and go while the others fork.
            for n in 0..300 {
                let short = Operation::new(&format!("short_{}", n % 50));
                let _ended = thread::spawn(move || short.record_ns(1)).join();
            }
        });
        for _ in 0..2 {
            // Each holds the standard library's lock on its table of threads for a moment.
            scope.spawn(|| {
                for _ in (0..1_000_000).take_while(|_| !are_forked.load(Relaxed)) {
                    let _ended = thread::spawn(|| {}).join();
                }
            });
        }
        for _ in 0..40 {
            poll_ended_well(forked(|| (0..10).for_each(|n| hook.record_ns(latency(n)))));
        }
        are_forked.store(true, Relaxed);
    });
}

pub(crate) fn record_first_in_another_thread_of_a_child() {
    let hook = Operation::new("epoch_hook");
    (0..5).for_each(|n| hook.record_ns(latency(n)));
    poll_ended_well(forked(|| {
        thread::spawn(move || hook.record_ns(latency(5))).join().unwrap();
        (0..100).for_each(|n| hook.record_ns(latency(n)));
        assert_eq!(stats().recorded, 101);
    }));
}

pub(crate) fn leave_a_child_behind() {
    let hook = Operation::new("epoch_hook");
    hook.record_ns(5);
    assert!(flush(LONG).is_delivered(), "{:?}", stats());
    forked(|| {
        std::fs::write(file("child"), "").unwrap();
        poll_for(&file("go_on"));
        hook.record_ns(6);
    });
    poll_for(&file("child"));
    // Unlike an exit, this tells nobody.
    std::process::abort();
}

#[test]
fn parent_and_children_each_count_their_own() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start("fork").ends_well();
    let seen = node.leave();
    assert_eq!(seen.histograms["epoch_hook"].count(), 1_001 + 10 + 1);
    assert_eq!(seen.histograms["of_the_child"].count(), 1);
    assert_eq!(seen.counters["tokens"], 1_010.0);
    assert_eq!(seen.last.len(), 3, "three processes recorded: {:?}", seen.last);
}

#[test]
fn a_child_whose_other_threads_record_first_loses_nothing() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start("fork_threads").ends_well();
    assert_eq!(node.leave().histograms["epoch_hook"].count(), 5 + 1 + 100);
}

#[test]
fn forking_beside_busy_threads_neither_hangs_nor_loses() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start_with("fork_busy", &[("PLIMSOLL_FLUSH_MS", "10")]).ends_well();
    let seen = node.leave();
    assert_eq!(seen.histograms["epoch_hook"].count(), 4_000_000 + 40 * 10);
    assert_eq!(seen.samples(), 4_000_000 + 40 * 10 + 300);
    assert_eq!(seen.last.len(), 41);
}

#[test]
fn a_child_keeps_no_connection_of_its_parent_open() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    let mut job = place.start("fork_orphan");
    job.poll_end();
    node.poll_until("the parent's connection ends", |seen| seen.ended == 1);
    assert!(!place.file("go_on").exists());
    place.signal("go_on");
    node.poll_until("the child reports", |seen| seen.samples() == 2);
}
