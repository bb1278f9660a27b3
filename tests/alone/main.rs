//! Meshes of real processes that are judged by their speed: one at a time, with no other test beside
//! them.

mod drills;
