//! Limits of every HTTP server of the mesh, of the restarts of tasks, and of reading a key again.

use std::time::Duration;

/// Time after which the file of the key of confirmations is looked at again.
pub const CONFIRM_KEY_CHECKED_EVERY: Duration = Duration::from_secs(5);
/// Bytes of one request's body.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Time one request may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Queries that wait for the driver.
pub const QUERIES_MAX: usize = 64;
/// Connections that are open at once. A Prometheus needs one, each open page a few; what a
/// connection holds beside its answer is at most [`BUFFER_BYTES_MAX`] read and as many written.
pub const CONNECTIONS_MAX: usize = 256;
/// Fair share of connections per address. When all connections are in use, the address with the
/// most above its share loses one first.
pub const ADDRESS_SHARE: usize = 16;
/// Bytes of a request's head, and of an answer copied before it is written. Bodies are shared,
/// not copied.
pub const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Unsent response bytes of all clients together. One body of any size is always allowed. Four
/// scrapes of ten thousand nodes with all their series.
pub const UNSENT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes that the kernel may hold of one answer: it counts them twice, so 128 MiB in all.
pub const SEND_BUFFER_BYTES: u32 = 256 * 1024;
/// Time from the end of the last answer, or the start of the connection, to the end of the next
/// request head. No usual scrape interval, so that no connection is closed while the next request
/// is on its way.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which a client receives nothing of its answer. The kernel accepts more only when a third
/// of its buffer is free: a client slower than 8 KiB a second counts as stalled.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that wait to be accepted; the kernel may have a lower limit.
pub const BACKLOG: u32 = 1_024;
/// Pause after a failed accept, which occurs when the process has no free file descriptor.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time for requests in progress when the process ends.
pub const END_WAIT: Duration = Duration::from_secs(1);
/// Requests of one HTTP/2 connection at a time.
pub const STREAMS_MAX: u32 = 4;
/// Bytes of each of them that are read ahead of its handler.
pub const STREAM_WINDOW_BYTES: u32 = 32 * 1024;
/// Bytes of the head of one of them.
pub const HEADER_LIST_BYTES_MAX: u32 = 16 * 1024;
/// Bytes that are read of a body which states why a server refused a request of ours.
pub const REFUSAL_BYTES_MAX: usize = 2 * 1024;
/// Time that is waited for them, beside the time of the request itself.
pub const REFUSAL_WAIT: Duration = Duration::from_millis(250);
/// Minimum bytes of a token of HTTP: 16 random letters cannot be guessed.
pub const TOKEN_BYTES_MIN: usize = 16;
/// Time after which the files of a certificate are looked at again, when a connection comes.
pub const CERTIFICATE_CHECK_EVERY: Duration = Duration::from_secs(5);
/// Pause before a task that ended is started again for the first time; it doubles, and each pause
/// varies by a quarter, so that tasks that fail together do not start together.
pub const RESTART_PAUSE_MIN: Duration = Duration::from_secs(2);
/// Longest such pause, before it varies.
pub const RESTART_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Time after which a task that still runs counts as recovered: its next pause is the shortest.
pub const RESTART_RESET_AFTER: Duration = Duration::from_secs(60);
