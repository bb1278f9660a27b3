//! The files that a process has mapped, from `/proc/PID/maps`.

use std::io::{BufRead, BufReader, Read};

use crate::limits::MAPS_BYTES_MAX;
use crate::memory::Address;

/// The start of a file in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    pub start: Address,
    pub end: Address,
    pub identity: FileIdentity,
    /// As the process sees it; a file that was deleted has ` (deleted)` behind its name.
    pub path: String,
}

/// Which file it is. Of overlay and btrfs file systems the kernel may state other numbers here than
/// of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    pub major: u64,
    pub minor: u64,
    pub inode: u64,
}

const DELETED: &str = " (deleted)";

impl MappedFile {
    /// The path without the mark of a deleted file.
    pub fn plain_path(&self) -> &str {
        self.path.strip_suffix(DELETED).unwrap_or(&self.path)
    }

    pub fn name(&self) -> &str {
        self.plain_path().rsplit('/').next().unwrap_or_default()
    }
}

/// The mappings with the first bytes of a file, in the order of their addresses.
pub fn mapped_files(maps: impl Read) -> Vec<MappedFile> {
    let lines = BufReader::new(maps.take(MAPS_BYTES_MAX)).split(b'\n').map_while(Result::ok);
    lines.filter_map(|line| mapped_file(&String::from_utf8_lossy(&line))).collect()
}

fn mapped_file(line: &str) -> Option<MappedFile> {
    // start-end permissions offset device inode path
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let [_permissions, offset, device, inode] = std::array::from_fn(|_| fields.next());
    let path = fields.next()?.trim_start();
    let is_start = u64::from_str_radix(offset?, 16) == Ok(0) && path.starts_with('/');
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (Address(hex(start)?), Address(hex(end)?));
    let (major, minor) = device?.split_once(':')?;
    let identity =
        FileIdentity { major: hex(major)?, minor: hex(minor)?, inode: inode?.parse().ok()? };
    is_start.then(|| MappedFile { start, end, identity, path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAPS: &str = "\
00400000-00420000 r--p 00000000 fe:00 1001                       /usr/bin/python3.11
00420000-006c9000 r-xp 00020000 fe:00 1001                       /usr/bin/python3.11
00c00000-00d00000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 
7f0000200000-7f0000300000 r--p 00000000 fe:00 1002               /opt/a b/libpython3.12.so.1.0 (deleted)
not a mapping
";

    #[test]
    fn only_starts_of_files_are_listed() {
        let files = mapped_files(MAPS.as_bytes());
        let found: Vec<(u64, &str)> = files.iter().map(|f| (f.start.0, f.plain_path())).collect();
        let expected = [
            (0x40_0000, "/usr/bin/python3.11"),
            (0x7f00_0020_0000, "/opt/a b/libpython3.12.so.1.0"),
        ];
        assert_eq!(found, expected);
        assert_eq!(files[1].name(), "libpython3.12.so.1.0");
        assert_eq!(files[1].identity, FileIdentity { major: 0xfe, minor: 0, inode: 1_002 });
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[0-9a-f -/\n]{0,200}") {
            let lines = text.lines().count();
            prop_assert!(mapped_files(text.as_bytes()).len() <= lines);
        }
    }
}
