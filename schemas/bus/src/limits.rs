//! What the connection to the broker may hold.

use std::time::Duration;

/// Commands inside the NATS client; small, because what waits there cannot be counted.
pub const CLIENT_COMMANDS_MAX: usize = 256;
/// Messages buffered for one subscription. Counted in messages, not bytes, by the client:
/// without streams no request bounds the bytes, and 320 of 512 KiB make 160 MiB.
pub const SUBSCRIPTION_MESSAGES_MAX: usize = 320;
/// Messages handed over and not yet written.
pub const PUBLISH_QUEUE_MAX: usize = 128;
/// Events that wait for the driver.
pub const EVENTS_MAX: usize = 512;
/// Wait for the NATS client to take one message.
pub const HAND_OVER_WAIT: Duration = Duration::from_secs(1);
/// Messages handed over and not yet answered. Below [`SUBSCRIPTION_MESSAGES_MAX`]: the client
/// drops an answer that finds its subscription full.
pub const UNANSWERED_MAX: usize = 192;
/// Time between two probes of the broker.
pub const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Silence after which a connected broker counts as stalled; on a new connection
/// [`ROUND_TRIP_MAX`] more.
pub const STALL_AFTER: Duration = Duration::from_secs(3);
/// Longest round trip of a link.
pub const ROUND_TRIP_MAX: Duration = Duration::from_secs(3);
/// Longest pause between two attempts to do something again, except connects.
pub const RETRY_DELAY_MAX: Duration = Duration::from_secs(2);
/// Longest pause between two attempts to connect, unless the configuration sets another.
pub const RECONNECT_MAX: Duration = Duration::from_secs(60);
/// Longest such pause of a small mesh, so that it recovers soon after an outage.
pub const RECONNECT_SMALL_MAX: Duration = Duration::from_secs(2);
/// Wait for a connection: TCP, the broker's greeting, TLS and the first response take a round trip
/// each, of [`ROUND_TRIP_MAX`] at most.
pub const CONNECT_WAIT: Duration = Duration::from_secs(15);
/// Wait for an answer of the JetStream API.
pub const REQUEST_WAIT: Duration = Duration::from_secs(5);
/// Age at which a stream drops a message.
pub const STREAM_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Bytes at which a stream drops its oldest messages.
pub const STREAM_BYTES_MAX: i64 = 1024 * 1024 * 1024;
/// Span within which the broker recognises a message sent twice.
pub const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);
/// Time between two pings of the NATS client itself; three unanswered ones end a connection, so a
/// round trip behind what is on its way may take nine seconds.
pub const PING_EVERY: Duration = Duration::from_secs(3);
/// First pause before something is tried again; it doubles up to [`RETRY_DELAY_MAX`].
pub const RETRY_DELAY_MIN: Duration = Duration::from_millis(25);
/// Bytes below which a stream is not worth creating on a broker with little disk.
pub const STREAM_BYTES_MIN: i64 = 16 * 1024 * 1024;
/// Bytes at which the stream of notifications drops its oldest.
pub const ALERT_STREAM_BYTES_MAX: i64 = 64 * 1024 * 1024;
/// Requests about a stream until its broker has finished creating it, [`RETRY_DELAY_MIN`] apart.
pub const UNFINISHED_TRIES_MAX: u32 = 40;
/// Other meshes of a broker that the warning about a new one names.
pub const OTHER_MESHES_NAMED: usize = 8;
/// Bytes at which the stream of dead letters drops its oldest.
pub const DEAD_STREAM_BYTES_MAX: i64 = 64 * 1024 * 1024;
/// Queued messages without an acknowledgement.
pub const UNACKNOWLEDGED_MAX: usize = 1_024;
/// Age at which such a message is dropped.
pub const UNACKNOWLEDGED_AGE_MAX: Duration = Duration::from_secs(1);
/// Shortest time between two checks that the streams exist.
pub const STREAM_CHECK_EVERY: Duration = Duration::from_secs(1);
/// Time between two attempts to create streams that could not be created.
pub const STREAM_RETRY_EVERY: Duration = Duration::from_secs(5);
/// Rest between finding a stream missing and creating it: an operator may create it anew, and a
/// broker loses the files of a stream that is created while it still deletes the former one.
pub const STREAM_MISSING_REST: Duration = Duration::from_secs(2);
/// Pause after everything was read, so that what comes in meanwhile costs the broker and the
/// reader one turn together; the longest that it delays a message.
pub const PULL_REST: Duration = Duration::from_millis(20);
/// Messages requested of the broker at one time; below [`SUBSCRIPTION_MESSAGES_MAX`], so that the
/// client never drops one. Measured: four times as many are read no faster.
pub const PULL_MESSAGES_MAX: usize = 256;
/// Bytes requested of the broker at one time.
pub const PULL_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Time after which the broker ends a request that it could not fill.
pub const PULL_EXPIRES: Duration = Duration::from_secs(5);
/// Time between two signs of life of the broker while it has nothing to deliver.
pub const PULL_HEARTBEAT: Duration = Duration::from_secs(1);
/// Connections lost in a row while the next message is awaited, from which on messages are read one
/// by one: their headers may be what ends the connection.
pub const LOSSES_MAX: u32 = 2;
/// Time for which they are then read so: the sender of one such message may send more.
pub const APART_FOR: Duration = Duration::from_secs(10);
/// Messages requested at one time meanwhile. Each may be as large as the broker permits.
pub const APART_AHEAD: usize = 8;
/// Messages read from a stream or a subject that wait for the driver.
pub const CURSOR_EVENTS_MAX: usize = 64;
/// Time after which the broker deletes a consumer without requests.
pub const CONSUMER_IDLE_MAX: Duration = Duration::from_secs(30);
/// Time in which a connection must be closed.
pub const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// Time without a connection after which a process logs it.
pub const ABSENCE_LOGGED_AFTER: Duration = Duration::from_secs(2);
/// Time between further logs of the same absence.
pub const ABSENCE_LOGGED_EVERY: Duration = Duration::from_secs(60);
/// Time between two checks of how full a stream is: one request for each lane of an aggregator.
pub const STREAM_USE_EVERY: Duration = Duration::from_secs(5);
/// Consumers opened in a row for one message that is due: each may be on another of three servers,
/// and one of 81 times none of four is. A message that was deleted is awaited no longer.
pub const BEHIND_TRIES_MAX: u32 = 4;
/// Bytes of the bucket of leases: 64 partitions' names of owners, and what NATS stores beside them.
pub const LEASE_BUCKET_BYTES_MAX: i64 = 1024 * 1024;
/// Leases read at one time.
pub const LEASES_READ_AHEAD: usize = 8;
/// Bytes of a file with a secret.
pub const SECRET_BYTES_MAX: u64 = 64 * 1024;
/// Bytes of a file with certificates or a key.
pub const CERTIFICATE_BYTES_MAX: u64 = 1024 * 1024;
