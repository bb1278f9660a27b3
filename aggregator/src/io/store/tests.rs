//! The store with good files, bad files, and disks that fail in the middle.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use flate2::read::GzDecoder;
use plimsoll_schemas::alert::{AlertKey, AlertState, Scope, Silence};
use plimsoll_schemas::rule::file::effective;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Now;
use redb::StorageBackend;
use tempfile::TempDir;

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::core::Core;
use crate::core::alerting::{AlertCommand, AlertsQuery};
use crate::core::durable::StoredRecords;
use crate::core::history::default_bounds;
use crate::core::tests::checkpoint::assert_same;
use crate::core::tests::{MS, SECOND, Speaker, deliver, start};
use crate::io::history::HistoryStore;

fn mesh() -> MeshName {
    MeshName::new("m").unwrap()
}

fn core() -> Core {
    let mut core = Core::new(mesh(), effective(&[]).unwrap(), start());
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    core
}

/// A core that has received this many snapshots of two nodes.
fn core_with(snapshots: u64) -> Core {
    let mut core = core();
    for name in ["a", "b"] {
        let mut speaker = Speaker::new(name);
        (0..snapshots).for_each(|_| deliver(&mut core, start(), &speaker.send(start(), MS, 9)));
    }
    core
}

/// All that such a core has to store.
fn changes(snapshots: u64) -> Changes {
    core_with(snapshots).take_changes(start().wall).unwrap()
}

fn records(snapshots: u64) -> Content {
    let mut stored = StoredRecords::default();
    stored.write(changes(snapshots));
    stored.0
}

fn open(path: &Path) -> Opened {
    Store::open(path, &mesh(), start().wall).unwrap()
}

/// A good file, closed.
fn good_file() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.redb");
    open(&path).store.write(changes(3)).unwrap();
    (dir, path)
}

type Content = BTreeMap<String, Vec<u8>>;

fn content_of(database: &Database) -> Option<Content> {
    let table = database.begin_read().unwrap().open_table(RECORDS).ok()?;
    let records = table.iter().unwrap().map(Result::unwrap);
    Some(records.map(|(name, bytes)| (name.value().to_owned(), bytes.value().to_vec())).collect())
}

fn content(path: &Path) -> Option<Content> {
    content_of(&builder().create(path).unwrap())
}

#[test]
fn writes_are_read_back_and_later_ones_replace_their_part() {
    let (_dir, path) = good_file();
    assert_eq!(content(&path), Some(records(3)));
    let mut core = core_with(3);
    core.take_changes(start().wall).unwrap();
    deliver(&mut core, start(), &Speaker::new("c").send(start(), MS, 9));
    let mut delta = core.take_changes(start().wall).unwrap();
    assert_eq!(delta.alerts.take(), None, "no alert has changed");
    let bytes = open(&path).store.write(delta).unwrap().bytes;
    let mixed = content(&path).unwrap();
    let changed = ["fleet epoch_hook", "fleet epoch_hook 0", "node c", "rest"];
    assert_eq!(bytes, changed.map(|name| mixed[name].len() as u64).iter().sum::<u64>());
    assert_eq!(
        (&mixed["node a"], &mixed["node b"]),
        (&records(3)["node a"], &records(3)["node b"])
    );
    assert_ne!(mixed["rest"], records(3)["rest"]);
    // Node b is evicted, and later a core with fewer nodes writes everything.
    let week = start().after(SECOND * 8 * 86_400);
    core.on_deadline(week);
    open(&path).store.write(core.take_changes(week.wall).unwrap()).unwrap();
    let nodes = |content: Content| content.into_keys().filter(|name| name.starts_with("node"));
    assert_eq!(nodes(mixed).collect::<Vec<_>>(), ["node a", "node b", "node c"]);
    assert_eq!(nodes(content(&path).unwrap()).count(), 0);
    open(&path).store.write(changes(4)).unwrap();
    assert_eq!(content(&path), Some(records(4)), "everything else is gone");
}

/// Something bad that happens to a file.
type Damage<'a> = &'a dyn Fn(&Path);

#[test]
fn an_unusable_file_is_quarantined_and_a_new_one_created() {
    let of_version = |path: &Path, version: u8| {
        change(path, |_, record| record[1] = version);
    };
    let foreign = |path: &Path| {
        let transaction = builder().create(path).unwrap().begin_write().unwrap();
        let nodes = TableDefinition::<'_, &str, &[u8]>::new("nodes");
        transaction.delete_table(RECORDS).unwrap();
        transaction.open_table(nodes).unwrap().insert("a", [0, 1].as_slice()).unwrap();
        transaction.commit().unwrap();
    };
    let text = |path: &Path| fs::write(path, "these are notes of mine".repeat(999)).unwrap();
    let cut = |path: &Path, part: u64| {
        let file = File::options().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() * part / 8).unwrap();
    };
    let damages: [(&str, Damage<'_>); 7] = [
        ("newer_version", &|path| of_version(path, 13)),
        ("older_version", &|path| of_version(path, 1)),
        ("damaged", &foreign),
        ("damaged", &text),
        ("damaged", &|path| cut(path, 1)),
        ("damaged", &|path| cut(path, 4)),
        ("damaged", &|path| cut(path, 7)),
    ];
    for (reason, damage) in damages {
        let (dir, path) = good_file();
        damage(&path);
        let Opened { mut store, checkpoint, quarantined, .. } = open(&path);
        assert!(checkpoint.is_none());
        let Quarantined { faults, kept_at } =
            quarantined.unwrap_or_else(|| panic!("{reason}: in use all the same"));
        assert!(faults.iter().any(|fault| fault.reason == reason), "{faults:?}");
        assert!(kept_at.starts_with(dir.path()) && kept_at.is_file());
        store.write(changes(2)).unwrap();
        drop(store);
        assert_eq!(content(&path), Some(records(2)));
    }
}

/// Changes records in a file.
fn change(path: &Path, change: impl Fn(&str, &mut Vec<u8>)) {
    let mut records = content(path).unwrap();
    let transaction = builder().create(path).unwrap().begin_write().unwrap();
    for (name, record) in &mut records {
        change(name, record);
        let mut table = transaction.open_table(RECORDS).unwrap();
        table.insert(name.as_str(), record.as_slice()).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn a_record_that_cannot_be_read_costs_its_own_part_and_a_copy_is_quarantined() {
    for name in records(3).keys() {
        let (_dir, path) = good_file();
        change(&path, |record, bytes| {
            if record == name {
                bytes[1] = 99;
            }
        });
        let damaged = content(&path);
        let Opened { mut store, checkpoint, quarantined, .. } = open(&path);
        let Quarantined { faults, kept_at } = quarantined.unwrap();
        assert_eq!(faults[0].reason, "newer_version");
        assert!(faults[0].text.contains(&format!("{name:?}")), "{name}: {faults:?}");
        assert_eq!(content(&kept_at), damaged, "{name}");
        let checkpoint = checkpoint.unwrap_or_else(|| panic!("nothing is left without {name}"));
        let nodes = if name.starts_with("node ") { 1 } else { 2 };
        assert_eq!((checkpoint.nodes(), checkpoint.has_alerts()), (nodes, name != "rest"));
        let mut core = Core::restore(mesh(), effective(&[]).unwrap(), start(), checkpoint);
        let view = core.view(start().wall, "test");
        let mut rows = view.summary.operations.iter();
        let merged = rows.find(|row| row.scope == Scope::Fleet).map(|row| row.total.count);
        assert_eq!(merged, (name != "fleet epoch_hook").then_some(54), "{name}");
        // The next checkpoint replaces all, so that the file is whole again.
        Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
        let changes = core.take_changes(start().wall).unwrap();
        assert!(changes.everything);
        store.write(changes).unwrap();
        drop(store);
        assert_eq!(open(&path).quarantined, None, "{name}");
    }
}

#[test]
fn what_receivers_are_owed_outlives_a_state_file_that_is_lost() {
    let (_dir, path) = good_file();
    let silence = |core: &mut Core| {
        let text = r#"{"match":{"rule":"r"},"by":"a","from_seconds":1.0,"until_seconds":9e9}"#;
        let mut silence: Silence = serde_json::from_str(text).unwrap();
        (silence.from, silence.until) = (start().wall, start().wall.plus(SECOND * 60));
        core.on_order(start().wall, AlertCommand::Silence(silence)).unwrap();
    };
    let mut core = core_with(3);
    silence(&mut core);
    open(&path).store.write(core.take_changes(start().wall).unwrap()).unwrap();
    assert_eq!(open(&path).alerts, Ok(None), "the state has them");
    fs::write(&path, "no state").unwrap();
    let record = open(&path).alerts.unwrap().unwrap();
    assert_eq!(record.silencing.silences.len(), 1);
    let restored = Core::new(mesh(), effective(&[]).unwrap(), start()).with_alerts(record);
    assert_eq!(restored.silences_page().silences, core.silences_page().silences);
    let file = beside::path_beside::<AlertsRecord>(&path);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(
        (mode & 0o777, fs::metadata(&path).unwrap().permissions().mode() & 0o777),
        (0o600, 0o600)
    );
    for (text, why) in [
        ("{", "EOF"),
        (r#"{"version":2,"mesh":"m","at_ns":1}"#, "it is of version 2; this program reads 1"),
        (r#"{"version":1,"mesh":"n","at_ns":1}"#, "it is of mesh n, not of m"),
    ] {
        fs::write(&file, text).unwrap();
        let error = open(&path).alerts.unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    fs::write(&file, r#"{"version":1,"mesh":"m","at_ns":1,"later":[1]}"#).unwrap();
    assert_eq!(open(&path).alerts.unwrap().unwrap().firing, []);
}

/// What is left of the error budget over the fleet's samples of one operation.
fn left(core: &Core, now: Now) -> Option<f64> {
    let view = core.view(now.wall, "test");
    view.error_budgets.iter().find(|of| of.budget == "epoch_hook")?.remaining
}

/// A state of an hour in which one of ten samples is over the limit, stored and closed.
fn spent_file() -> (TempDir, PathBuf, Now) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.redb");
    let (mut core, mut node, mut now) = (core(), Speaker::new("a"), start());
    for minute in 0..60 {
        now = start().after(SECOND * 60 * minute);
        deliver(&mut core, now, &node.send(now, 30 * MS, 1));
        deliver(&mut core, now, &node.send(now, MS, 9));
        core.on_deadline(now);
    }
    open(&path).store.write(core.take_changes(now.wall).unwrap()).unwrap();
    (dir, path, now)
}

fn restarted(path: &Path, now: Now) -> Core {
    let Opened { checkpoint, budgets, .. } = open(path);
    let rules = effective(&[]).unwrap();
    let core = match checkpoint {
        Some(checkpoint) => Core::restore(mesh(), rules, now, checkpoint),
        None => Core::new(mesh(), rules, now),
    };
    let core = core.measuring(plimsoll_schemas::budget::Window::FiveMinutes, &[]);
    match budgets.ok().flatten() {
        Some(record) => core.with_budgets(record),
        None => core,
    }
}

#[test]
fn error_budgets_outlive_damage_elsewhere_and_a_state_file_that_is_lost() {
    let (_dir, path, now) = spent_file();
    let later = now.after(SECOND * 600);
    let goes_on = |core: &mut Core| {
        Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
        deliver(core, later, &Speaker::new("b").send(later, MS, 600));
        left(core, later)
    };
    let mut core = restarted(&path, now);
    let (whole, expected) = (left(&core, now), goes_on(&mut core));
    assert!(whole.is_some_and(|left| left < 0.9) && expected > whole, "{whole:?} {expected:?}");
    drop(core);
    for name in ["fleet epoch_hook", "fleet epoch_hook 3", "node a", "rest"] {
        let (_dir, path, now) = spent_file();
        change(&path, |of, record| {
            if of == name {
                record[6] ^= 0xff;
            }
        });
        let mut core = restarted(&path, now);
        assert_eq!(left(&core, now), whole, "{name}");
        // What comes later counts beside it, over another restart too.
        assert_eq!(goes_on(&mut core), expected, "{name}");
        open(&path).store.write(core.take_changes(later.wall).unwrap()).unwrap();
        assert_eq!(left(&restarted(&path, later), later), expected, "{name}");
    }
    fs::write(&path, "no state").unwrap();
    let mut core = restarted(&path, now);
    assert_eq!((left(&core, now), goes_on(&mut core)), (whole, expected));
}

#[test]
fn a_record_of_error_budgets_that_is_damaged_costs_nothing_else() {
    let (_dir, path, now) = spent_file();
    let whole = left(&restarted(&path, now), now);
    let file = beside::path_beside::<BudgetsRecord>(&path);
    let good = fs::read(&file).unwrap();
    fs::write(&file, &good[..good.len() / 2]).unwrap();
    let opened = open(&path);
    assert_eq!((opened.budgets, opened.quarantined), (Ok(None), None), "the state has them");
    drop(opened.store);
    assert_eq!(left(&restarted(&path, now), now), whole);
    // Of another version it is not read, and the rest is.
    fs::write(&path, "no state").unwrap();
    fs::write(&file, r#"{"version":2,"mesh":"m","at_ns":1}"#).unwrap();
    let error = open(&path).budgets.unwrap_err();
    assert!(error.contains("version 2"), "{error}");
    // Fields that a later program adds are ignored.
    fs::write(&file, r#"{"version":1,"mesh":"m","at_ns":1,"later":[1]}"#).unwrap();
    fs::write(&path, "no state").unwrap();
    assert_eq!(open(&path).budgets.unwrap().unwrap().budgets, []);
}

#[test]
fn quarantined_files_never_replace_one_another() {
    let (dir, path) = good_file();
    for n in 1..=3 {
        fs::write(&path, "no store").unwrap();
        assert!(open(&path).quarantined.is_some());
        let is_store = |entry: io::Result<fs::DirEntry>| {
            !entry.unwrap().file_name().to_str().unwrap().ends_with(".json")
        };
        let files = fs::read_dir(dir.path()).unwrap().map(is_store);
        assert_eq!(files.filter(|is_store| *is_store).count(), n + 1);
    }
}

#[test]
fn a_flipped_byte_yields_the_state_or_none_and_never_another() {
    let (_dir, path) = good_file();
    let good = fs::read(&path).unwrap();
    let step = good.len() / 150 + 1;
    let mut unusable = 0;
    // The header densely, the rest in samples.
    for at in (0..64).chain((64..good.len()).step_by(step)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.redb");
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        fs::write(&path, bad).unwrap();
        let opened = open(&path);
        unusable += usize::from(opened.quarantined.is_some());
        assert_eq!(opened.quarantined.is_some(), opened.checkpoint.is_none(), "byte {at}");
        drop(opened);
        if let Some(stored) = content(&path) {
            assert_eq!(stored, records(3), "byte {at}");
        }
    }
    assert!(unusable > 0);
}

#[test]
fn an_unusable_path_is_a_configuration_error() {
    let (dir, path) = good_file();
    let error = |path: &Path, mesh: &MeshName| {
        Store::open(path, mesh, start().wall).unwrap_err().to_string()
    };
    for wrong in [PathBuf::from("/proc/absent/state.redb"), dir.path().to_owned()] {
        let error = error(&wrong, &mesh());
        assert!(error.starts_with("state.path: ") && error.contains("directory"), "{error}");
    }
    let other = error(&path, &MeshName::new("other").unwrap());
    assert!(other.contains("belongs to mesh m, not to other; use"), "{other}");
    let _holder = open(&path);
    assert!(error(&path, &mesh()).ends_with("is in use by another process"));
}

/// A disk in memory that takes this many more changes and then no more.
#[derive(Clone, Debug)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    left: Arc<AtomicU64>,
}

impl Disk {
    fn holding(bytes: Vec<u8>, left: u64) -> Self {
        Self { bytes: Arc::new(Mutex::new(bytes)), left: Arc::new(AtomicU64::new(left)) }
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    fn spend(&self) -> io::Result<()> {
        let spent = |left: u64| left.checked_sub(1);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spent) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::ErrorKind::StorageFull.into()),
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (bytes, at) = (self.bytes.lock().unwrap(), usize::try_from(offset).unwrap());
        let found = bytes.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.spend()?;
        self.bytes.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.spend()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.spend()?;
        let at = usize::try_from(offset).unwrap();
        self.bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
}

#[test]
fn a_disk_that_fails_anywhere_leaves_one_whole_checkpoint() {
    // Without a cache a page is written when it is made, long before the transaction ends, as
    // it is of a fleet that is larger than the cache.
    for cache_bytes in [STORE_CACHE_BYTES, 0] {
        let open = |disk: &Disk| {
            let mut builder = builder();
            builder.set_cache_size(cache_bytes).create_with_backend(disk.clone()).unwrap()
        };
        let first = Disk::holding(Vec::new(), u64::MAX);
        write(&open(&first), changes(3)).unwrap();
        let (before, after) = (records(3), records(5));
        let (mut kept, mut replaced) = (0, 0);
        for left in 0.. {
            let disk = Disk::holding(first.bytes(), u64::MAX);
            let database = open(&disk);
            disk.left.store(left, Ordering::SeqCst);
            let written = write(&database, changes(5));
            drop(database);
            let stored = content_of(&open(&Disk::holding(disk.bytes(), u64::MAX))).unwrap();
            assert!(stored == before || stored == after, "a mixture after {left} changes");
            assert!(written.is_err() || stored == after);
            kept += usize::from(stored == before);
            replaced += usize::from(stored == after);
            if written.is_ok() {
                break;
            }
        }
        assert!(kept > 0 && replaced > 0, "{kept} {replaced}");
    }
}

#[test]
fn a_fleet_with_full_windows_comes_back_exactly() {
    let (mut core, mut now) = (core(), start());
    let names = (0..30).map(|n| &*Box::leak(format!("node-{n}").into_boxed_str()));
    let mut speakers: Vec<Speaker> = names.map(Speaker::new).collect();
    for round in 0..34_u64 {
        now = now.after(9 * SECOND);
        for speaker in &mut speakers {
            // Around 10 ms with a tail, as latencies are.
            let noise = |n: u64| (round * 7_919 + n * 104_729) % MS;
            let value = |n: u64| 10 * MS + if n.is_multiple_of(50) { 9 } else { 1 } * noise(n);
            deliver(&mut core, now, &speaker.send_all(now, (0..300).map(value)));
        }
        core.on_deadline(now);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.redb");
    open(&path).store.write(core.take_changes(now.wall).unwrap()).unwrap();
    let checkpoint = open(&path).checkpoint.unwrap();
    let mut restored = Core::restore(mesh(), effective(&[]).unwrap(), now, checkpoint);
    assert_same(&mut core, &mut restored);
}

/// A file of the previous version, see `tests/data/previous/README.md`.
fn previous(dir: &Path, name: &str) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/previous");
    let packed = File::open(data.join(format!("{name}.gz"))).unwrap();
    let mut file = File::create(dir.join(name)).unwrap();
    io::copy(&mut GzDecoder::new(packed), &mut file).unwrap();
    dir.join(name)
}

#[test]
fn state_and_history_of_the_previous_version_are_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = MeshName::new("default").unwrap();
    let opened = Store::open(&previous(dir.path(), "state.redb"), &mesh, start().wall).unwrap();
    assert_eq!(opened.quarantined, None);
    let checkpoint = opened.checkpoint.unwrap();
    assert!(checkpoint.is_whole());
    let (generation, at) = (checkpoint.history_generation(), checkpoint.at().unwrap());
    let path = previous(dir.path(), "history.redb");
    let history = HistoryStore::open(&path, &mesh, default_bounds(), generation, at).unwrap();
    assert_eq!((history.quarantined, history.has_diverged), (None, false));
    let now = Now { wall: at, ..start() };
    let core = Core::restore(mesh, effective(&[]).unwrap(), now, checkpoint);
    let page = core.alerts_page(at, &AlertsQuery::default());
    let fires = |key: &AlertKey| (key.rule.to_string(), key.scope == Scope::Fleet);
    let firing = page.alerts.iter().filter(|row| row.state == AlertState::Firing);
    let firing: Vec<_> = firing.map(|row| fires(&row.key)).collect();
    assert!(firing.contains(&("epoch_hook".to_owned(), true)), "{firing:?}");
    assert_eq!(core.silences_page().silences[0].silence.by, "golden");
    let view = core.view(at, "test");
    let ledger = &view.summary.nodes[0].ledger;
    assert!(ledger.merged > 100 && ledger.lost.is_empty(), "{ledger:?}");
}
