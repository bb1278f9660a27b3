//! The files that a process has mapped, from `/proc/PID/maps`.

use std::io::{BufRead, BufReader, Read};

use crate::limits::MAPS_BYTES_MAX;
use crate::memory::Address;

/// A part of a file in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    pub start: Address,
    pub end: Address,
    /// In the file, of the first byte.
    pub offset: u64,
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
    let starts = mappings(maps).filter(|mapping| mapping.file.offset == 0);
    starts.map(|mapping| mapping.file).filter(|file| file.path.starts_with('/')).collect()
}

/// The mappings with code, in the order of their addresses; one of no file has an empty path.
pub fn mapped_code(maps: impl Read) -> Vec<MappedFile> {
    mappings(maps).filter(|mapping| mapping.is_code).map(|mapping| mapping.file).collect()
}

struct Mapping {
    file: MappedFile,
    is_code: bool,
}

fn mappings(maps: impl Read) -> impl Iterator<Item = Mapping> {
    let lines = BufReader::new(maps.take(MAPS_BYTES_MAX)).split(b'\n').map_while(Result::ok);
    lines.filter_map(|line| mapping(&String::from_utf8_lossy(&line)))
}

fn mapping(line: &str) -> Option<Mapping> {
    // start-end permissions offset device inode path
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let [permissions, offset, device, inode] = std::array::from_fn(|_| fields.next());
    let path = fields.next()?.trim_start().to_owned();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (Address(hex(start)?), Address(hex(end)?));
    let (major, minor) = device?.split_once(':')?;
    let identity =
        FileIdentity { major: hex(major)?, minor: hex(minor)?, inode: inode?.parse().ok()? };
    let file = MappedFile { start, end, offset: hex(offset?)?, identity, path };
    Some(Mapping { file, is_code: permissions?.contains('x') })
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

    #[test]
    fn code_is_listed_with_its_offset() {
        let [code] = &mapped_code(MAPS.as_bytes())[..] else { panic!("one mapping has code") };
        assert_eq!((code.start.0, code.offset, code.name()), (0x42_0000, 0x2_0000, "python3.11"));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[0-9a-f -/\n]{0,200}") {
            let lines = text.lines().count();
            prop_assert!(mapped_files(text.as_bytes()).len() <= lines);
        }
    }
}
