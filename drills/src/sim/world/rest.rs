//! Liveness: after all faults have ended the mesh comes to rest, and the aggregators equal the
//! oracle.

use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::wire::Bus;

use super::run::World;
use crate::sim::act::Who;
use crate::sim::cores::node::BreakerState;
use crate::sim::oracle::NodeOracle;
use crate::sim::schedule::{SECOND, Time};

/// Time in which a mesh without faults must come to rest.
const REST_WITHIN: Time = 30 * 60 * SECOND;
/// Times that a node may have to start again until it holds no message.
const LIVES_MAX: usize = 4;
/// Time for which it then runs at least; each run is twice as long. A message that the broker
/// treats as a duplicate is sent again under another id only after some seconds.
const RUN_MIN: Time = 30 * SECOND;
/// Time between two checks whether the mesh is at rest.
const POLL_EVERY: Time = 5 * SECOND;
/// Time within which a message is confirmed in a mesh at rest.
const CONFIRMED_WITHIN: Time = 30 * SECOND;
/// Messages of a node, or of a lane, that are under way in a mesh at rest.
const UNDER_WAY_MAX: u64 = 8;
/// Unconfirmed copies of a node at rest.
const COPIES_MAX: u64 = 24;

impl World {
    /// Heals, waits, lets the nodes end, and compares.
    pub(super) fn end(&mut self) {
        if !self.kernel.is_broken() {
            self.heal();
            self.rest(false);
            self.is_over = true;
            self.end_nodes();
        }
        if self.kernel.is_broken() {
            self.count_duplicates();
        } else {
            self.compare();
        }
    }

    /// Ends all nodes; those that left something in their spool run again until it is sent.
    fn end_nodes(&mut self) {
        for life in 0..=LIVES_MAX {
            for number in 0..self.nodes.len() {
                self.terminate_node(number, 0);
            }
            self.rest(true);
            self.run_until(self.kernel.now() + 10 * SECOND);
            let holding: Vec<usize> =
                (0..self.nodes.len()).filter(|number| self.nodes[*number].left_holding()).collect();
            if self.kernel.is_broken() || holding.is_empty() {
                return;
            }

            if life == LIVES_MAX {
                let words = format!("{holding:?} hold something still");
                return self.kernel.fail("a healed mesh is rid of what it held", || words);
            }

            for number in holding {
                self.begin(Who::Node(number));
            }
            self.run_until(self.kernel.now() + (RUN_MIN << life));
            self.rest(false);
        }
    }

    fn rest(&mut self, all_gone: bool) {
        let until = self.kernel.now() + REST_WITHIN;
        while !self.kernel.is_broken() && !self.is_at_rest(all_gone) {
            if self.kernel.now() >= until {
                let words = self.unrest();
                return self.kernel.fail("a healed mesh comes to rest", || words);
            }
            self.run_until(self.kernel.now() + POLL_EVERY);
        }
    }

    fn is_at_rest(&self, all_gone: bool) -> bool {
        let since = self.kernel.now().saturating_sub(CONFIRMED_WITHIN);
        let is_confirmed = |node: &NodeOracle| all_gone || is_confirmed(node, since);
        let nodes = self.oracle.nodes();
        self.nodes.iter().zip(nodes).all(|(node, o)| !node.is_running() || flows(o, all_gone))
            && (0..self.readers.len()).all(|which| self.reads_all(which, all_gone))
            && nodes.iter().all(is_confirmed)
    }

    fn reads_all(&self, which: usize, all_gone: bool) -> bool {
        let lag_max = if all_gone { 0 } else { UNDER_WAY_MAX };
        let reader = &self.readers[which];
        reader.core().is_some()
            && Lane::ALL.into_iter().all(|lane| {
                let (last, next) = (self.broker.stream(lane).last, reader.next(lane));
                next <= last + 1 && last + 1 - next <= lag_max
            })
    }

    fn unrest(&self) -> String {
        let node = |node: &NodeOracle| {
            let stats = node.incarnation().stats();
            let shown = stats.map(|s| (s.status.connected, s.status.breaker, &s.status.bus));
            format!("{}: {shown:?}", node.name())
        };

        let nodes: Vec<String> = self.oracle.nodes().iter().map(node).collect();

        let positions = |lane| -> Vec<_> {
            let cores = self.readers.iter().map(|reader| reader.core());
            cores.map(|core| core.map(|core| core.position(lane))).collect()
        };

        let lanes = Lane::ALL.map(|lane| {
            let stream = self.broker.stream(lane);
            format!("{lane:?} {}/{} {:?}", stream.id, stream.last, positions(lane))
        });

        format!("{} {}", nodes.join("; "), lanes.join("; "))
    }

    /// Counts what a broken run has merged twice.
    fn count_duplicates(&mut self) {
        if self.oracle.is_compared() {
            return;
        }
        for reader in &mut self.readers {
            let Ok(stored) = reader.merged(&self.kernel, &mut self.oracle) else { return };
            self.oracle.count_duplicates(&stored);
        }
    }

    fn compare(&mut self) {
        let mut stored = Vec::with_capacity(self.readers.len());
        for reader in &mut self.readers {
            match reader.merged(&self.kernel, &mut self.oracle) {
                Ok(merged) => stored.push(merged),
                Err(what) => return self.kernel.fail("a checkpoint can be read", || what),
            }
        }

        for reader in &self.readers {
            let Some(core) = reader.core() else { continue };
            let (duplicates, late) = core.counts(reader.clock(&self.kernel).wall);
            self.kernel.reach_n("duplicate rejected by the ledger", duplicates);
            self.kernel.reach_n("late sample", late);
        }

        let cores: Vec<_> = self.readers.iter().filter_map(|reader| reader.core()).collect();
        self.oracle.compare(&mut self.kernel, &cores, stored);
    }
}

/// Whether a running node sends what it has. It always has a little under way: its own latencies
/// of publishing.
fn flows(node: &NodeOracle, all_gone: bool) -> bool {
    node.incarnation().stats().is_some_and(|stats| {
        let status = &stats.status;
        !all_gone
            && status.connected
            && status.breaker == BreakerState::Closed
            && status.bus.outbox_messages <= UNDER_WAY_MAX
            && has_few_copies(&status.bus)
    })
}

/// Whether a node's copies are only of messages sent since then: all others are confirmed.
fn is_confirmed(node: &NodeOracle, since: Time) -> bool {
    let recent = node.history().handed_over_since(since);
    node.incarnation().stats().is_none_or(|stats| stats.status.bus.unconfirmed <= recent)
}

/// Copies are evicted as confirmations come in, but new ones come too.
fn has_few_copies(bus: &Bus) -> bool {
    bus.unconfirmed <= COPIES_MAX
}
