//! The only crate that touches the NATS client: connecting, streams, acknowledged publishing,
//! and a cursor over a lane.
//!
//! The client is wrapped because its answers mean less than they seem to: a publish that returned
//! was put into a queue, a flush is no round trip, a full subscription loses messages without a
//! count, a request that timed out leaks. Here a message counts as [`BusEvent::Acknowledged`] only
//! when the broker itself acknowledged it; every other outcome is a [`BusEvent::Refused`] or no
//! event at all, and every queue has a bound in [`limits`]. The caller resends a message without an
//! event, under the same message id.
//!
//! This crate keeps no outbox, opens no circuit and decides nothing about samples. Read
//! `connection.rs` first, then `reconnects.rs` for when it is tried again, `link.rs` for what
//! follows a connect, `publish.rs` and `replies.rs` for publishing with an acknowledgement,
//! `cursor.rs` for reading, and `unacknowledged.rs` for messages that are sent once and may be
//! lost. `probe.rs` looks at a broker once, for people.
//!
//! The client logs every failed attempt to connect, twice a second; what it has to report comes out
//! as events here, so filter with `async_nats=off`.

mod acknowledgement;
pub mod advisories;
mod api;
mod backoff;
mod config;
mod connection;
mod consumer;
mod credentials;
mod cursor;
mod cursor_event;
mod direct_get;
mod error;
mod event;
mod faults;
mod lag;
mod lanes;
mod leases;
pub mod limits;
mod link;
mod listener;
mod liveness;
mod messenger;
mod optimistic;
mod probe;
mod publish;
mod pull;
mod reader;
mod reconnects;
mod replies;
mod secret_file;
mod streams;
mod task;
mod tls;
mod unacknowledged;
mod window;

pub use config::{BusConfig, ConnectionRole, StreamOwner};
pub use connection::Bus;
pub use credentials::{Credentials, Secret};
pub use cursor::Cursor;
pub use cursor_event::CursorEvent;
pub use error::BusError;
pub use event::BusEvents;
pub use leases::Leases;
pub use listener::{Listener, ReceivedMessage};
pub use messenger::Messenger;
pub use optimistic::{ConditionalError, ConditionalMessage, StreamMessage};
pub use probe::{
    BrokerReport, Denial, JetStreamState, ProbeError, ProbePlan, StreamReport, StreamState, probe,
};
// What passes between the bus and the cores is part of the vocabulary.
pub use plimsoll_schemas::transport::{
    BusEvent, ConnectFault, Delivered, Delivery, Publish, Refusal, Ticket,
};
pub use secret_file::read_secret;
pub use tls::{TlsFiles, certificates, private_key};
pub use unacknowledged::UnacknowledgedMessage;
