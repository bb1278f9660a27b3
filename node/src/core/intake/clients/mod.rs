//! Clients that number what they send: what a socket lost is known from the next number, and what
//! comes twice is counted once.
//!
//! A client that was never heard of, or not for so long that others took its place, has lost
//! nothing here: what came before may have gone to a former incarnation.

use std::collections::BTreeMap;

use crate::limits::{CLIENTS_MAX, LOST_SAMPLES_MAX};
use plimsoll_schemas::ids::{Seq, check_token};
use plimsoll_schemas::limits::wire::COUNT_MAX;

use super::number::whole;
use super::reject::Reject;

/// How a sequence line begins.
pub(super) const SEQUENCE: &[u8] = b"_seq|";

/// What a sequence line says of its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position<'a> {
    client: &'a str,
    /// The datagram's number, from 1.
    number: u64,
    /// Latency samples in the datagrams before it.
    before: u64,
    /// Latency samples in it.
    samples: u64,
}

impl<'a> Position<'a> {
    /// Reads `_seq|client|number|before|samples`.
    ///
    /// # Errors
    /// When it is malformed.
    pub(super) fn read(line: &'a [u8]) -> Result<Self, Reject> {
        let fields = line.strip_prefix(SEQUENCE).unwrap_or_default();
        let mut fields = fields.split(|byte| *byte == b'|');
        let client = fields.next().and_then(|client| str::from_utf8(client).ok());
        let mut count = || fields.next().and_then(|text| whole(text, COUNT_MAX));
        let counts = (count(), count(), count());
        let (Some(client), (Some(number), Some(before), Some(samples)), None) =
            (client, counts, fields.next())
        else {
            return Err(Reject::Sequence);
        };
        check_token("client", client).map_err(|_| Reject::Sequence)?;
        let holds = number > 0 && before + samples <= COUNT_MAX;
        holds.then_some(Self { client, number, before, samples }).ok_or(Reject::Sequence)
    }
}

/// What a client's number says was lost on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) datagrams: u64,
    pub(super) samples: u64,
}

/// What is known of every client.
#[derive(Default)]
pub(super) struct Clients {
    by_name: BTreeMap<Box<str>, Client>,
    /// Times that any of them was heard.
    heard: u64,
}

#[derive(Default)]
struct Client {
    /// When it was heard last, in times that any was.
    heard: u64,
    /// Its last datagram; 0 before the first.
    datagram: u64,
    /// Samples in its datagrams up to that one.
    samples: u64,
    /// Its last frame.
    frame: Seq,
}

impl Clients {
    /// Number of clients known.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// A datagram of this position has come.
    ///
    /// # Errors
    /// When it came before, so that nothing of it may be taken; or when it tells of a loss that
    /// cannot be, which is not believed: then the datagram is taken and counted on from.
    pub(super) fn on_datagram(&mut self, position: &Position<'_>) -> Result<Missing, Reject> {
        let client = self.client(position.client);
        if position.number <= client.datagram {
            return Err(Reject::Duplicate);
        }
        let (last, samples) = (client.datagram, client.samples);
        client.datagram = position.number;
        client.samples = position.before + position.samples;
        let datagrams = position.number - last - 1;
        if last == 0 || datagrams == 0 {
            return Ok(Missing::default());
        }
        let lost = position.before.checked_sub(samples).filter(|lost| *lost <= LOST_SAMPLES_MAX);
        lost.map(|samples| Missing { datagrams, samples }).ok_or(Reject::Sequence)
    }

    /// A frame has come; whether it is to be recorded. If not it was before.
    pub(super) fn on_frame(&mut self, client: &str, seq: Seq) -> bool {
        let client = self.client(client);
        let is_new = seq > client.frame;
        client.frame = client.frame.max(seq);
        is_new
    }

    /// The number up to which a client's frames were recorded.
    pub(super) fn frame(&self, client: &str) -> Seq {
        self.by_name.get(client).map_or(Seq(0), |client| client.frame)
    }

    fn client(&mut self, name: &str) -> &mut Client {
        self.heard += 1;
        if !self.by_name.contains_key(name) {
            self.make_room();
            self.by_name.insert(name.into(), Client::default());
        }
        let client = self.by_name.get_mut(name).expect("it was there or was put there just now");
        client.heard = self.heard;
        client
    }

    fn make_room(&mut self) {
        while self.by_name.len() >= CLIENTS_MAX {
            let Some((name, _)) = self.by_name.iter().min_by_key(|(_, client)| client.heard) else {
                return;
            };
            let name = name.clone();
            self.by_name.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests;
