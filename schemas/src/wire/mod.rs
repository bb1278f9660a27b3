//! Wire version 1: the messages of nodes, client libraries and aggregators, as bytes and as types.
//!
//! A message is one MessagePack map with named fields: a header (node, incarnation, seq, interval,
//! samples so far) and a body of one kind, or of an interval with a body of each kind. A reader
//! skips unknown fields, so later versions may add some. Reading checks the size first and every
//! value after it, and returns only valid types; nothing here panics, whatever the bytes.
//!
//! DESIGN S6, S31.

#[cfg(feature = "mesh")]
pub mod capture;
#[cfg(feature = "mesh")]
pub mod confirmation;
mod envelope;
mod error;
mod event;
pub mod frame;
pub mod history;
mod latency;
pub(crate) mod messagepack;
mod shard;
#[cfg(feature = "mesh")]
pub mod signature;
#[cfg(feature = "mesh")]
pub mod silences;
mod snapshot;

pub use envelope::{
    EncodedBody, combine_bodies, decode, decode_body, decode_packed, encode, encode_around,
    encode_body,
};
pub use error::{SCHEMA, WireError};
pub use event::{AlertType, Event, EventSource, Events};
pub use snapshot::{
    Body, BreakerState, Bus, Hardware, Header, Interval, Latency, NotedIncarnation, ReadPosition,
    SENT_HEADER, ShardReport, ShardSlot, Snapshot, Totals, apply_changes,
};
