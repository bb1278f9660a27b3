//! The spool with good files, bad files, and disks that fail.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::limits::SPOOL_BYTES_MAX;
use flate2::read::GzDecoder;
use plimsoll_schemas::ids::{Incarnation, Labels, Seq};
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::Totals;
use tempfile::TempDir;

use std::io;
use std::path::PathBuf;

use plimsoll_schemas::ids::{MeshName, NodeName};

use super::*;
use crate::core::spool::NOTES_BYTES;
use crate::core::spool::{HeldMessages, IncarnationState};
use capability::{mount_refusal, skip};

#[expect(dead_code, unreachable_pub, reason = "other tests need the other probes")]
#[path = "../../../../tests/src/capability.rs"]
mod capability;

const WAIT: Duration = Duration::from_secs(20);

fn identity() -> Identity {
    let (mesh, node) = (MeshName::new("m").unwrap(), NodeName::new("n").unwrap());
    Identity { mesh, node, labels: Labels::default() }
}

fn now() -> Now {
    Now { mono: Mono(1), wall: Wall(1_700_000_000_000_000_000) }
}

fn account(newest: u64) -> IncarnationState {
    let totals = Totals { recorded: 5, ..Totals::default() };
    IncarnationState { incarnation: Incarnation(9), newest: Seq(newest), totals, left: false }
}

fn batch(journal: &mut Wal, newest: u64) -> Batch {
    let incarnations = [account(newest)];
    journal
        .next_batch(&HeldMessages {
            incarnations: incarnations.to_vec(),
            ..HeldMessages::default()
        })
        .unwrap()
}

fn open(dir: &Path) -> Opened {
    Spool::open(dir, &identity(), true, now()).unwrap()
}

async fn write(spool: &mut Spool, batch: Batch) -> WriteResult {
    spool.write(batch).unwrap();
    assert!(spool.is_busy());
    written(spool).await
}

async fn written(spool: &mut Spool) -> WriteResult {
    match spool.written().await.unwrap() {
        Written::Batch(result) => result,
        Written::Note(result) => panic!("a note: {result:?}"),
    }
}

/// A spool in which this many messages were sealed, and that no process has open.
async fn closed(dir: &Path, newest: u64) {
    let Opened { mut spool, mut journal, .. } = open(dir);
    for n in 1..=newest {
        assert_eq!(write(&mut spool, batch(&mut journal, n)).await.failure, None);
    }
    assert!(spool.finish(WAIT).await);
}

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("n.spool");
    (dir, path)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn newest(opened: &Opened) -> Option<u64> {
    opened.recovered.as_ref()?.incarnations.first().map(|state| state.newest.0)
}

#[tokio::test]
async fn what_was_written_is_read_back_by_the_next_process() {
    let (dir, path) = place();
    let deep = dir.path().join("made/if/need/be");
    closed(&deep, 3).await;
    let opened = open(&deep);
    assert_eq!((newest(&opened), &opened.quarantined), (Some(3), &None));
    assert_eq!(names(&deep), ["n.lock", "n.note", "n.spool"]);
    let mode = fs::metadata(deep.join("n.spool")).unwrap().permissions().mode();
    assert_eq!((mode & 0o777, path.exists()), (0o600, false));
}

#[tokio::test]
async fn one_batch_at_a_time_and_no_answer_without_one() {
    let (dir, path) = place();
    let Opened { mut spool, mut journal, recovered, .. } = open(dir.path());
    assert!(recovered.is_none());
    let nothing = tokio::time::timeout(Duration::from_millis(10), spool.written()).await;
    assert!(nothing.is_err());
    let (first, second) = (batch(&mut journal, 1), batch(&mut journal, 2));
    spool.write(first.clone()).unwrap();
    let deadline = plimsoll_clock::Deadline::within(WAIT);
    while !path.exists() {
        assert!(deadline.pause(Duration::from_millis(1)), "nothing is written");
    }
    // It is on the disk, but its result has not been received yet.
    assert_eq!(spool.write(second.clone()), Err(second));
    assert_eq!(written(&mut spool).await.bytes, first.bytes.len());
    assert!(!spool.is_busy());
}

#[tokio::test]
async fn a_spool_that_is_in_use_is_left_alone() {
    let (dir, _) = place();
    closed(dir.path(), 2).await;
    let first = open(dir.path());
    let second = Spool::open(dir.path(), &identity(), true, now()).unwrap_err();
    assert!(matches!(&second, SpoolError::InUse { .. }), "{second}");
    assert!(first.spool.finish(WAIT).await);
    assert_eq!(newest(&open(dir.path())), Some(2));
}

#[tokio::test]
async fn a_new_file_that_did_not_take_effect_changes_nothing() {
    let (dir, path) = place();
    closed(dir.path(), 2).await;
    fs::write(path.with_extension("spool.new"), b"half of a fi").unwrap();
    let opened = open(dir.path());
    assert_eq!((newest(&opened), &opened.quarantined), (Some(2), &None));
    assert_eq!(names(dir.path()), ["n.lock", "n.note", "n.spool"]);
}

#[tokio::test]
async fn what_cannot_be_used_is_quarantined_under_a_name_that_is_free() {
    let (dir, path) = place();
    for n in 0..2 {
        fs::write(&path, format!("#!/bin/sh {n}")).unwrap();
        let Opened { spool, recovered, quarantined, .. } = open(dir.path());
        let Quarantined { reason, why, now_at } = quarantined.unwrap();
        assert_eq!((reason, why.as_str()), ("damaged", "not a spool file"));
        assert_eq!(fs::read_to_string(&now_at).unwrap(), format!("#!/bin/sh {n}"));
        assert!(recovered.is_none() && !path.exists());
        assert!(spool.finish(WAIT).await);
    }
    let aside = "n.spool.quarantined-1700000000";
    let [lock, notes] = ["n.lock", "n.note"].map(str::to_owned);
    assert_eq!(names(dir.path()), [lock, notes, aside.to_owned(), format!("{aside}-1")]);
}

#[tokio::test]
async fn a_file_that_is_too_large_or_too_new_is_quarantined_with_its_reason() {
    let (dir, path) = place();
    closed(dir.path(), 1).await;
    let mut bytes = fs::read(&path).unwrap();
    let end = 12 + usize::from(bytes[7]);
    bytes[5] = 3;
    let crc = crc32fast::hash(&[&bytes[..8], &bytes[12..end]].concat());
    bytes[8..12].copy_from_slice(&crc.to_be_bytes());
    fs::write(&path, &bytes).unwrap();
    let newer = open(dir.path());
    let Quarantined { reason, why, now_at } = newer.quarantined.unwrap();
    assert_eq!((reason, fs::read(now_at).unwrap()), ("newer_version", bytes));
    assert_eq!(why, "file version 3 is newer than 2, the latest that this program reads");
    assert!(newer.spool.finish(WAIT).await);
    File::create(&path).unwrap().set_len(SPOOL_BYTES_MAX as u64 + 1).unwrap();
    assert_eq!(open(dir.path()).quarantined.unwrap().reason, "too_large");
}

#[tokio::test]
async fn a_damaged_file_is_kept_until_another_takes_its_place_and_as_a_copy() {
    let (dir, path) = place();
    closed(dir.path(), 3).await;
    let mut bytes = fs::read(&path).unwrap();
    let first = 12 + usize::from(bytes[7]);
    bytes[first + 20] ^= 0xff;
    fs::write(&path, &bytes).unwrap();
    // A process that ends before it wrote anything leaves the next one what it found.
    for _ in 0..2 {
        let Opened { spool, recovered, quarantined, .. } = open(dir.path());
        assert_eq!(recovered.unwrap().incarnations, [account(3)]);
        assert_eq!(quarantined.as_ref().unwrap().reason, "damaged");
        assert!(spool.finish(WAIT).await);
    }
    let Opened { mut spool, mut journal, quarantined, .. } = open(dir.path());
    assert_eq!(write(&mut spool, batch(&mut journal, 4)).await.failure, None);
    assert_eq!(fs::read(quarantined.unwrap().now_at).unwrap(), bytes);
    assert!(spool.finish(WAIT).await);
    let opened = open(dir.path());
    assert_eq!((newest(&opened), opened.quarantined), (Some(4), None));
}

#[tokio::test]
async fn a_spool_of_another_mesh_is_an_error_and_stays() {
    let (dir, path) = place();
    closed(dir.path(), 1).await;
    let before = fs::read(&path).unwrap();
    let other = Identity { mesh: MeshName::new("other").unwrap(), ..identity() };
    let error = Spool::open(dir.path(), &other, true, now()).unwrap_err().to_string();
    assert!(error.ends_with("is the spool of node n of mesh m: give each a directory of its own"));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn an_unusable_place_is_named_with_the_system_error() {
    let (dir, path) = place();
    fs::create_dir(&path).unwrap();
    let not_a_file = Spool::open(dir.path(), &identity(), true, now()).unwrap_err().to_string();
    assert_eq!(not_a_file, format!("spool.path: {}: not a regular file", path.display()));
    let below_a_file = dir.path().join("n.lock/below");
    let error = Spool::open(&below_a_file, &identity(), true, now()).unwrap_err();
    assert!(matches!(error, SpoolError::Inaccessible { path, .. } if path == below_a_file));
}

#[test]
fn a_directory_without_permission_is_an_error() {
    let (dir, _) = place();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let path = dir.path().to_owned();
    let refused = std::thread::spawn(move || {
        // Mode bits do not bind root; this thread alone takes another user id.
        nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65_534));
        Spool::open(&path, &identity(), true, now()).unwrap_err()
    });
    let SpoolError::Inaccessible { source, .. } = refused.join().unwrap() else { panic!() };
    assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn after_a_batch_found_no_room_there_is_no_file_until_all_is_written_anew() {
    let (dir, path) = place();
    let file::Opened { mut file, .. } =
        SpoolFile::open(dir.path(), &identity(), true, now()).unwrap();
    let mut journal = Wal::new(identity(), None);
    file.write(&batch(&mut journal, 1)).unwrap();
    file.append_to(File::options().write(true).open("/dev/full").unwrap());
    let failure = file.write(&batch(&mut journal, 2)).unwrap_err();
    assert_eq!((failure.reason, path.exists()), ("full", false));
    let failure = file.write(&batch(&mut journal, 3)).unwrap_err();
    assert_eq!((failure.reason, failure.text.as_str()), ("io", "there is no file to append to"));
    journal.on_failed();
    file.write(&batch(&mut journal, 4)).unwrap();
    file.write(&batch(&mut journal, 5)).unwrap();
    drop(file);
    assert_eq!(newest(&open(dir.path())), Some(5));
}

#[test]
fn a_thread_that_panics_leaves_no_file() {
    let (dir, path) = place();
    let file::Opened { mut file, .. } =
        SpoolFile::open(dir.path(), &identity(), true, now()).unwrap();
    file.write(&batch(&mut Wal::new(identity(), None), 1)).unwrap();
    assert!(path.exists());
    let panicked = std::thread::spawn(move || panic!("with {file:?} in its hands")).join();
    assert_eq!((panicked.is_err(), path.exists()), (true, false));
}

/// A file system of 64 KiB.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(dir.path());
        let output = mount.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Self(dir)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[tokio::test]
async fn a_disk_that_fills_up_leaves_no_file_and_is_used_again_once_there_is_room() {
    if let Some(refusal) = mount_refusal() {
        return skip(&refusal);
    }
    let disk = SmallDisk::mount();
    let dir = disk.0.path();
    let Opened { mut spool, mut journal, .. } = open(dir);
    assert_eq!(write(&mut spool, batch(&mut journal, 1)).await.failure, None);
    fs::write(dir.join("ballast"), vec![0; 52 * 1024]).unwrap();
    let mut n = 1;
    let failure = loop {
        n += 1;
        assert!(n < 1_000, "the disk does not fill up");
        if let Some(failure) = write(&mut spool, batch(&mut journal, n)).await.failure {
            break failure;
        }
    };
    assert_eq!(failure.reason, "full");
    assert_eq!(names(dir), ["ballast", "n.lock", "n.note"]);
    // A write that fills the disk while a new file is written leaves neither of the two.
    journal.on_failed();
    let mut huge = batch(&mut journal, n);
    huge.bytes.resize(80 * 1024, 0);
    assert_eq!(write(&mut spool, huge).await.failure.unwrap().reason, "full");
    assert_eq!(names(dir), ["ballast", "n.lock", "n.note"]);
    fs::remove_file(dir.join("ballast")).unwrap();
    journal.on_failed();
    assert_eq!(write(&mut spool, batch(&mut journal, n)).await.failure, None);
    assert!(spool.finish(WAIT).await);
    let found = open(dir);
    assert_eq!(newest(&found), Some(n));
    assert!(found.spool.finish(WAIT).await);
}

#[tokio::test]
async fn without_sync_the_file_names_the_boot_of_the_machine() {
    let (dir, _) = place();
    let Opened { mut spool, mut journal, .. } =
        Spool::open(dir.path(), &identity(), false, now()).unwrap();
    assert_eq!(write(&mut spool, batch(&mut journal, 1)).await.failure, None);
    assert!(spool.finish(WAIT).await);
    let bytes = fs::read(dir.path().join("n.spool")).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains(boot.trim()));
    let opened = open(dir.path());
    assert_eq!((newest(&opened), opened.quarantined), (Some(1), None));
}

#[tokio::test]
async fn a_removed_file_is_detected_and_rewritten() {
    let (dir, path) = place();
    let Opened { mut spool, mut journal, .. } = open(dir.path());
    assert_eq!(write(&mut spool, batch(&mut journal, 1)).await.failure, None);
    fs::remove_dir_all(dir.path()).unwrap();
    let failure = write(&mut spool, batch(&mut journal, 2)).await.failure.unwrap();
    assert!(failure.text.contains("removed"), "{failure:?}");
    journal.on_failed();
    assert_eq!(write(&mut spool, batch(&mut journal, 3)).await.failure, None);
    assert!(path.exists());
}

fn notes(incarnation: Incarnation, recorded: u64) -> Notes {
    Notes { own: NotedIncarnation { incarnation, recorded }, orphans: Vec::new() }
}

#[tokio::test]
async fn without_its_file_an_incarnation_leaves_its_notes() {
    let (dir, path) = place();
    let Opened { mut spool, mut journal, orphans, .. } = open(dir.path());
    assert_eq!(orphans, []);
    let room = fs::metadata(dir.path().join("n.note")).unwrap().len();
    assert_eq!(room, NOTES_BYTES as u64, "it is reserved before the disk is full");
    assert_eq!(write(&mut spool, batch(&mut journal, 1)).await.failure, None);
    let former = NotedIncarnation { incarnation: Incarnation(5), recorded: 3 };
    let noted = Notes { orphans: vec![former], ..notes(Incarnation(9), 7) };
    spool.write_note(noted.clone()).unwrap();
    assert_eq!(spool.written().await, Some(Written::Note(Ok(()))));
    assert!(spool.finish(WAIT).await);
    // With its file only the one before has nothing but its note.
    let Opened { spool, orphans, .. } = open(dir.path());
    assert_eq!(orphans, [former]);
    assert!(spool.finish(WAIT).await);
    for truncate in [true, false] {
        let gone = if truncate { fs::write(&path, "") } else { fs::remove_file(&path) };
        gone.unwrap();
        let Opened { spool, orphans, .. } = open(dir.path());
        assert_eq!(orphans, [noted.own, former]);
        assert!(spool.finish(WAIT).await);
    }
}

#[tokio::test]
async fn a_note_is_written_while_a_batch_is_and_counts_for_the_next_process() {
    let (dir, _) = place();
    let Opened { mut spool, mut journal, .. } = open(dir.path());
    let incarnation = Incarnation(9);
    spool.write(batch(&mut journal, 1)).unwrap();
    spool.write_note(notes(incarnation, 7)).unwrap();
    let second = notes(incarnation, 8);
    assert_eq!(spool.write_note(second.clone()), Err(second.clone()), "one at a time");
    let (mut batches, mut notes) = (0, 0);
    while spool.is_busy() || spool.is_noting() {
        match spool.written().await.unwrap() {
            Written::Batch(result) => {
                assert_eq!(result.failure, None);
                batches += 1;
            }
            Written::Note(result) => {
                assert_eq!(result, Ok(()));
                notes += 1;
            }
        }
    }
    assert_eq!((batches, notes), (1, 1));
    spool.write_note(second).unwrap();
    assert_eq!(spool.written().await, Some(Written::Note(Ok(()))));
    assert!(spool.finish(WAIT).await);
    assert_eq!(names(dir.path()), ["n.lock", "n.note", "n.spool"]);
    // Of the eight the file has five.
    let Opened { spool, recovered, .. } = open(dir.path());
    assert_eq!(recovered.unwrap().crashed, 3);
    assert!(spool.finish(WAIT).await);
    let bytes = fs::read(dir.path().join("n.note")).unwrap();
    fs::write(dir.path().join("n.note"), &bytes[..9]).unwrap();
    assert_eq!(open(dir.path()).recovered.unwrap().crashed, 0, "no whole note");
}

#[test]
fn a_note_that_cannot_be_written_has_its_reason_and_a_removed_one_is_written_anew() {
    let (dir, _) = place();
    let path = dir.path().join("n.note");
    let note = notes(Incarnation(9), 7);
    let mut file = NoteFile::new(path.clone());
    let written = Some(note.clone());
    assert_eq!((file.read(), file.write(&note), file.read()), (None, Ok(()), written.clone()));
    fs::remove_file(&path).unwrap();
    assert_eq!((file.write(&note), file.read()), (Ok(()), written.clone()));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let failure = file.write(&note).unwrap_err();
    assert_eq!((failure.reason, failure.remains, file.read()), ("io", false, None));
    assert!(failure.text.contains("n.note"), "{}", failure.text);
    fs::remove_dir(&path).unwrap();
    assert_eq!((file.write(&note), file.read()), (Ok(()), written));
}

#[test]
fn a_spool_of_the_previous_version_is_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/previous");
    for name in ["n1.spool", "n1.note"] {
        let packed = File::open(data.join(format!("{name}.gz"))).unwrap();
        let mut file = File::create(dir.path().join(name)).unwrap();
        io::copy(&mut GzDecoder::new(packed), &mut file).unwrap();
    }
    let (mesh, node) = (MeshName::new("default").unwrap(), NodeName::new("n1").unwrap());
    let identity = Identity { mesh, node, labels: Labels::default() };
    let opened = Spool::open(dir.path(), &identity, true, now()).unwrap();
    assert_eq!(opened.quarantined, None);
    let RecoveredMessages { drafts, sealed, incarnations, uncertain_incarnations, damaged, .. } =
        opened.recovered.unwrap();
    assert_eq!((damaged, uncertain_incarnations), (None, Vec::new()));
    assert!(drafts.len() + sealed.len() > 0, "what the broker did not get is in the file");
    assert!(incarnations[0].totals.recorded > 100, "{incarnations:?}");
}
