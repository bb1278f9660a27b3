//! The Unix signals that a process of the mesh handles.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalEvent {
    /// SIGTERM or SIGINT: drain and end.
    Shutdown,
    /// SIGHUP: read the configuration again.
    Reload,
}

/// Receives signals from its construction on.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Replaces the default action of the signals, which kills the process.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next signal. Cancel safe.
    pub async fn next(&mut self) -> SignalEvent {
        let ends = [&mut self.terminate, &mut self.interrupt];
        let [terminate, interrupt] = ends;
        let hangup = &mut self.hangup;
        std::future::poll_fn(|context| {
            if terminate.poll_recv(context).is_ready() || interrupt.poll_recv(context).is_ready() {
                return std::task::Poll::Ready(SignalEvent::Shutdown);
            }
            hangup.poll_recv(context).map(|_| SignalEvent::Reload)
        })
        .await
    }
}
