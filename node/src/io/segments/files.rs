//! The files of a directory of segments. The name of a closed one is its entry in the index.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use plimsoll_runtime::directory;
use plimsoll_schemas::time::Wall;

use crate::core::history::{HistoryBounds, IntervalEnds, Segment, Segments};
use crate::io::private_file::{lock, open_to_write};

const UNREADABLE: &str = "unreadable.segment";
const LOCK: &str = "lock";

/// What differs between directories.
#[derive(Debug)]
pub(in crate::io) struct Format {
    /// What is kept, in messages.
    pub(in crate::io) what: &'static str,
    /// Name of the open segment.
    pub(in crate::io) open: &'static str,
    /// The first bytes of a segment.
    pub(in crate::io) start: [u8; 8],
    /// `None` for bytes that are no segment.
    pub(in crate::io) scan: fn(&[u8]) -> Option<Scanned>,
}

/// The whole records of a segment.
#[derive(Debug)]
pub(in crate::io) struct Scanned {
    /// `None` without one.
    pub(in crate::io) ends: Option<IntervalEnds>,
    /// Bytes of the segment up to the last of them.
    pub(in crate::io) bytes: usize,
}

/// The open segment. Its file holds whole records, apart from what a crash tears.
#[derive(Debug)]
struct OpenSegment {
    file: File,
    bytes: u64,
    /// `None` while it is empty.
    ends: Option<IntervalEnds>,
}

/// A directory that is locked for this process.
#[derive(Debug)]
pub(in crate::io) struct Files {
    dir: PathBuf,
    format: &'static Format,
    _lock: File,
    pub(in crate::io) segments: Segments,
    open: Option<OpenSegment>,
}

impl Scanned {
    /// Of records whose intervals end at these times.
    pub(in crate::io) fn new(ends: impl Iterator<Item = Wall>, bytes: usize) -> Self {
        let ends = ends.fold(None, |ends, end| Some(IntervalEnds::with(ends, end)));
        Self { ends, bytes }
    }
}

/// All closed segments.
pub(in crate::io) fn listed(dir: &Path) -> io::Result<Vec<Segment>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str() {
            found.extend(Segment::of_file(name, entry.metadata()?.len()));
        }
    }
    Ok(found)
}

impl Files {
    pub(super) fn lock(dir: &Path) -> PathBuf {
        dir.join(LOCK)
    }

    /// Opens a directory; `ResourceBusy` when another process has it. What a crash left open is
    /// closed, up to the last whole record.
    pub(super) fn open(dir: &Path, format: &'static Format) -> io::Result<Self> {
        directory::make(dir, directory::PRIVATE)?;
        // Before anything is listed: another process may be renaming its open segment.
        let lock = lock(&Self::lock(dir))?;
        let segments = Segments::new(listed(dir)?);
        let mut files = Self { dir: dir.to_owned(), format, _lock: lock, segments, open: None };
        files.close_left()?;
        Ok(files)
    }

    /// Closes the segment that an earlier process left open.
    fn close_left(&mut self) -> io::Result<()> {
        let path = self.open_path();
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            bytes => bytes?,
        };

        let Some(Scanned { ends, bytes }) = (self.format.scan)(&bytes) else {
            if bytes.len() >= self.format.start.len() {
                tracing::warn!(path = %path.display(), "segment of another version quarantined");
                return fs::rename(&path, self.dir.join(UNREADABLE));
            }
            return fs::remove_file(&path);
        };

        let file = open_to_write(&path, &mut OpenOptions::new())?;
        // What a kill tore is cut off, so that nothing is ever written behind a damaged record.
        file.set_len(bytes as u64)?;
        self.open = Some(OpenSegment { file, bytes: bytes as u64, ends });
        self.close()
    }

    /// Appends a record whose interval ends at `end`; returns the bytes of the open segment. When
    /// that fails, the file is as it was before, or the next start finds a torn record at its end.
    pub(super) fn append(&mut self, record: &[u8], end: Wall) -> io::Result<u64> {
        let path = self.open_path();
        let open = match &mut self.open {
            Some(open) => open,
            empty => {
                let mut file =
                    open_to_write(&path, OpenOptions::new().create(true).truncate(true))?;
                file.write_all(&self.format.start)?;
                let bytes = self.format.start.len() as u64;
                empty.insert(OpenSegment { file, bytes, ends: None })
            }
        };

        if let Err(error) = open.file.write_all(record) {
            self.cut_back();
            return Err(error);
        }

        open.bytes += record.len() as u64;
        open.ends = Some(IntervalEnds::with(open.ends, end));
        Ok(open.bytes)
    }

    /// Removes what a failed write left of its record. Where that fails too, the segment is closed
    /// in memory: nothing may be written behind a torn record.
    fn cut_back(&mut self) {
        let Some(open) = &mut self.open else { return };
        let is_cut = open.file.set_len(open.bytes).is_ok()
            && open.file.seek(SeekFrom::Start(open.bytes)).is_ok();
        if !is_cut {
            self.open = None;
        }
    }

    /// Closes the open segment.
    pub(super) fn close(&mut self) -> io::Result<()> {
        let Some(OpenSegment { file, bytes, ends }) = self.open.take() else { return Ok(()) };
        let path = self.open_path();
        let Some(ends) = ends else { return fs::remove_file(path) };
        // So that a later crash of the machine costs the open segment alone.
        file.sync_data()?;
        let segment = Segment { number: self.segments.next_number(), ends, bytes };
        // Only then is it in the index, and its name states times that it really has.
        fs::rename(path, self.dir.join(segment.file_name()))?;
        self.segments.push(segment);
        Ok(())
    }

    /// Removes segments that are too old or too many.
    pub(super) fn expire(&mut self, now: Wall, bounds: HistoryBounds) {
        for segment in self.segments.expire(now, bounds) {
            // One that cannot be removed is found again by the next start.
            if let Err(error) = fs::remove_file(self.dir.join(segment.file_name())) {
                tracing::warn!(segment = segment.file_name(), %error, "segment not removed");
            }
        }
    }

    fn open_path(&self) -> PathBuf {
        self.dir.join(self.format.open)
    }

    /// Those of the open segment.
    pub(in crate::io) fn open_ends(&self) -> Option<IntervalEnds> {
        self.open.as_ref().and_then(|open| open.ends)
    }

    pub(in crate::io) fn bytes(&self) -> u64 {
        self.segments.bytes() + self.open.as_ref().map_or(0, |open| open.bytes)
    }

    pub(in crate::io) fn earliest(&self) -> Option<Wall> {
        let open = self.open_ends().map(|ends| ends.earliest);
        self.segments.earliest().into_iter().chain(open).min()
    }

    /// The bytes of a closed segment, or of the open one.
    pub(in crate::io) fn read(&self, segment: Option<&Segment>) -> io::Result<Vec<u8>> {
        let name = segment.map_or_else(|| self.format.open.to_owned(), Segment::file_name);
        fs::read(self.dir.join(name))
    }
}
