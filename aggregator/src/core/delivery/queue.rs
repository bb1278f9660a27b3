//! What one webhook has still to be told: each change once, the older of one alert first.
//!
//! A change takes the place of one that was not told yet, save where the receiver believes that
//! an alert fires: it hears of the end, whatever comes after that.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::alert::{AlertKey, AlertState, Notice};
use plimsoll_schemas::limits::notices::{
    ALERTS_TOLD_MAX, ATTEMPTS_MAX, NOTICE_AGE_MAX, NOTICES_WAITING_MAX,
};
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use super::Waits;
use super::figures::Tally;
use crate::core::node::Shared;

/// A notice that waits.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Waiting {
    notice: Shared<Notice>,
    known_at: Wall,
    attempts: u32,
}

/// A notice that was given up, and why.
pub(super) type GivenUp = (Shared<Notice>, &'static str);

/// What waits for one webhook.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Queue {
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    /// Alerts of which the receiver believes that they fire.
    told: BTreeSet<AlertKey>,
    #[serde(skip)]
    on_its_way: Option<u64>,
}

impl Queue {
    /// Takes a notice that is meant for this receiver. Gives the one for which there is no room.
    pub(super) fn push(
        &mut self,
        notice: &Shared<Notice>,
        known_at: Wall,
        tally: &mut Tally,
    ) -> Option<GivenUp> {
        let key = &notice.key;
        let believed = self.told.contains(key) || self.fires_on_its_way(key);
        let ends = notice.state == AlertState::Resolved;
        let looked_after = notice.is_acknowledgement();
        if !looked_after {
            self.supersede(key, believed && !ends, tally);
        }
        let is_wanted = !notice.silenced || believed && (ends || looked_after);
        if !is_wanted {
            tally.count("suppressed");
            return None;
        }
        let given_up = (self.waiting.len() >= NOTICES_WAITING_MAX).then(|| self.oldest()).flatten();
        self.next += 1;
        let waiting = Waiting { notice: notice.clone(), known_at, attempts: 0 };
        self.waiting.insert(self.next, waiting);
        given_up.map(|notice| (notice, "queue_full"))
    }

    /// Lets go of what a newer state makes pointless; not of an end that is owed.
    fn supersede(&mut self, key: &AlertKey, end_is_owed: bool, tally: &mut Tally) {
        let (on_its_way, before) = (self.on_its_way, self.waiting.len());
        self.waiting.retain(|token, waiting| {
            let is_owed = end_is_owed && waiting.notice.state == AlertState::Resolved;
            waiting.notice.key != *key || Some(*token) == on_its_way || is_owed
        });
        tally.count_n("superseded", before - self.waiting.len());
    }

    fn fires_on_its_way(&self, key: &AlertKey) -> bool {
        let waiting = self.on_its_way.and_then(|token| self.waiting.get(&token));
        waiting.is_some_and(|of| of.notice.key == *key && of.notice.state == AlertState::Firing)
    }

    fn oldest(&mut self) -> Option<Shared<Notice>> {
        let (token, _) = self.waiting.iter().find(|(token, _)| Some(**token) != self.on_its_way)?;
        let token = *token;
        self.waiting.remove(&token).map(|waiting| waiting.notice)
    }

    /// Gives up what is too old.
    pub(super) fn expire(&mut self, now: Wall) -> Vec<GivenUp> {
        let on_its_way = self.on_its_way;
        let old = self.waiting.extract_if(.., |token, waiting| {
            now.since(waiting.known_at) > NOTICE_AGE_MAX && Some(*token) != on_its_way
        });
        old.map(|(_, waiting)| (waiting.notice, "too_old")).collect()
    }

    /// The next notice to post. Of several alerts the one with the fewest attempts, so that one
    /// which the receiver cannot bear holds up no other.
    pub(super) fn next(&mut self) -> Option<Shared<Notice>> {
        let mut seen = BTreeSet::new();
        let first = self.waiting.iter().filter(|(_, waiting)| seen.insert(&waiting.notice.key));
        let (token, _) = first.min_by_key(|(token, waiting)| (waiting.attempts, **token))?;
        let token = *token;
        self.on_its_way = Some(token);
        self.waiting.get(&token).map(|waiting| waiting.notice.clone())
    }

    /// The post was taken. Gives since when its change is known.
    pub(super) fn on_taken(&mut self, tally: &mut Tally) -> Option<Wall> {
        let waiting = self.waiting.remove(&self.on_its_way.take()?)?;
        tally.count("delivered");
        match waiting.notice.state {
            AlertState::Firing if self.told.len() < ALERTS_TOLD_MAX => {
                self.told.insert(waiting.notice.key.clone());
            }
            AlertState::Resolved => {
                self.told.remove(&waiting.notice.key);
            }
            _ => {}
        }
        Some(waiting.known_at)
    }

    /// The post was refused for good.
    pub(super) fn on_refused(&mut self) -> Option<GivenUp> {
        let waiting = self.waiting.remove(&self.on_its_way.take()?)?;
        Some((waiting.notice, "refused"))
    }

    /// The post came to nothing. Gives up a notice with too many attempts.
    pub(super) fn on_failed(&mut self) -> Option<GivenUp> {
        let token = self.on_its_way.take()?;
        let waiting = self.waiting.get_mut(&token)?;
        waiting.attempts += 1;
        if waiting.attempts < ATTEMPTS_MAX {
            return None;
        }
        self.waiting.remove(&token).map(|waiting| (waiting.notice, "attempts"))
    }

    /// Everything that waits, given up since its receiver is no longer there.
    pub(super) fn drain(self) -> impl Iterator<Item = GivenUp> {
        self.waiting.into_values().map(|waiting| (waiting.notice, "removed"))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What waits.
    pub(super) fn waits(&self) -> Waits {
        let known = self.waiting.values().map(|waiting| waiting.known_at);
        known.fold(Waits::default(), Waits::and)
    }
}
