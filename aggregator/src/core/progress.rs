//! How far each lane has been read, and how long it takes to work off what piles up there.

use std::time::Duration;

use plimsoll_schemas::limits::aggregator::BACKLOG_MESSAGES;
use plimsoll_schemas::time::{Mono, Wall};

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
    /// When the broker stored the latest message read.
    pub(super) at: Option<Wall>,
    /// Since when there is a backlog.
    backlog_since: Option<Mono>,
    recoveries: Recoveries,
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
    pub(super) fn restored(read: u64, stream_id: Option<String>) -> Self {
        Self { read, stream_id, ..Self::default() }
    }

    /// The lane was read up to `read`, with `pending` behind that.
    pub(super) fn on_read(&mut self, now: Mono, read: u64, pending: u64) {
        self.read = self.read.max(read);
        self.pending = pending;
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
        self.goal.get_or_insert(last_seq);
        // What the stream has forgotten, or never held, need not be waited for.
        self.read = self.read.max(first_seq.saturating_sub(1));
        // What was pending may be gone, and what came meanwhile was not counted for any reader.
        self.pending = last_seq.saturating_sub(self.read);
        if self.pending == 0 {
            // Nobody worked it off.
            self.backlog_since = None;
        }
    }

    /// Made anew, so that it is to be read again up to `last_seq`; figures stay.
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

    pub(super) fn recoveries(&self) -> Recoveries {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: u64) -> Mono {
        Mono(n * 1_000_000_000)
    }

    #[test]
    fn a_backlog_lasts_from_its_thousandth_message_until_none_is_pending() {
        let mut lane = Progress::default();
        // Each: second, pending.
        for (at, pending) in [(1, 999), (2, 0), (3, 1_000), (5, 4_000), (8, 7), (9, 0), (10, 0)] {
            lane.on_read(second(at), at, pending);
        }
        let six = Duration::from_secs(6);
        assert_eq!(lane.recoveries(), Recoveries { count: 1, sum: six, max: six, last: six });
        lane.on_read(second(20), 20, BACKLOG_MESSAGES);
        lane.on_read(second(22), 21, 0);
        let (two, eight) = (Duration::from_secs(2), Duration::from_secs(8));
        assert_eq!(lane.recoveries(), Recoveries { count: 2, sum: eight, max: six, last: two });
    }

    #[test]
    fn messages_that_a_stream_has_forgotten_are_not_pending_for_ever() {
        let mut lane = Progress::default();
        lane.on_positioned(1, 500);
        lane.on_read(second(1), 1, 499);
        assert!(!lane.has_read_all());
        lane.on_positioned(501, 500);
        assert!(lane.has_read_all());
        assert_eq!(lane.recoveries(), Recoveries::default());
    }

    #[test]
    fn what_came_while_nobody_was_connected_is_known_to_be_unread() {
        let mut lane = Progress::default();
        lane.on_positioned(1, 2);
        lane.on_read(second(1), 2, 0);
        assert!(lane.has_read_all());
        lane.on_positioned(1, 5);
        assert_eq!((lane.has_read_all(), lane.pending), (false, 3));
        lane.on_read(second(2), 5, 0);
        assert!(lane.has_read_all());
    }

    #[test]
    fn of_what_was_pending_only_what_the_stream_still_holds_is_waited_for() {
        let mut lane = Progress::default();
        lane.on_positioned(1, 5_000);
        lane.on_read(second(1), 1, 4_999);
        lane.on_positioned(4_999, 5_000);
        assert_eq!(lane.pending, 2);
        lane.on_read(second(2), 5_000, 0);
        assert_eq!((lane.has_read_all(), lane.recoveries().count), (true, 1));
    }

    #[test]
    fn a_stream_made_anew_ends_no_backlog() {
        let mut lane = Progress::default();
        lane.on_read(second(1), 1, 5_000);
        lane.reset(3);
        lane.on_read(second(2), 3, 0);
        assert_eq!(lane.recoveries(), Recoveries::default());
        assert!(lane.has_read_all());
    }
}
