//! Where the aggregator touches the world: the lanes it reads, the pages it shows, the file of
//! its state. Decides nothing but whose turn it is.

pub mod confirmations;
pub mod http;
pub mod keeper;
pub mod lanes;
pub mod notify;
pub mod rules;
pub mod store;
