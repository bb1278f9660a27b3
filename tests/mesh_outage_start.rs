//! How processes begin and end when something is missing: a broker, a port, a right setting.

#[path = "mesh_outage_start/absence.rs"]
mod absence;
#[path = "mesh_outage_start/usage.rs"]
mod usage;
