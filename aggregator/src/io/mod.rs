//! Where the aggregator touches the world beside the bus: HTTP, and the file of its state.
//! Decides nothing.

pub mod http;
pub mod keeper;
pub mod store;
