//! Space of every real file system, from the mount table and `statvfs`.
//!
//! Other machines' shares (NFS, SMB) and mounts that need a daemon (FUSE) are no disks of this
//! machine and are not queried. A device mounted at several places (bind mounts of a container,
//! subvolumes) is shown once, under its shortest path. Any of them may hang, which costs its own
//! readings.
//!
//! A file system is read-only if its superblock is. A read-only mount alone does not count: a
//! sandbox makes all mounts read-only for its own process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::limits::DISKS_MAX;
use nix::sys::statvfs::{Statvfs, statvfs};
use plimsoll_schemas::hardware::{
    DISK_AVAILABLE_BYTES, DISK_INODES, DISK_INODES_USED, DISK_READ_ONLY, DISK_TOTAL_BYTES,
    DISK_USED_BYTES, MissingReading, Sensor,
};
use plimsoll_schemas::time::Mono;

use super::asker::{Asker, HANGS};
use super::gather::{Gather, List};
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

type Space = Result<Statvfs, MissingReading>;

/// Reads the mount table and queries file systems.
pub(super) struct Disks {
    root: Root,
    /// The first that can be read counts.
    tables: [(Kept, Parse); 2],
    space: Vec<u8>,
    pub(super) asker: Asker<Space>,
}

impl Disks {
    /// Below another root, this process's own mounts are not those of the sampled machine.
    pub(super) fn new(root: &Root) -> Self {
        let of = if root.is_own() { "self" } else { "1" };
        let table = |name: &str| root.kept(&format!("proc/{of}/{name}"));
        Self {
            root: root.clone(),
            tables: [(table("mountinfo"), with_superblock), (table("mounts"), with_mount)],
            space: Vec::new(),
            asker: Asker::new("file system", query),
        }
    }

    pub(super) fn gather(&mut self, now: Mono, gather: &mut Gather) {
        gather.leave_out(List::FileSystems, 0);

        let mounts = match self.mounts(gather) {
            Ok(mounts) => mounts,
            Err(why) => return absent(why, gather),
        };

        root::release(&mut self.space);
        if mounts.is_empty() {
            return absent(MissingReading::unsupported("no_device"), gather);
        }

        let mounts = mounts.into_iter().map(|mount| {
            let shown = mount.path.to_string_lossy().into_owned();
            (shown, mount)
        });

        let mounts = gather.named(List::FileSystems, mounts, DISKS_MAX);

        let answers = self.ask(now, mounts.iter().map(|(_, mount)| mount));
        gather.leave_out(List::FileSystems, self.asker.hanging());

        for (shown, mount) in &mounts {
            let Some(labels) = gather.labels(&[("mount", shown)]) else { continue };
            let is_read_only = f64::from(u8::from(mount.is_read_only));
            gather.put_of(&DISK_READ_ONLY, &labels, Ok(is_read_only));
            let given = answers.get(&self.root.below(&mount.path)).unwrap_or(&Err(HANGS));

            for (sensor, figure) in FIGURES {
                let raw = given.as_ref().map_err(|why| *why).and_then(figure);
                gather.put_of(sensor, &labels, raw);
            }
        }
    }

    fn mounts(&mut self, gather: &mut Gather) -> Result<Vec<Mount>, MissingReading> {
        let mut failed = MissingReading::unsupported("not_found");
        for (table, parse) in &mut self.tables {
            match table.read_bytes(&mut self.space) {
                Ok(text) => {
                    let mounts = disks(text, *parse);
                    // How many follow is not known.
                    gather.leave_out(List::FileSystems, usize::from(table.is_cut));
                    return Ok(mounts);
                }
                Err(why) => failed = why,
            }
        }
        Err(failed)
    }

    /// The space of each. Those of this machine are asked first: a server is more likely to hang.
    fn ask<'m>(
        &mut self,
        now: Mono,
        mounts: impl Iterator<Item = &'m Mount>,
    ) -> BTreeMap<PathBuf, Space> {
        let mut mounts: Vec<&Mount> = mounts.collect();
        mounts.sort_by_key(|mount| !mount.device.starts_with(b"/dev/"));
        let paths: Vec<PathBuf> = mounts.iter().map(|mount| self.root.below(&mount.path)).collect();
        self.asker.ask(now, &paths)
    }
}

fn absent(why: MissingReading, gather: &mut Gather) {
    let sensors = FIGURES.iter().map(|(sensor, _)| *sensor);
    sensors.chain([&DISK_READ_ONLY]).for_each(|sensor| gather.put(sensor, Err(why)));
}

fn query(path: &PathBuf) -> Space {
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
    device: Vec<u8>,
    path: PathBuf,
    kind: Vec<u8>,
    is_read_only: bool,
}

/// Reads one line of a table; `None` of one without enough words.
type Parse = fn(&[u8]) -> Option<Mount>;

/// A line of `mounts`: `/dev/vda / ext4 rw,relatime 0 0`. It is read-only where either the mount or
/// its superblock is.
fn with_mount(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let (device, path, kind) = (words.next()?, words.next()?, words.next()?);
    mount(device, path, kind, words.next()?)
}

/// A line of `mountinfo`: `29 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw`.
fn with_superblock(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let path = words.nth(4)?;
    let mut behind = words.skip_while(|word| *word != b"-").skip(1);
    let (kind, device) = (behind.next()?, behind.next()?);
    mount(device, path, kind, behind.next()?)
}

fn mount(device: &[u8], path: &[u8], kind: &[u8], options: &[u8]) -> Option<Mount> {
    let is_read_only = options.split(|byte| *byte == b',').any(|option| option == b"ro");
    let (device, kind) = (unescaped(device), kind.to_owned());
    Some(Mount { device, path: OsString::from_vec(unescaped(path)).into(), kind, is_read_only })
}

/// The disks of a table, each once.
fn disks(table: &[u8], parse: Parse) -> Vec<Mount> {
    let lines = table.split(|byte| *byte == b'\n');
    // What is mounted over another hides it.
    let seen: BTreeMap<PathBuf, Mount> =
        lines.filter_map(parse).map(|mount| (mount.path.clone(), mount)).collect();

    let mut disks: Vec<Mount> = seen.into_values().filter(is_disk).collect();
    let length = |mount: &Mount| mount.path.as_os_str().len();
    disks.sort_by(|a, b| (&a.device, length(a), &a.path).cmp(&(&b.device, length(b), &b.path)));
    // One mount that can be written shows that the device can.
    disks.dedup_by(|b, a| {
        a.is_read_only &= b.is_read_only || a.device != b.device;
        a.device == b.device
    });
    disks
}

fn is_disk(mount: &Mount) -> bool {
    // Made full and never written to again.
    const IMAGES: [&[u8]; 6] = [b"erofs", b"squashfs", b"iso9660", b"udf", b"cramfs", b"romfs"];
    const WITHOUT_DEVICE: [&[u8]; 6] =
        [b"zfs", b"lustre", b"gpfs", b"ceph", b"beegfs", b"virtiofs"];
    let kind = mount.kind.as_slice();
    let has_device = mount.device.starts_with(b"/dev/")
        || WITHOUT_DEVICE.contains(&kind)
        || mount.path.as_os_str() == "/";
    has_device && !kind.starts_with(b"fuse") && !IMAGES.contains(&kind)
}

/// The table writes blanks, line ends and backslashes as three octal digits.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        bytes.extend_from_slice(&rest[..at]);
        let octal = rest.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(octal.unwrap_or(b'\\'));
        rest = &rest[if octal.is_some() { at + 4 } else { at + 1 }..];
    }
    bytes.extend_from_slice(rest);
    bytes
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
                     pool/a /my\\040pool zfs rw 0 0\nhalf a\n\
                     /dev/vdd /hidden ext4 rw 0 0\nnone /hidden tmpfs rw 0 0\n";
        let disks = disks(table.as_bytes(), with_mount).into_iter();
        let got: Vec<_> = disks.map(|disk| disk.path.to_string_lossy().into_owned()).collect();
        assert_eq!(got, ["/data", "/", "/my pool"]);
    }

    #[test]
    fn a_sandbox_that_mounts_all_read_only_makes_no_file_system_so() {
        let table = "29 1 254:0 / / ro,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro\n\
                     30 29 254:16 / /data ro,nosuid master:2 propagate_from:3 - xfs /dev/vdb rw\n\
                     31 29 254:32 / /image rw - ext4 /dev/vdc ro\n32 29 0:5 / /dev rw - devtmpfs\n";
        let disks = disks(table.as_bytes(), with_superblock).into_iter();
        let got: Vec<_> = disks.map(|disk| (disk.path, disk.is_read_only)).collect();
        let want = [("/", false), ("/data", false), ("/image", true)];
        assert_eq!(got, want.map(|(path, is)| (PathBuf::from(path), is)));
    }

    #[test]
    fn a_path_that_is_no_text_costs_no_other() {
        let table = b"/dev/vda / ext4 rw 0 0\n/dev/vdb /\xff\xfe ext4 rw 0 0\n";
        assert_eq!(disks(table, with_mount).len(), 2);
    }

    #[test]
    fn a_file_system_is_read_only_where_no_mount_of_it_takes_writes() {
        let table = "/dev/vda /host ext4 ro,relatime 0 0\n/dev/vda /etc/hosts ext4 rw 0 0\n\
                     /dev/vdb /image ext4 ro 0 0\n/dev/vdb /image/again ext4 ro 0 0\n\
                     /dev/vdc /data ext4 rw,errors=remount-ro 0 0\n";
        let disks = disks(table.as_bytes(), with_mount).into_iter();
        let got: Vec<_> = disks.map(|disk| (disk.device, disk.is_read_only)).collect();
        let want = [("/dev/vda", false), ("/dev/vdb", true), ("/dev/vdc", false)];
        assert_eq!(got, want.map(|(device, is)| (device.as_bytes().to_vec(), is)));
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
            let fs = query(&folder.path().to_owned()).unwrap();
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
            assert_eq!(unescaped(path.as_bytes()), want.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn no_table_panics(text in "(\\PC|[0-9\\\\ \n]|/dev/| - ){0,200}") {
            for parse in [with_mount, with_superblock] {
                let lines = text.split('\n').count();
                prop_assert!(disks(text.as_bytes(), parse).len() <= lines);
            }
        }
    }
}
