//! Registration of a descriptor with the runtime, to wait until it is readable.

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[expect(deprecated, reason = "its successor is unsafe; what we watch owns its descriptor")]
pub(super) fn watch<T: AsRawFd>(source: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(source, Interest::READABLE)
}
