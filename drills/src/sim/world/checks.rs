//! Safety: what must hold after every event, for whatever the event has touched.

use std::rc::Rc;

use bytes::Bytes;
use plimsoll_schemas::limits::node::IN_FLIGHT_MAX;
use plimsoll_schemas::wire::Bus;

use super::{World, Who};
use crate::sim::act::End;
use crate::sim::broker::Message;
use crate::sim::node::Figures;
use plimsoll_node::core::breaker::BreakerState;

impl World {
    /// Looks at a node's own figures.
    pub(super) fn look_at(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let Some(core) = &node.core else { return };
        let figures = core.figures();
        let recorded = figures.status.totals.recorded;
        if recorded != node.recorded {
            // What was recorded so far has been sealed.
            node.recorded = recorded;
            node.running.clear();
        }
        let before = node.figures.replace(figures.clone());
        self.count_branches(before.as_ref(), &figures);
        let depths = self.knobs.depths;
        let bus = &figures.status.bus;
        let known = bus.published + bus.dropped + bus.refused + bus.coalesced;
        if bus.attempted != known + bus.outbox_messages {
            let words = format!("n{number}: {bus:?}");
            self.break_with("messages: attempted = known + held", || words);
        } else if bus.published != bus.confirmed + bus.released + bus.entrusted {
            let words = format!("n{number}: {bus:?}");
            self.break_with("published = confirmed + released + entrusted", || words);
        } else if bus.outbox_messages > depths.drop as u64 + 2 {
            let words = format!("n{number}: {bus:?}");
            self.break_with("the outbox is bounded in messages", || words);
        } else if bus.entrusted > (depths.entrusted + 2 * IN_FLIGHT_MAX) as u64 {
            let words = format!("n{number}: {bus:?}");
            self.break_with("copies are bounded in messages", || words);
        } else if figures.status.in_flight > IN_FLIGHT_MAX {
            let words = format!("n{number}: {}", figures.status.in_flight);
            self.break_with("what is in flight is bounded", || words);
        }
    }

    fn count_branches(&mut self, before: Option<&Figures>, after: &Figures) {
        let none = Bus::default();
        let (old, new) = (before.map_or(&none, |before| &before.status.bus), &after.status.bus);
        let reached = &mut self.reached;
        reached.reach_n("drafts merged", new.coalesced - old.coalesced);
        reached.reach_n("waited for a token", new.rate_limited - old.rate_limited);
        reached.reach_n("dropped", new.dropped - old.dropped);
        let turned = |is: &dyn Fn(&Figures) -> bool| is(after) && !before.is_some_and(is);
        let breaker = |state| move |figures: &Figures| figures.status.breaker == state;
        let branches = [
            ("breaker open", turned(&breaker(BreakerState::Open))),
            ("breaker half-open", turned(&breaker(BreakerState::HalfOpen))),
            ("only the emergency lane sent", turned(&|figures| figures.status.conservative)),
        ];
        for (name, turned) in branches {
            reached.reach_n(name, u64::from(turned));
        }
    }

    /// A node's process is gone: what it knew of itself at last goes into the book.
    pub(super) fn end_node(&mut self, number: usize, end: End) {
        let who = Who::Node(number);
        self.look_at(number);
        self.say(|| format!("{who}: gone ({end:?})"));
        let node = &mut self.nodes[number];
        let book = &mut self.books[number];
        if let (Some(_), Some(figures)) = (node.core.take(), node.figures.take()) {
            let status = &figures.status;
            book.taken += status.intake.samples;
            book.lost += figures.lost;
            book.unsealed_count += figures.running;
            book.unsealed.extend(node.running.drain(..));
            book.left_behind += status.held_samples;
            if status.held_samples > 0 {
                // Nothing keeps what was held: all that nobody has acknowledged may be missing.
                book.unprotected.extend(1..=book.recorded);
            }
        }
        node.handed_over.clear();
        self.machine(who).end();
        self.link(who).forget();
    }

    /// The broker has lost messages.
    pub(super) fn lose(&mut self, gone: &[Rc<Message>]) {
        for message in gone {
            self.books[message.from].unprotect(message.name);
        }
    }

    pub(super) fn note_confirmed(&mut self, _node: usize, _payload: &Bytes) {}

    /// What a store holds was merged once.
    pub(super) fn check_store(&mut self) {
        let merged = match self.reader.store.merged() {
            Ok(merged) => merged,
            Err(what) => return self.break_with("a checkpoint can be read", || what),
        };
        for number in 0..self.nodes.len() {
            let Some(merged) = merged.get(self.nodes[number].name.as_str()) else { continue };
            if let Err(what) = self.books[number].check_merged(merged) {
                self.break_with("no sample is merged twice", || format!("n{number}: {what}"));
            }
        }
    }

    /// A restored state holds all that was read up to its positions, and no position is ahead.
    pub(super) fn check_restored(&mut self) {
        let mark = self.reader.mark;
        let Ok(merged) = self.reader.store.merged() else { return };
        let Some(core) = &self.reader.core else { return };
        let mut wrong = None;
        for (place, reading) in self.reader.readings.iter().enumerate() {
            let is_before = place < mark.readings;
            let (position, stream) = core.position(reading.lane);
            let covers = stream == Some(reading.stream) && reading.number <= position;
            if !is_before && !(covers && reading.resets == mark.resets) {
                continue;
            }
            let name = self.nodes[reading.from].name.as_str();
            let samples = self.books[reading.from].messages.get(&reading.name);
            let has = |sample: &usize| {
                let merged = merged.get(name).map(|merged| merged.reported.as_slice());
                merged.is_some_and(|m| m.binary_search_by_key(sample, |(b, _)| *b).is_ok())
            };
            if !samples.is_some_and(|booked| booked.samples.iter().all(has)) {
                wrong = Some(format!("{name}: message {:?} at {}", reading.name, reading.number));
                break;
            }
        }
        self.reader.readings.truncate(mark.readings);
        if let Some(what) = wrong {
            self.break_with("a checkpoint's position is never ahead of its state", || what);
        }
    }
}
