//! The files of a history's directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use plimsoll_runtime::directory;
use plimsoll_schemas::time::Wall;

use crate::core::history::{
    HistoryBounds, IntervalEnds, Record, SEGMENT_BEGIN, Segment, Segments, scan,
};
use crate::io::private_file::{lock, open_to_write};

const OPEN: &str = "open.segment";
const UNREADABLE: &str = "unreadable.segment";
pub(super) const LOCK: &str = "lock";

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
pub(super) struct Files {
    dir: PathBuf,
    _lock: File,
    pub(super) segments: Segments,
    open: Option<OpenSegment>,
}

impl Files {
    /// Opens a directory; `ResourceBusy` when another process has it. What a crash left open is
    /// closed, up to the last whole record.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        directory::make(dir, directory::PRIVATE)?;
        // Before anything is listed: another process may be renaming its open segment.
        let lock = lock(&dir.join(LOCK))?;
        let mut found = Vec::new();

        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let segment = name.to_str().map(|name| (name, entry.metadata()));
            if let Some((name, metadata)) = segment {
                found.extend(Segment::of_file(name, metadata?.len()));
            }
        }

        let segments = Segments::new(found);
        let mut files = Self { dir: dir.to_owned(), _lock: lock, segments, open: None };
        files.close_left()?;
        Ok(files)
    }

    /// Closes the segment that an earlier process left open.
    fn close_left(&mut self) -> io::Result<()> {
        let path = self.dir.join(OPEN);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            bytes => bytes?,
        };

        let Some((records, valid)) = scan(&bytes) else {
            if bytes.len() >= SEGMENT_BEGIN.len() {
                tracing::warn!(path = %path.display(), "segment of another version quarantined");
                return fs::rename(&path, self.dir.join(UNREADABLE));
            }
            return fs::remove_file(&path);
        };

        let file = open_to_write(&path, &mut OpenOptions::new())?;
        // What a kill tore is cut off, so that nothing is ever written behind a damaged record.
        file.set_len(valid as u64)?;
        let ends =
            records.iter().fold(None, |ends, record| Some(IntervalEnds::with(ends, record.end)));
        self.open = Some(OpenSegment { file, bytes: valid as u64, ends });
        self.close()
    }

    /// Appends a record; returns the bytes of the open segment. When that fails, the file is as it
    /// was before, or the next start finds a torn record at its end.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<u64> {
        let open = match &mut self.open {
            Some(open) => open,
            empty => {
                let path = self.dir.join(OPEN);
                let mut file =
                    open_to_write(&path, OpenOptions::new().create(true).truncate(true))?;
                file.write_all(&SEGMENT_BEGIN)?;
                let bytes = SEGMENT_BEGIN.len() as u64;
                empty.insert(OpenSegment { file, bytes, ends: None })
            }
        };

        let mut bytes = Vec::with_capacity(record.message.len() + 64);
        record.append_to(&mut bytes);

        if let Err(error) = open.file.write_all(&bytes) {
            self.cut_back();
            return Err(error);
        }

        open.bytes += bytes.len() as u64;
        open.ends = Some(IntervalEnds::with(open.ends, record.end));
        Ok(open.bytes)
    }

    /// Removes what a failed write left of its record. Where that fails too, the segment is closed
    /// in memory: nothing may be written behind a torn record.
    fn cut_back(&mut self) {
        let Some(open) = &mut self.open else { return };
        let is_cut = open.file.set_len(open.bytes).is_ok()
            && io::Seek::seek(&mut open.file, io::SeekFrom::Start(open.bytes)).is_ok();
        if !is_cut {
            self.open = None;
        }
    }

    /// Closes the open segment: its name is its entry in the index.
    pub(super) fn close(&mut self) -> io::Result<()> {
        let Some(OpenSegment { file, bytes, ends }) = self.open.take() else { return Ok(()) };
        let path = self.dir.join(OPEN);
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

    /// Those of the open segment.
    pub(super) fn open_ends(&self) -> Option<IntervalEnds> {
        self.open.as_ref().and_then(|open| open.ends)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.bytes() + self.open.as_ref().map_or(0, |open| open.bytes)
    }

    pub(super) fn earliest(&self) -> Option<Wall> {
        let open = self.open_ends().map(|ends| ends.earliest);
        self.segments.earliest().into_iter().chain(open).min()
    }

    /// The bytes of a closed segment, or of the open one.
    pub(super) fn read(&self, segment: Option<&Segment>) -> io::Result<Vec<u8>> {
        let name = segment.map_or_else(|| OPEN.to_owned(), Segment::file_name);
        fs::read(self.dir.join(name))
    }
}
