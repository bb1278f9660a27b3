//! Runs the built binary beside a socket that stands for the node, and holds it to its account.

mod changes;
mod reporting;
mod running;
mod usage;
