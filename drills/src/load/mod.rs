//! Load on a mesh: numbered samples through real nodes, and how long each takes until the
//! aggregator shows it.
//!
//! When each sample is due is fixed before the start. A sender that falls behind sends late and
//! never fewer, and a delivery is measured from when its sample was due: a slow mesh cannot hide
//! its delay by slowing the load (coordinated omission).
//!
//! Read [`schedule`] first; `sender` sends, `delivery` measures, `datagrams` accounts for what UDP
//! lost, `judge` has the verdict, `run` composes them.
//!
//! DESIGN D8, D18, D34.

mod args;
mod datagrams;
mod delivery;
mod judge;
mod nodes;
mod run;
pub mod schedule;
mod sender;
mod stats;

pub use args::LoadArgs;
pub use datagrams::Datagrams;
pub use run::load;
pub use stats::LoadStats;
