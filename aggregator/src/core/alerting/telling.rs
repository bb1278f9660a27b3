//! Telling people: the core's side of deliveries. How long it takes from an alert's move until a
//! receiver has heard of it is an operation of the fleet like any other, so that it has windows,
//! quantiles and, where somebody wants one, a budget. It is no node's sample, and in no ledger.

use std::sync::Arc;

use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::time::{Mono, Now, Wall, nanos};

use crate::core::Core;
use crate::core::alerting::delivery::{Answer, Post, Receiver, Undelivered};
use crate::core::fleet::window::{Batch, Times};

/// The operation under which it is recorded how long it took to tell a receiver.
pub(crate) const NOTICE_DELIVERY: &str = "notice_delivery";

impl Core {
    /// The same core, telling these receivers. They hear at once of what fires already. The seed
    /// is for the pauses after failures.
    #[must_use]
    pub fn telling(mut self, now: Now, receivers: Vec<Receiver>, seed: u64) -> Self {
        self.deliveries = std::mem::take(&mut self.deliveries).told_to(now.wall, receivers, seed);
        // Only now is there anybody to hear of ends that a restart brings.
        self.end_unruled_since_restart(now.wall);
        self.stand_anew(now.wall);
        self
    }

    /// Has Alertmanagers told of what fires as its rule has it now: under another severity it is
    /// another alert to them, so the one that they know ends. What does not fire ends too.
    pub(crate) fn stand_anew(&mut self, now: Wall) {
        let firing = self.alerts.entries().filter(|(_, of)| of.state == AlertState::Firing);
        let unknown = firing.filter(|(key, entry)| {
            let (about, severity) = self.about(key, entry.told.as_deref());
            !self.deliveries.knows(key, severity, &about.routes)
        });
        let unknown: Vec<_> = unknown.map(|(key, _)| key.clone()).collect();
        for key in unknown {
            let Some(notice) = self.still_firing(now, key) else { continue };
            self.deliveries.stand(&notice, now);
        }
        let alerts = &self.alerts;
        self.deliveries.end_all_but(now, |key| alerts.state(key) == AlertState::Firing);
    }

    /// The next post to a receiver, if one is to be made now.
    pub fn next_post(&mut self, now: Now) -> Option<Post> {
        self.deliveries.next_post(now)
    }

    /// When [`Self::next_post`] next has something to give; `None` while there is nothing.
    #[must_use]
    pub fn next_post_at(&self) -> Option<Mono> {
        self.deliveries.next_deadline()
    }

    /// Hears how a post ended.
    pub fn on_answer(&mut self, now: Now, receiver: &str, answer: Answer) {
        self.unsaved.touch();
        for took in self.deliveries.on_answer(now, receiver, answer) {
            self.record(now.wall, NOTICE_DELIVERY, nanos(took));
        }
    }

    /// Whether every receiver that answers has been told all there is.
    #[must_use]
    pub fn is_all_told(&self) -> bool {
        self.deliveries.is_settled()
    }

    /// The newest notices that were given up, oldest first.
    #[must_use]
    pub fn undelivered(&self) -> Vec<Undelivered> {
        self.deliveries.undelivered().cloned().collect()
    }

    /// The next of them that is to be said on the bus.
    pub fn next_unsaid(&mut self) -> Option<Undelivered> {
        self.deliveries.next_unsaid()
    }

    /// Adds a sample of the aggregator's own to the fleet's windows.
    fn record(&mut self, now: Wall, operation: &str, value_ns: u64) {
        let operation = Operation::new(operation).expect("a constant name of plain letters");
        let mut sample = Histogram::default();
        sample.record(value_ns);
        let sample = Packed::from(&sample);
        let keeping = self.keepings.of_node(&operation).of_fleet();
        let batch = Batch::new(&sample, &keeping.limits);
        let times = Times { shown: now, now, taken: now };
        let folded = Arc::make_mut(&mut self.fleet).add(&operation, &keeping, times, &batch);
        self.count_over_cap("fleet_sample", folded);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_schemas::rule::Severity;
    use plimsoll_schemas::subject::Lane;

    use super::*;
    use crate::core::alerting::delivery::{Body, Kind};
    use crate::core::durable::tests::restarted;
    use crate::core::tests::{MS, SECOND, Speaker, core, deliver, start};

    fn alertmanager() -> Receiver {
        let kind = Kind::Alertmanager { resend_every: Duration::from_secs(60) };
        Receiver { name: "am".into(), kind, severity_min: Severity::Info }
    }

    fn alerts(core: &mut Core, now: Now) -> usize {
        let Some(Post { body: Body::Alerts(json), .. }) = core.next_post(now) else { return 0 };
        let alerts: Vec<serde_json::Value> = serde_json::from_slice(&json).unwrap();
        alerts.len()
    }

    #[test]
    fn a_receiver_that_is_new_hears_what_fires_already_and_how_long_it_took_is_an_operation() {
        let (mut core, mut slow, mut now) = (core(), Speaker::new("slow"), start());
        for _ in 0..8 {
            now = now.after(SECOND);
            deliver(&mut core, now, &slow.say(now, 30 * MS, 60));
            core.on_deadline(now);
        }
        assert_eq!(alerts(&mut core, now), 0);
        let mut core = restarted(&mut core, now).telling(now, vec![alertmanager()], 1);
        assert_eq!(alerts(&mut core, now), 2);
        core.on_answer(now, "am", Answer::Taken);
        Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));

        // What it is told of as it happens is recorded, and in no account.
        let ledger = core.view(now.wall, "test").summary.ledger;
        for _ in 0..40 {
            now = now.after(SECOND);
            deliver(&mut core, now, &slow.say(now, 5 * MS, 60));
            core.on_deadline(now);
        }
        assert_eq!(alerts(&mut core, now), 2);
        core.on_answer(now.after(SECOND), "am", Answer::Taken);
        let operation = Operation::new(NOTICE_DELIVERY).unwrap();
        let told = core.fleet.get(&operation).unwrap().total_exact();
        // Two beginnings and two ends.
        assert_eq!(told.count, 4);
        assert!(told.max_ns >= nanos(SECOND), "{told:?}");
        let after = core.view(now.wall, "test").summary.ledger;
        assert_eq!(after.merged, ledger.merged + 40 * 60);
    }
}
