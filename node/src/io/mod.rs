//! Where the node touches the world: sockets, sensors, HTTP. Decides nothing.

pub mod cost;
pub mod frames;
pub mod hardware;
pub mod http;
pub mod link;
pub mod listen;
pub mod otlp;
pub mod scrape;
pub mod spool;
mod unix_path;
