//! Fault drills: a steady state, a fault on purpose, expectations with a time limit, a verdict.
//!
//! [`live`] drills use real processes: a broker, an aggregator, nodes and their jobs. A drill
//! that misses one expectation fails as a whole and reports what it observed instead. [`sim`] runs
//! the same cores under a seed in virtual time, thousands of fault schedules in seconds.
//! [`fleet`] simulates any number of nodes on a real broker and aggregator. Nothing here is part of
//! a mesh, and no other package depends on it.

pub mod fleet;
pub mod live;
pub mod load;
pub mod processes;
pub mod sim;
pub mod spread;
