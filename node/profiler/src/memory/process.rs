//! The memory of a running process, by `process_vm_readv`: it needs no ptrace and pauses nothing.

use std::cell::Cell;
use std::io::IoSliceMut;

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::time::nanos;

use super::{Memory, Pass, ReadError, Span};
use crate::limits::SPANS_PER_CALL_MAX;
use crate::order::ProcessId;

#[derive(Debug)]
pub struct ProcessMemory {
    pid: Pid,
    /// Moving median of the time of calls, in percent of [`usual_nanos`].
    pace: Cell<u64>,
}

impl ProcessMemory {
    pub fn new(pid: ProcessId) -> Self {
        Self { pid: Pid::from_raw(pid.0), pace: Cell::new(100) }
    }
}

impl Memory for ProcessMemory {
    fn read(&self, spans: &[Span], mut into: &mut [u8]) -> Result<(), ReadError> {
        for part in spans.chunks(SPANS_PER_CALL_MAX) {
            let remote: Vec<RemoteIoVec> = part.iter().filter_map(remote).collect();
            let wanted: usize = remote.iter().map(|range| range.len).sum();
            if remote.len() < part.len() || wanted > into.len() {
                return Err(ReadError::Unmapped);
            }

            let (here, rest) = into.split_at_mut(wanted);
            let read = process_vm_readv(self.pid, &mut [IoSliceMut::new(here)], &remote)?;
            if read < wanted {
                return Err(ReadError::Unmapped);
            }
            into = rest;
        }
        Ok(())
    }

    fn read_at_once(&self, spans: &[Span], into: &mut [u8]) -> Result<Pass, ReadError> {
        let watch = Stopwatch::start();
        self.read(spans, into)?;
        let taken = 100 * nanos(watch.elapsed()) / usual_nanos(spans);

        let pace = self.pace.get();
        let step = pace / 16 + 1;
        let moved = if taken > pace { pace + step } else { pace - step };
        self.pace.set(moved.clamp(PACE_MIN, PACE_MAX));
        Ok(if taken <= 2 * pace { Pass::Quick } else { Pass::Interrupted })
    }
}

/// Machines differ by less. One on which each call takes longer still interrupts them.
const PACE_MIN: u64 = 25;
const PACE_MAX: u64 = 400;

/// Some 0.3 µs for a range, and 0.1 µs for 1 KiB.
fn usual_nanos(spans: &[Span]) -> u64 {
    let bytes: usize = spans.iter().map(|span| span.bytes).sum();
    (1_000 + 200 * spans.len() + bytes / 12) as u64
}

fn remote(span: &Span) -> Option<RemoteIoVec> {
    let base = usize::try_from(span.start.0).ok()?;
    Some(RemoteIoVec { base, len: span.bytes })
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ESRCH => Self::Ended,
            Errno::EPERM | Errno::EACCES => Self::Denied,
            Errno::ENOSYS => Self::NoCall,
            _ => Self::Unmapped,
        }
    }
}
