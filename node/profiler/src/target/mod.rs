//! A process that can be read: its interpreter, its threads as the kernel sees them, and the watch
//! that it is still the same process running the same program.

pub mod activity;
pub mod elf;
mod file;
pub mod interpreter;
pub mod maps;
pub mod presence;

use activity::KernelThreads;
use interpreter::Interpreter;
use presence::Pin;

use crate::layout::Version;
use crate::memory::ReadError;
use crate::memory::process::ProcessMemory;
use crate::order::{Order, ProcessId};
use crate::probe;
use crate::reader::Reader;
use crate::refusal::Refusal;

/// All that a capture needs of a process.
#[derive(Debug)]
pub struct Target {
    pub version: Version,
    pub pin: Pin,
    pub threads: KernelThreads,
    pub reader: Reader<ProcessMemory>,
}

impl Target {
    /// Finds the interpreter of a process. The watch is older than all that follows, so that it is
    /// for the same process.
    ///
    /// # Errors
    /// When there is no such process, it may not be read, or it is not a CPython that is known.
    pub fn open(pin: Pin, order: &Order) -> Result<Self, Refusal> {
        let pid = order.pid;
        probe::readable(pid)?;

        let memory = ProcessMemory::new(pid);
        let Interpreter { runtime, version, layout } = Interpreter::find(pid, &memory)?;
        let threads = KernelThreads::new(pid);
        let reader = Reader::new(memory, layout, runtime, order.paths);
        Ok(Self { version, pin, threads, reader })
    }
}

impl Refusal {
    /// Of a read that failed while the interpreter was sought.
    pub(crate) fn unreadable(pid: ProcessId, what: &str, error: ReadError) -> Self {
        match error {
            ReadError::Ended => Self::NoProcess(pid),
            ReadError::Denied | ReadError::NoCall | ReadError::Unmapped => {
                Self::Unreadable { pid, what: what.to_owned(), error: error.to_string() }
            }
        }
    }
}
