//! What a process of a run is given with every event, beside its own state.

use super::kernel::Kernel;
use super::network::Network;
use super::oracle::{NodeOracle, Oracle};

/// The kernel, the network, and the judge of the process.
pub struct Rooms<'a, O> {
    pub k: &'a mut Kernel,
    pub net: &'a mut Network,
    pub oracle: &'a mut O,
}

/// What a node's process is given.
pub type NodeRooms<'a> = Rooms<'a, NodeOracle>;

/// What an aggregator's process is given.
pub type ReaderRooms<'a> = Rooms<'a, Oracle>;
