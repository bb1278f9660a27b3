//! Senders, probes and oracles for real processes, shared by the end-to-end tests beside it.
//!
//! The mesh itself is the one that operators start. Nothing here reads the memory of a process: a
//! test observes only what an operator can observe.

pub mod alertmanager;
pub mod capability;
pub mod drill;
pub mod jobs;
pub mod mail;
pub mod metrics_page;
pub mod oracle;
pub mod process;
pub mod program;
pub mod prometheus;
pub mod publisher;
pub mod rng;
pub mod single_node;
pub mod statsd;
pub mod webhook;
