//! The store with good files, bad files, and disks that give up in the middle.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use plimsoll_schemas::budget::effective;
use plimsoll_schemas::clock::{Clock, Stopwatch};
use plimsoll_schemas::time::Now;
use redb::StorageBackend;
use tempfile::TempDir;

use super::*;
use crate::core::Core;
use crate::core::tests::{MS, SECOND, Speaker, deliver, start};

fn mesh() -> MeshName {
    MeshName::new("m").unwrap()
}

fn core() -> Core {
    Core::new(mesh(), effective(&[]).unwrap(), start())
}

/// Records of a core that has heard so many snapshots of two nodes.
fn records(snapshots: u64) -> Records {
    let mut core = core();
    for name in ["a", "b"] {
        let mut speaker = Speaker::new(name);
        (0..snapshots).for_each(|_| deliver(&mut core, start(), &speaker.say(start(), MS, 9)));
    }
    core.take_changes(start().wall).unwrap().into_records()
}

fn as_stored(records: &Records) -> StoredRecords {
    let node = |(name, record): &(String, Option<Vec<u8>>)| Some((name.clone(), record.clone()?));
    StoredRecords {
        nodes: records.nodes.iter().filter_map(node).collect(),
        fleet: records.fleet.clone(),
        rest: records.rest.clone(),
    }
}

fn open(path: &Path) -> Opened {
    Store::open(path, &mesh(), start().wall).unwrap()
}

/// A good file, closed.
fn good_file() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.redb");
    open(&path).store.write(&records(3)).unwrap();
    (dir, path)
}

fn content(path: &Path) -> Option<StoredRecords> {
    let database = builder().create(path).unwrap();
    read(&database).unwrap()
}

#[test]
fn what_was_written_is_read_back_and_later_writes_replace_their_part() {
    let (_dir, path) = good_file();
    assert_eq!(content(&path), Some(as_stored(&records(3))));
    let (mut later, all) = (records(4), as_stored(&records(4)));
    later.everything = false;
    let (name, record) = later.nodes.remove(0);
    open(&path).store.write(&later).unwrap();
    let mixed = content(&path).unwrap();
    assert_eq!((&mixed.nodes[1], &mixed.rest), (&all.nodes[1], &all.rest));
    assert_eq!(mixed.nodes[0], as_stored(&records(3)).nodes[0]);
    later.nodes = vec![(name, None)];
    open(&path).store.write(&later).unwrap();
    assert_eq!(content(&path).unwrap().nodes.len(), 1);
    later.nodes = vec![("c".to_owned(), record)];
    later.everything = true;
    open(&path).store.write(&later).unwrap();
    assert_eq!(content(&path).unwrap().nodes.len(), 1, "everything else is gone");
}

/// Something bad that happens to a file.
type Damage<'a> = &'a dyn Fn(&Path);

#[test]
fn a_file_that_cannot_be_used_is_set_aside_and_a_new_one_begun() {
    let newer = |path: &Path| {
        let mut records = records(3);
        records.rest[1] += 1;
        open(path).store.write(&records).unwrap();
    };
    let text = |path: &Path| fs::write(path, "these are notes of mine".repeat(999)).unwrap();
    let cut = |path: &Path, part: u64| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() * part / 8).unwrap();
    };
    let damages: [(&str, Damage<'_>); 5] = [
        ("newer_version", &newer),
        ("damaged", &text),
        ("damaged", &|path| cut(path, 1)),
        ("damaged", &|path| cut(path, 4)),
        ("damaged", &|path| cut(path, 7)),
    ];
    for (reason, damage) in damages {
        let (dir, path) = good_file();
        damage(&path);
        let Opened { mut store, checkpoint, set_aside } = open(&path);
        assert!(checkpoint.is_none());
        let set_aside = set_aside.unwrap_or_else(|| panic!("{reason}: in use all the same"));
        assert_eq!(set_aside.reason, reason, "{}", set_aside.why);
        assert!(set_aside.now_at.starts_with(dir.path()) && set_aside.now_at.is_file());
        store.write(&records(2)).unwrap();
        drop(store);
        assert_eq!(content(&path), Some(as_stored(&records(2))));
    }
}

#[test]
fn files_set_aside_never_replace_one_another() {
    let (dir, path) = good_file();
    for n in 1..=3 {
        fs::write(&path, "no store").unwrap();
        assert!(open(&path).set_aside.is_some());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), n + 1);
    }
}

#[test]
fn a_flipped_byte_anywhere_gives_the_state_or_none_and_never_another() {
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
        unusable += usize::from(opened.set_aside.is_some());
        assert_eq!(opened.set_aside.is_some(), opened.checkpoint.is_none(), "byte {at}");
        drop(opened);
        if let Some(stored) = content(&path) {
            assert_eq!(stored, as_stored(&records(3)), "byte {at}");
        }
    }
    assert!(unusable > 0);
}

#[test]
fn a_place_that_cannot_be_used_is_an_error_of_the_configuration() {
    let (dir, path) = good_file();
    let error = |path: &Path, mesh: &MeshName| {
        Store::open(path, mesh, start().wall).unwrap_err().to_string()
    };
    for wrong in [dir.path().join("absent").join("state.redb"), dir.path().to_owned()] {
        let error = error(&wrong, &mesh());
        assert!(error.starts_with("state.path: ") && error.contains("directory"), "{error}");
    }
    let other = error(&path, &MeshName::new("other").unwrap());
    assert!(other.ends_with("holds the state of mesh m, not of other"), "{other}");
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
fn wherever_a_disk_gives_up_the_store_holds_one_whole_checkpoint() {
    let first = Disk::holding(Vec::new(), u64::MAX);
    write(&builder().create_with_backend(first.clone()).unwrap(), &records(3)).unwrap();
    let (before, after) = (as_stored(&records(3)), as_stored(&records(5)));
    let (mut kept, mut replaced) = (0, 0);
    for changes in 0.. {
        let disk = Disk::holding(first.bytes(), u64::MAX);
        let database = builder().create_with_backend(disk.clone()).unwrap();
        disk.left.store(changes, Ordering::SeqCst);
        let written = write(&database, &records(5));
        drop(database);
        let again = builder().create_with_backend(Disk::holding(disk.bytes(), u64::MAX));
        let stored = read(&again.unwrap()).unwrap().unwrap();
        assert!(stored == before || stored == after, "a mixture after {changes} changes");
        assert!(written.is_err() || stored == after);
        kept += usize::from(stored == before);
        replaced += usize::from(stored == after);
        if written.is_ok() {
            break;
        }
    }
    assert!(kept > 0 && replaced > 0, "{kept} {replaced}");
}

/// The size that the target is about: a thousand nodes, three operations, full windows.
fn large_core(nodes: usize) -> (Core, Now) {
    let mut core = core();
    let mut speakers: Vec<Speaker> =
        (0..nodes).map(|n| Speaker::new(Box::leak(format!("node-{n}").into_boxed_str()))).collect();
    let mut now = start();
    for round in 0..34_u64 {
        now = now.after(9 * SECOND);
        for speaker in &mut speakers {
            // Around 10 ms with a tail, as latencies are.
            let noise = |n: u64| (round * 7_919 + n * 104_729) % MS;
            let value = |n: u64| 10 * MS + if n.is_multiple_of(50) { 9 } else { 1 } * noise(n);
            deliver(&mut core, now, &speaker.say_all(now, (0..300).map(value)));
        }
    }
    (core, now)
}

#[test]
fn a_restart_with_many_nodes_takes_no_longer_than_its_share() {
    // A thousand nodes have two seconds when optimised; a test build is many times slower.
    let (nodes, seconds) = if cfg!(debug_assertions) { (100, 10.0) } else { (1_000, 2.0) };
    let (mut core, now) = large_core(nodes);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.redb");
    let watch = Stopwatch::start();
    let records = core.take_changes(now.wall).unwrap().into_records();
    let encoded = watch.elapsed();
    open(&path).store.write(&records).unwrap();
    let written = watch.elapsed();
    let watch = Stopwatch::start();
    let checkpoint = open(&path).checkpoint.unwrap();
    let restored = Core::restore(mesh(), effective(&[]).unwrap(), Clock::start().now(), checkpoint);
    let restart = watch.elapsed();
    let bytes = records.bytes();
    println!(
        "{nodes} nodes, {bytes} bytes: encoded after {encoded:?}, written after {written:?}, \
         restored in {restart:?}"
    );
    let view = |core: &Core| format!("{:?}", core.view(now.wall, "test").summary.operations);
    assert!(view(&core) == view(&restored));
    assert!(restart.as_secs_f64() < seconds, "{restart:?}");
}
