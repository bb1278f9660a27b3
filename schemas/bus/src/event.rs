//! Where a connection's events come out, in the order in which they happened.

use plimsoll_schemas::transport::BusEvent;
use tokio::sync::mpsc;

/// Where a connection's events come out.
#[derive(Debug)]
pub struct BusEvents(pub(crate) mpsc::Receiver<BusEvent>);

impl BusEvents {
    /// The next event; `None` once the connection is closed and every event was returned.
    ///
    /// Cancel safe. It must be polled: while `limits::bus::EVENTS_MAX` events wait, no answer
    /// is read, and an answer that the client cannot keep is lost.
    pub async fn next(&mut self) -> Option<BusEvent> {
        self.0.recv().await
    }
}
