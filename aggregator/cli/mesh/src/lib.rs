//! A mesh of real processes on this machine: nats-server, an aggregator, nodes, and a workload
//! beside each node.
//!
//! `plimsoll up`, the drills and the end-to-end tests start their meshes here. [`stack`] starts
//! the processes on free ports of loopback and ends them in the order in which no sample is lost;
//! [`broker`] runs nats-server alone, [`cluster`] several as one, [`jetstream`] administers its
//! streams, [`site`] gives it TLS and users, [`proxy`] is a link that is slow or breaks, [`statsd`]
//! sends to a node as a job does, [`child`] is one process.
//!
//! The crate contains no part of a mesh: it starts programs by their paths. The workload is any
//! program that accepts the arguments of [`stack::Workload`].
//!
//! DESIGN D12.

pub mod broker;
pub mod certificates;
pub mod child;
pub mod cluster;
pub mod jetstream;
pub mod proxy;
pub mod site;
pub mod stack;
pub mod statsd;
