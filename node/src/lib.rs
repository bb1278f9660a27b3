//! The node agent: takes latencies from the jobs beside it and publishes snapshots.
//!
//! [`core`] decides, [`io`] performs, and [`driver`] joins them with the crate's only
//! `select!`. A node refuses to lose a sample silently: what it cannot take, hold or send is
//! counted under a reason.

pub mod args;
pub mod config;
pub mod core;
pub mod driver;
pub mod io;
pub mod limits;
