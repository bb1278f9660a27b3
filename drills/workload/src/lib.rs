//! The job beside a node: a small network really trained on the CPU, reporting its latencies.
//!
//! Nothing here pretends: every timed operation computes or reads something that the training
//! uses, and nothing timed ever sleeps. What needs no file, socket or clock stands apart:
//! [`rng`], [`dataset`], [`network`], [`trainer`], [`artefact`], [`checkpoint`], [`commands`],
//! [`sample`] and [`summary`].

pub mod args;
pub mod artefact;
pub mod checkpoint;
pub mod commands;
pub mod complaints;
pub mod dataset;
pub mod job;
pub mod kernels;
pub mod limits;
pub mod network;
pub mod pace;
pub mod report;
pub mod rng;
pub mod sample;
pub mod statsd;
pub mod summary;
pub mod tail;
pub mod trainer;
