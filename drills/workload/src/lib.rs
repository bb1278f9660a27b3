//! An example job: a small model trained on the CPU, which reports its latencies to a node.
//!
//! Every timed operation computes or reads something that the training uses, and nothing timed
//! sleeps. [`job`] is the loop; [`report`] sends samples and writes the raw file.
//!
//! DESIGN D11.

pub mod args;
pub mod commands;
pub mod complaints;
pub mod job;
pub mod kernels;
pub mod limits;
pub mod model;
pub mod pace;
pub mod report;
pub mod rng;
pub mod sample;
pub mod statsd;
pub mod summary;
pub mod tail;
