//! Meshes of real processes that are judged by their speed. No other tests run beside them.

mod drills;
mod fleet;
