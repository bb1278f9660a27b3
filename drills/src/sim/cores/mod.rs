//! The real cores of node and aggregator as the simulation calls them.
//!
//! Only these two files import the cores' crates: a renamed type or method of a core is changed
//! here, and the rooms of the simulation stay as they are.

pub mod aggregator;
pub mod node;

use plimsoll_schemas::ids::MeshName;

fn mesh() -> MeshName {
    MeshName::new("sim").expect("a constant of plain letters")
}
