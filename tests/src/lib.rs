//! What the end-to-end tests beside it stand on: probes, feeds and oracles for real processes.
//!
//! The mesh itself comes from `plimsoll-mesh`, so that tests run what operators run. Nothing
//! here reaches into a process: what a test knows, an operator could have seen too.

pub mod alertmanager;
pub mod drill;
pub mod fed;
pub mod feed;
pub mod hook;
pub mod jobs;
pub mod lone;
pub mod noise;
pub mod operator;
pub mod oracle;
pub mod outcome;
pub mod page;
pub mod prometheus;
pub mod publisher;
