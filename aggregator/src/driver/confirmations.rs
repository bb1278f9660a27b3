//! Confirmations for nodes of what is stored: at most one per node, the latest, in turns. A fleet
//! larger than the connection's queue leaves no node without one for ever.
//!
//! They are sent in batches with pauses, so that the checkpoint of a large fleet neither holds up
//! the driver nor overflows a subscriber's buffer. A lost one is replaced by the next.
//!
//! DESIGN A44.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use crate::limits::{CONFIRM_PAUSE, CONFIRMATIONS_AT_ONCE_MAX};
use bytes::Bytes;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::{Mono, Now};

use super::issuer::Issuer;
use crate::core::durable::{CommonTerms, PendingConfirmation};
use crate::core::view::ConfirmationStats;

/// Pending confirmations; no more than there are nodes.
#[derive(Debug)]
pub(super) struct Confirmations {
    pending: BTreeMap<NodeName, PendingConfirmation>,
    last: Option<NodeName>,
    next_at: Mono,
    pub(super) stats: ConfirmationStats,
}

impl Default for Confirmations {
    fn default() -> Self {
        let (pending, stats) = (BTreeMap::new(), ConfirmationStats::default());
        Self { pending, last: None, next_at: Mono(0), stats }
    }
}

impl Confirmations {
    /// Adds what is stored now; it replaces an older confirmation that is still pending.
    pub(super) fn offer(&mut self, confirmed: Vec<PendingConfirmation>) {
        for of_node in confirmed {
            let replaced = self.pending.insert(of_node.node.clone(), of_node);
            self.stats.unsent += u64::from(replaced.is_some());
        }
    }

    /// Sends a batch if it is due; `send` returns false when the connection accepts no more.
    pub(super) fn send_batch(
        &mut self,
        now: Now,
        common: &CommonTerms,
        issuer: &mut Issuer,
        mut send: impl FnMut(&NodeName, Bytes) -> bool,
    ) {
        if now.mono < self.next_at || self.pending.is_empty() {
            return;
        }
        self.next_at = now.mono.plus(CONFIRM_PAUSE);
        issuer.refresh(now.mono);
        let mut room = CONFIRMATIONS_AT_ONCE_MAX;
        self.send_while(now, common, issuer, |node, payload| {
            let sent = room > 0 && send(node, payload);
            room -= usize::from(sent);
            sent
        });
    }

    fn send_while(
        &mut self,
        now: Now,
        common: &CommonTerms,
        issuer: &mut Issuer,
        mut send: impl FnMut(&NodeName, Bytes) -> bool,
    ) {
        while let Some(next) = self.next() {
            let bytes = issuer.encode(next.confirmation(now.mono, common), now);
            if !send(&next.node, bytes) {
                return;
            }
            let node = next.node.clone();
            self.pending.remove(&node);
            self.last = Some(node);
            self.stats.sent += 1;
        }
    }

    fn next(&self) -> Option<&PendingConfirmation> {
        let after = self.last.as_ref().map_or(Unbounded, Excluded);
        let mut next = self.pending.range::<NodeName, _>((after, Unbounded));
        next.next().or_else(|| self.pending.first_key_value()).map(|(_, pending)| pending)
    }

    /// Drops all pending confirmations, since there is no connection.
    pub(super) fn discard(&mut self) {
        self.stats.unsent += self.pending.len() as u64;
        self.pending.clear();
    }

    /// When the next batch is due, if anything is pending or soon will be.
    pub(super) fn deadline(&self, more_soon: bool) -> Option<Mono> {
        (more_soon || !self.pending.is_empty()).then_some(self.next_at)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::wire::confirmation::decode;

    use super::*;
    use crate::core::tests::{MS, Speaker, core, deliver, start};

    /// What a core that has just read these nodes confirms to them, as of a second.
    fn pending(names: &[&'static str], second: u64) -> Vec<PendingConfirmation> {
        let mut core = core();
        let mut pending = |name: &&'static str| {
            deliver(&mut core, start(), &Speaker::new(name).send(start(), MS, 1));
            core.confirmation_from_memory(&NodeName::new(*name).unwrap(), at(second)).unwrap()
        };
        names.iter().map(&mut pending).collect()
    }

    fn at(second: u64) -> Mono {
        Mono(second * 1_000_000_000)
    }

    /// Sends as many as there is room for at second 10: node and age of each.
    fn send(confirmations: &mut Confirmations, mut room: usize) -> Vec<(String, u64)> {
        let mut sent = Vec::new();
        let (now, issuer) = (Now { mono: at(10), ..start() }, &mut Issuer::unsigned());
        confirmations.send_while(now, &CommonTerms::default(), issuer, |node, payload| {
            let takes = room > 0;
            room -= usize::from(takes);
            if takes {
                sent.push((node.to_string(), decode(node, &payload).unwrap().age.as_secs()));
            }
            takes
        });
        sent
    }

    #[test]
    fn every_node_gets_its_turn() {
        let mut confirmations = Confirmations::default();
        let mut sent = Vec::new();
        for round in 0..4 {
            confirmations.offer(pending(&["a", "b", "c"], round));
            sent.extend(send(&mut confirmations, 2).into_iter().map(|(node, _)| node));
        }
        assert_eq!(sent, ["a", "b", "c", "a", "b", "c", "a", "b"]);
        assert_eq!(confirmations.stats, ConfirmationStats { sent: 8, unsent: 3 });
    }

    #[test]
    fn a_newer_confirmation_replaces_a_pending_one_and_discard_drops_all() {
        let mut confirmations = Confirmations::default();
        confirmations.offer(pending(&["a"], 1));
        confirmations.offer(pending(&["a", "b"], 2));
        assert_eq!(send(&mut confirmations, 1), [("a".to_owned(), 8)]);
        confirmations.discard();
        assert_eq!(confirmations.deadline(false), None);
        assert_eq!(confirmations.stats, ConfirmationStats { sent: 1, unsent: 2 });
    }
}
