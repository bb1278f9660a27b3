//! A process that can be read: its interpreter, its threads as the kernel sees them, and the watch
//! that it is still the same process running the same program.

pub mod activity;
pub mod elf;
pub(crate) mod file;
pub mod interpreter;
pub mod maps;
pub mod presence;

use activity::KernelThreads;
use interpreter::Interpreter;
use presence::Pin;

use crate::layout::Version;
use crate::memory::ReadError;
use crate::memory::process::ProcessMemory;
use crate::native::{Native, Wakes};
use crate::order::{Order, ProcessId};
use crate::probe;
use crate::reader::Reader;
use crate::refusal::Refusal;

/// All that a capture needs of a process.
pub struct Target {
    pub pin: Pin,
    pub threads: KernelThreads,
    /// Without an interpreter there are native stacks.
    pub python: Option<Python>,
    /// If they were ordered.
    pub native: Option<Native>,
}

/// An interpreter.
#[derive(Debug)]
pub struct Python {
    pub version: Version,
    pub reader: Reader<ProcessMemory>,
}

impl Target {
    /// Finds the interpreter of a process. The watch is older than all that follows, so that it is
    /// for the same process.
    ///
    /// # Errors
    /// When there is no such process, it may not be read, or it is not a CPython that is known and
    /// native stacks were not ordered.
    pub fn open(pin: Pin, order: &Order) -> Result<Self, Refusal> {
        let pid = order.pid;
        probe::readable(pid)?;

        let memory = ProcessMemory::new(pid);
        let python = match Interpreter::find(pid, &memory) {
            Ok(Interpreter { runtime, version, layout }) => {
                let reader = Reader::new(memory, layout, runtime, order.paths);
                Some(Python { version, reader })
            }
            Err(refusal) if order.native && refusal.is_of_interpreter() => None,
            Err(refusal) => return Err(refusal),
        };
        let wakes = if python.is_some() { Wakes::EachSample } else { Wakes::Never };
        let native = order.native.then(|| Native::open(order, wakes)).transpose()?;
        Ok(Self { pin, threads: KernelThreads::new(pid), python, native })
    }
}

impl Refusal {
    /// Whether native stacks can be read all the same.
    fn is_of_interpreter(&self) -> bool {
        matches!(self, Self::NotPython { .. } | Self::Version { .. } | Self::FreeThreaded { .. })
    }

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
