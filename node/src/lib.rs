//! The node agent: collects latencies from the jobs on its machine and publishes snapshots.
//!
//! [`core`] decides, [`io`] performs, and [`driver`] connects them with the crate's only `select!`.
//! No sample is lost silently: every sample that the node cannot accept, keep or send is counted by
//! reason.

pub mod args;
pub mod config;
pub mod core;
pub mod driver;
pub mod io;
pub mod limits;
