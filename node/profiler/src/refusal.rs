//! Why nothing was captured: one variant for each thing that a caller does differently.

use thiserror::Error;

use crate::layout::Version;
use crate::layout::table::SUPPORTED;
use crate::order::ProcessId;

#[derive(Debug, Error)]
pub enum Refusal {
    #[error(
        "process {0}: there is none in this /proc; it ended, or it runs in another pid namespace"
    )]
    NoProcess(ProcessId),
    #[error("process {pid}: its memory may not be read: {fix}")]
    Denied { pid: ProcessId, fix: String },
    #[error(
        "process {pid}: {program} is not CPython and loads no libpython: add --native for \
             the stacks of its own code"
    )]
    NotPython { pid: ProcessId, program: String },
    #[error("process {pid}: its native stacks may not be sampled: {fix}")]
    NotSampled { pid: ProcessId, fix: String },
    #[error("process {pid}: {path} was replaced since the process started: restart the process")]
    FileReplaced { pid: ProcessId, path: String },
    #[error("process {pid}: CPython {version} is not supported: it must be {SUPPORTED}")]
    Version { pid: ProcessId, version: Version },
    #[error("process {pid}: CPython {version} without the GIL is not supported")]
    FreeThreaded { pid: ProcessId, version: Version },
    #[error("process {0}: its interpreter has not started, or has ended: try again")]
    NotRunning(ProcessId),
    #[error(
        "process {0}: its C library does not show the numbers of threads, which CPython states since 3.11"
    )]
    ThreadNumbers(ProcessId),
    #[error("process {pid}: {what}: {error}")]
    Unreadable { pid: ProcessId, what: String, error: String },
}
