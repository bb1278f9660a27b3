//! The profiler on this machine, asked over its Unix socket: each capture on a thread of its
//! own, within a deadline. Whatever the profiler does, a capture ends with a state.
//!
//! DESIGN N93.

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use plimsoll_clock::Clock;
use plimsoll_schemas::limits::wire::{CAPTURE_PROFILE_BYTES_MAX, PROFILER_LINE_BYTES_MAX};
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::capture::{
    CaptureFacts, CaptureFailure, CaptureState, ProfilerOrder, ProfilerResponse,
};
use tokio::sync::mpsc;

use crate::config::CaptureSettings;
use crate::core::captures::{CaptureEnd, CaptureStart};
use crate::limits::{CAPTURES_AT_ONCE, PROFILER_WAIT};

pub struct Profiler {
    settings: CaptureSettings,
    ends: mpsc::Receiver<CaptureEnd>,
    sender: mpsc::Sender<CaptureEnd>,
}

impl Profiler {
    pub fn new(settings: &CaptureSettings) -> Self {
        // Room for those that were given up and the next.
        let (sender, ends) = mpsc::channel(2 * CAPTURES_AT_ONCE);
        Self { settings: settings.clone(), ends, sender }
    }

    /// Asks for a capture; [`Self::next`] returns how it ended.
    pub fn start(&self, start: CaptureStart) {
        let (settings, sender, id) = (self.settings.clone(), self.sender.clone(), start.id);
        let ask = move || {
            let end = ask(&settings, &start);
            // The driver has ended.
            let _unread = sender.blocking_send(end);
        };
        // The thread dies with the process, which closes the connection, which ends the capture.
        let spawned = std::thread::Builder::new().name("capture".to_owned()).spawn(ask);
        if let Err(error) = spawned {
            let end = CaptureEnd::failed(id, CaptureFailure::Other, error.to_string());
            let _full = self.sender.try_send(end);
        }
    }

    /// How the next capture ended; never without one. Cancel safe.
    pub async fn next(&mut self) -> CaptureEnd {
        match self.ends.recv().await {
            Some(end) => end,
            None => std::future::pending().await,
        }
    }
}

fn ask(settings: &CaptureSettings, start: &CaptureStart) -> CaptureEnd {
    let failed = |failure, fix| CaptureEnd::failed(start.id, failure, fix);
    let stream = match UnixStream::connect(&settings.socket) {
        Ok(stream) => stream,
        Err(error) => {
            return failed(CaptureFailure::NoProfiler, fix_of(&settings.socket, &error));
        }
    };
    let order = ProfilerOrder {
        pid: start.pid,
        seconds: start.seconds,
        hz: start.hz,
        full_paths: settings.full_paths,
        alive_at: start.alive_at,
    };

    let wait = Duration::from_secs(start.seconds.into()) + PROFILER_WAIT;
    match exchange(stream, &order, wait) {
        Ok(Exchanged { state, facts, profile }) => {
            CaptureEnd { id: start.id, state, facts, profile: profile.into() }
        }
        Err(error) => failed(failure_of(&error), format!("the profiler: {error}")),
    }
}

struct Exchanged {
    state: CaptureState,
    facts: CaptureFacts,
    profile: Vec<u8>,
}

fn exchange(
    mut stream: UnixStream,
    order: &ProfilerOrder,
    wait: Duration,
) -> io::Result<Exchanged> {
    let clock = Clock::start();
    let until = clock.now().mono.plus(wait);
    stream.set_write_timeout(Some(wait))?;
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    // A profiler that refuses the node closes the connection first; why is in what it has sent.
    let _refused = stream.write_all(&line);

    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            break end;
        }
        if bytes.len() > PROFILER_LINE_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        read_some(&mut stream, &mut bytes, clock, until)?;
    };

    let mut profile = bytes.split_off(end + 1);
    let response: ProfilerResponse = serde_json::from_slice(&bytes)?;
    let state = response.outcome().ok_or(ErrorKind::InvalidData)?;
    let size = usize::try_from(response.bytes).unwrap_or(usize::MAX);
    if size > CAPTURE_PROFILE_BYTES_MAX || (size > 0) != state.has_profile() {
        return Err(ErrorKind::InvalidData.into());
    }
    while profile.len() < size {
        read_some(&mut stream, &mut profile, clock, until)?;
    }
    if profile.len() > size {
        return Err(ErrorKind::InvalidData.into());
    }
    Ok(Exchanged { state, facts: response.facts, profile })
}

/// Reads once; a stream that ends or is silent until the deadline is an error.
fn read_some(
    stream: &mut UnixStream,
    bytes: &mut Vec<u8>,
    clock: Clock,
    until: Mono,
) -> io::Result<()> {
    let left = until.since(clock.now().mono);
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    let mut part = [0; 16 * 1024];
    match stream.read(&mut part)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        read => {
            bytes.extend_from_slice(&part[..read]);
            Ok(())
        }
    }
}

fn failure_of(error: &io::Error) -> CaptureFailure {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => CaptureFailure::ProfilerTimeout,
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            CaptureFailure::ProfilerEnded
        }
        _ => CaptureFailure::ProfilerResponse,
    }
}

fn fix_of(socket: &Path, error: &io::Error) -> String {
    let socket = socket.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => format!(
            "nothing listens on {socket} of captures.socket: systemctl enable --now \
             plimsoll-profiler.socket"
        ),
        _ => format!("{socket} of captures.socket: {error}"),
    }
}
