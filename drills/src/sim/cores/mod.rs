//! The real cores of node and aggregator as the simulation calls them.
//!
//! Only these two files import the cores' crates: a renamed type or method of a core is changed
//! here, and the rooms of the simulation remain unchanged.

pub mod aggregator;
mod mesh_name;
pub mod node;
