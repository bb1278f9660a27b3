//! What every HTTP server of the mesh may take on.

use std::time::Duration;

/// Bytes of one request's body.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Time one request may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Questions that wait for the driver.
pub const QUERIES_MAX: usize = 64;
/// Connections that are open at once. A Prometheus needs one, each open page a few; what a
/// connection holds beside its answer is at most [`BUFFER_BYTES_MAX`] read and as many written.
pub const CONNECTIONS_MAX: usize = 256;
/// Connections of one address that nobody calls many: above it, the address with the most
/// is the first to lose one when all are taken.
pub const ADDRESS_SHARE: usize = 16;
/// Bytes of a request's head, and of an answer copied before it is written. Bodies are shared,
/// not copied.
pub const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Bytes of bodies that clients have asked for and not taken yet. One body always may be
/// owed, however large. Four scrapes of ten thousand nodes with all their series.
pub const OWED_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes that the kernel may hold of one answer: it counts them twice, so 128 MiB in all.
pub const SEND_BUFFER_BYTES: u32 = 256 * 1024;
/// Time from the end of the last answer, or the connection's begin, to the end of the next
/// request's head. Beside the usual intervals of scrapes, so that no connection is closed just
/// when the next request is on its way.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which a client takes nothing of its answer. The kernel takes more only when a third
/// of its buffer is free: slower than 8 KiB a second is not at all.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that wait to be taken; the kernel may keep it lower.
pub const BACKLOG: u32 = 1_024;
/// Pause after a connection could not be taken, which is when the process has no file left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time that answers may take when the process ends.
pub const END_WAIT: Duration = Duration::from_secs(1);
/// Requests of one HTTP/2 connection at a time.
pub const STREAMS_MAX: u32 = 4;
/// Bytes of each of them that are read ahead of whoever answers it.
pub const STREAM_WINDOW_BYTES: u32 = 32 * 1024;
/// Bytes of the head of one of them.
pub const HEADER_LIST_BYTES_MAX: u32 = 16 * 1024;
