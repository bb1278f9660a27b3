//! `plimsoll`, the operator's command: its subcommands, and what they print.
//!
//! [`up`] runs a local mesh (`plimsoll-mesh`) with [`table`] while it runs and [`up_report`] at its
//! end; [`alerts`], [`blame`], [`statistics`], [`query`], [`metrics`], [`bottlenecks`], [`advise`],
//! [`nodes`], [`runs`] and [`ledger`] send requests to running aggregators ([`targets`]). [`run`]
//! starts a command as a named run, whose results `run_results` holds and which `run_profile`
//! profiles. [`compare`] judges one run by another, [`baseline`] nodes by the targets of a
//! platform; [`interval_log`] and [`hlog`] read and write the logs that it takes. [`report`] writes
//! what an aggregator has of a run or a range as a page. [`top`] shows a mesh live, [`profile`]
//! samples a process, [`doctor`] finds what is wrong with the mesh, [`nats_config`] prints the
//! broker's users, [`manual`] prints completions and manual pages.

pub mod advise;
pub mod alerts;
pub mod args;
pub mod baseline;
pub mod blame;
pub mod bottlenecks;
pub mod compare;
pub mod doctor;
pub mod hlog;
pub mod interval_log;
pub mod ledger;
pub mod manual;
pub mod metrics;
pub mod nats_config;
pub mod nodes;
pub mod profile;
pub mod query;
pub mod report;
pub mod run;
mod run_profile;
mod run_results;
pub mod runs;
pub mod statistics;
pub mod table;
pub mod targets;
mod terminal_text;
pub mod time_range;
pub mod top;
pub mod up;
pub mod up_report;
