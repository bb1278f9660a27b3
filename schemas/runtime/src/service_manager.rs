//! What systemd, or another service manager that sets `NOTIFY_SOCKET`, is sent: that the process is
//! ready, that its driver still turns, that it is ending. Without that variable nothing is sent.
//!
//! The watchdog is fed by the driver's own loop, so that a driver that hangs is restarted.
//!
//! DESIGN S62.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use plimsoll_schemas::time::Mono;
use sd_notify::NotifyState;

/// The connection to the service manager.
#[derive(Debug)]
pub struct ServiceManager {
    /// Half of the time after which a silent process is restarted; `None` without a watchdog.
    fed_every: Option<Duration>,
    feed_at: Mono,
}

impl ServiceManager {
    /// Reports that the process is ready.
    pub fn ready(now: Mono) -> Self {
        send(&[NotifyState::Ready]);
        Self::with_watchdog(sd_notify::watchdog_enabled(), now)
    }

    fn with_watchdog(restarted_after: Option<Duration>, now: Mono) -> Self {
        Self { fed_every: restarted_after.map(|span| span / 2), feed_at: now }
    }

    /// When the watchdog must be fed next.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.fed_every.map(|_| self.feed_at)
    }

    /// Feeds the watchdog if it is time.
    pub fn on_turn(&mut self, now: Mono) {
        if self.is_due(now) {
            send(&[NotifyState::Watchdog]);
        }
    }

    fn is_due(&mut self, now: Mono) -> bool {
        let Some(every) = self.fed_every.filter(|_| self.feed_at <= now) else { return false };
        self.feed_at = now.plus(every);
        true
    }

    /// Reports that the process is ending, which may take a while.
    pub fn stopping(&self) {
        send(&[NotifyState::Stopping]);
    }
}

fn send(states: &[NotifyState<'_>]) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = notify(&socket, states) {
        tracing::warn!(%error, ?socket, "service manager cannot be notified: see NOTIFY_SOCKET");
    }
}

/// Sends states to a socket, which is a path, or in the abstract name space if it begins with `@`.
fn notify(socket: &OsStr, states: &[NotifyState<'_>]) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let text: String = states.iter().map(|state| format!("{state}\n")).collect();
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_socket_is_a_path_or_an_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("plimsoll-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        for (receiver, socket) in [
            (UnixDatagram::bind(&path), path.into_os_string()),
            (UnixDatagram::bind_addr(&abstract_address), format!("@{name}").into()),
        ] {
            notify(&socket, &[NotifyState::Ready, NotifyState::Watchdog]).unwrap();
            let mut text = [0; 64];
            let length = receiver.unwrap().recv(&mut text).unwrap();
            assert_eq!(&text[..length], b"READY=1\nWATCHDOG=1\n", "{socket:?}");
        }
    }

    #[test]
    fn the_watchdog_is_fed_in_half_of_its_time() {
        let mut manager = ServiceManager::with_watchdog(Some(Duration::from_secs(30)), Mono(0));
        let fed = (0..60).filter(|second| manager.is_due(Mono(second * SECOND))).count();
        assert_eq!(fed, 4, "at 0, 15, 30 and 45 s");
        assert_eq!(manager.next_deadline(), Some(Mono(60 * SECOND)));
    }

    #[test]
    fn without_a_watchdog_no_driver_wakes_for_it() {
        let mut manager = ServiceManager::with_watchdog(None, Mono(0));
        assert_eq!(manager.next_deadline(), None);
        assert!(!manager.is_due(Mono(60 * SECOND)));
    }
}
