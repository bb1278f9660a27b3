//! The store with good files, bad files, and disks that fail in the middle.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use plimsoll_schemas::rule::file::effective;
use plimsoll_schemas::subject::Lane;
use redb::StorageBackend;
use tempfile::TempDir;

use super::*;
use crate::core::Core;
use crate::core::durable::StoredRecords;
use crate::core::tests::checkpoint::assert_same;
use crate::core::tests::{MS, SECOND, Speaker, deliver, start};

fn mesh() -> MeshName {
    MeshName::new("m").unwrap()
}

fn core() -> Core {
    let mut core = Core::new(mesh(), effective(&[]).unwrap(), start());
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    core
}

/// A core that has received so many snapshots of two nodes.
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

/// Records by name.
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
    let bytes = open(&path).store.write(core.take_changes(start().wall).unwrap()).unwrap();
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
        let transaction = builder().create(path).unwrap().begin_write().unwrap();
        let mut rest = records(3)["rest"].clone();
        rest[1] = version;
        transaction.open_table(RECORDS).unwrap().insert("rest", rest.as_slice()).unwrap();
        transaction.commit().unwrap();
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
        let file = fs::File::options().write(true).open(path).unwrap();
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
        let Opened { mut store, checkpoint, quarantined } = open(&path);
        assert!(checkpoint.is_none());
        let quarantined = quarantined.unwrap_or_else(|| panic!("{reason}: in use all the same"));
        assert_eq!(quarantined.reason, reason, "{}", quarantined.why);
        assert!(quarantined.moved_to.starts_with(dir.path()) && quarantined.moved_to.is_file());
        store.write(changes(2)).unwrap();
        drop(store);
        assert_eq!(content(&path), Some(records(2)));
    }
}

#[test]
fn quarantined_files_never_replace_one_another() {
    let (dir, path) = good_file();
    for n in 1..=3 {
        fs::write(&path, "no store").unwrap();
        assert!(open(&path).quarantined.is_some());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), n + 1);
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
    for wrong in [dir.path().join("absent").join("state.redb"), dir.path().to_owned()] {
        let error = error(&wrong, &mesh());
        assert!(error.starts_with("state.path: ") && error.contains("directory"), "{error}");
    }
    let other = error(&path, &MeshName::new("other").unwrap());
    assert!(other.contains("belongs to mesh m, not to other; use"), "{other}");
    let _holder = open(&path);
    assert!(error(&path, &mesh()).ends_with("is in use by another process"));
}

/// A disk in memory that takes so many more changes and then no more.
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
