//! What nodes are told of their messages: those that a checkpoint just written holds, so that
//! they need not keep them any longer. Says nothing that a restored core would not know, and
//! does not send; the driver does, as often as it likes, for any one may be lost.

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::wire::confirmation::{Confirmation, encode};

use super::Core;
use super::checkpoint::Changes;
use super::progress::Progress;

/// The bytes of one confirmation, and for whom they are.
pub type Told = (NodeName, Vec<u8>);

/// What became of confirmations, for the aggregator's own metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfirmationFigures {
    /// Handed to the connection.
    pub sent: u64,
    /// Replaced by a newer one, or let go without a connection, before that.
    pub unsent: u64,
}

impl Changes {
    /// One confirmation for every node that these changes hold. To be told only once the
    /// changes are stored. Takes a while for many nodes: not for the driver's thread.
    #[must_use]
    pub fn confirmations(&self) -> Vec<Told> {
        let present = self.nodes().filter_map(|(name, node)| Some((name, node?)));
        let told = present.map(|(name, node)| {
            let runs = node.account.confirmed();
            let said = Confirmation { node: name.clone(), behind: self.behind(), runs };
            (name.clone(), encode(&said))
        });
        told.collect()
    }
}

impl Core {
    /// Whether messages that nobody has read may wait in a stream.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.lanes.values().all(Progress::has_read_all)
    }
}

#[cfg(test)]
mod tests;
