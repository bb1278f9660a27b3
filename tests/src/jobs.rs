//! Options of a local mesh with the example workload beside every node.

use std::path::Path;

use plimsoll_mesh::stack::{StackOptions, Workload, bin_dir};

/// Three nodes, each with the example workload, below `dir`.
///
/// # Panics
/// When the mesh's programs are not built.
pub fn with_jobs(dir: &Path) -> StackOptions {
    let programs = bin_dir().expect("the mesh's programs are built");
    StackOptions::new(dir).with_workload(Workload::at(programs.join("plimsoll-workload")))
}
