//! Silences of all aggregators of a mesh: each reports what it has, and takes over from the reports
//! of others what it lacks. A silence never changes but for its end, so reports may come late,
//! twice or in any order, and all aggregators arrive at the same silences. Where their clocks
//! differ a silence lasts for as long at each: its times are moved by the difference.
//!
//! DESIGN A170.

use plimsoll_schemas::alert::{Silence, SilenceOrigin};
use plimsoll_schemas::ids::AggregatorName;
use plimsoll_schemas::limits::wire::SHARED_SILENCES_ENDED_MAX;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::silences::SharedSilences;

use super::{SILENCE_MAX, SILENCES_MAX, Silences, check};
use crate::limits::alerts::{SILENCE_CLOCKS_AGREE_WITHIN, SILENCE_CLOCKS_DIFFER_MAX};

/// The reason of a silence that another aggregator reports and this one cannot keep.
const REFUSED_INVALID: &str = "invalid";
/// That of one for which there is no room.
const REFUSED_FULL: &str = "full";

impl Silences {
    /// From now on they are shared with other aggregators, as those of `own`.
    pub fn share_as(&mut self, own: AggregatorName) {
        self.own = Some(own);
        self.revision += 1;
    }

    /// What other aggregators should know, without the time at which it is reported; `None` if they
    /// are not shared.
    pub fn report(&self) -> Option<SharedSilences> {
        let silence = |(id, silence): (&u64, &Silence)| Some((self.origin(*id)?, silence.clone()));
        self.own.as_ref()?;
        Some(SharedSilences {
            at: Wall(0),
            silences: self.silences.iter().filter_map(silence).collect(),
            ended: self.ended.iter().map(|(origin, until)| (origin.clone(), *until)).collect(),
        })
    }

    /// Takes over what another aggregator knows. Returns whether anything has changed.
    pub fn merge(&mut self, now: Wall, shared: SharedSilences) -> bool {
        let before = self.revision;
        let here = |time: Wall| moved(time, shared.at, now);

        // Ends first: a report may hold a silence that it also ends.
        for (origin, until) in shared.ended {
            let until = here(until);
            if now < until && until.since(now) <= SILENCE_MAX {
                let id = self.id_of(&origin);
                let is_new = !self.ended.contains_key(&origin);
                id.and_then(|id| self.silences.remove(&id));
                if is_new {
                    self.remember_end(origin, until);
                }
            }
        }

        for (origin, silence) in shared.silences {
            let (from, until) = (here(silence.from), here(silence.until));
            let silence = Silence { from, until, ..silence };
            // One that ended here is in reports of others until they have read of it.
            if !self.ended.contains_key(&origin) && self.id_of(&origin).is_none() {
                self.take_over(now, origin, silence);
            }
        }

        self.expire(now);
        self.revision != before
    }

    /// Counts a report, or one silence of it, that was not taken over.
    pub fn count_refused(&mut self, reason: &'static str) {
        *self.refused.entry(reason).or_default() += 1;
    }

    fn take_over(&mut self, now: Wall, origin: SilenceOrigin, silence: Silence) {
        let checked = check(now, &silence.by, &silence.comment, silence.from, silence.until);

        if silence.until <= now {
            // The other aggregator's clock is behind, or the report was long on its way.
            return;
        }

        if checked.is_err() || silence.matches.is_everything() {
            return self.count_refused(REFUSED_INVALID);
        }
        if self.silences.len() >= SILENCES_MAX {
            return self.count_refused(REFUSED_FULL);
        }
        self.last_id += 1;
        self.silences.insert(self.last_id, silence);
        self.origins.insert(self.last_id, origin);
        self.revision += 1;
    }

    /// Which silence this is for all aggregators; `None` if silences are not shared.
    fn origin(&self, id: u64) -> Option<SilenceOrigin> {
        let own = || {
            let aggregator = self.own.clone()?;
            // One that was created before silences were shared.
            Some(SilenceOrigin { aggregator, id, created: Wall(0) })
        };
        self.origins.get(&id).cloned().or_else(own)
    }

    fn id_of(&self, origin: &SilenceOrigin) -> Option<u64> {
        self.silences.keys().copied().find(|id| self.origin(*id).as_ref() == Some(origin))
    }

    /// A silence was created here.
    pub(super) fn on_created(&mut self, now: Wall, id: u64) {
        self.revision += 1;
        if let Some(aggregator) = self.own.clone() {
            self.origins.insert(id, SilenceOrigin { aggregator, id, created: now });
        }
    }

    /// A silence was ended here before its time.
    pub(super) fn on_ended(&mut self, id: u64, until: Wall) {
        if let Some(origin) = self.origin(id) {
            self.remember_end(origin, until);
        }
    }

    /// Keeps an end until the silence would be over, so that no report begins it again. When there
    /// are too many, that which would be over first is dropped.
    fn remember_end(&mut self, origin: SilenceOrigin, until: Wall) {
        self.ended.insert(origin, until);
        self.revision += 1;
        if self.ended.len() > SHARED_SILENCES_ENDED_MAX {
            let first = self.ended.iter().min_by_key(|(_, until)| **until);
            if let Some(origin) = first.map(|(origin, _)| origin.clone()) {
                self.ended.remove(&origin);
            }
        }
    }

    pub(super) fn expire_shared(&mut self, now: Wall) {
        self.origins.retain(|id, _| self.silences.contains_key(id));
        self.ended.retain(|_, until| now < *until);
    }
}

/// A time by the clock of a report that was made at `there`, by the clock here, which is at `now`.
/// If both hardly differ it stays as it is, so that aggregators show the same. If they differ by
/// very much the report may be an old one that is sent again, so it stays too.
fn moved(time: Wall, there: Wall, now: Wall) -> Wall {
    let (behind, ahead) = (now.since(there), there.since(now));
    let difference = behind.max(ahead);
    let is_of_clocks = difference > SILENCE_CLOCKS_AGREE_WITHIN;
    if there == Wall(0) || !is_of_clocks || difference > SILENCE_CLOCKS_DIFFER_MAX {
        return time;
    }
    if behind > ahead { time.plus(behind) } else { time.minus(ahead) }
}
