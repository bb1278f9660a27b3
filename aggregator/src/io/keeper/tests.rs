//! The keeper between a core that changes and a disk that does not always take it.

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

fn open(path: &Path) -> (Keeper, Option<Checkpoint>) {
    Keeper::open(Some(path), &mesh(), start().wall).unwrap()
}

/// Begins a write at `now` and waits for its end.
async fn keep(keeper: &mut Keeper, core: &mut Core, now: Mono) {
    keeper.keep(core, (now, start().wall));
    assert!(keeper.under_way, "nothing was begun");
    let written = keeper.written().await;
    keeper.on_written(core, now, written);
}

/// The nodes that may be told something now.
fn confirmed(keeper: &mut Keeper) -> Vec<String> {
    keeper.take_confirmations().into_iter().map(|told| told.node.to_string()).collect()
}

#[tokio::test]
async fn a_node_is_told_only_after_the_write_and_only_once() {
    let (_dir, path) = place();
    let ((mut keeper, _), mut core) = (open(&path), core());
    deliver(&mut core, start(), &Speaker::new("a").say(start(), MS, 9));
    keeper.keep(&mut core, (Mono(0), start().wall));
    assert_eq!(confirmed(&mut keeper), [""; 0], "the write is under way");
    let written = keeper.written().await;
    keeper.on_written(&mut core, Mono(0), written);
    assert_eq!(confirmed(&mut keeper), ["a"]);
    assert_eq!(confirmed(&mut keeper), [""; 0]);
}

#[test]
fn without_a_store_nodes_are_told_of_what_is_in_memory_once_a_second() {
    let (mut keeper, _) = Keeper::open(None, &mesh(), start().wall).unwrap();
    let mut core = core();
    let mut told = Vec::new();
    for tenth in 0..30 {
        deliver(&mut core, start(), &Speaker::new("a").say(start(), MS, 9));
        let now = Mono(0).plus(Duration::from_millis(100 * tenth));
        keeper.keep(&mut core, (now, start().wall));
        told.extend(confirmed(&mut keeper));
    }
    assert_eq!(told, ["a"; 3]);
}

#[test]
fn without_a_store_a_large_fleet_is_told_in_many_turns_and_each_node_once() {
    let (mut keeper, _) = Keeper::open(None, &mesh(), start().wall).unwrap();
    let mut core = core();
    let names: Vec<&str> =
        (0..600).map(|n| &*Box::leak(format!("n{n:03}").into_boxed_str())).collect();
    names
        .iter()
        .for_each(|name| deliver(&mut core, start(), &Speaker::new(name).farewell(start())));
    let mut told = Vec::new();
    for (turn, more) in [true, true, false].into_iter().enumerate() {
        keeper.keep(&mut core, (Mono(turn as u64), start().wall));
        assert_eq!(keeper.has_more_to_tell(), more);
        let turn = confirmed(&mut keeper);
        assert!(turn.len() <= CONFIRMED_A_TURN_MAX);
        told.extend(turn);
    }
    assert_eq!(told, names);
}

#[test]
fn a_write_that_was_slow_or_large_is_followed_by_a_rest_but_not_for_long() {
    let (second, mebibyte) = (Duration::from_secs(1), 1024 * 1024);
    assert_eq!(interval(second / 10, mebibyte), CHECKPOINT_EVERY);
    assert_eq!(interval(second, mebibyte), second * 4, "slow");
    assert_eq!(interval(second, 320 * mebibyte), second * 10, "large");
    assert_eq!(interval(second * 20, 0), CHECKPOINT_WITHIN);
    assert_eq!(interval(second, u64::MAX), CHECKPOINT_WITHIN);
    // From one confirmation to the next no node may take silence for loss.
    assert!(CHECKPOINT_WITHIN * 2 <= plimsoll_schemas::limits::delivery::CONFIRMATION_PROBE_AFTER);
}

#[tokio::test]
async fn at_most_one_write_a_second_and_none_without_a_change() {
    let (_dir, path) = place();
    let ((mut keeper, none), mut core) = (open(&path), core());
    assert!(none.is_none());
    let mut speaker = Speaker::new("a");
    deliver(&mut core, start(), &speaker.say(start(), MS, 9));
    keep(&mut keeper, &mut core, Mono(0)).await;
    deliver(&mut core, start(), &speaker.say(start(), MS, 9));
    keeper.keep(&mut core, (Mono(1), start().wall));
    assert!(!keeper.under_way, "too early");
    let later = Mono(0).plus(CHECKPOINT_EVERY * 1_000);
    keep(&mut keeper, &mut core, later).await;
    keeper.keep(&mut core, (later.plus(CHECKPOINT_EVERY * 1_000), start().wall));
    assert!(!keeper.under_way, "nothing has changed");
    assert_eq!(keeper.figures().written, 2);
}

#[tokio::test]
async fn a_write_that_fails_is_counted_and_made_up_for_by_the_next() {
    let (_dir, path) = place();
    let (mut keeper, _) = open(&path);
    let mut core = core();
    deliver(&mut core, start(), &Speaker::new("a").say(start(), MS, 9));
    keep(&mut keeper, &mut core, Mono(0)).await;
    drop(keeper);
    // The next store finds its file replaced by something that no file can replace.
    until_free(&path);
    let kept = path.with_extension("kept");
    std::fs::rename(&path, &kept).unwrap();
    std::fs::create_dir(&path).unwrap();
    let (mut keeper, _) = Keeper::open(None, &mesh(), start().wall).unwrap();
    keeper.thread = Some(Thread::start(Store::closed(&path)).unwrap());
    keeper.figures.kept = true;
    deliver(&mut core, start(), &Speaker::new("b").say(start(), MS, 9));
    keep(&mut keeper, &mut core, Mono(0)).await;
    assert_eq!((keeper.figures().failures["write"], keeper.figures().written), (1, 0));
    assert_eq!(confirmed(&mut keeper), [""; 0], "what is not stored is not confirmed");
    keeper.keep(&mut core, (Mono(1), start().wall));
    assert!(!keeper.under_way, "a pause follows a failure");
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&kept, &path).unwrap();
    keep(&mut keeper, &mut core, Mono(0).plus(CHECKPOINT_RETRY_PAUSE)).await;
    assert_eq!(keeper.figures().written, 1);
    assert_eq!(confirmed(&mut keeper), ["a", "b"]);
    drop(keeper);
    until_free(&path);
    assert_eq!(open(&path).1.unwrap().nodes(), 2);
}

#[tokio::test]
async fn the_last_changes_are_written_on_the_way_out() {
    let (_dir, path) = place();
    let ((mut keeper, _), mut core) = (open(&path), core());
    let mut speaker = Speaker::new("a");
    deliver(&mut core, start(), &speaker.say(start(), MS, 9));
    keeper.keep(&mut core, (Mono(0), start().wall));
    deliver(&mut core, start(), &Speaker::new("b").say(start(), MS, 9));
    keeper.finish(&mut core, (Mono(1), start().wall), Duration::from_secs(20)).await;
    drop(keeper);
    until_free(&path);
    assert_eq!(open(&path).1.unwrap().nodes(), 2);
}

/// The thread that writes closes its file a moment after its keeper is gone.
fn until_free(path: &Path) {
    let deadline = plimsoll_clock::Deadline::within(Duration::from_secs(20));
    while Store::open(path, &mesh(), start().wall).is_err() {
        assert!(deadline.pause(Duration::from_millis(5)), "the store is still in use");
    }
}
