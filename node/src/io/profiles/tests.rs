//! What is stored is read again, whatever became of disk, process and version.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use plimsoll_profile::series::{Past, PastQuery};
use plimsoll_profile::{Frame, Name, Profile, SampleLabels, Stack, ValueType, pprof};
use plimsoll_schemas::limits::wire::CAPTURE_PROFILE_BYTES_MAX;
use plimsoll_schemas::wire::capture::{
    CaptureId, CaptureKind, CaptureState, PastRange, ProfilerOrder,
};
use tempfile::TempDir;

use super::*;

const SECOND: u64 = 1_000_000_000;
const BEGIN: u64 = 1_700_000_000;

fn settings(dir: &Path) -> ProfileSettings {
    ProfileSettings {
        continuous: true,
        directory: dir.to_owned(),
        days: 1,
        mib_max: 16,
        ..ProfileSettings::default()
    }
}

fn store(dir: &Path) -> Store {
    let mut store = Store::new(&settings(dir), "n1".into(), Clock::start(), Arc::default());
    store.open().unwrap();
    store
}

fn at(second: u64) -> Wall {
    Wall((BEGIN + second) * SECOND)
}

/// Ten seconds of one function.
fn kept(second: u64, function: &str) -> KeptProfile {
    let mut profile = Profile::new(ValueType::wall(), SECOND / 10);
    (profile.started_at, profile.duration_ns) = (at(second), 10 * SECOND);
    let stack = Stack::new(vec![Frame::new("main", "a.py", 1), Frame::new(function, "a.py", 2)]);
    profile.add(stack, SampleLabels::default(), 100);
    let profile = Bytes::from(pprof::encode(&profile).unwrap());
    KeptProfile { pid: 7, command: "python3".to_owned(), profile }
}

fn past(dir: &Path, from: u64, to: u64) -> Past {
    let query = PastQuery { from: at(from), to: at(to), pid: None, node: Name::default() };
    read_range(dir, query).unwrap()
}

fn files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> =
        names.map(|name| name.into_string().unwrap()).filter(|name| name != "lock").collect();
    names.sort();
    names
}

#[test]
fn profiles_are_read_after_a_restart_and_a_torn_tail_is_dropped() {
    for torn in [0, 1, 9] {
        let dir = TempDir::new().unwrap();
        let mut killed = store(dir.path());
        (0..6).for_each(|n| killed.write(&kept(10 * n, "load"), at(60)).unwrap());
        drop(killed);
        let open = dir.path().join("open-1.segment");
        let bytes = fs::metadata(&open).unwrap().len();
        fs::File::options().write(true).open(&open).unwrap().set_len(bytes - torn).unwrap();

        let mut store = store(dir.path());
        store.write(&kept(60, "load"), at(70)).unwrap();
        assert_eq!(past(dir.path(), 0, 100).profiles, if torn == 0 { 7 } else { 6 }, "{torn}");
        assert_eq!(files(dir.path()).len(), 2);
    }
}

#[test]
fn a_segment_is_closed_after_an_hour_and_old_ones_go() {
    let dir = TempDir::new().unwrap();
    let mut store = store(dir.path());
    for minute in 0..3 * 60 {
        store.write(&kept(60 * minute, "load"), at(60 * minute)).unwrap();
    }
    assert_eq!(files(dir.path()).len(), 3, "{:?}", files(dir.path()));
    assert_eq!(past(dir.path(), 0, 4 * 3_600).profiles, 180);

    let later = 3 * 86_400;
    (0..62).for_each(|n| store.write(&kept(later + 60 * n, "load"), at(later + 60 * n)).unwrap());
    assert_eq!(past(dir.path(), 0, 4 * 3_600).profiles, 0);
    assert_eq!(past(dir.path(), later, later + 7_200).profiles, 62);
}

#[test]
fn files_of_a_later_version_stay_and_are_counted() {
    let dir = TempDir::new().unwrap();
    let mut first = store(dir.path());
    (0..62).for_each(|n| first.write(&kept(60 * n, "load"), at(60 * n)).unwrap());
    drop(first);
    // A later version has gone on here.
    let closed = dir.path().join(&files(dir.path())[0]);
    let mut bytes = fs::read(&closed).unwrap();
    bytes[7] = 2;
    fs::write(&closed, &bytes).unwrap();
    let open = dir.path().join("open-2.segment");
    fs::write(&open, b"PLMPROF\x02later").unwrap();

    let mut store = store(dir.path());
    store.write(&kept(7_200, "load"), at(7_200)).unwrap();
    let past = past(dir.path(), 0, 10_000);
    assert_eq!((past.profiles, past.unread_segments), (3, 1));
    assert_eq!(fs::read(&closed).unwrap(), bytes);
    assert_eq!(fs::read(&open).unwrap(), b"PLMPROF\x02later");
}

#[test]
fn a_disk_that_cannot_be_used_costs_profiles_alone_and_is_named() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("profiles");
    fs::write(&file, "a file").unwrap();
    let mut store = store(&file);
    assert_eq!(store.write(&kept(0, "load"), at(0)), Err("failed"));

    let full = TempDir::new().unwrap();
    let mut store = self::store(full.path());
    // Each write to it fails as on a full disk.
    std::os::unix::fs::symlink("/dev/full", full.path().join("open-1.segment")).unwrap();
    assert!(store.write(&kept(0, "load"), at(0)).is_err());
    let malformed = KeptProfile { profile: Bytes::from_static(b"x"), ..kept(0, "load") };
    assert_eq!(self::store(&dir.path().join("new")).write(&malformed, at(0)), Err("malformed"));
}

#[test]
fn one_directory_serves_one_process() {
    let dir = TempDir::new().unwrap();
    let _first = store(dir.path());
    let mut second = Store::new(&settings(dir.path()), "n".into(), Clock::start(), Arc::default());
    assert!(matches!(second.open(), Err(ProfilesError::InUse { .. })));
}

#[test]
fn a_profile_of_another_time_or_of_more_time_than_there_was_is_not_stored() {
    let dir = TempDir::new().unwrap();
    let mut store = store(dir.path());
    assert_eq!(store.write(&kept(0, "load"), at(30)), Ok(()));
    for now in [200, 2_000] {
        assert_eq!(store.write(&kept(0, "load"), at(now)), Err("malformed"), "{now}");
    }
    assert_eq!(store.write(&kept(500, "load"), at(100)), Err("malformed"), "of later");

    let of = |duration_ns: u64, count: u64| {
        let mut profile = Profile::new(ValueType::wall(), SECOND);
        (profile.started_at, profile.duration_ns) = (at(30), duration_ns);
        let stack = Stack::new(vec![Frame::new("main", "a.py", 1)]);
        profile.add(stack, SampleLabels::default(), count);
        let profile = Bytes::from(pprof::encode(&profile).unwrap());
        KeptProfile { pid: 8, command: "job".to_owned(), profile }
    };
    for (duration_ns, count) in [(u64::MAX / 2, 1), (10 * SECOND, 30_000), (10 * SECOND, 1 << 30)] {
        let stored = store.write(&of(duration_ns, count), at(40));
        assert_eq!(stored, Err("malformed"), "{duration_ns} {count}");
    }
    assert_eq!(store.write(&of(10 * SECOND, 20_000), at(40)), Ok(()), "a thousand threads");
    assert_eq!(past(dir.path(), 0, 100).profiles, 2);
}

fn order(from: u64, to: u64) -> CaptureStart {
    let past = Some(PastRange { from: at(from), to: at(to) });
    let order = ProfilerOrder {
        kind: CaptureKind::Past,
        native: false,
        pid: 0,
        seconds: 1,
        hz: 1,
        full_paths: false,
        alive_at: None,
    };
    CaptureStart { id: CaptureId::derived(&[b"past"]), order, past, from_outside: false }
}

#[tokio::test]
async fn an_order_of_the_past_is_answered_by_the_thread() {
    let dir = TempDir::new().unwrap();
    let node = NodeName::new("n1").unwrap();
    let mut profiles = Profiles::open(&settings(dir.path()), &node, Clock::start()).unwrap();
    profiles.store(kept(0, "usual"), at(10));
    profiles.store(kept(10, "planted"), at(20));
    profiles.read(order(10, 20));
    profiles.read(order(20, 30));
    for _ in 0..2 {
        assert!(matches!(profiles.next().await, ProfileEvent::Stored(Ok(()))));
    }
    let ProfileEvent::Read(end) = profiles.next().await else { panic!("the range") };
    assert_eq!((end.state, end.facts.kind), (CaptureState::Kept, CaptureKind::Past));
    assert!(end.profile.len() <= CAPTURE_PROFILE_BYTES_MAX);
    let profile = pprof::decode(&end.profile).unwrap();
    let [sample] = profile.samples().collect::<Vec<_>>()[..] else { panic!("one stack") };
    assert_eq!(sample.stack.frames()[1].function.as_str(), "planted");
    assert_eq!(
        (sample.labels.node.as_str(), sample.labels.process.as_str()),
        ("n1", "python3 (7)")
    );
    let ProfileEvent::Read(empty) = profiles.next().await else { panic!("the range") };
    assert_eq!(empty.state, CaptureState::Failed(CaptureFailure::Unreadable));
    assert!(profiles.stats().bytes > 0);
}

#[tokio::test]
async fn an_order_records_and_reads_although_settings_are_off() {
    let dir = TempDir::new().unwrap();
    let node = NodeName::new("n1").unwrap();
    let directory = dir.path().join("profiles");
    let off = ProfileSettings { continuous: false, directory, ..settings(dir.path()) };
    let mut profiles = Profiles::open(&off, &node, Clock::start()).unwrap();
    profiles.store(kept(0, "usual"), at(10));
    assert!(matches!(profiles.next().await, ProfileEvent::Stored(Ok(()))));

    let mut restarted = Profiles::open(&off, &node, Clock::start()).unwrap();
    restarted.read(order(0, 20));
    let ProfileEvent::Read(end) = restarted.next().await else { panic!("the range") };
    assert_eq!(end.state, CaptureState::Kept);
}

#[tokio::test]
async fn without_continuous_profiling_there_is_no_thread_and_an_order_is_told_so() {
    let node = NodeName::new("n1").unwrap();
    let off = ProfileSettings { directory: "/none".into(), ..ProfileSettings::default() };
    let mut profiles = Profiles::open(&off, &node, Clock::start()).unwrap();
    assert!(profiles.jobs.is_none());
    profiles.read(order(0, 1));
    let ProfileEvent::Read(end) = profiles.next().await else { panic!("its end") };
    assert_eq!(end.state, CaptureState::Failed(CaptureFailure::NotSupported));
    assert!(end.facts.fix.contains("profiles.continuous"), "{end:?}");
}
