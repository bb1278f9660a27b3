//! Where the aggregator touches the world: the lanes it reads, the pages it shows. Decides
//! nothing but whose turn it is.

pub mod http;
pub mod lanes;
