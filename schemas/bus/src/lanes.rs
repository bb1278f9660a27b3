//! Which streams a connection reads: those of a mesh, or of one of its partitions.

use plimsoll_schemas::ids::{MeshName, Partition};
use plimsoll_schemas::subject::{Lane, lane_filter, lane_stream};

/// The lanes of a mesh, or of one of its partitions.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    pub(crate) mesh: MeshName,
    pub(crate) partition: Option<Partition>,
}

impl Lanes {
    pub(crate) fn stream(&self, lane: Lane) -> String {
        lane_stream(&self.mesh, lane, self.partition)
    }

    pub(crate) fn filter(&self, lane: Lane) -> String {
        lane_filter(&self.mesh, lane, self.partition)
    }
}
