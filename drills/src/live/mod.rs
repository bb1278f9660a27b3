//! Drills on real processes, each on a mesh of its own that ends with it.
//!
//! The mesh is named [`mesh_name::MESH`], which separates its subjects, streams and notifications
//! from other traffic. Read [`latency`] first; [`rig`] is a mesh with its drill, [`faults`] ends
//! processes; [`expectation`] judges waiting, [`account`] and [`ledger`] are the oracle that ends
//! every drill, [`frame`] is what a drill's `main` calls. Each wait polls until its expectation is
//! met or its time is over.

pub mod account;
pub mod advice;
pub mod alerts;
pub mod backpressure;
pub mod expectation;
pub mod faults;
pub mod frame;
pub mod hardware;
pub mod junit;
pub mod latency;
pub mod ledger;
pub mod mesh_name;
pub mod notifications;
pub mod report;
pub mod rig;
pub mod settings;
pub mod steady;
pub mod straggler;
pub mod tally;
