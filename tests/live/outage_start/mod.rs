//! How processes begin and end when something is missing: a broker, a port, a right setting.

mod absence;
mod usage;
