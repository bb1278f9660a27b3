//! What the generator of a simulated fleet may hold.

use std::time::Duration;

/// Messages that wait on one connection: at 2 500 a second, 26 s of a broker's absence. What
/// finds no room is counted as lost, as a node does it.
pub const QUEUE_MESSAGES_MAX: usize = 65_536;
/// Bytes of those messages.
pub const QUEUE_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Nodes of one fleet: more than an aggregator accepts.
pub const NODES_MAX: u32 = 20_000;
/// Connections of one fleet.
pub const CONNECTIONS_MAX: u32 = 64;
/// Silence about a message after which it is sent again.
pub const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Pause after a message was refused for reasons that pass.
pub const REFUSED_PAUSE: Duration = Duration::from_millis(100);
