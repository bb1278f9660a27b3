//! Liveness: once all faults are over everything comes to rest, and the aggregator equals the
//! naive oracle.

use plimsoll_node::core::outbox::BreakerState;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::summary::Ledger;
use plimsoll_schemas::wire::Bus;

use super::nodes::NodeProcess;
use super::{Time, Who, World};
use crate::sim::agenda::SECOND;
use crate::sim::book::{NodeBook, Sets};
use crate::sim::plan::Readers;
use crate::sim::reader::{Merged, known};

/// Time in which a healed mesh must come to rest.
const REST_WITHIN: Time = 30 * 60 * SECOND;
/// Times that a node may have to begin again to be rid of what it holds.
const LIVES_MAX: usize = 4;
/// Time for which it then runs at least; twice as long each time. What a broker takes for a
/// repetition goes again under another id after some seconds only.
const PATIENCE: Time = 30 * SECOND;
/// Time between two looks at whether it has.
const LOOK_EVERY: Time = 5 * SECOND;
/// Time within which a message is confirmed in a mesh at rest.
const TOLD_WITHIN: Time = 30 * SECOND;
/// Messages of a node, or of a lane, that are on their way even so.
const UNDER_WAY_MAX: u64 = 8;
/// Copies that a node at rest has.
const COPIES_MAX: u64 = 24;

impl World {
    /// Heals, waits, lets the nodes end in good order, and compares.
    pub(super) fn end(&mut self) {
        if self.broken.is_some() {
            return;
        }
        self.heal();
        self.rest(false);
        self.is_over = true;
        for life in 0..=LIVES_MAX {
            for number in 0..self.nodes.len() {
                self.ask_node(number, 0);
            }
            self.rest(true);
            self.run_until(self.now() + 10 * SECOND);
            let holding: Vec<usize> =
                (0..self.nodes.len()).filter(|number| self.nodes[*number].left_holding).collect();
            if self.broken.is_some() || holding.is_empty() {
                break;
            }
            // What a spool keeps is sent by whoever begins next.
            if life == LIVES_MAX {
                let words = format!("{holding:?} hold something still");
                return self.break_with("a healed mesh is rid of what it held", || words);
            }
            holding.into_iter().for_each(|number| self.begin_node(number));
            self.run_until(self.now() + (PATIENCE << life));
            self.rest(false);
        }
        if self.broken.is_none() {
            self.compare();
        }
    }

    fn rest(&mut self, all_gone: bool) {
        let until = self.now() + REST_WITHIN;
        while self.broken.is_none() && !self.is_at_rest(all_gone) {
            if self.now() >= until {
                let words = self.unrest();
                return self.break_with("a healed mesh comes to rest", || words);
            }
            self.run_until(self.now() + LOOK_EVERY);
        }
    }

    /// Nodes that run always have a little on its way: their own latencies of publishing.
    fn is_at_rest(&self, all_gone: bool) -> bool {
        let nodes_rest = self.nodes.iter().all(|node| match (&node.core, &node.figures) {
            (Some(_), Some(figures)) => {
                let status = &figures.status;
                let flows = status.connected && status.breaker == BreakerState::Closed;
                !all_gone
                    && flows
                    && status.bus.outbox_messages <= UNDER_WAY_MAX
                    && few_copies(&status.bus)
            }
            (Some(_), None) => false,
            (None, _) => true,
        });
        let is_told = |number| all_gone || self.is_told(number);
        nodes_rest
            && (0..self.readers.len()).all(|which| self.reads_all(which, all_gone))
            && (0..self.nodes.len()).all(is_told)
    }

    /// Whether a node keeps copies of nothing but what it sent a moment ago: all else is
    /// confirmed.
    fn is_told(&self, number: usize) -> bool {
        let since = self.now().saturating_sub(TOLD_WITHIN);
        let recent = self.books[number].handed_over_since(since);
        let figures = self.nodes[number].figures.as_ref();
        figures.is_none_or(|figures| figures.status.bus.entrusted <= recent)
    }

    fn reads_all(&self, which: usize, all_gone: bool) -> bool {
        let lag_max = if all_gone { 0 } else { UNDER_WAY_MAX };
        let is_up = self.readers[which].core.is_some();
        is_up
            && Lane::ALL.into_iter().all(|lane| {
                let (last, next) = (
                    self.broker.stream(lane).last,
                    self.readers[which].cursors[lane as usize].next,
                );
                next <= last + 1 && last + 1 - next <= lag_max
            })
    }

    fn unrest(&self) -> String {
        let node = |node: &NodeProcess| {
            let figures = node.figures.as_ref();
            let told = figures.map(|f| (f.status.connected, f.status.breaker, &f.status.bus));
            format!("{}: {told:?}", node.name)
        };
        let nodes: Vec<String> = self.nodes.iter().map(node).collect();
        let positions = |lane| -> Vec<_> {
            let cores = self.readers.iter().map(|reader| reader.core.as_ref());
            cores.map(|core| core.map(|core| core.position(lane))).collect()
        };
        let lanes = Lane::ALL.map(|lane| {
            let stream = self.broker.stream(lane);
            format!("{lane:?} {}/{} {:?}", stream.id, stream.last, positions(lane))
        });
        format!("{} {}", nodes.join("; "), lanes.join("; "))
    }

    /// What an aggregator has of each node: in its store, or where it has none in its memory.
    fn stored(&mut self, which: usize) -> Option<Vec<Merged>> {
        let reader = &self.readers[which];
        if let Some(core) = reader.core.as_ref().filter(|_| reader.is_stateless) {
            return Some(self.nodes.iter().map(|node| core.merged(&node.name)).collect());
        }
        self.store_all(which);
        let stored = match self.readers[which].store.merged() {
            Ok(stored) => stored,
            Err(what) => {
                self.break_with("a checkpoint can be read", || what);
                return None;
            }
        };
        let of = |node: &NodeProcess| stored.get(node.name.as_str()).cloned().unwrap_or_default();
        Some(self.nodes.iter().map(of).collect())
    }

    /// The same, with what nodes had before they were hidden.
    fn merged(&mut self, which: usize) -> Option<Vec<Merged>> {
        let mut stored = self.stored(which)?;
        for (number, merged) in stored.iter_mut().enumerate() {
            if let Some(known) = self.merged_of_hidden(which, number) {
                *merged = known;
            }
        }
        Some(stored)
    }

    /// A run that broke never came to rest: what is missing may be on its way, and only what is
    /// there too often counts.
    pub(super) fn count_doubled(&mut self) {
        if self.broken.is_none() || self.sets != Sets::default() {
            return;
        }
        for which in 0..self.readers.len() {
            let Some(stored) = self.stored(which) else { return };
            for (book, merged) in self.books.iter().zip(&stored) {
                let Sets { duplicated, invented, .. } = book.sets(merged);
                self.sets.add(&Sets { duplicated, invented, ..Sets::default() });
            }
        }
    }

    /// Each aggregator has everything. Where streams have lost messages, one may lack what a node
    /// let go on the word of the other; then both together must have everything, unless one of
    /// them keeps nothing.
    fn compare(&mut self) {
        let mut together = vec![Merged::default(); self.nodes.len()];
        let is_pair = self.readers.len() > 1;
        if is_pair && self.lossy.0 {
            let excuse = "a copy was let go on the word of one aggregator";
            self.books.iter_mut().for_each(|book| book.excuse_one(excuse));
        }
        for which in 0..self.readers.len() {
            let Some(stored) = self.merged(which) else { return };
            self.compare_one(which, &stored);
            together.iter_mut().zip(&stored).for_each(|(all, one)| all.unite(one));
        }
        for (number, all) in together.iter().enumerate().filter(|_| is_pair) {
            self.books[number].excuse_two(self.knobs.readers == Readers::OneAndStateless);
            if let Err(what) = self.books[number].compare(all) {
                let words = || format!("n{number}: {what}");
                return self.break_with("together aggregators have everything", words);
            }
        }
    }

    fn compare_one(&mut self, which: usize, stored: &[Merged]) {
        let now = self.clock(Who::Aggregator(which));
        let Some(core) = &self.readers[which].core else { return };
        let (duplicates, late) = core.counts(now.wall);
        self.reached.reach_n("repetition refused by the ledger", duplicates);
        self.reached.reach_n("late sample", late);
        for (number, merged) in stored.iter().enumerate() {
            let (name, book) = (self.nodes[number].name.clone(), &self.books[number]);
            if which == 0 {
                self.sets.add(&book.sets(merged));
            }
            if let Err(what) = book.compare(merged) {
                return self.break_with("merged = recorded - lost", || format!("{name}: {what}"));
            }
            let sum = merged.others + merged.reported.iter().map(|(_, n)| n).sum::<u64>();
            if let Err(what) = balance(book, sum, core.ledger(&name).as_ref()) {
                return self.break_with("the ledger is exact", || format!("{name}: {what}"));
            }
        }
    }
}

/// The aggregator's own account, against what was merged and what the book knows.
fn balance(book: &NodeBook, merged: u64, ledger: Option<&Ledger>) -> Result<(), String> {
    let Some(ledger) = ledger else {
        let has_reason = book.taken <= book.unkept_count || book.excuse.is_some();
        return if has_reason { Ok(()) } else { Err("the node was never heard".to_owned()) };
    };
    let known = known(ledger);
    if ledger.merged != merged {
        return Err(format!("{} booked and {merged} merged", ledger.merged));
    }
    if ledger.recorded != known {
        return Err(format!("recorded {} of which known {known}: {ledger:?}", ledger.recorded));
    }
    // A testament may be among the copies that were let go; then its run seems to go on.
    if ledger.held != 0 && book.excuse.is_none() && !book.seems_to_go_on() {
        return Err(format!("{} are held and nobody holds them: {ledger:?}", ledger.held));
    }
    let crashed = ledger.lost.get("crash").copied().unwrap_or(0);
    if crashed > book.unkept_count {
        return Err(format!("{crashed} lost by a crash, of {} at most", book.unkept_count));
    }
    let named = merged + book.dropped + book.refused_count;
    let unkept = if book.excuse.is_some() { u64::MAX } else { book.unkept_count };
    let fits = (named..=named.saturating_add(unkept)).contains(&book.taken);
    if !fits {
        return Err(format!(
            "taken {}, merged {merged}, dropped {}, refused {}, unkept {}; {ledger:?}",
            book.taken, book.dropped, book.refused_count, book.unkept_count
        ));
    }
    Ok(())
}

/// Copies are let go as confirmations come in, but new ones come too.
fn few_copies(bus: &Bus) -> bool {
    bus.entrusted <= COPIES_MAX
}
