//! `plimsoll-profiler serve`: carries out orders that come over a Unix socket.
//!
//! Owns the socket and decides who may order: the kernel states the user of each connection.
//! `carry_out` decides which processes may be read and captures; [`settings`] has both lists. A
//! peer that closes its connection cancels its order. A connection has one order and ends after it.

mod carry_out;
pub mod settings;

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::libc::{EMFILE, ENFILE, ENOBUFS, ENOMEM};
use nix::sys::socket::sockopt::{AcceptConn, PeerCredentials, ReceiveTimeout};
use nix::sys::socket::{getsockopt, setsockopt};
use nix::sys::time::TimeVal;
use plimsoll_clock::{Clock, Deadline};
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::limits::wire::PROFILER_LINE_BYTES_MAX;
use plimsoll_schemas::wire::capture::{
    CaptureFacts, CaptureFailure, CaptureState, ProfilerOrder, ProfilerResponse,
};
use thiserror::Error;

use self::carry_out::{Outcome, carry_out};
use self::settings::Permitted;
use crate::limits::{
    ACCEPT_PAUSE, CANCELLED_WITHIN, ORDER_OVERDUE, ORDER_WAIT, ORDERS_AT_ONCE, RESPONSE_WAIT,
    SERVE_IDLE_SECONDS,
};
use crate::sampler::Cancel;
use crate::sampler::together::Together;

#[derive(Debug, Error)]
pub enum ServeError {
    #[error("socket: cannot listen on {path}: {error}")]
    Socket { path: String, error: io::Error },
    #[error(
        "standard input is not a listening Unix socket: start plimsoll-profiler.socket, or set \
         --set socket=PATH"
    )]
    Input,
    #[error("the socket accepts no connections: {0}")]
    Accept(io::Error),
    #[error("the system has no thread for captures: {0}")]
    Thread(io::Error),
}

struct Server {
    permitted: Permitted,
    /// Captures under way.
    busy: AtomicUsize,
    together: Together,
}

/// Serves until there was no order for a while, with a socket of its own for ever.
///
/// # Errors
/// When the socket cannot be used.
pub fn serve(socket: Option<&Path>, permitted: Permitted) -> Result<(), ServeError> {
    let listener = match socket {
        None => inherited()?,
        Some(path) => bind(path)
            .map_err(|error| ServeError::Socket { path: path.display().to_string(), error })?,
    };

    tracing::info!(?permitted, "profiler serves");
    let together = Together::start().map_err(ServeError::Thread)?;
    let server = Server { permitted, busy: AtomicUsize::new(0), together };
    thread::scope(|scope| {
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    if let Some(turn) = server.admit(&stream) {
                        let server = &server;
                        scope.spawn(move || server.serve(&stream, turn));
                    }
                }
                // A socket of the service manager, which starts the next one when it is needed.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if server.busy.load(Ordering::Acquire) == 0 {
                        return Ok(());
                    }
                }
                Err(error) if is_passing(&error) => {
                    tracing::warn!(%error, "connection not accepted: it is tried again");
                    Deadline::within(ACCEPT_PAUSE).pause(ACCEPT_PAUSE);
                }
                Err(error) => return Err(ServeError::Accept(error)),
            }
        }
    })
}

/// Whether the next connection may be accepted all the same: this one is gone, or what it needs is
/// short for now.
fn is_passing(error: &io::Error) -> bool {
    let is_short = |code| [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(&code);
    let is_gone =
        matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted);
    is_gone || error.raw_os_error().is_some_and(is_short)
}

/// The socket that the service manager listens on: standard input, which needs no unsafe code, as
/// another descriptor would.
fn inherited() -> Result<UnixListener, ServeError> {
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(|_| ServeError::Input)?;
    let listener = match getsockopt(&input, AcceptConn) {
        Ok(true) => UnixListener::from(input),
        _ => return Err(ServeError::Input),
    };
    listener.local_addr().map_err(|_| ServeError::Input)?;

    let idle = TimeVal::new(SERVE_IDLE_SECONDS, 0);
    setsockopt(&listener, ReceiveTimeout, &idle)
        .map_err(|error| ServeError::Accept(error.into()))?;
    listener.set_nonblocking(false).map_err(ServeError::Accept)?;
    Ok(listener)
}

/// Any user may connect: the kernel states who did.
fn bind(path: &Path) -> io::Result<UnixListener> {
    if UnixStream::connect(path)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    {
        // The file of a dead process.
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// The right to capture; the next order may come once it is dropped.
struct Turn<'a>(&'a AtomicUsize);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Server {
    fn admit(&self, stream: &UnixStream) -> Option<Turn<'_>> {
        // Before a byte is read: no other user can occupy the service.
        let peer = getsockopt(stream, PeerCredentials).map(|peer| peer.uid()).ok();
        if peer.is_none_or(|peer| !self.permitted.peers.contains(&peer)) {
            tracing::warn!(user = peer, "order refused: add its user to allow_peers");
            let fix = "allow_peers of plimsoll-profiler lacks the node's user".to_owned();
            refuse(stream, CaptureFailure::ProfilerRefused, fix);
            return None;
        }
        // Counted first: whatever comes of it, the turn is given back.
        let before = self.busy.fetch_add(1, Ordering::AcqRel);
        let turn = Turn(&self.busy);
        if before >= ORDERS_AT_ONCE {
            refuse(stream, CaptureFailure::ProfilerBusy, String::new());
            return None;
        }
        Some(turn)
    }

    fn serve(&self, stream: &UnixStream, turn: Turn<'_>) {
        let order = match read_order(stream) {
            Ok(order) => order,
            Err(error) => {
                tracing::warn!(%error, "order cannot be read");
                drop(turn);
                let fix = format!("the profiler cannot read the order: {error}");
                return refuse(stream, CaptureFailure::Other, fix);
            }
        };

        let cancel = Cancel::default();
        let (done, carried_out) = mpsc::channel();
        let length = Duration::from_secs(order.seconds.into());
        let deadline = Deadline::within(length + ORDER_OVERDUE);
        thread::scope(|scope| {
            let cancelled = &cancel;
            scope.spawn(move || {
                if !is_in_time(stream, cancelled, deadline, &carried_out) {
                    tracing::error!(pid = order.pid, "order hangs: the service ends");
                    std::process::exit(Exit::Failure as i32);
                }
            });

            let Outcome { state, facts, profile } =
                carry_out(&order, &self.permitted.owners, &self.together, &cancel);
            let _watching = done.send(());
            // Before the response: a peer that has it may order again.
            drop(turn);
            let (outcome, reason) = state.labels();
            let samples = facts.samples;
            if state == CaptureState::Kept {
                // A node that profiles all the time orders some each second.
                tracing::debug!(pid = order.pid, samples, "order carried out");
            } else {
                let fix = &facts.fix;
                tracing::info!(pid = order.pid, outcome, reason, samples, fix, "order carried out");
            }
            let response = ProfilerResponse { state, facts, bytes: profile.len() as u64 };
            respond(stream, &response, &profile);
            let _closed = stream.shutdown(Shutdown::Both);
        });
    }
}

/// Waits until an order is carried out, and cancels it when its peer closes the connection; false
/// when it hangs.
fn is_in_time(
    mut stream: &UnixStream,
    cancel: &Cancel,
    deadline: Deadline,
    carried_out: &Receiver<()>,
) -> bool {
    // It ends when the peer closes the connection, when it is shut down, and in time. One that was
    // stopped and goes on reads again.
    let mut is_interrupted = true;
    while is_interrupted {
        let left = deadline.remaining().max(Duration::from_millis(1));
        let ended = stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut [0]));
        is_interrupted = ended.is_err_and(|error| error.kind() == io::ErrorKind::Interrupted);
    }
    cancel.cancel();
    let left = deadline.remaining().max(CANCELLED_WITHIN);
    carried_out.recv_timeout(left) != Err(RecvTimeoutError::Timeout)
}

/// The line of the order, within a time whatever the pace it comes at.
fn read_order(mut stream: &UnixStream) -> io::Result<ProfilerOrder> {
    let clock = Clock::start();
    let started = clock.now().mono;
    let mut line = Vec::new();

    while line.last() != Some(&b'\n') {
        let left = ORDER_WAIT.saturating_sub(clock.now().mono.since(started));
        if left.is_zero() || line.len() >= PROFILER_LINE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut part = [0; 512];
        match stream.read(&mut part) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => line.extend_from_slice(&part[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }

    stream.set_read_timeout(None)?;
    Ok(serde_json::from_slice(&line)?)
}

fn refuse(stream: &UnixStream, failure: CaptureFailure, fix: String) {
    let facts = CaptureFacts { fix, ..CaptureFacts::default() };
    let state = CaptureState::Failed(failure);
    respond(stream, &ProfilerResponse { state, facts, bytes: 0 }, &[]);
}

/// A peer that is gone, or does not read, gets no response.
fn respond(mut stream: &UnixStream, response: &ProfilerResponse, profile: &[u8]) {
    let Ok(mut line) = serde_json::to_vec(response) else { return };
    line.push(b'\n');
    let _written = stream
        .set_write_timeout(Some(RESPONSE_WAIT))
        .and_then(|()| stream.write_all(&line))
        .and_then(|()| stream.write_all(profile));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_hangs_is_overdue_whether_its_peer_waits_or_not() {
        let short = || Deadline::within(Duration::from_millis(50));
        for is_peer_gone in [false, true] {
            let (stream, peer) = UnixStream::pair().unwrap();
            let _peer = (!is_peer_gone).then_some(peer);
            let (_done, carried_out) = mpsc::channel();
            let cancel = Cancel::default();
            assert!(!is_in_time(&stream, &cancel, short(), &carried_out));
            assert!(cancel.wait(Duration::ZERO), "it is cancelled");
        }

        let (stream, _peer) = UnixStream::pair().unwrap();
        let (done, carried_out) = mpsc::channel();
        done.send(()).unwrap();
        stream.shutdown(Shutdown::Both).unwrap();
        assert!(is_in_time(&stream, &Cancel::default(), short(), &carried_out));
    }

    #[test]
    fn what_is_short_for_now_ends_no_service() {
        for code in [EMFILE, ENFILE, ENOBUFS, ENOMEM] {
            assert!(is_passing(&io::Error::from_raw_os_error(code)), "{code}");
        }
        assert!(is_passing(&io::ErrorKind::ConnectionAborted.into()));
        assert!(!is_passing(&io::Error::from_raw_os_error(nix::libc::EBADF)));
    }
}
