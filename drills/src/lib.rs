//! Fault drills: a steady state, a fault on purpose, what must follow and by when, a verdict.
//!
//! [`live`] drills stand on real processes: a broker, an aggregator, nodes and their jobs. A
//! drill that misses one expectation fails as a whole and says what it saw instead. [`sim`] runs
//! the same cores under a seed in virtual time, thousands of fault schedules in seconds. [`fleet`]
//! plays any number of nodes to a real broker and aggregator. Nothing here is part of a mesh, and no other package depends on it.

pub mod fleet;
pub mod live;
pub mod sim;
