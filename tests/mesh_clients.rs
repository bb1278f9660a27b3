//! Whatever a job speaks, its samples arrive: every client that people use, held against the
//! values that it was given, at the aggregator.

#[path = "mesh_clients/nc.rs"]
mod nc;
#[path = "mesh_clients/python.rs"]
mod python;
#[path = "mesh_clients/rust.rs"]
mod rust;
