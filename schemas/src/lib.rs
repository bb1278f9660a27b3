//! The words of the mesh, as types: no runtime, no sockets, no files.
//!
//! Read in this order: [`ids`] and [`subject`] say who speaks and where, [`histogram`] what a
//! latency looks like, [`wire`] how it travels, [`budget`] and [`alert`] what is made of it.
//! [`limits`] bounds all of them. Nothing here reads a clock: the crate `plimsoll-clock` does. Without the feature `mesh` only what a client library
//! speaks is left.

#[cfg(feature = "mesh")]
pub mod alert;
#[cfg(feature = "mesh")]
pub mod budget;
pub mod hardware;
pub mod histogram;
pub mod ids;
pub mod limits;
#[cfg(feature = "mesh")]
pub mod metric;
#[cfg(feature = "mesh")]
pub mod rule;
#[cfg(feature = "mesh")]
pub mod settings;
pub mod subject;
#[cfg(feature = "mesh")]
pub mod summary;
pub mod time;
pub mod wire;
