//! Numbered clients: the next number shows what a socket lost, and a repetition is recorded once.
//!
//! Nothing is counted as lost before the first number of an unknown or evicted client: those
//! samples may have gone to a former incarnation of the node.
//!
//! DESIGN N18.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use crate::limits::{CLIENTS_MAX, LOST_SAMPLES_MAX};
use plimsoll_schemas::ids::Seq;

use super::lines::Sequence;
use super::reject::Reject;

/// A client for as long as it is tracked; no two ever have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientId(NonZeroU64);

#[cfg(test)]
impl ClientId {
    pub(crate) fn from_number(number: u64) -> Self {
        Self(NonZeroU64::new(number).expect("a number from 1 on"))
    }
}

/// Datagrams and samples of a client that did not arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) datagrams: u64,
    pub(super) samples: u64,
}

#[derive(Default)]
pub(super) struct Clients {
    by_name: BTreeMap<Box<str>, Client>,
    /// Datagrams and frames received from all clients.
    received: u64,
}

struct Client {
    id: ClientId,
    /// Value of [`Clients::received`] when it last sent anything.
    last_received: u64,
    /// Its last datagram; 0 before the first.
    datagram: u64,
    /// Samples in its datagrams up to that one.
    samples: u64,
    /// Its last frame.
    frame: Seq,
}

impl Clients {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// A datagram with this sequence arrived; returns from which client, and what is missing before
    /// it.
    ///
    /// # Errors
    /// `Duplicate` when it arrived before and must not be recorded; `Sequence` when it states an
    /// impossible loss, which is not counted, and the datagram is recorded.
    pub(super) fn on_datagram(
        &mut self,
        sequence: &Sequence<'_>,
    ) -> Result<(ClientId, Missing), Reject> {
        let client = self.client(sequence.client);
        if sequence.number <= client.datagram {
            return Err(Reject::Duplicate);
        }
        let (id, last, samples) = (client.id, client.datagram, client.samples);
        // Also if the loss that it states is impossible: a forged number must not be reported again
        // with each datagram that follows.
        client.datagram = sequence.number;
        client.samples = sequence.samples_before + sequence.samples;
        let datagrams = sequence.number - last - 1;
        // What came before the first number may have gone to a former incarnation, which counted
        // it.
        if last == 0 || datagrams == 0 {
            return Ok((id, Missing::default()));
        }
        let lost =
            sequence.samples_before.checked_sub(samples).filter(|lost| *lost <= LOST_SAMPLES_MAX);
        lost.map(|samples| (id, Missing { datagrams, samples })).ok_or(Reject::Sequence)
    }

    /// A frame arrived; returns from which client if it is new and must be recorded.
    pub(super) fn on_frame(&mut self, client: &str, seq: Seq) -> Option<ClientId> {
        let client = self.client(client);
        let is_new = seq > client.frame;
        client.frame = client.frame.max(seq);
        is_new.then_some(client.id)
    }

    pub(super) fn frame(&self, client: &str) -> Seq {
        self.by_name.get(client).map_or(Seq(0), |client| client.frame)
    }

    fn client(&mut self, name: &str) -> &mut Client {
        self.received += 1;
        if !self.by_name.contains_key(name) {
            self.make_room();
            // At least 1 by the line above.
            let id = ClientId(NonZeroU64::MIN.saturating_add(self.received - 1));
            let client = Client { id, last_received: 0, datagram: 0, samples: 0, frame: Seq(0) };
            self.by_name.insert(name.into(), client);
        }
        // Cannot fail: the line above inserted it.
        let client = self.by_name.get_mut(name).expect("it was inserted if it was absent");
        client.last_received = self.received;
        client
    }

    fn make_room(&mut self) {
        while self.by_name.len() >= CLIENTS_MAX {
            let Some((name, _)) =
                self.by_name.iter().min_by_key(|(_, client)| client.last_received)
            else {
                return;
            };
            let name = name.clone();
            self.by_name.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests;
