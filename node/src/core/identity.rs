//! The identity of a node: what every message and every spool file names.

use plimsoll_schemas::ids::{Labels, MeshName, NodeName};

#[derive(Clone, Debug)]
pub struct Identity {
    /// The mesh that it publishes to.
    pub mesh: MeshName,
    /// Its name, unique in the mesh.
    pub node: NodeName,
    /// What it is grouped by: rack, role, version and the like.
    pub labels: Labels,
}
