//! `plimsoll`, the operator's command: its subcommands, and what they print.
//!
//! [`up`] runs a local mesh (`plimsoll-mesh`) with [`table`] while it runs and [`report`] at its
//! end; [`alerts`] sends requests to running aggregators.

pub mod alerts;
pub mod args;
pub mod report;
pub mod table;
pub mod up;
