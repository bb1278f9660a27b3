//! The aggregator: merges snapshots exactly, judges budgets, raises alerts, serves Prometheus.
//!
//! [`core`] decides, [`io`] performs, [`exposition`] writes what is known as Prometheus text,
//! and [`driver`] joins them with the crate's only `select!`. An aggregator refuses to guess: a
//! quantile comes from merged counts alone, too few samples are no evidence, and what it has
//! not read yet it does not show.

pub mod args;
pub mod config;
pub mod core;
pub mod driver;
pub mod exposition;
pub mod io;
pub mod limits;
