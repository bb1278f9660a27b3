//! One run: the rooms of the simulation, and the loop that lets one event happen after another.
//!
//! Each event goes to one room. What it touched is checked at once, and the first broken
//! invariant ends the run. After the plan every fault ends and the mesh must come to rest. The
//! world only schedules: nodes, aggregators, broker, network and oracle each own their state.
//!
//! [`World::run`] runs a plan; `rest` ends it: faults stop, and the aggregators must equal the
//! oracle.

mod rest;
mod run;

pub use run::World;
