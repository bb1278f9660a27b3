//! The only crate that touches the NATS client: connecting, streams, acknowledged publishing,
//! and a cursor over a lane.
//!
//! What the client offers is wrapped because its answers mean less than they seem to: a
//! publish that returned was put into a queue, a flush is no round trip, a full subscription
//! loses messages without a count, a request that timed out leaks. Here a message counts as
//! [`BusEvent::Acknowledged`] only when the broker itself said so, every other end of it is a
//! [`BusEvent::Refused`] or silence, and every queue has a bound in
//! [`limits`]. What stays silent is the caller's to send again, under the
//! same message id.
//!
//! This crate keeps no outbox, opens no circuit and decides nothing about samples. Read
//! `connection.rs` first, then `link.rs` for what follows a connect, `publish.rs` and
//! `answers.rs` for a message's way, `cursor.rs` for the way back, `aside.rs` for what is said
//! once and may be lost.
//!
//! The client logs every connection event at `INFO`: filter with `async_nats=warn`.

mod acknowledgement;
mod answers;
mod api;
mod aside;
mod backoff;
mod config;
mod connection;
mod consumer;
mod cursor;
mod error;
mod event;
pub mod limits;
mod link;
mod listener;
mod publish;
mod pull;
mod pulse;
mod reader;
mod streams;
mod window;

pub use aside::Aside;
pub use config::{BusConfig, Credentials};
pub use connection::Bus;
pub use cursor::{Cursor, CursorEvent, Delivered};
pub use error::{BusError, Refusal};
pub use event::{BusEvent, BusEvents, Delivery};
pub use listener::{Heard, Listener};
pub use publish::Outgoing;
