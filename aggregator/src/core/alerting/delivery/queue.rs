//! What one webhook has still to be sent: each change once, the fleet's first, and of one alert the
//! older first.
//!
//! A change replaces one that was not sent yet. A receiver that may have received a begin is owed
//! the end, whatever comes after that. A full queue does not push out an owed end. If its attempts
//! fail, it is retried slowly until it is too old. A receiver that was sent no begin is sent no
//! end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::limits::notifications::{
    ALERTS_REPORTED_MAX, ATTEMPTS_MAX, NOTIFICATION_AGE_MAX, NOTIFICATIONS_WAITING_MAX,
    OWED_AGE_MAX, OWED_RETRY_EVERY,
};
use plimsoll_schemas::alert::{AlertKey, AlertState, Notification, Scope};
use plimsoll_schemas::time::{Mono, Now, Wall};
use serde::{Deserialize, Serialize};

use super::receiver::Waits;
use super::stats::ReceiverCounts;
use crate::core::alerting::record::{ReceiverRecord, WaitingNotification};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Waiting {
    token: u64,
    notification: Arc<Notification>,
    known_at: Wall,
    attempts: u32,
    /// A begin that was on its way when its alert ended: not to be tried again.
    over: bool,
    /// An owed end whose regular attempts have failed.
    owed: bool,
    /// Not before; a restart tries at once.
    #[serde(skip)]
    next_at: Mono,
}

/// An undeliverable notification.
pub(super) struct GivenUp {
    pub(super) notification: Arc<Notification>,
    pub(super) reason: &'static str,
}

/// What waits for one webhook.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Queue {
    /// By alert, the oldest first; no list is empty.
    waiting: BTreeMap<AlertKey, Vec<Waiting>>,
    next: u64,
    /// Alerts whose begin the receiver may have received, and whose end it has not.
    notified: BTreeSet<AlertKey>,
    #[serde(skip)]
    on_its_way: Option<(AlertKey, u64)>,
}

impl Queue {
    /// What is owed, as it is kept for this receiver: not a begin whose alert has ended.
    pub(super) fn record(&self) -> ReceiverRecord {
        let waiting = self.waiting.values().flatten().filter(|waiting| !waiting.over);
        let waiting = waiting.map(|of| WaitingNotification {
            known_at: of.known_at,
            notification: of.notification.clone(),
        });
        ReceiverRecord { notified: self.notified.clone(), waiting: waiting.collect() }
    }

    /// As it was kept; what waits is due at once.
    pub(super) fn restored(ReceiverRecord { notified, waiting }: ReceiverRecord) -> Self {
        let notified = notified.into_iter().take(ALERTS_REPORTED_MAX).collect();
        let mut queue = Self { notified, ..Self::default() };
        let waiting = waiting.into_iter().take(ALERTS_REPORTED_MAX + NOTIFICATIONS_WAITING_MAX);
        for WaitingNotification { known_at, notification } in waiting {
            queue.add(&notification, known_at);
        }
        queue
    }

    fn add(&mut self, notification: &Arc<Notification>, known_at: Wall) {
        self.next += 1;
        self.waiting.entry(notification.key.clone()).or_default().push(Waiting {
            token: self.next,
            notification: notification.clone(),
            known_at,
            attempts: 0,
            over: false,
            owed: false,
            next_at: Mono(0),
        });
    }

    /// Whether the receiver may have received an alert's begin, or is being sent it.
    pub(super) fn is_notified(&self, key: &AlertKey) -> bool {
        let waiting = self.waiting.get(key).into_iter().flatten();
        let mut begins = waiting.filter(|of| of.notification.state == AlertState::Firing);
        self.notified.contains(key) || begins.any(|of| self.is_on_its_way(of))
    }

    /// Queues a notification that is meant for this receiver. Returns the one for which there is no
    /// room.
    pub(super) fn push(
        &mut self,
        notification: &Arc<Notification>,
        known_at: Wall,
        tally: &mut ReceiverCounts,
    ) -> Option<GivenUp> {
        let key = &notification.key;
        let is_notified = self.is_notified(key);
        let ends = notification.state == AlertState::Resolved;
        let is_acknowledged = notification.is_acknowledgement();

        if ends {
            self.end(key, tally);
        } else if !is_acknowledged {
            self.supersede(key, is_notified, tally);
        }

        if notification.silenced && !(is_notified && (ends || is_acknowledged)) {
            tally.count("suppressed");
            return None;
        }

        if ends && !is_notified {
            tally.count("superseded");
            return None;
        }

        self.add(notification, known_at);
        let pushed_out = if ends { None } else { self.make_room() };
        pushed_out.map(|notification| GivenUp { notification, reason: "queue_full" })
    }

    /// An alert has ended whose end the receiver is not to be sent.
    pub(super) fn end_unsent(&mut self, key: &AlertKey, tally: &mut ReceiverCounts) {
        self.end(key, tally);
        self.notified.remove(key);
    }

    fn end(&mut self, key: &AlertKey, tally: &mut ReceiverCounts) {
        self.supersede(key, false, tally);
        self.waiting.get_mut(key).into_iter().flatten().for_each(|begin| begin.over = true);
    }

    /// Drops what a newer state makes pointless; not an end that the receiver has yet to be sent
    /// before the alert's next begin.
    fn supersede(&mut self, key: &AlertKey, end_is_owed: bool, tally: &mut ReceiverCounts) {
        let on_its_way = self.on_its_way.as_ref().map(|(_, token)| *token);
        let stays = |waiting: &Waiting| {
            let ends = waiting.notification.state == AlertState::Resolved;
            Some(waiting.token) == on_its_way || end_is_owed && ends && !waiting.owed
        };
        let gone = self.take(key, |waiting| !stays(waiting));
        tally.count_n("superseded", gone.len());
    }

    fn take(&mut self, key: &AlertKey, goes: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let Some(list) = self.waiting.get_mut(key) else { return Vec::new() };
        let taken = list.extract_if(.., |waiting| goes(waiting)).collect();
        if list.is_empty() {
            self.waiting.remove(key);
        }
        taken
    }

    fn is_on_its_way(&self, waiting: &Waiting) -> bool {
        self.on_its_way.as_ref().is_some_and(|(_, token)| *token == waiting.token)
    }

    /// Pushes out the oldest, a node's before the fleet's. Ends take no room: there are no more
    /// of them than alerts that the receiver was sent.
    fn make_room(&mut self) -> Option<Arc<Notification>> {
        let all = self.waiting.values().flatten();
        let news = all.filter(|of| of.notification.state != AlertState::Resolved);
        if news.clone().count() <= NOTIFICATIONS_WAITING_MAX {
            return None;
        }
        // What is on its way may have been received: without its
        // token the answer would be taken for another one's.
        let goes = news.filter(|of| !self.is_on_its_way(of));
        let first = goes.min_by_key(|of| (of.notification.key.scope == Scope::Fleet, of.token))?;
        let (key, token) = (first.notification.key.clone(), first.token);
        self.take(&key, |of| of.token == token).pop().map(|waiting| waiting.notification)
    }

    /// Returns notifications that are too old as undeliverable, and drops begins that are over.
    pub(super) fn expire(&mut self, now: Wall, tally: &mut ReceiverCounts) -> Vec<GivenUp> {
        let on_its_way = self.on_its_way.as_ref().map(|(_, token)| *token);
        let (mut given_up, notified) = (Vec::new(), &mut self.notified);

        self.waiting.retain(|key, list| {
            list.retain_mut(|waiting| {
                if Some(waiting.token) == on_its_way {
                    return true;
                }

                if waiting.over {
                    tally.count("superseded");
                    return false;
                }

                let age = now.since(waiting.known_at);
                if waiting.notification.state == AlertState::Resolved && notified.contains(key) {
                    waiting.owed |= age > NOTIFICATION_AGE_MAX;
                }
                let is_old = age > if waiting.owed { OWED_AGE_MAX } else { NOTIFICATION_AGE_MAX };

                if is_old {
                    if waiting.owed {
                        notified.remove(key);
                    }
                    let notification = waiting.notification.clone();
                    given_up.push(GivenUp { notification, reason: "too_old" });
                }

                !is_old
            });
            !list.is_empty()
        });

        given_up
    }

    /// The next notification to post. Of several alerts the one with the fewest attempts, so that
    /// one which the receiver cannot bear holds up no other.
    pub(super) fn next(&mut self, now: Mono) -> Option<Arc<Notification>> {
        let first = self.waiting.values().filter_map(|list| list.first());
        let due = first.filter(|waiting| waiting.next_at <= now);
        let next = due.min_by_key(|waiting| {
            let is_of_node = waiting.notification.key.scope != Scope::Fleet;
            // Owed ends are retried for long, so they come last; what has failed comes after what
            // was not tried, and one alert that a receiver cannot take holds up no other.
            (waiting.owed, waiting.attempts, is_of_node, waiting.token)
        })?;
        // By its token, since newer changes of the alert may be queued before the answer.
        self.on_its_way = Some((next.notification.key.clone(), next.token));
        Some(next.notification.clone())
    }

    /// When [`Self::next`] next returns something.
    pub(super) fn due_at(&self) -> Option<Mono> {
        self.waiting.values().filter_map(|list| list.first()).map(|waiting| waiting.next_at).min()
    }

    /// The receiver accepted the post. Returns since when its change is known.
    pub(super) fn on_taken(&mut self, tally: &mut ReceiverCounts) -> Option<Wall> {
        let waiting = self.answered()?;
        tally.count("delivered");
        let key = &waiting.notification.key;
        match waiting.notification.state {
            // If the alert has ended meanwhile and its end does not wait, nothing is owed.
            AlertState::Firing if !waiting.over || self.waiting.contains_key(key) => {
                self.mark_notified(key);
            }
            AlertState::Resolved => drop(self.notified.remove(key)),
            _ => {}
        }
        Some(waiting.known_at)
    }

    fn mark_notified(&mut self, key: &AlertKey) {
        if self.notified.len() < ALERTS_REPORTED_MAX {
            self.notified.insert(key.clone());
        }
    }

    fn answered(&mut self) -> Option<Waiting> {
        let (key, token) = self.on_its_way.take()?;
        self.take(&key, |waiting| waiting.token == token).pop()
    }

    pub(super) fn on_refused(&mut self, now: Now) -> Option<GivenUp> {
        let waiting = self.answered()?;
        self.give_up(now, waiting, "refused")
    }

    /// The post failed, but the receiver may have processed it. Returns a notification with too
    /// many attempts as undeliverable.
    pub(super) fn on_failed(&mut self, now: Now, may_be_received: bool) -> Option<GivenUp> {
        let mut waiting = self.answered()?;
        let key = waiting.notification.key.clone();
        let has_end = !waiting.over || self.waiting.contains_key(&key);
        if may_be_received && waiting.notification.state == AlertState::Firing && has_end {
            self.mark_notified(&key);
        }
        waiting.attempts += 1;
        if waiting.owed || waiting.attempts >= ATTEMPTS_MAX {
            return self.give_up(now, waiting, "attempts");
        }
        // In front of what came after it: the changes of one alert are sent in order.
        self.waiting.entry(key).or_default().insert(0, waiting);
        None
    }

    /// Returns a notification as undeliverable, unless it is an owed end: that one is retried
    /// slowly.
    fn give_up(&mut self, now: Now, waiting: Waiting, reason: &'static str) -> Option<GivenUp> {
        let key = &waiting.notification.key;
        let ends = waiting.notification.state == AlertState::Resolved;
        // What came after it takes its place.
        if !ends || !self.notified.contains(key) || self.waiting.contains_key(key) {
            return Some(GivenUp { notification: waiting.notification, reason });
        }
        let next_at = now.mono.plus(OWED_RETRY_EVERY);
        let owed = Waiting { owed: true, next_at, ..waiting };
        self.waiting.insert(owed.notification.key.clone(), vec![owed]);
        None
    }

    /// Everything that waits; it is undeliverable, since its receiver was removed.
    pub(super) fn drain(self) -> impl Iterator<Item = GivenUp> {
        let waiting = self.waiting.into_values().flatten();
        waiting.map(|of| GivenUp { notification: of.notification, reason: "removed" })
    }

    /// Whether there is nothing but what is tried slowly.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.values().flatten().all(|waiting| waiting.owed)
    }

    /// Whether nothing is remembered.
    #[cfg(test)]
    pub(super) fn is_drained(&self) -> bool {
        self.waiting.is_empty() && self.notified.is_empty()
    }

    pub(super) fn waits(&self) -> Waits {
        let known = self.waiting.values().flatten().map(|waiting| waiting.known_at);
        known.fold(Waits::default(), Waits::and)
    }
}
