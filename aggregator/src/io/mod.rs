//! Where the aggregator touches the world beside the bus: HTTP. Decides nothing.

pub mod http;
