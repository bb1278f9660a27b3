//! Drills on real processes, each on a mesh of its own that is ended with it.
//!
//! A drill's mesh is called [`MESH`], so that its subjects, streams and notices can be told
//! from any other traffic. Read [`latency`] first; [`faults`] ends processes; [`expectation`]
//! says how waiting is judged, [`ledger`] is the oracle that closes every drill, [`frame`] is
//! what a drill's `main` calls. No drill sleeps and hopes: each wait looks again until it sees
//! what it waits for, or misses.

pub mod backpressure;
pub mod expectation;
pub mod faults;
pub mod frame;
pub mod hardware;
pub mod junit;
pub mod latency;
pub mod ledger;
pub mod mesh;
pub mod notices;
pub mod report;
pub mod steady;
pub mod tally;

/// What every drill's mesh is called.
pub const MESH: &str = "drill";
