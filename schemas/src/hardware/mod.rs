//! Sensors: the catalogue of all sensors of the mesh, and the content of one reading.
//!
//! The catalogue is the single source of names: a node sends only sensors of the catalogue, an
//! aggregator exports those and counts the others. Refuses to read hardware: the node agent does.

mod catalogue;
mod reading;

pub use catalogue::*;
pub use reading::{MissingReading, Reading, SensorState};
