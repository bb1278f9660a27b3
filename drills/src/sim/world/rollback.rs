//! An aggregator whose store is put back to what it was some time ago, as an operator does with
//! a copy of its file: it must come to the same counts by reading the streams again.

use super::readers::{Mark, ReaderProcess};
use super::{Event, Time, Undo, Who, World};
use crate::sim::reader::Store;

/// A day and a bit, in milliseconds.
const DAY_MS: i64 = 25 * 3_600 * 1_000;
/// Days that an aggregator is away, at most: after seven it may forget whom it knew.
const AWAY_MAX: u32 = 3;

/// A copy of a store, and what its checkpoint covers.
#[derive(Default)]
pub(super) struct Copy {
    store: Store,
    mark: Mark,
}

impl ReaderProcess {
    pub(super) fn back_up(&mut self) {
        self.copy = Copy { store: self.store.copy(), mark: self.mark };
    }
}

impl World {
    /// What nodes were told is stored is stored no longer: until the streams are read again,
    /// they alone have it.
    pub(super) fn roll_back(&mut self, which: usize, down: Time) {
        if !self.machine(Who::Aggregator(which)).is_alive {
            return;
        }
        self.end_reader(which);
        self.readers[which].store = self.readers[which].copy.store.copy();
        self.readers[which].mark = self.readers[which].copy.mark;
        self.readers[which].confirmed.clear();
        self.lossy.1 = true;
        self.excuse_losses();
        self.after(down, Event::Undo(Undo::Reboot(Who::Aggregator(which))));
    }

    /// A day later nobody was heard for long: nodes are hidden, but what they sent is known.
    pub(super) fn go_away(&mut self, which: usize, down: Time) {
        let who = Who::Aggregator(which);
        if !self.machine(who).is_alive || self.readers[which].away >= AWAY_MAX {
            return;
        }
        self.readers[which].away += 1;
        self.end_reader(which);
        self.machine(who).clocks.jump(DAY_MS * 1_000_000);
        self.after(down, Event::Undo(Undo::Reboot(who)));
    }

    /// Streams have lost so many messages.
    pub(super) fn note_gone(&mut self, messages: usize) {
        self.lossy.0 |= messages > 0;
        self.excuse_losses();
    }

    fn excuse_losses(&mut self) {
        if self.lossy == (true, true) {
            let excuse = "streams lost what only a newer store had";
            self.books.iter_mut().for_each(|book| book.excuse = Some(excuse));
        }
    }
}
