//! Runs the built binary with a socket in place of the node, and checks its counts.

mod changes;
mod reporting;
mod running;
mod usage;
