//! Nodes that are gone. First such a node is hidden: its windows, numbers and readings are let
//! go and nobody is shown it. Its account stays for as long as messages may come again that
//! were merged, out of a spool or out of a node that was cut off: whoever forgets an account
//! sooner counts them twice. A node that speaks again is shown again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{CLOCK_LEAP_MIN, NODES_MAX};
use plimsoll_schemas::alert::{AlertKey, Ended};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::{Now, Wall};

use crate::core::Core;

impl Core {
    pub(crate) fn hide_nodes(&mut self, now: Wall) {
        let mut hidden = BTreeSet::new();
        for (name, node) in &mut self.nodes {
            if node.hidden || !node.may_be_hidden(now) {
                continue;
            }
            *node = Arc::new(node.hidden());
            self.may_hide_some = true;
            self.gaps.forget(name);
            self.unsaved.touch_node(name);
            hidden.insert(name.clone());
        }
        if !hidden.is_empty() {
            let gone = |key: &AlertKey| hidden.contains(key.scope.node());
            self.end_alerts(now, gone, Ended::NodeForgotten);
        }
    }

    pub(crate) fn forget_accounts(&mut self, now: Wall) {
        let gone = self.nodes.iter().filter(|(_, node)| node.may_be_forgotten(now));
        let gone: Vec<NodeName> = gone.map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| self.forget_account(name));
    }

    fn forget_account(&mut self, name: &NodeName) {
        if let Some(node) = self.nodes.remove(name) {
            let mut ledger = node.account.ledger();
            // Whatever it still held is not to come any more.
            ledger.unaccounted =
                ledger.unaccounted.saturating_add(std::mem::take(&mut ledger.held));
            self.counts.gone.add(&ledger);
        }
        self.unsaved.touch_node(name);
    }

    /// Where there is no room for one node more, the hidden one that was silent longest goes.
    pub(crate) fn make_room_for(&mut self, name: &NodeName) {
        let is_full = self.nodes.len() >= NODES_MAX && !self.nodes.contains_key(name);
        // Names without number may come: to look through all nodes is for when it helps.
        if !is_full || !self.may_hide_some {
            return;
        }
        let hidden = self.nodes.iter().filter(|(_, node)| node.hidden);
        let longest = hidden.min_by_key(|(_, node)| node.last_heard).map(|(name, _)| name.clone());
        let Some(longest) = longest else {
            self.may_hide_some = false;
            return;
        };
        self.forget_account(&longest);
        self.count_over_cap("account", 1);
    }

    /// A clock that leaps forward is no silence of anybody: all are heard so much later. One that
    /// is set back is no sign of life: nobody has been heard in the future.
    pub(crate) fn bear_a_leap(&mut self, now: Now) {
        let (wall, mono) = (now.wall.since(self.passed.wall), now.mono.since(self.passed.mono));
        if now.wall < self.passed.wall {
            self.turn_windows_back(now.wall);
        }
        self.passed = now;
        let leap = wall.saturating_sub(mono);
        let leap = if leap > CLOCK_LEAP_MIN { leap } else { Duration::ZERO };
        for (name, node) in &mut self.nodes {
            let heard = node.last_heard.plus(leap).min(now.wall);
            if heard != node.last_heard {
                Arc::make_mut(node).last_heard = heard;
                self.unsaved.touch_node(name);
            }
        }
    }

    fn turn_windows_back(&mut self, now: Wall) {
        Arc::make_mut(&mut self.fleet).turn_back(now);
        self.rollups.turn_back(now);
        for (name, node) in &mut self.nodes {
            Arc::make_mut(node).operations.turn_back(now);
            self.unsaved.touch_node(name);
        }
    }
}

#[cfg(test)]
mod tests;
