//! The checkpointer between a core that changes and a disk that can fail.

use std::path::PathBuf;

use plimsoll_schemas::rule::file::effective;
use tempfile::TempDir;

use super::*;
use crate::core::tests::{MS, Speaker, deliver, start};

fn mesh() -> MeshName {
    MeshName::new("m").unwrap()
}

fn core() -> Core {
    Core::new(mesh(), effective(&[]).unwrap(), start())
}

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.redb");
    (dir, path)
}

fn open(path: &Path) -> (Checkpointer, Option<Checkpoint>) {
    let files = StateFiles { state: Some(path), ..StateFiles::default() };
    let opened = Checkpointer::open(&files, &mesh(), start().wall).unwrap();
    (opened.checkpointer, opened.checkpoint)
}

fn in_memory() -> Checkpointer {
    let files = StateFiles { confirms_memory: true, ..StateFiles::default() };
    Checkpointer::open(&files, &mesh(), start().wall).unwrap().checkpointer
}

/// Begins a write at `now` and waits for its end.
async fn write(checkpointer: &mut Checkpointer, core: &mut Core, now: Mono) {
    checkpointer.write_if_due(core, Now { mono: now, ..start() });
    assert!(checkpointer.is_writing, "no write began");
    let written = checkpointer.written().await;
    checkpointer.on_written(core, now, written);
}

/// The nodes with a confirmation.
fn confirmed(checkpointer: &mut Checkpointer) -> Vec<String> {
    checkpointer.take_confirmations().into_iter().map(|got| got.node.to_string()).collect()
}

#[tokio::test]
async fn a_confirmation_follows_the_write_and_comes_once() {
    let (_dir, path) = place();
    let ((mut checkpointer, _), mut core) = (open(&path), core());
    deliver(&mut core, start(), &Speaker::new("a").send(start(), MS, 9));
    checkpointer.write_if_due(&mut core, Now { mono: Mono(0), ..start() });
    assert_eq!(confirmed(&mut checkpointer), [""; 0], "the write is in progress");
    let written = checkpointer.written().await;
    checkpointer.on_written(&mut core, Mono(0), written);
    assert_eq!(confirmed(&mut checkpointer), ["a"]);
    assert_eq!(confirmed(&mut checkpointer), [""; 0]);
}

#[test]
fn without_a_store_memory_is_confirmed_once_a_second() {
    let mut checkpointer = in_memory();
    let mut core = core();
    let mut got = Vec::new();
    for tenth in 0..30 {
        deliver(&mut core, start(), &Speaker::new("a").send(start(), MS, 9));
        let now = Mono(0).plus(Duration::from_millis(100 * tenth));
        checkpointer.write_if_due(&mut core, Now { mono: now, ..start() });
        got.extend(confirmed(&mut checkpointer));
    }
    assert_eq!(got, ["a"; 3]);
}

#[test]
fn without_a_store_nothing_is_confirmed_unless_the_settings_permit_it() {
    let opened = Checkpointer::open(&StateFiles::default(), &mesh(), start().wall).unwrap();
    let (mut checkpointer, mut core) = (opened.checkpointer, core());
    assert!(!checkpointer.stats.confirms && in_memory().stats.confirms);
    deliver(&mut core, start(), &Speaker::new("a").send(start(), MS, 9));
    checkpointer.write_if_due(&mut core, Now { mono: Mono(0), ..start() });
    let got = checkpointer.take_confirmations();
    let sent = got[0].confirmation(Mono(0), &core.common_terms());
    assert!(sent.withheld && sent.behind && sent.incarnations.is_empty(), "{sent:?}");
    assert!(!sent.limits.is_empty(), "the rest is stated");
}

#[test]
fn without_a_store_a_large_fleet_is_confirmed_in_many_turns() {
    let mut checkpointer = in_memory();
    let mut core = core();
    let names: Vec<&str> =
        (0..600).map(|n| &*Box::leak(format!("n{n:03}").into_boxed_str())).collect();
    names
        .iter()
        .for_each(|name| deliver(&mut core, start(), &Speaker::new(name).final_message(start())));
    let mut got = Vec::new();
    for (turn, more) in [true, true, false].into_iter().enumerate() {
        checkpointer.write_if_due(&mut core, Now { mono: Mono(turn as u64), ..start() });
        assert_eq!(checkpointer.has_unconfirmed(), more);
        let turn = confirmed(&mut checkpointer);
        assert!(turn.len() <= CONFIRMED_A_TURN_MAX);
        got.extend(turn);
    }
    assert_eq!(got, names);
}

#[test]
fn a_slow_or_large_write_is_followed_by_a_bounded_pause() {
    let (second, mebibyte) = (Duration::from_secs(1), 1024 * 1024);
    assert_eq!(interval(second / 10, mebibyte), CHECKPOINT_EVERY);
    assert_eq!(interval(second, mebibyte), second * 8, "slow");
    assert_eq!(interval(second, 320 * mebibyte), second * 10, "large");
    assert_eq!(interval(second * 20, 0), CHECKPOINT_WITHIN);
    assert_eq!(interval(second, u64::MAX), CHECKPOINT_WITHIN);
    // From one confirmation to the next no node may take silence for loss.
    assert!(CHECKPOINT_WITHIN * 2 <= plimsoll_schemas::limits::delivery::CONFIRMATION_PROBE_AFTER);
}

#[tokio::test]
async fn at_most_one_write_a_second_and_none_without_a_change() {
    let (_dir, path) = place();
    let ((mut checkpointer, none), mut core) = (open(&path), core());
    assert!(none.is_none());
    let mut speaker = Speaker::new("a");
    deliver(&mut core, start(), &speaker.send(start(), MS, 9));
    write(&mut checkpointer, &mut core, Mono(0)).await;
    deliver(&mut core, start(), &speaker.send(start(), MS, 9));
    checkpointer.write_if_due(&mut core, Now { mono: Mono(1), ..start() });
    assert!(!checkpointer.is_writing, "too early");
    let later = Mono(0).plus(CHECKPOINT_EVERY * 1_000);
    write(&mut checkpointer, &mut core, later).await;
    checkpointer
        .write_if_due(&mut core, Now { mono: later.plus(CHECKPOINT_EVERY * 1_000), ..start() });
    assert!(!checkpointer.is_writing, "nothing has changed");
    assert_eq!(checkpointer.stats.written, 2);
}

#[tokio::test]
async fn a_failed_write_is_counted_and_repeated_by_the_next() {
    let (_dir, path) = place();
    let (mut checkpointer, _) = open(&path);
    let mut core = core();
    deliver(&mut core, start(), &Speaker::new("a").send(start(), MS, 9));
    write(&mut checkpointer, &mut core, Mono(0)).await;
    drop(checkpointer);
    // The next store finds its file replaced by something that no file can replace.
    until_free(&path);
    let kept = path.with_extension("kept");
    std::fs::rename(&path, &kept).unwrap();
    std::fs::create_dir(&path).unwrap();
    let mut checkpointer = in_memory();
    checkpointer.thread = Some(
        Thread::start(Files { state: Store::closed(&path), history: None, failing: None }).unwrap(),
    );
    checkpointer.stats.kept = true;
    deliver(&mut core, start(), &Speaker::new("b").send(start(), MS, 9));
    write(&mut checkpointer, &mut core, Mono(0)).await;
    assert_eq!((checkpointer.stats.failures["write"], checkpointer.stats.written), (1, 0));
    assert_eq!(confirmed(&mut checkpointer), [""; 0], "what is not stored is not confirmed");
    checkpointer.write_if_due(&mut core, Now { mono: Mono(1), ..start() });
    assert!(!checkpointer.is_writing, "a pause follows a failure");
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&kept, &path).unwrap();
    write(&mut checkpointer, &mut core, Mono(0).plus(CHECKPOINT_RETRY_PAUSE)).await;
    assert_eq!(checkpointer.stats.written, 1);
    assert_eq!(confirmed(&mut checkpointer), ["a", "b"]);
    drop(checkpointer);
    until_free(&path);
    assert_eq!(open(&path).1.unwrap().nodes(), 2);
}

#[tokio::test]
async fn the_last_changes_are_written_at_the_end() {
    let (_dir, path) = place();
    let ((mut checkpointer, _), mut core) = (open(&path), core());
    let mut speaker = Speaker::new("a");
    deliver(&mut core, start(), &speaker.send(start(), MS, 9));
    checkpointer.write_if_due(&mut core, Now { mono: Mono(0), ..start() });
    deliver(&mut core, start(), &Speaker::new("b").send(start(), MS, 9));
    checkpointer.finish(&mut core, Now { mono: Mono(1), ..start() }, Duration::from_secs(20)).await;
    drop(checkpointer);
    until_free(&path);
    assert_eq!(open(&path).1.unwrap().nodes(), 2);
}

/// The thread that writes closes its file shortly after its checkpointer is dropped.
fn until_free(path: &Path) {
    let deadline = plimsoll_clock::Deadline::within(Duration::from_secs(20));
    while Store::open(path, &mesh(), start().wall).is_err() {
        assert!(deadline.pause(Duration::from_millis(5)), "the store is still in use");
    }
}
