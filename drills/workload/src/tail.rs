//! Reads what was appended to a file since the last read.
//!
//! Only whole lines are handed out; the start of a line waits for its end. What is missing,
//! unreadable or no regular file holds no lines; a file that got shorter is read from its start.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use crate::limits::COMMANDS_BYTES_MAX;

/// A place in a file that others append to.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    offset: u64,
}

impl Tail {
    /// Begins at the start of the file, whether or not it exists yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, offset: 0 }
    }

    /// The whole lines that are new, at most `COMMANDS_BYTES_MAX` bytes of them.
    pub fn read(&mut self) -> Vec<u8> {
        let mut new = self.read_from_offset().unwrap_or_default();
        let whole = whole_lines(&new);
        new.truncate(whole);
        self.offset += whole as u64;
        new
    }

    fn read_from_offset(&mut self) -> io::Result<Vec<u8>> {
        // Checked before opening, which would block on a pipe that has no writer.
        let found = fs::metadata(&self.path)?;
        if !found.is_file() {
            return Ok(Vec::new());
        }
        let mut file = File::open(&self.path)?;
        if found.len() < self.offset {
            self.offset = 0;
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut new = Vec::new();
        file.take(COMMANDS_BYTES_MAX as u64).read_to_end(&mut new)?;
        Ok(new)
    }
}

/// How many bytes of `new` are whole lines. If the text fills the whole buffer without a line end,
/// it counts as one line. Otherwise nothing after it would ever be read.
fn whole_lines(new: &[u8]) -> usize {
    match new.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => end + 1,
        None if new.len() == COMMANDS_BYTES_MAX => new.len(),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    fn append(tail: &Tail, bytes: &[u8]) {
        let file = OpenOptions::new().create(true).append(true).open(&tail.path);
        file.unwrap().write_all(bytes).unwrap();
    }

    fn tail() -> (tempfile::TempDir, Tail) {
        let dir = tempfile::tempdir().unwrap();
        let tail = Tail::new(dir.path().join("commands"));
        (dir, tail)
    }

    #[test]
    fn each_line_is_handed_out_once_and_only_when_whole() {
        let (_dir, mut tail) = tail();
        assert_eq!(tail.read(), b"");
        append(&tail, b"one\ntw");
        assert_eq!(tail.read(), b"one\n");
        assert_eq!(tail.read(), b"");
        append(&tail, b"o\nthree\n");
        assert_eq!(tail.read(), b"two\nthree\n");
    }

    #[test]
    fn a_file_that_got_shorter_is_read_from_its_start() {
        let (_dir, mut tail) = tail();
        append(&tail, b"a long line\n");
        assert_eq!(tail.read(), b"a long line\n");
        fs::write(&tail.path, b"new\n").unwrap();
        assert_eq!(tail.read(), b"new\n");
    }

    #[test]
    fn a_line_without_end_does_not_block_what_follows() {
        let (_dir, mut tail) = tail();
        append(&tail, &[b'x'; COMMANDS_BYTES_MAX]);
        append(&tail, b"y\nstop\n");
        assert_eq!(tail.read(), [b'x'; COMMANDS_BYTES_MAX]);
        assert_eq!(tail.read(), b"y\nstop\n");
    }

    #[test]
    fn a_directory_and_a_pipe_without_writer_hold_no_lines() {
        let (dir, mut tail) = tail();
        assert_eq!(Tail::new(dir.path().to_owned()).read(), b"");
        nix::unistd::mkfifo(&tail.path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(tail.read(), b"");
    }
}
