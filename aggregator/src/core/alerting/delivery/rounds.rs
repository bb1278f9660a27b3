//! What one Alertmanager has still to be told: every alert that stands, again and again.
//!
//! An Alertmanager forgets, so a round of posts tells it of all alerts, as Prometheus does. What
//! has changed is told at once. An end is told until it was taken, and once more with the next
//! round. After a failure everything is told anew, since it may have been a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use crate::limits::notices::{ALERTS_A_POST_MAX, ENDS_AFTER_MIN, RESENDS_MISSED_MAX};
use plimsoll_schemas::alert::AlertKey;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::time::{Mono, Now, Wall};
use serde::{Deserialize, Serialize};

use super::figures::ReceiverCounts;
use super::receiver::{Receiver, Waits};
use super::said::Said;
use crate::core::fleet::Shared;

/// So often an end is told.
const ENDS_TOLD: u8 = 2;

/// An alert that fires, or has ended and was not told so to all.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Standing {
    pub(super) said: Said,
    pub(super) severity: Severity,
    pub(super) routes: Vec<String>,
    /// Someone has asked not to be told that it fires.
    pub(super) silenced: bool,
    /// Since when its present state is known.
    pub(super) known_at: Wall,
    pub(super) ended_at: Option<Wall>,
}

/// An alert under one severity: that is one of its labels, so under another it is another alert
/// to an Alertmanager.
pub(super) type Labelled = (AlertKey, Severity);

/// All of them, by alert.
pub(super) type Standings = BTreeMap<Labelled, Shared<Standing>>;

/// What one Alertmanager knows of one alert.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Heard {
    /// That it fires; until it was told of the end.
    firing: bool,
    /// How often its present state.
    present: u8,
}

/// What one Alertmanager knows, and the round of posts it is told in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Rounds {
    heard: BTreeMap<Labelled, Heard>,
    /// Not yet told; a restart begins with a round that holds them.
    #[serde(skip)]
    urgent: BTreeSet<Labelled>,
    #[serde(skip)]
    next_at: Mono,
    #[serde(skip)]
    round: Option<Round>,
    /// The alerts of the post on its way, and whether they had ended.
    #[serde(skip)]
    posted: Vec<(Labelled, bool)>,
}

#[derive(Clone, Debug)]
struct Round {
    /// When the one after it begins.
    next_at: Mono,
    /// Alerts up to this one were posted in it.
    after: Option<Labelled>,
}

impl Rounds {
    /// Hears that an alert has moved; it stands as it is now.
    pub(super) fn on_move(
        &mut self,
        key: &Labelled,
        standing: &Standing,
        tally: &mut ReceiverCounts,
    ) {
        let heard = self.heard.entry(key.clone()).or_insert(Heard { firing: false, present: 1 });
        if heard.present == 0 {
            tally.count("superseded");
        }
        heard.present = 0;
        if standing.silenced && !(standing.ended_at.is_some() && heard.firing) {
            tally.count("suppressed");
            heard.present = ENDS_TOLD;
        } else {
            self.urgent.insert(key.clone());
        }
    }

    /// Whether it is still to be told of an alert.
    fn wants(&self, key: &Labelled, standing: &Standing, receiver: &Receiver) -> bool {
        let heard = self.heard.get(key).copied().unwrap_or_default();
        let is_meant = receiver.is_meant(standing.severity, &standing.routes);
        match standing.ended_at {
            // Who was told of the begin hears of it, whatever the rule's routes say by then.
            Some(_) => (is_meant || heard.firing) && heard.present < ENDS_TOLD,
            None => is_meant && (heard.firing || !standing.silenced),
        }
    }

    /// Whether it was told that an alert fires, and of no end.
    pub(super) fn believes(&self, key: &Labelled) -> bool {
        self.heard.get(key).is_some_and(|heard| heard.firing)
    }

    /// Whether it was never told of an alert's end, though that stands.
    pub(super) fn misses(&self, key: &Labelled) -> bool {
        self.heard.get(key).is_some_and(|heard| heard.present == 0)
    }

    /// Whether it has heard all there was of an alert that has ended.
    pub(super) fn is_done_with(&self, key: &Labelled) -> bool {
        self.heard.get(key).is_none_or(|heard| heard.present >= ENDS_TOLD)
    }

    pub(super) fn forget(&mut self, key: &Labelled) {
        self.heard.remove(key);
        self.urgent.remove(key);
    }

    /// The next post, if there is one to make now.
    pub(super) fn next(
        &mut self,
        now: Now,
        (receiver, resend_every): (&Receiver, Duration),
        standings: &Standings,
    ) -> Option<Vec<u8>> {
        if self.round.is_none() && now.mono >= self.next_at {
            self.round = Some(Round { next_at: now.mono.plus(resend_every), after: None });
        }
        let mut keys = self.of_round(receiver, standings);
        if keys.is_empty() {
            self.end_round();
            keys = self.of_urgent(receiver, standings);
        }
        if keys.is_empty() {
            self.urgent.clear();
            return None;
        }
        let ends_at = now.wall.plus((resend_every * RESENDS_MISSED_MAX).max(ENDS_AFTER_MIN));
        let told = keys.into_iter().filter_map(|key| {
            let standing = standings.get(&key)?;
            Some((key, standing.ended_at.is_some(), standing))
        });
        let (mut posted, mut alerts) = (Vec::new(), Vec::new());
        for (key, ended, standing) in told {
            alerts.push(standing.said.to_json(standing.ended_at.unwrap_or(ends_at)));
            posted.push((key, ended));
        }
        self.posted = posted;
        Some(serde_json::to_vec(&alerts).expect("a list of maps of text is JSON"))
    }

    fn of_round(&self, receiver: &Receiver, standings: &Standings) -> Vec<Labelled> {
        let Some(round) = &self.round else { return Vec::new() };
        let from = round.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let left = standings.range((from, Bound::Unbounded));
        let wanted = left.filter(|(key, standing)| self.wants(key, standing, receiver));
        wanted.take(ALERTS_A_POST_MAX).map(|(key, _)| key.clone()).collect()
    }

    fn of_urgent(&self, receiver: &Receiver, standings: &Standings) -> Vec<Labelled> {
        let stands = |key: &&Labelled| {
            standings.get(*key).is_some_and(|standing| self.wants(key, standing, receiver))
        };
        self.urgent.iter().filter(stands).take(ALERTS_A_POST_MAX).cloned().collect()
    }

    /// The post was taken. Gives since when the states are known that it told first.
    pub(super) fn on_taken(
        &mut self,
        standings: &Standings,
        tally: &mut ReceiverCounts,
    ) -> Vec<Wall> {
        let mut first = Vec::new();
        for (key, ended) in self.on_posted() {
            // It may have moved meanwhile.
            let standing = standings.get(&key).filter(|of| of.ended_at.is_some() == ended);
            let heard = self.heard.entry(key.clone()).or_default();
            heard.firing = !ended;
            let Some(standing) = standing else { continue };
            if heard.present == 0 {
                tally.count("delivered");
                first.push(standing.known_at);
            }
            heard.present = heard.present.saturating_add(1);
            self.urgent.remove(&key);
        }
        first
    }

    /// The post was refused: its alerts wait for the next round, so that they hold up no others.
    pub(super) fn on_refused(&mut self) {
        for (key, _) in self.on_posted() {
            self.urgent.remove(&key);
        }
    }

    /// The post came to nothing: the next one begins a round.
    pub(super) fn on_failed(&mut self) {
        self.posted.clear();
        self.round = None;
        self.next_at = Mono(0);
    }

    fn on_posted(&mut self) -> Vec<(Labelled, bool)> {
        let posted = std::mem::take(&mut self.posted);
        if let Some(round) = &mut self.round {
            round.after = posted.last().map(|(key, _)| key.clone());
        }
        if posted.len() < ALERTS_A_POST_MAX {
            self.end_round();
        }
        posted
    }

    fn end_round(&mut self) {
        self.next_at = self.round.take().map_or(self.next_at, |round| round.next_at);
    }

    /// What it waits for: something new, or the next round.
    pub(super) fn due_at(&self) -> Mono {
        if self.round.is_some() || !self.urgent.is_empty() { Mono(0) } else { self.next_at }
    }

    /// What it has not been told.
    pub(super) fn waits(&self, standings: &Standings, receiver: &Receiver) -> Waits {
        let unheard = self.heard.iter().filter(|(_, heard)| heard.present == 0);
        let unheard = unheard.filter_map(|(key, _)| Some((key, standings.get(key)?)));
        let wanted = unheard.filter(|(key, standing)| self.wants(key, standing, receiver));
        wanted.fold(Waits::default(), |waits, (_, standing)| waits.and(standing.known_at))
    }
}
