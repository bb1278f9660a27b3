//! Files of node and aggregator: their user alone may read them, and a link in the place of one
//! leads nowhere.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_mesh::child::{Child, until};
use plimsoll_mesh::stack::Stack;
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::process::await_summary;
use plimsoll_tests::program::program;

const WAIT: Duration = Duration::from_secs(30);

/// What is below a path, itself included.
fn below(path: PathBuf, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let entries = fs::read_dir(&path).unwrap();
        entries.for_each(|entry| below(entry.unwrap().path(), found));
    }
    found.push(path);
}

#[tokio::test]
async fn only_the_user_of_a_program_may_read_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    let at = |name: &str| dir.path().join(name);
    let names = [
        "state.redb",
        "state.redb.alerts.json",
        "state.redb.budgets.json",
        "history.redb",
        "history",
        "spool",
    ];
    let written = async || names.iter().all(|name| at(name).exists()).then_some(());
    until("all files are there", WAIT, written).await.unwrap();
    let is_merged = |summary: &Summary| summary.ledger.merged > 100;
    await_summary(stack.api(), "samples are merged", is_merged).await.unwrap();
    stack.drain().await.unwrap();
    let mut found = Vec::new();
    names.into_iter().for_each(|name| below(at(name), &mut found));
    assert!(found.len() > 12, "{found:?}");
    for path in found {
        let mode = fs::symlink_metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {:o}", path.display(), mode & 0o7777);
    }
}

/// What a node logs about the link.
async fn about_the_link(dir: &Path, flag: &str, place: &Path) -> String {
    let mut command = program("plimsoll-node").unwrap();
    command.args(["--name", "n", "--udp", "", "--http", "", "--nats", "nats://127.0.0.1:1"]);
    command.arg(flag).arg(place);
    let node = Child::start(flag.trim_start_matches('-'), dir, command).unwrap();
    let line = async || {
        let log = node.log();
        log.lines().find(|line| line.contains("symbolic link")).map(str::to_owned)
    };
    let found = until("the link is logged", WAIT, line).await;
    found.unwrap_or_else(|error| panic!("{flag}: {error:#}\n{}", node.log()))
}

#[tokio::test]
async fn a_link_in_the_place_of_a_lock_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (place, others) = (dir.path().join("place"), dir.path().join("others"));
    fs::create_dir_all(place.join("n")).unwrap();
    for (flag, lock) in [("--spool", "n.lock"), ("--history", "n/lock")] {
        symlink(&others, place.join(lock)).unwrap();
        let line = about_the_link(dir.path(), flag, &place).await;
        assert!(line.contains(&format!("{lock} is a symbolic link; remove it")), "{line}");
        assert!(!others.exists(), "{flag} made a file of another's choice");
    }
}
