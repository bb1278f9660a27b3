//! A fleet of simulated nodes on a real broker and a real aggregator: what ten thousand machines
//! cost, and whether every sample of each of them arrives.
//!
//! Each node has latencies, a phase and a ledger of its own; its messages are those of a real node,
//! byte for byte, and travel by the same client with message ids and acknowledgements. The loop is
//! open: the due time of each message is fixed before the start, a slow broker makes messages wait
//! in a bounded queue, and messages that do not fit are counted as lost. By default nodes share
//! four connections; with as many connections as nodes each has its own, as real nodes do.
//!
//! As a real node, each sends one message an interval with latencies, readings and a bus report.
//!
//! Some of them misuse the mesh if the options say so: they flood it, send too often or too much,
//! begin again all at once, or have a wrong clock.
//!
//! [`faults`] and their [`disturbance`] make a long run hard, and a [`pair`] of aggregators must
//! answer the same after it.
//!
//! Read [`sender`] first, then [`load`], [`node`] and [`body`]; [`pages`], [`watched`] and
//! [`restart`] measure, [`scrapers`] only ask, [`ledger`], [`growth`], [`recovery`] and [`soak`]
//! judge.

pub mod args;
pub mod body;
pub mod broker_monitor;
pub mod connections;
pub mod deployment;
pub mod disturbance;
pub mod faults;
pub mod figures;
pub mod growth;
pub mod incarnation;
pub mod ledger;
pub mod limits;
pub mod load;
pub mod node;
pub mod open_files;
pub mod pages;
pub mod pair;
pub mod queue;
pub mod recovery;
pub mod restart;
pub mod run;
pub mod scrapers;
pub mod sender;
pub mod shape;
pub mod slope;
pub mod soak;
pub mod watched;

pub use args::FleetArgs;
pub use run::fleet;
