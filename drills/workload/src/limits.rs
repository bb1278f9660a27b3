//! What the workload beside a node may hold.

use std::time::Duration;

/// Samples that wait while the node is down; one more is counted as unsent.
pub const SAMPLES_MAX: usize = 65_536;
/// Wait for a full socket to take one datagram before training continues.
pub const SEND_WAIT: Duration = Duration::from_millis(100);
/// Pause after a datagram was not taken, before the next attempt.
pub const RETRY_EVERY: Duration = Duration::from_millis(50);
/// Wait at exit for the node to take what is queued.
pub const EXIT_WAIT: Duration = Duration::from_secs(2);
/// Time between two flushes of the raw file.
pub const RAW_FLUSH_EVERY: Duration = Duration::from_secs(1);
pub const KERNELS: usize = 8;
/// Bytes of one kernel.
pub const KERNEL_BYTES: usize = 256 * 1024;
/// Places for kernels in memory; half as many as kernels, so that hits and misses both occur.
pub const KERNELS_CACHED_MAX: usize = 4;
/// Bytes of the commands file that one hook reads; a longer line is no command.
pub const COMMANDS_BYTES_MAX: usize = 64 * 1024;
/// Milliseconds of extra work that a command may add to each hook.
pub const EXTRA_WORK_MS_MAX: u64 = 10_000;
/// Different complaints that are written to standard error.
pub const COMPLAINTS_MAX: usize = 64;
/// Bytes of one complaint.
pub const COMPLAINT_BYTES_MAX: usize = 256;
/// Bytes of a Unix socket's path on Linux, without its closing zero.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
