//! The signals that a process of the mesh obeys.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What an operator asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// SIGTERM or SIGINT: drain and end.
    End,
    /// SIGHUP: read the configuration again.
    Reload,
}

/// Listens for signals from the moment it is made.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Takes the signals over from their default, which is to kill the process.
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

    /// The next thing asked. Cancel safe.
    pub async fn next(&mut self) -> Asked {
        let ends = [&mut self.terminate, &mut self.interrupt];
        let [terminate, interrupt] = ends;
        let hangup = &mut self.hangup;
        std::future::poll_fn(|context| {
            if terminate.poll_recv(context).is_ready() || interrupt.poll_recv(context).is_ready() {
                return std::task::Poll::Ready(Asked::End);
            }
            hangup.poll_recv(context).map(|_| Asked::Reload)
        })
        .await
    }
}
