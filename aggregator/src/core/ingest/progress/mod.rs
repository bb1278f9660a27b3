//! How far each lane has been read, up to which moment nothing stored is unread, and how long it
//! takes to work off what piles up there.

use std::time::Duration;

use crate::limits::BACKLOG_MESSAGES;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Wall};

use crate::core::Core;

/// How far one lane has been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// The stream that the numbers are about; `None` while there has been none.
    pub(crate) stream_id: Option<String>,
    /// The stream's last message when reading began; `None` before that.
    pub(crate) goal: Option<u64>,
    pub(crate) read: u64,
    /// Messages behind the last one, as the broker counted them for this reader.
    pub(crate) pending: u64,
    /// When the broker stored the latest message read.
    pub(crate) at: Option<Wall>,
    /// A moment and the stream's last message then.
    mark: Option<(Mono, u64)>,
    /// The latest mark that has been read up to.
    reached: Option<Mono>,
    /// Since when there is a backlog.
    backlog_since: Option<Mono>,
    recoveries: Recoveries,
}

/// Up to which moment everything that a stream held has been read, as far as is known. Where
/// messages come without pause there is always one unread, so nobody can wait for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReadUpTo {
    /// It is not known of any.
    Never,
    /// Then, and perhaps later.
    Then(Mono),
    /// Nothing is known to be unread.
    Now,
}

impl ReadUpTo {
    /// The moment, as seen at `now`.
    pub(crate) fn as_of(self, now: Mono) -> Option<Mono> {
        match self {
            Self::Never => None,
            Self::Then(moment) => Some(moment.min(now)),
            Self::Now => Some(now),
        }
    }
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
    /// The latest.
    pub last: Duration,
}

impl Progress {
    /// Read up to a position that a checkpoint tells.
    pub(crate) fn restored(read: u64, stream_id: Option<String>) -> Self {
        Self { read, stream_id, ..Self::default() }
    }

    /// The lane was read up to `read`, with `pending` behind that.
    pub(crate) fn on_read(&mut self, now: Mono, read: u64, pending: u64) {
        self.read = self.read.max(read);
        self.pending = pending;
        if let Some((moment, _)) = self.mark.take_if(|(_, last)| *last <= self.read) {
            self.reached = Some(moment);
        }
        // What is read now was delivered a moment ago; who waits for it allows for seconds.
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
    pub(crate) fn on_positioned(&mut self, first_seq: u64, last_seq: u64) {
        self.goal.get_or_insert(last_seq);
        // What the stream has forgotten, or never held, need not be waited for.
        self.read = self.read.max(first_seq.saturating_sub(1));
        // What was pending may be gone, and what came meanwhile was not counted for any reader.
        self.pending = last_seq.saturating_sub(self.read);
        // The stream may end before the mark now.
        self.mark = None;
        if self.pending == 0 {
            // Nobody worked it off.
            self.backlog_since = None;
        }
    }

    /// Made anew, so that it is to be read again up to `last_seq`; figures stay.
    pub(crate) fn reset(&mut self, last_seq: u64) {
        let recoveries = self.recoveries;
        *self = Self { goal: Some(last_seq), recoveries, ..Self::default() };
    }

    /// True once everything that was there when reading began has been read.
    pub(crate) fn has_read_the_past(&self) -> bool {
        self.goal.is_some_and(|goal| self.read >= goal)
    }

    /// True when nothing is known that has not been read.
    pub(crate) fn has_read_all(&self) -> bool {
        self.has_read_the_past() && self.pending == 0
    }

    /// Up to when it has been read.
    pub(crate) fn read_up_to(&self) -> ReadUpTo {
        match self.reached {
            _ if self.has_read_all() => ReadUpTo::Now,
            Some(moment) if self.has_read_the_past() => ReadUpTo::Then(moment),
            _ => ReadUpTo::Never,
        }
    }

    pub(crate) fn recoveries(&self) -> Recoveries {
        self.recoveries
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

impl Core {
    /// Messages still to be read, by lane.
    #[must_use]
    pub fn pending(&self) -> Vec<(Lane, u64)> {
        self.lanes.iter().map(|(lane, progress)| (*lane, progress.pending)).collect()
    }

    /// How long backlogs lasted, by lane.
    #[must_use]
    pub fn recoveries(&self) -> Vec<(Lane, Recoveries)> {
        self.lanes.iter().map(|(lane, progress)| (*lane, progress.recoveries())).collect()
    }
}

#[cfg(test)]
mod tests;
