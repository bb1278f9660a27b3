//! What the thread of the history does: writes records, closes and drops segments, reads them for
//! a response.

use std::io;
use std::path::Path;

use bytes::Bytes;
use plimsoll_clock::Clock;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::history::{HistoryRequest, HistoryResponse, UnknownRequest};

use super::error::HistoryError;
use super::stats::SharedStats;
use crate::core::Identity;
use crate::core::history::{Answering, HistoryBounds, Plan, Record, SEGMENT_BEGIN, scan};
use crate::io::segments::{Directory, Files, Format, Scanned};
use crate::limits::{HISTORY_SEGMENT_BYTES, HISTORY_SETS_SEARCHED_MAX};

const NOT_KNOWN: &str = "its version does not know what was requested: upgrade plimsoll-node";

const FORMAT: Format = Format {
    what: "history",
    open: "open.segment",
    start: SEGMENT_BEGIN,
    scan: |segment| {
        let (records, bytes) = scan(segment)?;
        Some(Scanned::new(records.iter().map(|record| record.end), bytes))
    },
};

/// A response, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Last token of its subject.
    pub asker: String,
    pub payload: Bytes,
}

pub(super) struct Store {
    directory: Directory,
    identity: Identity,
    /// From which on a segment is closed.
    segment_bytes: u64,
    stats: SharedStats,
}

impl Store {
    pub(super) fn new(
        dir: &Path,
        identity: Identity,
        bounds: HistoryBounds,
        clock: Clock,
        stats: SharedStats,
    ) -> Self {
        let dir = dir.join(identity.node.token().to_string());
        let directory = Directory::new(dir, &FORMAT, bounds, clock);
        Self { directory, identity, segment_bytes: HISTORY_SEGMENT_BYTES, stats }
    }

    /// Opens the directory, if it can be used now.
    pub(super) fn open(&mut self) -> Result<(), HistoryError> {
        self.directory.open().map_err(|path| HistoryError::InUse { path })?;
        self.count_bytes();
        Ok(())
    }

    pub(super) fn write(&mut self, record: &Record, now: Wall) {
        if let Some(why) = self.directory.paused() {
            return self.stats.drop_one(why);
        }
        if let Err(error) = self.try_write(record, now) {
            return self.stats.drop_one(self.directory.fail(&error));
        }
        self.directory.succeed();
        self.stats.lock().written += 1;
        self.count_bytes();
    }

    fn try_write(&mut self, record: &Record, now: Wall) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(record.message.len() + 64);
        record.append_to(&mut bytes);
        if self.directory.append(&bytes, record.end)? >= self.segment_bytes {
            self.directory.close(now)?;
        }
        Ok(())
    }

    /// With segments as short as tests need them.
    #[cfg(test)]
    pub(super) fn with_segments_of(self, segment_bytes: u64) -> Self {
        Self { segment_bytes, ..self }
    }

    #[cfg(test)]
    pub(super) fn stats_for_tests(&self) -> super::stats::HistoryStats {
        self.stats.lock().clone()
    }

    fn count_bytes(&self) {
        let Some(files) = self.directory.files() else { return };
        let mut stats = self.stats.lock();
        (stats.bytes, stats.earliest) = (files.bytes(), files.earliest());
    }

    /// The answer to a request, of `bytes_max` bytes at most; none to bytes that are no request. A
    /// request for what this version does not know is refused.
    pub(super) fn answer(&mut self, payload: &[u8], bytes_max: usize) -> Option<Answer> {
        let Ok(request) = HistoryRequest::decode(payload) else {
            self.stats.count_request("undecodable");
            let UnknownRequest { number, asker, .. } = HistoryRequest::unknown(payload)?;
            let refusal = HistoryResponse::refusal(number, NOT_KNOWN);
            return Some(Answer { asker, payload: Bytes::from(refusal.encode()) });
        };
        let (number, asker) = (request.number, request.asker.clone());
        let response = self.respond(request, bytes_max).unwrap_or_else(|why| {
            self.stats.count_request("refused");
            HistoryResponse::refusal(number, why)
        });
        if response.refused.is_empty() {
            self.stats.count_request("answered");
        }
        Some(Answer { asker, payload: Bytes::from(response.encode()) })
    }

    fn respond(
        &self,
        request: HistoryRequest,
        bytes_max: usize,
    ) -> Result<HistoryResponse, &'static str> {
        let files = self.directory.files().ok_or("the history cannot be read: disk error")?;
        let open = files.open_ends();
        let plan = files.segments.plan(&request, open);
        let Plan { range, places } =
            plan.ok_or("too many segments of one time: the clock jumps")?;
        let mut answering = Answering::new(request, range, &self.identity);
        let mut unread = 0;

        if open.is_some_and(|ends| ends.overlap(answering.range())) {
            let before = files.segments.len().checked_sub(1);
            unread += u64::from(!read_into(&mut answering, files, None, before));
        }

        for place in places {
            let before = place.checked_sub(1);
            unread += u64::from(!read_into(&mut answering, files, Some(place), before));
        }

        let dropped: u64 = self.stats.lock().dropped.values().sum();
        Ok(answering.finish(files.earliest(), dropped + unread, bytes_max))
    }
}

/// Adds the records of a segment, of the open one without a place; false when it cannot be read.
/// `before` is the place of the segment that was closed before it.
fn read_into(
    answering: &mut Answering,
    files: &Files,
    place: Option<usize>,
    before: Option<usize>,
) -> bool {
    let Ok(bytes) = files.read(place.and_then(|place| files.segments.get(place))) else {
        return false;
    };
    let Some((records, _)) = scan(&bytes) else { return false };
    let Some(first) = records.iter().position(|record| answering.wants(record)) else {
        return true;
    };

    // The first messages of a range may hold changes alone, which mean nothing without the set
    // before.
    if answering.needs_sets() && !take_set(answering, &records[..first]) {
        let former = before.and_then(|place| files.segments.get(place));
        let former = former.and_then(|segment| files.read(Some(segment)).ok());
        if let Some((records, _)) = former.as_deref().and_then(scan) {
            take_set(answering, &records);
        }
    }

    records[first..].iter().for_each(|record| {
        if answering.wants(record) {
            answering.add(record);
        }
    });

    true
}

/// Takes the latest set of readings of these records; whether there is one.
fn take_set(answering: &mut Answering, records: &[Record<&[u8]>]) -> bool {
    let newest = records.iter().rev().take(HISTORY_SETS_SEARCHED_MAX);
    newest.into_iter().any(|record| answering.take_set(record))
}
