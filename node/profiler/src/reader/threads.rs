//! The threads of a process: the linked lists of its interpreters.

use crate::layout::{CurrentFrame, GilPlace, Layout};
use crate::limits::{INTERPRETERS_MAX, LIST_ATTEMPTS_MAX, THREADS_MAX};
use crate::memory::{Address, Memory, ReadError, Span, address, word};

/// One thread, as its state in memory shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ThreadState {
    pub(super) address: Address,
    pub(super) interpreter: Address,
    pub(super) native_id: u64,
    pub(super) gil: Address,
    /// The record of the current frame, or that frame; see [`CurrentFrame`].
    pub(super) current: Address,
    pub(super) stack: ThreadStack,
    previous: Address,
    next: Address,
}

/// Where a thread's frames are: from the start of the chunk in use to its top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadStack {
    pub(super) chunk: Address,
    pub(super) top: Address,
    pub(super) limit: Address,
}

#[derive(Debug, Default)]
pub(super) struct ListedThreads {
    pub(super) threads: Vec<ThreadState>,
    pub(super) is_torn: bool,
}

impl ThreadState {
    /// Decodes the state at `at`; the lock comes from the interpreter.
    pub(super) fn decode(layout: &Layout, at: Address, gil: Address, bytes: &[u8]) -> Self {
        let fields = &layout.thread;
        let current = match fields.current_frame {
            CurrentFrame::InThread(offset) | CurrentFrame::ByRecord { record: offset, .. } => {
                offset
            }
        };
        let stack = ThreadStack {
            chunk: address(bytes, fields.stack_chunk),
            top: address(bytes, fields.stack_chunk + 8),
            limit: address(bytes, fields.stack_chunk + 16),
        };
        Self {
            address: at,
            interpreter: address(bytes, fields.interpreter),
            native_id: word(bytes, fields.native_id),
            gil,
            current: address(bytes, current),
            stack,
            previous: address(bytes, fields.previous),
            next: address(bytes, fields.next),
        }
    }

    /// Whether `other`, read from the same place, is still this thread.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.interpreter == other.interpreter && self.native_id == other.native_id
    }
}

/// All threads of all interpreters of the runtime at `runtime`.
///
/// # Errors
/// When the process has ended, or its memory may not be read.
pub(super) fn list(
    memory: &impl Memory,
    layout: &Layout,
    runtime: Address,
) -> Result<ListedThreads, ReadError> {
    let mut listed = ListedThreads::default();
    for interpreter in interpreters(memory, layout, runtime)? {
        let gil = match layout.gil {
            GilPlace::InRuntime(offset) => runtime.plus(offset),
            GilPlace::ByInterpreter(offset) => {
                mapped(memory.read_address(interpreter.plus(offset)))?.unwrap_or_default()
            }
        };

        let mut threads = ListedThreads::default();
        for _ in 0..LIST_ATTEMPTS_MAX {
            threads = walk(memory, layout, interpreter, gil)?;
            if !threads.is_torn {
                break;
            }
        }
        listed.threads.extend(threads.threads);
        listed.is_torn |= threads.is_torn;
    }
    Ok(listed)
}

fn interpreters(
    memory: &impl Memory,
    layout: &Layout,
    runtime: Address,
) -> Result<Vec<Address>, ReadError> {
    let mut next = memory.read_address(runtime.plus(layout.interpreters_head))?;
    let mut found = Vec::new();
    while !next.is_null() && found.len() < INTERPRETERS_MAX && !found.contains(&next) {
        found.push(next);
        // One that ends meanwhile ends the list.
        next = mapped(memory.read_address(next.plus(layout.interpreter.next)))?.unwrap_or_default();
    }
    Ok(found)
}

/// The threads of an interpreter, link by link, as far as the links fit together.
fn walk(
    memory: &impl Memory,
    layout: &Layout,
    interpreter: Address,
    gil: Address,
) -> Result<ListedThreads, ReadError> {
    let head = interpreter.plus(layout.interpreter.threads_head);
    let mut next = mapped(memory.read_address(head))?.unwrap_or_default();
    let mut previous = Address::default();
    let mut threads = Vec::new();

    while !next.is_null() && threads.len() < THREADS_MAX {
        let state = Span { start: next, bytes: layout.thread.bytes() };
        let bytes = mapped(memory.read_span(state))?.unwrap_or_default();
        let thread = ThreadState::decode(layout, next, gil, &bytes);
        if thread.interpreter != interpreter || thread.previous != previous {
            break;
        }
        (previous, next) = (next, thread.next);
        threads.push(thread);
    }
    Ok(ListedThreads { threads, is_torn: !next.is_null() })
}

/// What was read, `None` where nothing is mapped any more.
fn mapped<T>(read: Result<T, ReadError>) -> Result<Option<T>, ReadError> {
    match read {
        Err(ReadError::Unmapped) => Ok(None),
        read => read.map(Some),
    }
}
