//! The threads of a process: the linked lists of its interpreters.

use crate::layout::{GilPlace, Layout, THREAD_INTERPRETER, THREAD_NEXT, THREAD_PREVIOUS};
use crate::limits::{INTERPRETERS_MAX, LIST_ATTEMPTS_MAX, THREADS_MAX};
use crate::memory::{Address, Memory, ReadError, Span, address, mapped, word};

/// One thread, as its state in memory shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ThreadState {
    pub(super) address: Address,
    pub(super) interpreter: Address,
    pub(super) native_id: u64,
    pub(super) gil: Address,
    /// The record of the current frame, or that frame; see [`Layout::current_frame`].
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
        let stack = ThreadStack {
            chunk: address(bytes, layout.stack_chunk),
            top: address(bytes, layout.stack_chunk + 8),
            limit: address(bytes, layout.stack_chunk + 16),
        };
        Self {
            address: at,
            interpreter: address(bytes, THREAD_INTERPRETER),
            native_id: word(bytes, layout.native_id),
            gil,
            current: address(bytes, layout.current_in_thread()),
            stack,
            previous: address(bytes, THREAD_PREVIOUS),
            next: address(bytes, THREAD_NEXT),
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
        next = mapped(memory.read_address(next.plus(layout.interpreter_next)))?.unwrap_or_default();
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
    let head = interpreter.plus(layout.threads_head);
    let mut next = mapped(memory.read_address(head))?.unwrap_or_default();
    let mut previous = Address::default();
    let mut threads = Vec::new();

    while !next.is_null() && threads.len() < THREADS_MAX {
        let state = Span { start: next, bytes: layout.thread_bytes() };
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
