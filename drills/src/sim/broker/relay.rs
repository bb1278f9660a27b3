//! Confirmations on their way from an aggregator to a node: plain messages, which no stream stores.

use bytes::Bytes;

use crate::sim::act::Who;
use crate::sim::event::{Event, Response};
use crate::sim::kernel::Kernel;
use crate::sim::network::Network;
use crate::sim::schedule::Time;

/// Delays confirmations and loses some.
pub(super) struct Relay {
    /// The longest delay.
    delay_max: Time,
    /// Confirmations relayed so far.
    relayed: u64,
    /// The newest that each node was sent.
    newest: Vec<u64>,
}

impl Relay {
    pub(super) fn new(nodes: usize) -> Self {
        Self { delay_max: 0, relayed: 0, newest: vec![0; nodes] }
    }

    pub(super) fn set_delay_max(&mut self, delay_max: Time) {
        self.delay_max = delay_max;
    }

    pub(super) fn relay(&mut self, k: &mut Kernel, net: &mut Network, node: usize, payload: Bytes) {
        let lost = !k.is_healed() && k.rng().chance(100);
        if lost {
            return k.reach("confirmation lost");
        }
        self.relayed += 1;
        let number = self.relayed;
        if self.delay_max > 0 {
            let span = k.rng().within(0..=self.delay_max);
            return k.after(span, Event::DelayedConfirmation { node, number, payload });
        }
        self.deliver(k, net, node, number, payload);
    }

    /// The confirmation continues; the node may have received a newer one.
    pub(super) fn deliver(
        &mut self,
        k: &mut Kernel,
        net: &mut Network,
        node: usize,
        number: u64,
        payload: Bytes,
    ) {
        let is_overtaken = self.newest[node] > number;
        k.reach_n("confirmation overtaken", u64::from(is_overtaken));
        self.newest[node] = self.newest[node].max(number);
        net.respond(k, Who::Node(node), Response::Confirmation { payload });
    }
}
