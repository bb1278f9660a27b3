//! Reads the kernel's files below one root, and returns the reason when a file cannot be read.
//!
//! Every read is bounded, whatever lies there. What is read at every sample is kept open where
//! the root is this machine's own and read from its beginning: one call instead of three. Below
//! any other root files are opened anew, since they may be replaced there.
//!
//! DESIGN N34.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str;

use crate::limits::{
    SENSOR_FOLDER_ENTRIES_MAX, SENSOR_LINE_BYTES_MAX, SENSOR_SPACE_KEPT, SENSOR_TABLE_BYTES_MAX,
};
use nix::errno::Errno;
use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};
use plimsoll_schemas::hardware::MissingReading;

/// Bytes of one read, and the step by which the buffer grows.
const STEP: usize = 4_096;

/// The folder that holds `proc` and `sys`.
#[derive(Clone, Debug)]
pub(super) struct Root(PathBuf);

impl Root {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// True for the machine that this process runs on, seen from where it runs.
    pub(super) fn is_own(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// True when the kernel that this process can query is that of the machine under this root:
    /// below the root that a container has of its host too, and not below a recorded one.
    pub(super) fn has_own_kernel(&self) -> bool {
        let kind = || statfs(&self.at("proc")).map(|proc| proc.filesystem_type());
        self.is_own() || kind() == Ok(PROC_SUPER_MAGIC)
    }

    /// `path` below the root, absolute or not.
    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// The same of a path that need not be text.
    pub(super) fn below(&self, path: &Path) -> PathBuf {
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A file that is read at every sample.
    pub(super) fn kept(&self, path: &str) -> Kept {
        Kept { path: self.at(path), stays_open: self.is_own(), file: None, is_cut: false }
    }

    /// A file of one short line, opened anew: it may have gone. Blanks around it are cut off.
    pub(super) fn line(&self, path: &str) -> Result<String, MissingReading> {
        line(&self.at(path))
    }

    /// Names in a folder, sorted, as many as are bounded.
    pub(super) fn names(&self, path: &str) -> Result<Vec<String>, MissingReading> {
        let entries = fs::read_dir(self.at(path)).map_err(|error| missing(&error))?;
        let entries = entries.take(SENSOR_FOLDER_ENTRIES_MAX).filter_map(Result::ok);
        let mut names: Vec<_> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort_unstable();
        Ok(names)
    }
}

pub(super) fn line(path: &Path) -> Result<String, MissingReading> {
    let mut space = [0; SENSOR_LINE_BYTES_MAX];
    let file = File::open(path).map_err(|error| missing(&error))?;
    let length = file.read_at(&mut space, 0).map_err(|error| missing(&error))?;
    if length == space.len() {
        return Err(MissingReading::failed("too_long"));
    }
    text(&space[..length]).map(|text| text.trim().to_owned())
}

fn text(bytes: &[u8]) -> Result<&str, MissingReading> {
    str::from_utf8(bytes).map_err(|_| MissingReading::failed("not_text"))
}

/// A file that is read again and again.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    stays_open: bool,
    file: Option<File>,
    /// Whether the table was longer than is read.
    pub(super) is_cut: bool,
}

impl Kept {
    /// The whole text, in `space`, which grows to what it needs.
    pub(super) fn read<'s>(&mut self, space: &'s mut Vec<u8>) -> Result<&'s str, MissingReading> {
        text(self.read_bytes(space)?)
    }

    /// The same where a line need not be text.
    pub(super) fn read_bytes<'s>(
        &mut self,
        space: &'s mut Vec<u8>,
    ) -> Result<&'s [u8], MissingReading> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.path).map_err(|error| missing(&error))?,
        };
        let Filled { length, is_whole } = fill(|piece, from| file.read_at(piece, from), space)?;
        self.file = self.stays_open.then_some(file);

        let was_cut = std::mem::replace(&mut self.is_cut, !is_whole);
        if self.is_cut && !was_cut {
            let (path, bytes) = (self.path.display(), SENSOR_TABLE_BYTES_MAX);
            tracing::warn!(%path, bytes, "a table of the kernel is too long; the rest is not read");
        }
        Ok(&space[..length])
    }
}

/// How much of a table is in the buffer.
struct Filled {
    length: usize,
    is_whole: bool,
}

/// Reads to the end, in whatever pieces the kernel returns a table. Of what is longer than the
/// bound the whole lines within it count.
fn fill(
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
    space: &mut Vec<u8>,
) -> Result<Filled, MissingReading> {
    let mut filled = 0;
    while filled < SENSOR_TABLE_BYTES_MAX {
        if filled + STEP > space.len() {
            space.resize((filled + STEP).max(filled * 2).min(SENSOR_TABLE_BYTES_MAX), 0);
        }
        let piece = read(&mut space[filled..], filled as u64).map_err(|error| missing(&error))?;
        filled += piece;
        // Only an empty piece is the end: the kernel ends a piece before a line that does not fit
        // (N34).
        if piece == 0 {
            return Ok(Filled { length: filled, is_whole: true });
        }
    }
    // A figure that was cut would be read as a smaller one.
    let lines = space[..filled].iter().rposition(|byte| *byte == b'\n');
    Ok(Filled { length: lines.map_or(0, |end| end + 1), is_whole: false })
}

/// Gives back what a large table has taken.
pub(super) fn release(space: &mut Vec<u8>) {
    if space.capacity() > SENSOR_SPACE_KEPT {
        *space = Vec::new();
    }
}

/// The state of a sensor after an error of the system.
pub(super) fn missing(error: &io::Error) -> MissingReading {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENOTDIR | Errno::ENODEV | Errno::ENXIO) => {
            MissingReading::unsupported("not_found")
        }
        Some(Errno::EOPNOTSUPP | Errno::ENOSYS) => MissingReading::unsupported("not_supported"),
        Some(Errno::EACCES | Errno::EPERM) => MissingReading::failed("no_permission"),
        _ => MissingReading::failed("io_error"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_error_separates_a_missing_file_from_a_failed_read() {
        for (errno, want) in [
            (Errno::ENOENT, MissingReading::unsupported("not_found")),
            (Errno::ENODEV, MissingReading::unsupported("not_found")),
            (Errno::EOPNOTSUPP, MissingReading::unsupported("not_supported")),
            (Errno::EACCES, MissingReading::failed("no_permission")),
            (Errno::EPERM, MissingReading::failed("no_permission")),
            (Errno::EIO, MissingReading::failed("io_error")),
            (Errno::EISDIR, MissingReading::failed("io_error")),
        ] {
            assert_eq!(missing(&errno.into()), want, "{errno}");
        }
    }

    #[test]
    fn a_line_is_short_text_or_names_its_fault() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        symlink("/proc/self/mem", root.at("bad_disk")).unwrap();
        fs::write(root.at("long"), "7".repeat(10 << 20)).unwrap();
        fs::write(root.at("bytes"), [0xff, 0xfe]).unwrap();
        fs::write(root.at("right"), " 54000\n").unwrap();
        for (name, want) in [
            ("right", Ok("54000".to_owned())),
            ("long", Err(MissingReading::failed("too_long"))),
            ("bytes", Err(MissingReading::failed("not_text"))),
            ("bad_disk", Err(MissingReading::failed("io_error"))),
            ("absent", Err(MissingReading::unsupported("not_found"))),
            ("right/inside", Err(MissingReading::unsupported("not_found"))),
        ] {
            assert_eq!(root.line(name), want, "{name}");
        }
    }

    #[test]
    fn a_table_is_read_whole_however_many_pieces_it_comes_in_but_never_beyond_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let mut space = Vec::new();
        let mut table = root.kept("table");
        assert_eq!(table.read(&mut space), Err(MissingReading::unsupported("not_found")));
        for length in [0, 1, STEP - 1, STEP, STEP + 1, 3 * STEP, 2_000_000] {
            let text = "x".repeat(length);
            fs::write(root.at("table"), &text).unwrap();
            assert_eq!(table.read(&mut space), Ok(text.as_str()), "{length} bytes");
            assert!(!table.is_cut);
        }
        let line = format!("{}\n", "x".repeat(999));
        fs::write(root.at("table"), line.repeat(20_000)).unwrap();
        let whole = SENSOR_TABLE_BYTES_MAX / line.len() * line.len();
        assert_eq!(table.read(&mut space).map(str::len), Ok(whole));
        assert!(table.is_cut);
        release(&mut space);
        assert_eq!(space.capacity(), 0, "nothing big is kept");
    }

    #[test]
    fn a_short_piece_is_not_taken_for_the_last() {
        let table = "line\n".repeat(3_000);
        for longest in [1, 100, STEP - 1, STEP] {
            let mut space = Vec::new();
            let in_pieces = |piece: &mut [u8], from: u64| {
                let rest = &table.as_bytes()[usize::try_from(from).unwrap()..];
                let length = rest.len().min(piece.len()).min(longest);
                piece[..length].copy_from_slice(&rest[..length]);
                Ok(length)
            };
            let filled = fill(in_pieces, &mut space).unwrap();
            assert!(filled.is_whole);
            assert_eq!(&space[..filled.length], table.as_bytes(), "pieces of {longest}");
        }
    }

    #[test]
    fn a_file_that_stays_open_reads_current_values() {
        let own = Root::new(Path::new("/"));
        let (mut uptime, mut space) = (own.kept("/proc/uptime"), Vec::new());
        let seconds = |text: &str| text.split(' ').next().unwrap().parse::<f64>().unwrap();
        let first = seconds(uptime.read(&mut space).unwrap());
        assert!(uptime.file.is_some());
        let deadline = plimsoll_clock::Deadline::within(std::time::Duration::from_secs(20));
        let mut later = first;
        while later == first && deadline.pause(std::time::Duration::from_millis(5)) {
            later = seconds(uptime.read(&mut space).unwrap());
        }
        assert!(later > first, "{later} after {first}");
    }
}
