//! What the generator of a simulated fleet may hold.

use std::time::Duration;

/// Messages that wait on one connection: at 2 500 a second, 26 s of a broker's absence. What
/// finds no room is counted as lost, as a node does it.
pub const QUEUE_MESSAGES_MAX: usize = 65_536;
/// Bytes of those messages: one of the largest size (475 KiB) from each of 500 nodes.
pub const QUEUE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Nodes of one fleet: more than an aggregator accepts.
pub const NODES_MAX: u32 = 50_000;
/// Connections of one fleet: one for each node.
pub const CONNECTIONS_MAX: u32 = NODES_MAX;
/// Files that the drill opens beside its connections.
pub const OTHER_FILES_MAX: u64 = 256;
/// Connections opened a second at the start: what a mesh does after an outage.
pub const OPENED_PER_SECOND: u32 = 400;
/// Connections that are being opened at one time.
pub const OPENING_MAX: usize = 64;
/// Time in which all connections must be back after the broker was restarted.
pub const RECONNECTED_WITHIN: Duration = Duration::from_secs(60);
/// Connections that a broker may have to accept in any second meanwhile.
pub const CONNECTS_PER_SECOND_MAX: u32 = 500;
/// Silence about a message after which it is sent again.
pub const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Pause after a message was refused for reasons that pass.
pub const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// Length of an interval of a fast node: a hundred messages a second.
pub const FAST_INTERVAL: Duration = Duration::from_millis(10);
/// Nodes that send so often: together as many messages as ten thousand usual ones.
pub const FAST_NODES_MAX: u32 = 100;
/// Scrapers of the page of all nodes, each with one request at a time.
pub const SCRAPERS_MAX: u32 = 16;
/// Time between two requests of a scraper.
pub const SCRAPE_EVERY: Duration = Duration::from_millis(100);
