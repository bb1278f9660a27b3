//! Safety: what must hold after every event, for whatever the event has touched.

use std::collections::BTreeMap;

use bytes::Bytes;
use plimsoll_node::core::outbox::BreakerState;
use plimsoll_node::limits::IN_FLIGHT_MAX;
use plimsoll_schemas::wire::Bus;
use plimsoll_schemas::wire::confirmation::{self, Confirmed};

use super::readers::Reading;
use super::{Who, World};
use crate::sim::act::End;
use crate::sim::book::Name;
use crate::sim::disk::Ending;
use crate::sim::node::Figures;
use crate::sim::plan::Spooling;
use crate::sim::reader::Merged;

impl World {
    /// Looks at a node's own figures.
    pub(super) fn look_at(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let Some(core) = &mut node.core else { return };
        while let Some((name, samples)) = core.next_dead_letter() {
            self.books[number].refuse(name, samples);
        }
        let figures = core.figures();
        let attempted = figures.status.bus.attempted;
        if attempted != node.closed.0 {
            // A message of its own closes every interval: all that was recorded is in one.
            node.closed = (attempted, figures.status.intake.samples);
            node.unwritten.append(&mut node.running);
        }
        let adopted = node.adopted;
        let before = node.figures.replace(figures.clone());
        self.count_branches(before.as_ref(), &figures);
        let sealed_before = before.map_or(0, |before| before.status.bus.rerouted);
        let (now, is_leaving) = (self.clock(Who::Node(number)), figures.is_leaving);
        for _ in sealed_before..figures.status.bus.rerouted {
            // Whoever leaves has nothing in that lane but the farewell.
            self.meter(number, now, is_leaving);
        }
        let depths = self.knobs.depths;
        let bus = &figures.status.bus;
        let known = bus.published + bus.dropped + bus.refused + bus.coalesced;
        if bus.attempted != known + bus.outbox_messages {
            let words = format!("n{number}: {bus:?}");
            self.break_with("messages: attempted = known + held", || words);
        } else if bus.published != bus.confirmed + bus.released + bus.entrusted {
            let words = format!("n{number}: {bus:?}");
            self.break_with("published = confirmed + released + entrusted", || words);
        } else if bus.outbox_messages > adopted + depths.drop as u64 + 2 {
            let words = format!("n{number}: {bus:?}");
            self.break_with("the outbox is bounded in messages", || words);
        } else if bus.entrusted > adopted + depths.entrusted as u64 + 1 {
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
        reached.reach_n("confirmed", new.confirmed - old.confirmed);
        reached.reach_n("sent again for want of a confirmation", new.resent - old.resent);
        reached.reach_n("let go without a confirmation", new.released - old.released);
        let turned = |is: &dyn Fn(&Figures) -> bool| is(after) && !before.is_some_and(is);
        let breaker = |state| move |figures: &Figures| figures.status.breaker == state;
        let was_closed = before.is_none_or(|b| b.status.breaker == BreakerState::Closed);
        let branches = [
            ("breaker closed again", !was_closed && turned(&breaker(BreakerState::Closed))),
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
        let syncs = self.knobs.spool == Spooling::Synced;
        let node = &mut self.nodes[number];
        let book = &mut self.books[number];
        if let (Some(_), Some(figures)) = (node.core.take(), node.figures.take()) {
            let status = &figures.status;
            book.taken += status.intake.samples;
            book.dropped += figures.dropped;
            let has_spool = self.knobs.spool != Spooling::Off;
            let kept = if has_spool { node.kept } else { node.closed.1 };
            book.unkept_count += status.intake.samples - kept;
            book.unkept.extend(node.running.drain(..));
            book.unkept.extend(node.unwritten.drain(..).filter(|_| has_spool));
            if status.bus.released > 0 {
                book.excuse = Some("a copy was let go without a confirmation");
            }
            let holds = status.bus.outbox_messages + status.bus.entrusted > 0;
            self.reached.reach_n("ended while holding", u64::from(holds));
            node.left_holding = holds && self.knobs.spool != Spooling::Off;
            let survives = match (self.knobs.spool, end) {
                (Spooling::Off, _) => false,
                (Spooling::Unsynced, End::PowerCut) => !holds,
                (Spooling::Synced | Spooling::Unsynced, _) => status.spool.durable,
            };
            if holds && !survives {
                book.excuse = Some("nothing kept what the node held when it ended");
            }
        }
        let ending = if end == End::PowerCut { Ending::Power } else { Ending::Process };
        let batch = node.spooling.take();
        node.disk.end(batch.as_ref(), syncs, ending, &mut self.dice);
        node.handed_over.clear();
        self.machine(who).end();
        self.link(who).forget();
    }

    /// A node is told what is stored, which is nothing that was never sent.
    pub(super) fn note_confirmed(&mut self, which: usize, number: usize, payload: &Bytes) {
        let confirmation = match confirmation::decode(&self.nodes[number].name, payload) {
            Ok(confirmation) => confirmation,
            Err(error) => {
                let what = || format!("n{number}: {error}");
                return self.break_with("a confirmation can be read", what);
            }
        };
        let spans = |run: &Confirmed| {
            let incarnation = run.incarnation.0;
            run.spans.clone().into_iter().map(move |(a, b)| (incarnation, a.0, b.0))
        };
        let confirmed: Vec<_> = confirmation.runs.iter().flat_map(spans).collect();
        let behind = if confirmation.behind { ", behind" } else { "" };
        let who = Who::Aggregator(which);
        self.say(|| format!("{who}: tells n{number} of {confirmed:?}{behind}"));
        self.readers[which].confirmed.insert(number, confirmed);
    }

    /// What a store holds was merged once.
    fn check_store(&mut self, which: usize) -> Option<BTreeMap<String, Merged>> {
        let merged = match self.readers[which].store.merged() {
            Ok(merged) => merged,
            Err(what) => {
                self.break_with("a checkpoint can be read", || what);
                return None;
            }
        };
        for number in 0..self.nodes.len() {
            let Some(merged) = merged.get(self.nodes[number].name.as_str()) else { continue };
            if let Err(what) = self.books[number].check_merged(merged) {
                self.break_with("no sample is merged twice", || format!("n{number}: {what}"));
            }
        }
        Some(merged)
    }

    /// A restored state holds all that was read up to its positions and all that nodes were
    /// told is stored, and no position is ahead.
    pub(super) fn check_restored(&mut self, which: usize) {
        let Some(merged) = self.check_store(which) else { return };
        let ahead = self.reading_missing(which, &merged);
        let reader = &mut self.readers[which];
        reader.readings.truncate(reader.mark.readings);
        if let Some(what) = ahead {
            self.break_with("a checkpoint's position is never ahead of its state", || what);
        }
        if let Some(what) = self.confirmed_missing(which, &merged) {
            self.break_with("what is confirmed is stored", || what);
        }
        self.fold_anew(which);
    }

    /// Whether all of a message is in a store, as far as can be seen: not of hidden nodes.
    fn holds(
        &self,
        which: usize,
        merged: &BTreeMap<String, Merged>,
        number: usize,
        name: Name,
    ) -> bool {
        if self.readers[which].folds[number].was_hidden {
            return true;
        }
        let merged = merged.get(self.nodes[number].name.as_str());
        let has = |sample: &usize| {
            let merged = merged.map(|merged| merged.reported.as_slice());
            merged.is_some_and(|m| m.binary_search_by_key(sample, |(b, _)| *b).is_ok())
        };
        let booked = self.books[number].messages.get(&name);
        booked.is_some_and(|booked| booked.samples.iter().all(has))
    }

    fn reading_missing(&self, which: usize, merged: &BTreeMap<String, Merged>) -> Option<String> {
        let (core, mark) = (self.readers[which].core.as_ref()?, self.readers[which].mark);
        let is_covered = |(place, reading): &(usize, &Reading)| {
            let (position, stream) = core.position(reading.lane);
            let covers = stream == Some(reading.stream) && reading.number <= position;
            *place < mark.readings || (covers && reading.resets == mark.resets)
        };
        let mut covered = self.readers[which].readings.iter().enumerate().filter(is_covered);
        let missing = covered.find(|(_, r)| !self.holds(which, merged, r.from, r.name));
        missing.map(|(_, r)| format!("n{}: message {:?} at {}", r.from, r.name, r.number))
    }

    fn confirmed_missing(&self, which: usize, merged: &BTreeMap<String, Merged>) -> Option<String> {
        for (number, confirmed) in &self.readers[which].confirmed {
            let book = &self.books[*number];
            for (incarnation, first, last) in confirmed {
                let names = (*incarnation, *first)..=(*incarnation, *last);
                let mut told = book.messages.range(names).map(|(name, _)| *name);
                if let Some(name) = told.find(|name| !self.holds(which, merged, *number, *name)) {
                    return Some(format!("n{number}: message {name:?}"));
                }
            }
        }
        None
    }
}
