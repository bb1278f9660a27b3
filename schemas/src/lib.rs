//! The vocabulary of the mesh as types: ids, time, limits, subjects, histograms, messages, budgets,
//! rules, alerts.
//!
//! Owns what every crate of the mesh must agree on. Refuses all input and output: no runtime, no
//! sockets, no files, no clock (the crate `plimsoll-clock` reads the clock). Start with [`ids`] and
//! [`subject`] for who sends and where, [`histogram`] for the shape of a latency, [`wire`] for the
//! messages, [`transport`] for what passes between bus and cores, [`budget`] and [`alert`] for what
//! follows from them. [`limits`] bounds all of them. Without the feature `mesh` only what a client
//! library needs is left.

#![warn(missing_docs)]

#[cfg(feature = "mesh")]
pub mod alert;
#[cfg(feature = "mesh")]
mod annotations;
#[cfg(feature = "mesh")]
pub mod backoff;
#[cfg(feature = "mesh")]
pub mod budget;
#[cfg(feature = "mesh")]
pub mod figure;
pub mod hardware;
pub mod histogram;
pub mod ids;
mod labelled;
pub mod limits;
#[cfg(feature = "mesh")]
pub mod metric;
pub mod own_operations;
#[cfg(feature = "mesh")]
pub mod permissions;
pub mod random;
#[cfg(feature = "mesh")]
pub mod remote_text;
#[cfg(feature = "mesh")]
pub mod rule;
#[cfg(feature = "mesh")]
pub mod run;
#[cfg(feature = "mesh")]
mod scope;
#[cfg(feature = "mesh")]
pub mod settings;
#[cfg(feature = "mesh")]
pub mod straggler;
pub mod subject;
#[cfg(feature = "mesh")]
pub mod summary;
pub mod time;
#[cfg(feature = "mesh")]
pub mod transport;
pub mod unit;
#[cfg(feature = "mesh")]
pub mod urgency;
pub mod wire;
