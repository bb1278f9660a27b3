//! What earlier pages of a target showed, to detect restarts and new series.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::limits::scrape::{FAMILIES_MALFORMED_MAX, SERIES_KNOWN_MAX, START_ROUNDING};
use plimsoll_schemas::time::{Now, Wall};

pub(super) struct TargetHistory {
    began: Now,
    /// When the last page was read.
    last: Option<Now>,
    /// The time of the last page, which never goes back.
    time: Wall,
    /// Whether all series of some page were read.
    was_complete: bool,
    /// Series of the last page that count from a start.
    cumulative: Option<usize>,
    process_start: Option<Wall>,
    /// All cumulative streams of earlier pages.
    known: BTreeSet<u64>,
    /// Families of which a line could not be read.
    malformed: BTreeSet<u64>,
}

impl TargetHistory {
    pub(super) fn new(began: Now) -> Self {
        Self {
            began,
            last: None,
            time: Wall::default(),
            was_complete: false,
            cumulative: None,
            process_start: None,
            known: BTreeSet::new(),
            malformed: BTreeSet::new(),
        }
    }

    /// The time of a page that is read now, which is never before that of the previous page, even
    /// if the clock was set back.
    pub(super) fn time(&mut self, now: Now) -> Wall {
        let since_last = self.last.map_or(Duration::ZERO, |last| now.mono.since(last.mono));
        // Points of a stream must be in order of time, or all would be rejected until the clock has
        // caught up.
        self.time = now.wall.max(self.time.plus(since_last));
        self.time
    }

    /// Whether the process started after the previous page, or, for the first page, after the node.
    /// A process states its start by the machine's clock, and setting the clock moves the start of
    /// a running process: so it must also be younger than the previous page.
    pub(super) fn is_process_new(&mut self, now: Now, stated: Option<Wall>) -> bool {
        let Some(stated) = stated else { return false };
        let age = now.wall.since(stated);
        match (self.process_start.replace(stated), self.last) {
            (Some(before), Some(last)) => {
                stated > before.plus(START_ROUNDING)
                    && age < now.mono.since(last.mono) + START_ROUNDING
            }
            (None, None) => {
                let lived = now.mono.since(self.began.mono);
                (self.began.wall..=now.wall).contains(&stated) && age <= lived
            }
            _ => false,
        }
    }

    /// Whether this stream was on no earlier page although one was complete: then it started from
    /// zero since. Of a family that could not be read this is not known.
    pub(super) fn is_stream_new(&mut self, family: u64, stream: u64) -> bool {
        // First: a stream that cannot be remembered would be new on every page, and be counted
        // again.
        let has_room = self.known.len() < SERIES_KNOWN_MAX;
        has_room
            && self.known.insert(stream)
            && self.was_complete
            && !self.malformed.contains(&family)
    }

    /// A line of this family could not be read. Returns whether there is room to remember it.
    pub(super) fn on_malformed(&mut self, family: u64) -> bool {
        let has_room = self.malformed.len() < FAMILIES_MALFORMED_MAX;
        if has_room {
            self.malformed.insert(family);
        }
        has_room || self.malformed.contains(&family)
    }

    /// A page was read; `is_complete` if all its series were.
    pub(super) fn on_read(&mut self, now: Now, is_complete: bool, cumulative: usize) {
        self.last = Some(now);
        self.was_complete |= is_complete;
        self.cumulative = Some(cumulative);
    }

    /// Whether a page whose end nothing states has as many series as the one before. One that was
    /// cut between two lines would have fewer.
    pub(super) fn is_as_long(&self, cumulative: usize) -> bool {
        self.cumulative.is_some_and(|before| cumulative >= before)
    }
}
