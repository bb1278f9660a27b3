//! The bus against real brokers: each test starts its own `nats-server` on a port and a store
//! of its own. Nothing here sleeps and hopes; every wait ends with an event or a deadline.
//!
//! `PLIMSOLL_NATS_SERVER` names another binary than the `nats-server` on the path.

mod behind;
mod broker;
mod closing;
mod credentials;
mod nodes;
mod optimistic;
mod outage;
mod partitions;
mod probing;
mod publishing;
mod reading;
mod streams;
mod talk;
mod tls;
mod unacknowledged;
