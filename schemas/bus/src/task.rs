//! A background task that is aborted when its owner is dropped.

use tokio::task::JoinHandle;

/// Handle of a task that ends with its owner.
#[derive(Debug)]
pub(crate) struct AbortOnDrop(pub(crate) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
