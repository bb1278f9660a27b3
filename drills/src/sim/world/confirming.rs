//! What may befall the aggregator's word on its way to a node, and what somebody else may say in
//! its name.

use std::time::Duration;

use bytes::Bytes;
use plimsoll_schemas::ids::{Incarnation, NodeName, Seq};
use plimsoll_schemas::wire::confirmation::{Confirmation, Confirmed, encode};

use super::{Answer, Event, Who, World};
use crate::sim::act::Lie;
use crate::sim::link::Belief;
use crate::sim::node::NodeCore;
use crate::sim::plan::Spooling;

/// So far ahead is no message of a short run.
const NEVER_SENT: u64 = 100_000;

impl World {
    /// Plain messages: no stream keeps them, and nobody waits for them.
    pub(super) fn pass_on(&mut self, node: usize, payload: Bytes) {
        let lost = !self.is_healed && self.dice.chance(100);
        if lost {
            return self.reached.reach("confirmation lost");
        }
        self.told.0 += 1;
        let number = self.told.0;
        if self.lateness > 0 {
            let span = self.dice.within(0..=self.lateness);
            return self.after(span, Event::Late { node, number, payload });
        }
        self.tell_late(node, number, payload);
    }

    /// It goes on to the node at last, which may have heard a newer one meanwhile.
    pub(super) fn tell_late(&mut self, node: usize, number: u64, payload: Bytes) {
        let is_overtaken = self.told.1[node] > number;
        self.reached.reach_n("confirmation overtaken", u64::from(is_overtaken));
        self.told.1[node] = self.told.1[node].max(number);
        self.answer(Who::Node(node), Answer::Told { payload });
    }

    /// Somebody speaks in the aggregator's name. Nothing that can be known to be wrong changes
    /// anything but the count of such attempts.
    pub(super) fn forge(&mut self, number: usize, lie: Lie) {
        let who = Who::Node(number);
        let hears = self.link(who).belief == Belief::Up && !self.machine(who).is_paused;
        if self.knobs.spool == Spooling::Unsynced && self.machine(who).life > 1 {
            // How far a former life came may be unknown, and who does not know must believe.
            return;
        }
        let now = self.clock(who);
        let node = &self.nodes[number];
        let newest = node.handed_over.values().max().copied();
        let (Some(newest), true) = (newest, hears) else { return };
        let payload = self.lie(&node.name.clone(), newest, lie);
        let Some(core) = &mut self.nodes[number].core else { return };
        let figures = |core: &NodeCore| {
            let status = core.figures().status;
            let refused: u64 = status.confirmations.rejected.values().sum();
            (refused, status.confirmations.accepted, status.unconfirmed_samples, status.bus)
        };
        let before = figures(core);
        let is_believed = core.on_confirmation(now, &payload).is_ok();
        let after = figures(core);
        let is_inert =
            (before.0 + 1, before.1, before.2, &before.3) == (after.0, after.1, after.2, &after.3);
        if is_believed || !is_inert {
            let words = || format!("{who}: {lie:?}: {before:?}, then {after:?}");
            return self.break_with("a forged confirmation changes nothing", words);
        }
        self.reached.reach("forgery refused");
    }

    fn lie(&mut self, node: &NodeName, newest: (u64, u64), lie: Lie) -> Bytes {
        let (incarnation, seq) = newest;
        let last = if lie == Lie::Unsent { seq + NEVER_SENT } else { seq };
        let spans = vec![(Seq(1), Seq(last))];
        let runs = vec![Confirmed { incarnation: Incarnation(incarnation), spans }];
        let stranger = NodeName::new("stranger").expect("a word of plain letters");
        let node = if lie == Lie::Stranger { stranger } else { node.clone() };
        let mut bytes = encode(&Confirmation {
            node,
            behind: false,
            age: Duration::ZERO,
            runs,
            limits: Vec::new(),
        });
        if lie == Lie::Garbage {
            // Half of one, or one with something else behind it.
            let cut = self.dice.place(bytes.len());
            if self.dice.chance(500) { bytes.truncate(cut) } else { bytes.push(0xc1) }
        }
        Bytes::from(bytes)
    }
}
