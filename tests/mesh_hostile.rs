//! Everything wrong that can be sent to a broker or a node, at a mesh that goes on counting.

#[path = "mesh_hostile/bus.rs"]
mod bus;
#[path = "mesh_hostile/forgery.rs"]
mod forgery;
#[path = "mesh_hostile/labels.rs"]
mod labels;
#[path = "mesh_hostile/lines.rs"]
mod lines;
#[path = "mesh_hostile/traffic.rs"]
mod traffic;
