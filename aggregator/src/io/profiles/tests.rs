//! Profiles on a real disk: kept, expired, damaged, and subtracted.

use std::fs;
use std::time::Duration;

use plimsoll_profile::{Frame, Profile, SampleLabels, Stack, ThreadState, ValueType, pprof};
use plimsoll_schemas::alert::{AlertKey, Scope};
use plimsoll_schemas::ids::{Labels, MeshName, NodeName, Operation, ProfileName, RuleName};
use plimsoll_schemas::summary::{ProfileRow, ProfileState};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::capture::{CaptureFacts, CaptureId, CaptureKind};
use proptest::prelude::*;
use tempfile::TempDir;

pub(crate) use super::trace::tests::gzip;
use super::*;
use crate::config::ProfileSettings;
use crate::core::advice::ProfileShares;
use crate::core::captures::{CapturePair, CaptureTarget, OrderedPair};
use crate::limits::captures::NAMED_MAX;

const NOW: Wall = Wall(1_000_000 * 1_000_000_000);
const BOUNDS: ProfileSettings = ProfileSettings { keep: 3, keep_days: 1, on_breach: false };

fn mesh() -> MeshName {
    MeshName::new("m").unwrap()
}

fn id(n: u8) -> CaptureId {
    CaptureId::derived(&[&[n]])
}

/// Ten seconds at 100 Hz in which `main` calls each of these functions for a number of samples.
pub(crate) fn pprof_of(functions: &[(&str, u64)]) -> Vec<u8> {
    let mut profile = Profile::new(ValueType::wall(), 10_000_000);
    profile.duration_ns = 10_000_000_000;
    for (name, samples) in functions {
        let frames = vec![Frame::new("main", "train.py", 3), Frame::new(name, "train.py", 7)];
        profile.add(Stack::new(frames), SampleLabels::default(), *samples);
    }
    pprof::encode(&profile).unwrap()
}

pub(crate) fn row(id: CaptureId, start_seconds: f64, bytes: &[u8]) -> ProfileRow {
    ProfileRow {
        id,
        kind: CaptureKind::Cpu,
        native: false,
        node: NodeName::new("n1").unwrap(),
        operation: None,
        labels: Default::default(),
        seconds: 10,
        hz: 100,
        ordered_seconds: 0.0,
        start_seconds,
        rule: None,
        peer: None,
        state: ProfileState::Kept,
        reason: None,
        facts: CaptureFacts::default(),
        bytes: bytes.len() as u64,
        kept_as: None,
        nodes: None,
    }
}

fn open(dir: &TempDir, now: Wall) -> ProfileStore {
    ProfileStore::open(&dir.path().join("state.redb"), &mesh(), BOUNDS, now).unwrap()
}

fn write(store: &ProfileStore, n: u8, start_seconds: f64, bytes: &[u8]) {
    store.write(NOW, row(id(n), start_seconds, bytes), bytes).unwrap();
}

#[test]
fn what_was_stored_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = pprof_of(&[("load", 900)]);
    write(&open(&dir, NOW), 1, 999_990.0, &bytes);
    let store = open(&dir, NOW);
    assert_eq!(store.row(id(1)), Some(row(id(1), 999_990.0, &bytes)));
    assert_eq!(store.bytes(NOW, id(1)).unwrap(), bytes);
    assert!(
        matches!(store.bytes(NOW, id(2)), Err(ProfileError::Unknown(ProfileRef::Id(of))) if of == id(2))
    );
    assert_eq!((store.rows().len(), store.quarantined()), (1, 0));
    let other = MeshName::new("other").unwrap();
    let other = ProfileStore::open(&dir.path().join("state.redb"), &other, BOUNDS, NOW).unwrap();
    assert_eq!((other.rows().len(), other.quarantined()), (0, 1));
}

#[test]
fn bytes_that_are_no_profile_are_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, NOW);
    let stored = store.write(NOW, row(id(1), 0.0, b"no pprof"), b"no pprof");
    assert_eq!((stored, store.rows()), (Err("unreadable"), Vec::new()));
}

#[test]
fn a_disk_that_takes_no_file_costs_the_profile_or_its_name_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bytes) = (open(&dir, NOW), pprof_of(&[("load", 900)]));
    let block = |n: u8| fs::create_dir_all(store.path(id(n)).with_extension("new")).unwrap();
    block(1);
    let row_of = |n: u8| row(id(n), 999_990.0, &bytes);
    assert_eq!(store.write(NOW, row_of(1), &bytes), Err("not_stored"));
    assert_eq!(store.write(NOW, row_of(2), &bytes), Ok(()));

    block(2);
    let name = Some(ProfileName::new("v41").unwrap());
    let kept = store.keep_as(NOW, id(2), name);
    assert!(matches!(kept, Err(ProfileError::NotStored(_))), "{kept:?}");
    assert_eq!((store.rows(), open(&dir, NOW).rows()), (vec![row_of(2)], vec![row_of(2)]));
}

#[test]
fn the_oldest_make_room_and_those_too_old_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bytes) = (open(&dir, NOW), pprof_of(&[("load", 1)]));
    for n in 1..=4 {
        write(&store, n, 999_000.0 + f64::from(n), &bytes);
    }
    let kept = |store: &ProfileStore| (1..=4).filter(|n| store.row(id(*n)).is_some()).collect();
    let all: Vec<u8> = kept(&store);
    assert_eq!(all, [2, 3, 4]);
    let files = || fs::read_dir(dir.path().join("state.redb.profiles")).unwrap().count();
    assert_eq!(files(), 3);

    let later = NOW.plus(Duration::from_secs(24 * 3_600 - 997));
    let left: Vec<u8> = kept(&open(&dir, later));
    assert_eq!((left, files()), (vec![3, 4], 2));
}

fn keep(store: &ProfileStore, n: u8, name: Option<&str>) -> Result<ProfileRow, String> {
    let name = name.map(|name| ProfileName::new(name).unwrap());
    store.keep_as(NOW, id(n), name).map_err(|error| error.to_string())
}

fn named(name: &str) -> ProfileRef {
    ProfileRef::Name(ProfileName::new(name).unwrap())
}

#[test]
fn a_profile_with_a_name_stays_when_others_expire() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bytes) = (open(&dir, NOW), pprof_of(&[("load", 1)]));
    write(&store, 1, 999_001.0, &bytes);
    keep(&store, 1, Some("v41")).unwrap();
    for n in 2..=5 {
        write(&store, n, 999_000.0 + f64::from(n), &bytes);
    }
    let later = NOW.plus(Duration::from_secs(48 * 3_600));
    let store = open(&dir, later);
    assert_eq!(store.find(&named("v41")).unwrap().id, id(1));
    assert_eq!((store.rows().len(), store.bytes(later, id(1)).unwrap()), (1, bytes));

    assert_eq!(store.keep_as(later, id(1), None).unwrap().kept_as, None);
    assert!(matches!(store.find(&named("v41")), Err(ProfileError::Unknown(_))));
    assert_eq!((store.rows(), open(&dir, later).rows()), (vec![], vec![]), "it is too old");
}

#[test]
fn a_name_is_that_of_one_profile_and_names_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let bounds = ProfileSettings { keep: 100, ..BOUNDS };
    let store = ProfileStore::open(&dir.path().join("s"), &mesh(), bounds, NOW).unwrap();
    let bytes = pprof_of(&[("load", 1)]);
    let all = u8::try_from(NAMED_MAX).unwrap() + 1;
    (1..=all).for_each(|n| write(&store, n, 999_999.0, &bytes));
    keep(&store, 1, Some("v1")).unwrap();
    let taken = keep(&store, 2, Some("v1")).unwrap_err();
    assert!(taken.contains(&format!("profile {} is kept as v1", id(1))), "{taken}");
    assert!(keep(&store, 99, Some("v2")).unwrap_err().contains("no profile"));
    (2..all).for_each(|n| drop(keep(&store, n, Some(&format!("v{n}"))).unwrap()));
    assert!(keep(&store, all, Some("more")).unwrap_err().starts_with("64 profiles are kept"));
    // One that has a name may get another.
    assert_eq!(keep(&store, 1, Some("w1")).unwrap().kept_as.unwrap().as_str(), "w1");
    keep(&store, 2, None).unwrap();
    keep(&store, all, Some("more")).unwrap();
}

#[test]
fn a_trace_is_stored_as_one_and_has_no_stacks() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, NOW);
    let (trace, pprof) = (gzip(br#"{"traceEvents":[]}"#), pprof_of(&[("load", 1)]));
    let write = |n: u8, kind, bytes: &[u8]| {
        store.write(NOW, ProfileRow { kind, ..row(id(n), 999_999.0, bytes) }, bytes)
    };
    assert_eq!(write(1, CaptureKind::Trace, &trace), Ok(()));
    assert_eq!(write(2, CaptureKind::Memory, &pprof), Ok(()));
    assert_eq!(write(3, CaptureKind::Trace, &pprof), Err("unreadable"));
    assert_eq!(write(3, CaptureKind::Memory, &trace), Err("unreadable"));
    assert_eq!(open(&dir, NOW).bytes(NOW, id(1)).unwrap(), trace);
    assert!(matches!(store.profile(NOW, id(1)), Err(ProfileError::Trace(of)) if of == id(1)));
    assert!(store.profile(NOW, id(2)).is_ok());
}

#[test]
fn the_past_of_nodes_is_added_up_and_states_its_rate() {
    let dir = tempfile::tempdir().unwrap();
    let (store, sums) = (open(&dir, NOW), Sums::default());
    for (sum, bytes, added) in [
        (1, pprof_of(&[("load", 3)]), Ok(())),
        (2, pprof_of(&[("load", 1)]), Ok(())),
        (1, b"none".to_vec(), Err("unreadable")),
        (1, pprof_of(&[("load", 4), ("step", 1)]), Ok(())),
    ] {
        assert_eq!(sums.add(id(sum), &bytes), added);
    }
    let bytes = sums.take(id(1)).unwrap();
    assert_eq!(sums.take(id(1)), Err("unreadable"));
    assert_eq!(
        sums.take(id(2)).map(|bytes| pprof::decode(&bytes).unwrap().value()),
        Ok(10_000_000)
    );

    let past = ProfileRow { kind: CaptureKind::Past, hz: 0, ..row(id(1), 999_999.0, &bytes) };
    store.write(NOW, past, &bytes).unwrap();
    assert_eq!(store.profile(NOW, id(1)).unwrap().value(), 80_000_000);
    assert_eq!(store.row(id(1)).unwrap().hz, 100);

    // 19 Hz, and what has the period of none of several.
    for (n, period, hz) in [(2, 52_631_578, 19), (3, 2, 0)] {
        let mut profile = Profile::new(ValueType::wall(), period);
        profile.add(Stack::new(vec![Frame::marker("f")]), SampleLabels::default(), 1);
        let bytes = pprof::encode(&profile).unwrap();
        let past = ProfileRow { kind: CaptureKind::Past, ..row(id(n), 999_999.0, &bytes) };
        store.write(NOW, past, &bytes).unwrap();
        assert_eq!(store.row(id(n)).unwrap().hz, hz);
    }
}

#[test]
fn damaged_files_are_set_aside_and_the_others_are_used() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bytes) = (open(&dir, NOW), pprof_of(&[("load", 900)]));
    (1..=3).for_each(|n| write(&store, n, 999_999.0, &bytes));
    let damage = |n: u8, damage: &dyn Fn(&mut Vec<u8>)| {
        let path = store.path(id(n));
        let mut text = fs::read(&path).unwrap();
        damage(&mut text);
        fs::write(&path, text).unwrap();
    };
    damage(1, &|text| text.truncate(20));
    damage(2, &|text| *text.last_mut().unwrap() ^= 1);
    fs::write(dir.path().join("state.redb.profiles/readme.txt"), "not ours").unwrap();

    let store = open(&dir, NOW);
    assert_eq!((store.rows().len(), store.quarantined()), (1, 2));
    assert!(matches!(store.bytes(NOW, id(2)), Err(ProfileError::Unknown(_))));
    assert_eq!(store.bytes(NOW, id(3)).unwrap(), bytes);

    // Damage of later is found when it is read.
    damage(3, &|text| *text.last_mut().unwrap() ^= 1);
    assert!(matches!(store.bytes(NOW, id(3)), Err(ProfileError::Damaged { .. })));
    assert!(matches!(store.bytes(NOW, id(3)), Err(ProfileError::Unknown(_))));
    assert_eq!((store.rows().len(), store.quarantined()), (0, 3));
    assert_eq!(open(&dir, NOW).quarantined(), 0, "what is set aside is looked at no more");
}

#[test]
fn a_profile_of_a_later_version_stays_for_that_version() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, NOW);
    write(&store, 1, 999_999.0, &pprof_of(&[("load", 900)]));
    let path = store.path(id(1));
    let text = fs::read(&path).unwrap();
    // Its facts may be others, too.
    fs::write(&path, "{\"version\":2,\"profile\":7}\nnot pprof").unwrap();
    let store = open(&dir, NOW);
    assert_eq!((store.rows().len(), store.quarantined()), (0, 0));
    assert!(path.exists());
    fs::write(&path, text).unwrap();
    assert_eq!(open(&dir, NOW).rows().len(), 1);
}

/// Profile 1 is of the node at fault, profile 2 of its peer.
fn pair() -> OrderedPair {
    let operation = Operation::new("step").unwrap();
    let scope = Scope::Node(NodeName::new("n1").unwrap());
    let target = |node: &str, rank| CaptureTarget {
        node: NodeName::new(node).unwrap(),
        labels: Labels::new([("rank", rank)]).unwrap(),
    };
    let of = CapturePair {
        alert: AlertKey { rule: RuleName::new("slow").unwrap(), scope, operation },
        culprit: target("n1", "0"),
        peer: target("n2", "1"),
    };
    OrderedPair { of, culprit: id(1), peer: id(2) }
}

#[test]
fn evidence_names_what_differs_most_in_seconds_of_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, NOW);
    write(&store, 1, 999_999.0, &pprof_of(&[("load\u{1b}[31m", 500), ("step", 500)]));
    write(&store, 2, 999_999.0, &pprof_of(&[("load\u{1b}[31m", 100), ("step", 600)]));
    let found = evidence(&store, NOW, &pair(), "http://a").unwrap();
    let rows: Vec<_> =
        found.functions.iter().map(|of| (&*of.function, of.culprit, of.peer)).collect();
    // What the peer is longer in is left out.
    assert_eq!(rows, [("load[31m (train.py:7)", 0.5, 0.1)]);
    assert_eq!((found.labels.get("rank"), found.peer_labels.get("rank")), (Some("0"), Some("1")));
    let link = format!("http://a/?view=profile&id={}&minus={}", id(1), id(2));
    assert_eq!((found.link, found.peer.as_str()), (Some(link), "n2"));
}

#[test]
fn what_may_be_noise_names_no_function() {
    // Samples of both in 10 s at 100 Hz, and whether the first one is named.
    for (culprit, peer, is_named) in [
        (100, 51, false), // 49 ms in each second
        (100, 40, true),
        (640, 540, false), // 100 of 1 180 samples: 2.9 standard deviations
        (640, 530, true),
        (100, 100, false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir, NOW);
        write(&store, 1, 999_999.0, &pprof_of(&[("load", culprit), ("step", 1_000 - culprit)]));
        write(&store, 2, 999_999.0, &pprof_of(&[("load", peer), ("step", 1_000 - peer)]));
        let found = evidence(&store, NOW, &pair(), "").unwrap();
        assert_eq!(found.functions.len(), usize::from(is_named), "{culprit} and {peer}");
        assert_eq!(found.in_words().is_some(), is_named);
    }
}

#[test]
fn two_profiles_of_one_process_are_no_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, NOW);
    let store_of = |n: u8, pid: u32, samples: u64| {
        let bytes = pprof_of(&[("load", samples)]);
        let facts = CaptureFacts { pid, ..CaptureFacts::default() };
        let row = ProfileRow { facts, ..row(id(n), 999_999.0, &bytes) };
        store.write(NOW, row, &bytes).unwrap();
    };
    store_of(1, 7, 900);
    store_of(2, 7, 100);
    let found = evidence(&store, NOW, &pair(), "").unwrap_err();
    assert!(found.to_string().contains("both profiles are of process 7 on n1"), "{found}");
    store_of(2, 8, 100);
    assert_eq!(evidence(&store, NOW, &pair(), "").unwrap().functions.len(), 1);
}

#[test]
fn profiles_of_a_range_state_which_functions_ran_and_who_waited_for_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, NOW);
    let profile = |samples: &[(&str, ThreadState, u64)]| {
        let mut profile = Profile::new(ValueType::wall(), 10_000_000);
        profile.duration_ns = 10_000_000_000;
        for (name, state, count) in samples {
            let labels = SampleLabels { state: Some(*state), ..SampleLabels::default() };
            let frames = vec![Frame::new("main", "train.py", 3), Frame::new(name, "train.py", 7)];
            profile.add(Stack::new(frames), labels, *count);
        }
        pprof::encode(&profile).unwrap()
    };
    use ThreadState::{Gil, Running, Waiting};
    let first = profile(&[("load", Running, 30), ("step", Running, 60), ("read", Waiting, 900)]);
    let second = profile(&[("load", Running, 10), ("<waiting for GIL>", Gil, 20)]);
    write(&store, 1, 999_000.0, &first);
    write(&store, 2, 999_100.0, &second);
    // After the range.
    write(&store, 3, 999_200.0, &second);

    let at = |seconds: u64| Wall(seconds * 1_000_000_000);
    let found = shares(&store, NOW, &(at(999_000)..at(999_200)), None);
    assert_eq!((found.profiles, found.samples), (2, 120));
    let times = (found.running_ns, found.waiting_for_gil_ns);
    assert_eq!(times, (1_000_000_000, 200_000_000));
    let functions: Vec<_> =
        found.functions.iter().map(|of| (of.function.as_str(), of.ns / 10_000_000)).collect();
    assert_eq!(functions, [("step (train.py)", 60), ("load (train.py)", 40)]);
    let other = [NodeName::new("n9").unwrap()];
    let none = shares(&store, NOW, &(at(999_000)..at(999_200)), Some(&other));
    assert_eq!(none, ProfileShares::default());
}

proptest! {
    /// Whatever stands in a file, a start ends, and a profile that is read is the one written.
    #[test]
    fn a_changed_byte_yields_the_profile_or_none(at in 0_usize..700, flip in 1_u8..) {
        let dir = tempfile::tempdir().unwrap();
        let bytes = pprof_of(&[("load", 900)]);
        let store = open(&dir, NOW);
        write(&store, 1, 999_999.0, &bytes);
        let path = store.path(id(1));
        let mut text = fs::read(&path).unwrap();
        let at = at % text.len();
        text[at] ^= flip;
        fs::write(&path, text).unwrap();
        if let Ok(read) = open(&dir, NOW).bytes(NOW, id(1)) {
            prop_assert_eq!(read, bytes);
        }
    }
}
