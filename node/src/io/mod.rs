//! I/O of the node: sockets, sensors, HTTP, spool, broker. Decides nothing.

mod answers;
pub mod broker_connection;
pub mod captures;
mod connections;
pub mod cost;
pub mod frames;
pub mod hardware;
pub mod history;
pub mod http;
pub mod listen;
mod listen_error;
pub mod otlp;
mod private_file;
pub mod profiles;
mod readiness;
pub mod scrape;
mod segments;
pub mod spool;
mod unix_path;
