//! How far one lane has been read, up to which time nothing stored is unread, and how long
//! backlogs last.
//!
//! DESIGN A22.

use std::time::Duration;

use crate::limits::BACKLOG_MESSAGES;
use plimsoll_schemas::time::{Mono, Wall};
use serde::{Deserialize, Serialize};

/// How far one lane has been read.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// The stream that the numbers are about; `None` while there has been none.
    pub(super) stream_id: Option<String>,
    /// The stream's last message when reading began; `None` before that.
    pub(super) goal: Option<u64>,
    pub(super) read: u64,
    /// Messages behind the last one, as the broker counted them for this reader.
    pub(super) pending: u64,
    pub(super) read_at: Option<Mono>,
    /// When the broker stored the latest message read.
    pub(super) at: Option<Wall>,
    /// A point in time and the stream's last message then.
    mark: Option<(Mono, u64)>,
    /// The latest mark that has been read up to.
    reached: Option<Mono>,
    backlog_since: Option<Mono>,
    pub(super) recoveries: Recoveries,
}

/// Up to when everything that a stream held has been read, as far as is known. Where messages
/// come without pause one is always unread, so waiting for none would never end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadUpTo {
    /// It is not known of any.
    Never,
    /// Then, and perhaps later.
    Then(Mono),
    /// Nothing is known to be unread.
    Now,
}

impl ReadUpTo {
    /// That time, as seen at `now`.
    pub fn as_of(self, now: Mono) -> Option<Mono> {
        match self {
            Self::Never => None,
            Self::Then(event_time) => Some(event_time.min(now)),
            Self::Now => Some(now),
        }
    }
}

/// How far a lane had been read, and in which stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Number of the last message read; 0 for none.
    pub read: u64,
    /// The stream that the number is about; `None` when there was none.
    pub stream_id: Option<String>,
}

/// How long backlogs lasted. One begins when [`BACKLOG_MESSAGES`] are pending and ends at none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recoveries {
    /// Backlogs that have ended.
    pub count: u64,
    /// How long they lasted together.
    pub sum: Duration,
    /// The longest.
    pub max: Duration,
    pub last: Duration,
}

impl Progress {
    /// Read up to a checkpoint's position.
    pub(super) fn restored(read: u64, stream_id: Option<String>) -> Self {
        Self { read, stream_id, ..Self::default() }
    }

    /// The lane was read up to `read`, with `pending` behind that.
    pub(super) fn on_read(&mut self, now: Mono, read: u64, pending: u64) {
        self.read = self.read.max(read);
        self.read_at = Some(now);
        self.pending = pending;
        if let Some((event_time, _)) = self.mark.take_if(|(_, last)| *last <= self.read) {
            self.reached = Some(event_time);
        }
        // What is read now was delivered just before; its users allow for seconds.
        self.mark.get_or_insert((now, self.read.saturating_add(pending)));

        if pending >= BACKLOG_MESSAGES {
            self.backlog_since.get_or_insert(now);
        } else if pending == 0
            && let Some(since) = self.backlog_since.take()
        {
            self.recoveries.add(now.since(since));
        }
    }

    /// Reading begins, perhaps anew, in a stream that ends at `last_seq`.
    pub(super) fn on_positioned(&mut self, first_seq: u64, last_seq: u64) {
        // A broker that lost its power may have lost the end that was there before.
        self.goal = Some(self.goal.map_or(last_seq, |goal| goal.min(last_seq)));
        // What the stream has dropped, or never held, need not be waited for.
        self.read = self.read.max(first_seq.saturating_sub(1));
        // What was pending may be gone, and what came meanwhile was not counted for any reader.
        self.pending = last_seq.saturating_sub(self.read);
        // The stream may end before the mark now.
        self.mark = None;
        if self.pending == 0 {
            // It was dropped, not read.
            self.backlog_since = None;
        }
    }

    /// The stream was created anew and is read again up to `last_seq`; statistics stay.
    pub(super) fn reset(&mut self, last_seq: u64) {
        let recoveries = self.recoveries;
        *self = Self { goal: Some(last_seq), recoveries, ..Self::default() };
    }

    /// True once everything that was there when reading began has been read.
    pub(super) fn has_read_the_past(&self) -> bool {
        self.goal.is_some_and(|goal| self.read >= goal)
    }

    /// True when nothing is known that has not been read.
    pub(super) fn has_read_all(&self) -> bool {
        self.has_read_the_past() && self.pending == 0
    }

    pub(super) fn read_up_to(&self) -> ReadUpTo {
        match self.reached {
            _ if self.has_read_all() => ReadUpTo::Now,
            Some(event_time) if self.has_read_the_past() => ReadUpTo::Then(event_time),
            _ => ReadUpTo::Never,
        }
    }

    pub(super) fn position(&self) -> Position {
        Position { read: self.read, stream_id: self.stream_id.clone() }
    }
}

impl Recoveries {
    fn add(&mut self, took: Duration) {
        self.count += 1;
        self.sum = self.sum.saturating_add(took);
        self.max = self.max.max(took);
        self.last = took;
    }
}

#[cfg(test)]
mod tests;
