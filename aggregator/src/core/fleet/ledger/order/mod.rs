//! Which of a node's incarnations is the latest. Each has a number in their order; the newest is
//! the one with the greatest number that nobody has spoken the last word for.
//!
//! An incarnation's name is the time at which it began, by its own clock. That clock may have
//! been set back, and a former run may be heard late, out of a spool or another lane. So:
//!
//! 1. A run that is heard for the first time is the newest, as is right after a clock was set
//!    back, save when the newest so far has a greater name and has not said farewell: then the
//!    run is a former one that is heard late. The answer is that of hearing it in time.
//! 2. An heir is later than the run it speaks for.
//! 3. A run that goes on speaking, while the newest says nothing, is the newest after all: at
//!    once if its name is the greater one, soon if the newest has said farewell, and else, where
//!    the newest may have crashed before a clock was set back, after a while.

use plimsoll_schemas::ids::Incarnation;
use plimsoll_schemas::wire::Header;

use super::Account;
use crate::core::fleet::run::Run;

/// New messages of a run after the newest has said farewell that mean nothing yet: what another
/// lane brings a little late.
const AFTER_FAREWELL_BORNE: u32 = 3;
/// New messages of a run while the newest, of a greater name, says nothing that mean nothing
/// yet: a spool may send as many between two messages of a living run.
const IN_SILENCE_BORNE: u32 = 64;

impl Account {
    /// The run of that name, which may be heard for the first time.
    pub(super) fn run_of(&mut self, incarnation: Incarnation) -> &mut Run {
        let newest = self.newest().filter(|(_, run)| !run.said_farewell).map(|(name, _)| name);
        let begun = &mut self.begun;
        let mut is_new = false;
        self.runs.entry(incarnation).or_insert_with(|| {
            is_new = true;
            *begun += 1;
            Run::new(*begun)
        });
        if let Some(newest) = newest.filter(|newest| is_new && *newest > incarnation) {
            self.put_last(newest);
        }
        self.runs.get_mut(&incarnation).expect("it was there or was made above")
    }

    /// Hears that `header` was booked.
    pub(super) fn put_in_order(&mut self, header: &Header) {
        if header.heir.is_some() {
            self.put_heirs_last(header.incarnation);
        }
        if self.is_the_newest_after_all(header) {
            self.put_last(header.incarnation);
            self.spoke_on = None;
        }
    }

    fn is_the_newest_after_all(&mut self, header: &Header) -> bool {
        let (Some((newest, last)), Some(run)) = (self.newest(), self.runs.get(&header.incarnation))
        else {
            return false;
        };
        let speaks_on = header.seq == run.newest && !run.said_farewell && run.heir.is_none();
        if newest == header.incarnation {
            self.spoke_on = None;
            return false;
        }
        if !speaks_on || header.incarnation > newest {
            return speaks_on;
        }
        let borne = if last.said_farewell { AFTER_FAREWELL_BORNE } else { IN_SILENCE_BORNE };
        let before = self.spoke_on.filter(|(of, _)| *of == header.incarnation);
        let times = before.map_or(0, |(_, times)| times).saturating_add(1);
        self.spoke_on = Some((header.incarnation, times));
        times > borne
    }

    fn put_heirs_last(&mut self, mut incarnation: Incarnation) {
        // As many steps as there are runs: forged heirs may form a ring.
        for _ in 0..self.runs.len() {
            let Some(run) = self.runs.get(&incarnation) else { return };
            let (order, Some(heir)) = (run.order, run.heir) else { return };
            if self.order(heir).is_none_or(|later| later >= order) {
                return;
            }
            self.put_last(heir);
            incarnation = heir;
        }
    }

    fn put_last(&mut self, incarnation: Incarnation) {
        if let Some(run) = self.runs.get_mut(&incarnation) {
            self.begun += 1;
            run.order = self.begun;
        }
    }

    /// Where a run stands; `None` if it is not told apart.
    pub(crate) fn order(&self, incarnation: Incarnation) -> Option<u64> {
        self.runs.get(&incarnation).map(|run| run.order)
    }

    /// The latest run that nobody has spoken the last word for.
    pub(super) fn newest(&self) -> Option<(Incarnation, &Run)> {
        let heirless = self.runs.iter().filter(|(_, run)| run.heir.is_none());
        heirless.max_by_key(|(_, run)| run.order).map(|(name, run)| (*name, run))
    }

    /// True when the newest incarnation has said farewell.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.newest().is_some_and(|(_, run)| run.said_farewell)
    }
}

#[cfg(test)]
mod tests;
