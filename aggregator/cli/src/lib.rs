//! `plimsoll`, the operator's command: its subcommands, and what they print.
//!
//! [`up`] runs a local mesh (`plimsoll-mesh`) with [`table`] while it runs and [`report`] at its
//! end; [`alerts`], [`statistics`] and [`query`] send requests to running aggregators ([`targets`]).

pub mod alerts;
pub mod args;
pub mod query;
pub mod report;
pub mod statistics;
pub mod table;
pub mod targets;
pub mod time_range;
pub mod up;
