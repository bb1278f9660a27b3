//! The profiler on this machine, asked over its Unix socket: a task for each capture, within a
//! deadline. Whatever the profiler does, a capture ends with a state. Where it cannot read the
//! process, the client inside of that is asked, over a socket with the process's number.
//!
//! DESIGN N93, N94.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use plimsoll_schemas::limits::wire::{CAPTURE_PROFILE_BYTES_MAX, PROFILER_LINE_BYTES_MAX};
use plimsoll_schemas::wire::capture::{
    CaptureFailure, CaptureId, CaptureKind, CaptureState, ProfilerOrder, ProfilerResponse,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::config::CaptureSettings;
use crate::core::captures::{CaptureEnd, CaptureStart};
use crate::limits::PROFILER_WAIT;

/// What to change for a capture that only the client inside of a process can make.
const NO_CLIENT: &str = "start the job with PLIMSOLL_CAPTURES=1 and the Python client in it";

/// The half of a connection to a profiler whose end is the end of the capture: what was taken is
/// sent.
type WriteEnd = Mutex<Option<OwnedWriteHalf>>;

pub struct Profiler {
    settings: CaptureSettings,
    /// One task for each capture that runs, which the core bounds. They end with the node, which
    /// closes the connection, which ends the capture.
    captures: JoinSet<CaptureEnd>,
    /// What ends each of them early when it is dropped.
    open: BTreeMap<CaptureId, Arc<WriteEnd>>,
}

impl Profiler {
    pub fn new(settings: &CaptureSettings) -> Self {
        Self { settings: settings.clone(), captures: JoinSet::new(), open: BTreeMap::new() }
    }

    /// Asks for a capture; [`Self::next`] returns how it ended.
    pub fn start(&mut self, CaptureStart { id, order, from_outside: alone, .. }: CaptureStart) {
        let CaptureSettings { socket, full_paths, .. } = self.settings.clone();
        let order = ProfilerOrder { full_paths, ..order };
        let wait = Duration::from_secs(order.seconds.into()) + PROFILER_WAIT;
        let write_end = Arc::new(WriteEnd::default());
        let open = Arc::downgrade(&write_end);
        self.open.insert(id, write_end);
        self.captures.spawn(async move {
            let from_outside = match order.kind {
                CaptureKind::Cpu | CaptureKind::Past | CaptureKind::Continuous => {
                    ask(&socket, id, &order, wait, &open).await
                }
                // Only the client inside has them.
                CaptureKind::Memory | CaptureKind::Trace => {
                    CaptureEnd::failed(id, CaptureFailure::NotSupported, NO_CLIENT.to_owned())
                }
            };
            // It sees no native frames, and it is not to sample its own process all day.
            if alone || order.native || !is_for_client(from_outside.state) {
                return from_outside;
            }
            let fix = &from_outside.facts.fix;
            ask_client(id, &order, wait, fix, &open).await.unwrap_or(from_outside)
        });
    }

    /// Ends a capture with what was taken so far, where its profiler can.
    pub fn stop(&mut self, id: CaptureId) {
        self.open.remove(&id);
    }

    /// How the next capture ended; never without one. Cancel safe.
    pub async fn next(&mut self) -> CaptureEnd {
        match self.captures.join_next().await {
            Some(Ok(end)) => {
                self.open.remove(&end.id);
                end
            }
            // One that panicked is given up by the core.
            None | Some(Err(_)) => std::future::pending().await,
        }
    }
}

async fn ask(
    socket: &Path,
    id: CaptureId,
    order: &ProfilerOrder,
    wait: Duration,
    open: &Weak<WriteEnd>,
) -> CaptureEnd {
    let stream = match UnixStream::connect(socket).await {
        Ok(stream) => stream,
        Err(error) => {
            return CaptureEnd::failed(id, CaptureFailure::NoProfiler, fix_of(socket, &error));
        }
    };
    let exchanged = timeout(wait, exchange(stream, id, order, open)).await;
    exchanged.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())).unwrap_or_else(|error| {
        CaptureEnd::failed(id, failure_of(&error), format!("the profiler: {error}"))
    })
}

/// Whether the client inside of the process may have what could not be read from outside.
fn is_for_client(state: CaptureState) -> bool {
    use CaptureFailure::{Denied, NoProfiler, NotSupported, ProfilerRefused};
    matches!(state, CaptureState::Failed(Denied | NoProfiler | NotSupported | ProfilerRefused))
}

/// What the client answers; `None` if it does not listen, or another process does in its name.
async fn ask_client(
    id: CaptureId,
    order: &ProfilerOrder,
    wait: Duration,
    fix: &str,
    open: &Weak<WriteEnd>,
) -> Option<CaptureEnd> {
    let name = format!("\0plimsoll-captures.{}", order.pid);
    let stream = UnixStream::connect(name).await.ok()?;
    let listens = stream.peer_cred().ok()?.pid()?;
    if u32::try_from(listens) != Ok(order.pid) {
        return None;
    }

    let exchanged = timeout(wait, exchange(stream, id, order, open)).await;
    let mut end = match exchanged.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())) {
        Ok(end) => end,
        Err(error) => {
            let why = format!("the client inside of the process: {error}");
            return Some(CaptureEnd::failed(id, failure_of(&error), why));
        }
    };
    // What would let the profiler read it, which sees states of threads as well.
    if order.kind == CaptureKind::Cpu {
        fix.clone_into(&mut end.facts.fix);
    }
    Some(end)
}

async fn exchange(
    stream: UnixStream,
    id: CaptureId,
    order: &ProfilerOrder,
    open: &Weak<WriteEnd>,
) -> io::Result<CaptureEnd> {
    let (read, mut write) = stream.into_split();
    let mut stream = BufReader::new(read);
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    // A profiler that refuses the node closes the connection first; why is in what it has sent.
    let _refused = write.write_all(&line).await;
    // Of one that is stopped already it is closed here.
    match open.upgrade() {
        Some(open) => *open.lock().unwrap_or_else(PoisonError::into_inner) = Some(write),
        None => drop(write),
    }

    line.clear();
    let bytes_max = PROFILER_LINE_BYTES_MAX as u64;
    (&mut stream).take(bytes_max).read_until(b'\n', &mut line).await?;
    let ProfilerResponse { state, facts, bytes } = serde_json::from_slice(&line)?;

    let is_sized = bytes <= CAPTURE_PROFILE_BYTES_MAX as u64;
    if !state.is_final() || !is_sized || (bytes > 0) != state.has_profile() {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut profile = vec![0; usize::try_from(bytes).unwrap_or_default()];
    stream.read_exact(&mut profile).await?;
    if !stream.buffer().is_empty() {
        return Err(ErrorKind::InvalidData.into());
    }
    Ok(CaptureEnd { id, state, facts, profile: profile.into() })
}

fn failure_of(error: &io::Error) -> CaptureFailure {
    match error.kind() {
        ErrorKind::TimedOut => CaptureFailure::ProfilerTimeout,
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
