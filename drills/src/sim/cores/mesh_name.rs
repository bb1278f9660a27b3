//! The name of every simulated mesh.

use plimsoll_schemas::ids::MeshName;

/// The name of every simulated mesh.
pub(super) fn mesh_name() -> MeshName {
    MeshName::new("sim").expect("a constant of plain letters")
}
