//! `plimsoll`, the operator's command, and the local mesh of real processes under it.
//!
//! [`stack`] starts a broker, an aggregator, nodes and their jobs on loopback, on ports of their
//! own, and ends them in the order in which nothing is lost; `up`, the drills and the tests
//! stand on it. [`api`] asks an aggregator, [`alerts`] what stands there; [`table`] and
//! [`report`] show what it said.

pub mod alerts;
pub mod api;
pub mod args;
pub mod broker;
pub mod child;
pub mod report;
pub mod stack;
pub mod station;
pub mod table;
pub mod up;
