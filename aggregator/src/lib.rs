//! The aggregator: merges snapshots exactly, judges budgets, raises alerts, serves Prometheus.
//!
//! [`core`] decides, [`io`] performs, [`exposition`] writes read views as Prometheus pages, and
//! [`driver`] joins them with the crate's only `select!`. An aggregator does not guess: a quantile
//! comes from merged counts alone, too few samples are no evidence, and nothing is exported before
//! the streams' backlog has been read.

pub mod args;
pub mod config;
pub mod core;
pub mod driver;
pub mod exposition;
pub mod io;
pub mod limits;
