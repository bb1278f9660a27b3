//! The files of a directory of profiles. A closed segment states its time in its name; the open one
//! has the version of its format in its name, so that another version of this program leaves it
//! alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use plimsoll_profile::series::{Past, PastQuery, RecordHead, SEGMENT_BEGIN, Sum, Writer, heads};
use plimsoll_runtime::directory;
use plimsoll_schemas::time::Wall;

use crate::core::history::{HistoryBounds, IntervalEnds, Segment, Segments};
use crate::io::private_file::{lock, open_to_write};
use crate::limits::PROFILES_SKEW_MAX;

pub(super) const LOCK: &str = "lock";
const OPEN: &str = "open-1.segment";
const UNREADABLE: &str = "unreadable.segment";

/// Adds up the profiles of a directory whose middle is in a range; another process may write it.
///
/// # Errors
/// When it cannot be read, or has counts that are too large.
pub fn read_range(dir: &Path, query: PastQuery) -> io::Result<Past> {
    let range = query.from..query.to;
    // A profile whose middle is in the range may end after it, within a minute.
    let near = range.start..range.end.plus(PROFILES_SKEW_MAX);
    let is_near = |segment: &Segment| segment.ends.overlap(&near);
    let mut sum = Sum::new(query);
    let closed = listed(dir)?.into_iter().filter(is_near).map(|segment| segment.file_name());
    for name in closed.chain([OPEN.to_owned()]) {
        match fs::read(dir.join(name)) {
            Ok(bytes) => sum.add(&bytes),
            // It has expired, or none is open.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sum.finish())
}

/// All closed segments.
fn listed(dir: &Path) -> io::Result<Vec<Segment>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str() {
            found.extend(Segment::of_file(name, entry.metadata()?.len()));
        }
    }
    Ok(found)
}

/// A directory that is locked for this process.
#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
    _lock: File,
    segments: Segments,
    pub(super) open: Option<OpenSegment>,
}

/// The open segment. Its file holds whole records, apart from what a crash tears.
#[derive(Debug)]
pub(super) struct OpenSegment {
    file: File,
    pub(super) bytes: u64,
    /// `None` while it is empty.
    pub(super) ends: Option<IntervalEnds>,
    pub(super) writer: Writer,
}

impl Files {
    /// Opens a directory; `ResourceBusy` when another process has it. What a crash left open is
    /// closed, up to the last whole record.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        directory::make(dir, directory::PRIVATE)?;
        let lock = lock(&dir.join(LOCK))?;
        let segments = Segments::new(listed(dir)?);
        let mut files = Self { dir: dir.to_owned(), _lock: lock, segments, open: None };
        files.close_left()?;
        Ok(files)
    }

    fn close_left(&mut self) -> io::Result<()> {
        let path = self.dir.join(OPEN);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            bytes => bytes?,
        };
        let Some((heads, valid)) = heads(&bytes) else {
            tracing::warn!(path = %path.display(), "segment that is none was put aside");
            return fs::rename(&path, self.dir.join(UNREADABLE));
        };
        let file = open_to_write(&path, &mut OpenOptions::new())?;
        file.set_len(valid as u64)?;
        let ends = heads.iter().fold(None, |ends, head| Some(IntervalEnds::with(ends, head.to())));
        let writer = Writer::default();
        self.open = Some(OpenSegment { file, bytes: valid as u64, ends, writer });
        self.close()
    }

    /// The open segment, which is made if there is none.
    pub(super) fn opened(&mut self) -> io::Result<&mut OpenSegment> {
        if self.open.is_none() {
            let path = self.dir.join(OPEN);
            let mut file = open_to_write(&path, OpenOptions::new().create(true).truncate(true))?;
            file.write_all(&SEGMENT_BEGIN)?;
            let (bytes, writer) = (SEGMENT_BEGIN.len() as u64, Writer::default());
            self.open = Some(OpenSegment { file, bytes, ends: None, writer });
        }
        self.open.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Closes the open segment: its name is its entry in the index.
    pub(super) fn close(&mut self) -> io::Result<()> {
        let Some(OpenSegment { file, bytes, ends, .. }) = self.open.take() else { return Ok(()) };
        let path = self.dir.join(OPEN);
        let Some(ends) = ends else { return fs::remove_file(path) };
        file.sync_data()?;
        let segment = Segment { number: self.segments.next_number(), ends, bytes };
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

    pub(super) fn bytes(&self) -> u64 {
        self.segments.bytes() + self.open.as_ref().map_or(0, |open| open.bytes)
    }
}

impl OpenSegment {
    /// Appends a record. When that fails, the file is as it was before, or the next start finds a
    /// torn record at its end; the writer counts on what was lost, so the segment is to be closed.
    pub(super) fn append(&mut self, record: &[u8], head: RecordHead) -> io::Result<()> {
        if let Err(error) = self.file.write_all(record) {
            let _cut = self.file.set_len(self.bytes);
            let _back = self.file.seek(SeekFrom::Start(self.bytes));
            return Err(error);
        }
        self.bytes += record.len() as u64;
        self.ends = Some(IntervalEnds::with(self.ends, head.to()));
        Ok(())
    }
}
