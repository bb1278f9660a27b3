//! The line by which a client numbers its datagrams: `_seq|client|number|before|samples`, with
//! `|last` at the end of its final one.

use plimsoll_schemas::ids::check_token;
use plimsoll_schemas::limits::wire::COUNT_MAX;

use super::number::whole;
use crate::core::intake::reject::Reject;

/// The position of a datagram among those of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequence<'a> {
    pub(crate) client: &'a str,
    /// The datagram's number, from 1.
    pub(crate) number: u64,
    /// Latency samples in the datagrams before it.
    pub(crate) samples_before: u64,
    /// Latency samples in it.
    pub(crate) samples: u64,
    /// True when the client ends normally: no datagram without this follows.
    pub(crate) is_last: bool,
}

impl<'a> Sequence<'a> {
    pub(crate) const PREFIX: &'static [u8] = b"_seq|";

    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, Reject> {
        let fields = line.strip_prefix(Self::PREFIX).unwrap_or_default();
        let mut fields = fields.split(|byte| *byte == b'|');
        let client = fields.next().and_then(|client| str::from_utf8(client).ok());
        let mut count = || fields.next().and_then(|text| whole(text, COUNT_MAX));
        let counts = (count(), count(), count());

        let is_last = match (fields.next(), fields.next()) {
            (None, None) => false,
            (Some(b"last"), None) => true,
            _ => return Err(Reject::Sequence),
        };

        let (Some(client), (Some(number), Some(samples_before), Some(samples))) = (client, counts)
        else {
            return Err(Reject::Sequence);
        };

        // The name is a key of a map that is kept, and is shown in logs.
        check_token("client", client).map_err(|_| Reject::Sequence)?;
        let is_valid = number > 0 && samples_before + samples <= COUNT_MAX;
        let sequence = Self { client, number, samples_before, samples, is_last };
        is_valid.then_some(sequence).ok_or(Reject::Sequence)
    }
}
