//! Space of every real file system, from the mount table and `statvfs`.
//!
//! Other machines' shares (NFS, SMB) and mounts that need a daemon (FUSE) are no disks of this
//! machine: they are not queried, since they may never answer. A device mounted at several places
//! (bind mounts of a container, subvolumes) is shown once, under its shortest path.

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::limits::DISKS_MAX;
use nix::sys::statvfs::{Statvfs, statvfs};
use plimsoll_schemas::hardware::{
    DISK_AVAILABLE_BYTES, DISK_INODES, DISK_INODES_USED, DISK_READ_ONLY, DISK_TOTAL_BYTES,
    DISK_USED_BYTES, MissingReading, Sensor,
};

use super::gather::Gather;
use super::root::{self, Kept, Root};
use super::scale::{self, Raw};

/// What one sample of a file system reads.
type Figure = (&'static Sensor, fn(&Statvfs) -> Raw);

const FIGURES: [Figure; 5] = [
    (&DISK_TOTAL_BYTES, |fs| size(fs, Some(fs.blocks()))),
    (&DISK_AVAILABLE_BYTES, |fs| size(fs, Some(fs.blocks_available()))),
    // As df counts: what is kept for the administrator is neither used nor available.
    (&DISK_USED_BYTES, |fs| size(fs, fs.blocks().checked_sub(fs.blocks_free()))),
    (&DISK_INODES, |fs| inodes(fs, Some(fs.files()))),
    (&DISK_INODES_USED, |fs| inodes(fs, fs.files().checked_sub(fs.files_free()))),
];

/// Reads the mount table and queries file systems.
pub(super) struct Disks {
    root: Root,
    mounts: Kept,
    space: Vec<u8>,
}

impl Disks {
    /// Below another root, this process's own mounts are not those of the sampled machine.
    pub(super) fn new(root: &Root) -> Self {
        let mounts = if root.is_own() { "proc/self/mounts" } else { "proc/1/mounts" };
        Self { root: root.clone(), mounts: root.kept(mounts), space: Vec::new() }
    }

    pub(super) fn gather(&mut self, gather: &mut Gather) {
        let mounts = match self.mounts.read(&mut self.space) {
            Ok(table) => disks(table),
            Err(why) => return absent(why, gather),
        };
        if mounts.is_empty() {
            return absent(MissingReading::unsupported("no_device"), gather);
        }
        let mounts = mounts.into_iter().map(|mount| {
            let shown = mount.path.to_string_lossy().into_owned();
            (shown, mount)
        });
        for (shown, mount) in gather.named(mounts, DISKS_MAX) {
            let Some(labels) = gather.labels(&[("mount", &shown)]) else { continue };
            gather.put_of(&DISK_READ_ONLY, &labels, Ok(f64::from(u8::from(mount.is_read_only))));
            let given = query(&self.root.at(&mount.path.to_string_lossy()));
            for (sensor, figure) in FIGURES {
                let raw = given.as_ref().map_err(|why| *why).and_then(figure);
                gather.put_of(sensor, &labels, raw);
            }
        }
    }
}

fn absent(why: MissingReading, gather: &mut Gather) {
    let sensors = FIGURES.iter().map(|(sensor, _)| *sensor);
    sensors.chain([&DISK_READ_ONLY]).for_each(|sensor| gather.put(sensor, Err(why)));
}

fn query(path: &Path) -> Result<Statvfs, MissingReading> {
    statvfs(path).map_err(|errno| root::missing(&errno.into()))
}

fn size(fs: &Statvfs, blocks: Option<u64>) -> Raw {
    if fs.blocks() == 0 {
        return Err(MissingReading::failed("empty"));
    }
    let bytes = blocks.and_then(|blocks| blocks.checked_mul(fs.fragment_size()));
    bytes.ok_or(MissingReading::failed("out_of_range")).and_then(scale::bytes)
}

/// Some file systems make room for files as they come, and have no number of them.
fn inodes(fs: &Statvfs, files: Option<u64>) -> Raw {
    if fs.files() == 0 {
        return Err(MissingReading::unsupported("no_limit"));
    }
    files.map(|files| files as f64).ok_or(MissingReading::failed("out_of_range"))
}

/// One line of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    device: String,
    path: PathBuf,
    /// Wherever it is mounted: a container may see a disk of its host read-only, and writable too.
    is_read_only: bool,
}

fn disks(table: &str) -> Vec<Mount> {
    let mut disks: Vec<Mount> = table.lines().filter_map(disk).collect();
    let length = |mount: &Mount| mount.path.as_os_str().len();
    disks.sort_by(|a, b| (&a.device, length(a), &a.path).cmp(&(&b.device, length(b), &b.path)));
    disks.dedup_by(|b, a| {
        a.is_read_only &= b.is_read_only || a.device != b.device;
        a.device == b.device
    });
    disks
}

fn disk(line: &str) -> Option<Mount> {
    // Made full and never written to again.
    const IMAGES: [&str; 6] = ["erofs", "squashfs", "iso9660", "udf", "cramfs", "romfs"];
    const WITHOUT_DEVICE: [&str; 6] = ["zfs", "lustre", "gpfs", "ceph", "beegfs", "virtiofs"];
    let mut words = line.split(' ');
    let (device, path, kind) = (words.next()?, words.next()?, words.next()?);
    let is_daemon = kind.starts_with("fuse");
    let is_disk = device.starts_with("/dev/") || WITHOUT_DEVICE.contains(&kind) || path == "/";
    let counts = is_disk && !is_daemon && !IMAGES.contains(&kind);
    let is_read_only = words.next()?.split(',').any(|option| option == "ro");
    counts.then(|| Mount { device: device.to_owned(), path: unescaped(path), is_read_only })
}

/// The table writes blanks, line ends and backslashes as three octal digits.
fn unescaped(path: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, behind)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let octal = behind.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(octal.unwrap_or(b'\\'));
        rest = if octal.is_some() { &behind[3..] } else { behind };
    }
    bytes.extend_from_slice(rest.as_bytes());
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_real_file_system_is_listed_once_under_its_shortest_path() {
        let table = "/dev/vda /etc/hosts ext4 rw 0 0\noverlay / overlay rw 0 0\n\
                     /dev/vda /data ext4 rw 0 0\nhost:/x /x nfs4 rw 0 0\n\
                     /dev/fuse /sshfs fuse.sshfs rw 0 0\n/dev/sdb1 /ntfs fuseblk rw 0 0\n\
                     none /trace tracefs rw 0 0\n/dev/loop0 /snap squashfs ro 0 0\n\
                     pool/a /my\\040pool zfs rw 0 0\nhalf a\n";
        let got: Vec<_> =
            disks(table).into_iter().map(|m| m.path.to_string_lossy().into_owned()).collect();
        assert_eq!(got, ["/data", "/", "/my pool"]);
    }

    #[test]
    fn a_file_system_is_read_only_where_no_mount_of_it_takes_writes() {
        let table = "/dev/vda /host ext4 ro,relatime 0 0\n/dev/vda /etc/hosts ext4 rw 0 0\n\
                     /dev/vdb /image ext4 ro 0 0\n/dev/vdb /image/again ext4 ro 0 0\n\
                     /dev/vdc /data ext4 rw,errors=remount-ro 0 0\n";
        let got: Vec<_> =
            disks(table).into_iter().map(|mount| (mount.device, mount.is_read_only)).collect();
        let want = [("/dev/vda", false), ("/dev/vdb", true), ("/dev/vdc", false)];
        assert_eq!(got, want.map(|(device, is)| (device.to_owned(), is)));
    }

    #[test]
    fn values_equal_those_of_df() {
        let folder = tempfile::tempdir().unwrap();
        let df = || {
            let mut df = std::process::Command::new("df");
            df.args(["-B1", "--output=used,itotal,iused"]).arg(folder.path());
            let out = String::from_utf8(df.output().unwrap().stdout).unwrap();
            let line = out.lines().nth(1).unwrap().to_owned();
            line.split_ascii_whitespace().map(|n| n.parse().unwrap_or(0.0)).collect::<Vec<f64>>()
        };
        let given = || {
            let fs = query(folder.path()).unwrap();
            [FIGURES[2].1, FIGURES[3].1, FIGURES[4].1].map(|figure| figure(&fs).unwrap_or(0.0))
        };
        // Others write meanwhile: between two answers of df, as soon as these agree.
        let agreed = (0..1_000).find_map(|_| {
            let (before, found, after) = (df(), given(), df());
            (before == after).then_some((found, before))
        });
        let (found, df) = agreed.unwrap();
        assert_eq!(found.to_vec(), df);
        let why = query(&folder.path().join("nothing")).err();
        assert_eq!(why, Some(MissingReading::unsupported("not_found")));
    }

    #[test]
    fn paths_are_freed_of_their_escapes() {
        for (path, want) in [("/a\\040b", "/a b"), ("/a\\134", "/a\\"), ("/a\\9", "/a\\9")] {
            assert_eq!(unescaped(path), Path::new(want));
        }
    }

    proptest! {
        #[test]
        fn no_table_panics(text in "(\\PC|[0-9\\\\ \n]|/dev/){0,200}") {
            prop_assert!(disks(&text).len() <= text.lines().count());
        }
    }
}
