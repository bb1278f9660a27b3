//! The name of every drill's mesh.

/// The name of every drill's mesh.
pub const MESH: &str = "drill";
