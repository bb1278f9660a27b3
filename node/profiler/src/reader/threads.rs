//! The threads of a process: the linked lists of its interpreters.

use crate::layout::{
    GIL_BYTES, GIL_HOLDER, GIL_LOCKED, GilPlace, Layout, THREAD_INTERPRETER, THREAD_NEXT,
    THREAD_PREVIOUS, ThreadNumber,
};
use crate::limits::{INTERPRETERS_MAX, LIST_ATTEMPTS_MAX, THREADS_MAX};
use crate::memory::{Address, Memory, ReadError, Span, address, half, mapped, word};

/// One thread, as its state in memory shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ThreadState {
    pub(super) address: Address,
    pub(super) interpreter: Address,
    /// Its number, or what leads to it; see [`Layout::thread_number`].
    pub(super) number: u64,
    /// Its number in the kernel; 0 of one that ended.
    pub(super) native_id: u64,
    pub(super) lock: Lock,
    /// The record of the current frame, or that frame; see [`Layout::current_frame`].
    pub(super) current: Address,
    pub(super) stack: ThreadStack,
    previous: Address,
    next: Address,
}

/// Where a thread's frames are: from the start of the chunk in use to its top. Empty when they are
/// objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadStack {
    pub(super) chunk: Address,
    pub(super) top: Address,
    pub(super) limit: Address,
}

/// The lock of a thread's interpreter, and what happens under it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lock {
    pub(super) gil: Address,
    /// The thread that holds it.
    pub(super) holder: Option<Address>,
    pub(super) is_collecting: bool,
}

#[derive(Debug, Default)]
pub(super) struct ListedThreads {
    pub(super) threads: Vec<ThreadState>,
    pub(super) is_torn: bool,
}

impl ThreadState {
    /// Decodes the state at `at`; the lock comes from the interpreter.
    pub(super) fn decode(layout: &Layout, at: Address, lock: Lock, bytes: &[u8]) -> Self {
        let stack = layout.stack_chunk().map(|chunk| ThreadStack {
            chunk: address(bytes, chunk),
            top: address(bytes, chunk + 8),
            limit: address(bytes, chunk + 16),
        });
        let number = word(bytes, layout.thread_number_field());
        Self {
            address: at,
            interpreter: address(bytes, THREAD_INTERPRETER),
            number,
            native_id: number,
            lock,
            current: address(bytes, layout.current_in_thread()),
            stack: stack.unwrap_or_default(),
            previous: address(bytes, THREAD_PREVIOUS),
            next: address(bytes, THREAD_NEXT),
        }
    }

    /// Whether `other`, read from the same place, is still this thread.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.interpreter == other.interpreter && self.number == other.number
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
    for Interpreter { address: interpreter, lock } in interpreters(memory, layout, runtime)? {
        let mut threads = ListedThreads::default();
        for _ in 0..LIST_ATTEMPTS_MAX {
            threads = walk(memory, layout, interpreter, lock)?;
            if !threads.is_torn {
                break;
            }
        }
        listed.threads.extend(threads.threads);
        listed.is_torn |= threads.is_torn;
    }
    if let ThreadNumber::ByHandle { number, .. } = layout.thread_number {
        for thread in &mut listed.threads {
            let at = Address(thread.number).plus(number);
            let bytes = mapped(memory.read_span(Span { start: at, bytes: 4 }))?;
            thread.native_id = bytes.map_or(0, |bytes| half(&bytes, 0).into());
        }
    }
    Ok(listed)
}

struct Interpreter {
    address: Address,
    lock: Lock,
}

fn interpreters(
    memory: &impl Memory,
    layout: &Layout,
    runtime: Address,
) -> Result<Vec<Interpreter>, ReadError> {
    let mut next = memory.read_address(runtime.plus(layout.interpreters_head))?;
    let mut found: Vec<Interpreter> = Vec::new();
    while !next.is_null() && found.len() < INTERPRETERS_MAX {
        let address = next;
        let lock;
        // One that ends meanwhile ends the list.
        (next, lock) = read(memory, layout, runtime, address)?;
        found.push(Interpreter { address, lock });
        if found.iter().any(|known| known.address == next) {
            break;
        }
    }
    Ok(found)
}

/// The interpreter behind the one at `at`, and the lock of that.
fn read(
    memory: &impl Memory,
    layout: &Layout,
    runtime: Address,
    at: Address,
) -> Result<(Address, Lock), ReadError> {
    let (place, bytes) = match layout.gil {
        GilPlace::InRuntime(offset) => (runtime.plus(offset), GIL_BYTES),
        GilPlace::ByInterpreter(offset) => (at.plus(offset), 8),
    };
    let spans = [
        Span { start: at.plus(layout.interpreter_next), bytes: 8 },
        Span { start: at.plus(layout.collecting), bytes: 8 },
        Span { start: place, bytes },
    ];
    let mut fields = [0; 16 + GIL_BYTES];
    let fields = &mut fields[..16 + bytes];
    if mapped(memory.read(&spans, fields))?.is_none() {
        return Ok(Default::default());
    }

    let (gil, state) = match layout.gil {
        GilPlace::InRuntime(_) => (place, fields[16..].to_vec()),
        GilPlace::ByInterpreter(_) => {
            let gil = address(fields, 16);
            let state = memory.read_span(Span { start: gil, bytes: GIL_BYTES });
            (gil, mapped(state)?.unwrap_or_default())
        }
    };
    let is_held = half(&state, GIL_LOCKED) == 1;
    let holder = is_held.then(|| address(&state, GIL_HOLDER));
    Ok((address(fields, 0), Lock { gil, holder, is_collecting: half(fields, 8) != 0 }))
}

/// The threads of an interpreter, link by link, as far as the links fit together.
fn walk(
    memory: &impl Memory,
    layout: &Layout,
    interpreter: Address,
    lock: Lock,
) -> Result<ListedThreads, ReadError> {
    let head = interpreter.plus(layout.threads_head);
    let mut next = mapped(memory.read_address(head))?.unwrap_or_default();
    let mut previous = Address::default();
    let mut threads = Vec::new();

    while !next.is_null() && threads.len() < THREADS_MAX {
        let state = Span { start: next, bytes: layout.thread_bytes() };
        let bytes = mapped(memory.read_span(state))?.unwrap_or_default();
        let thread = ThreadState::decode(layout, next, lock, &bytes);
        if thread.interpreter != interpreter || thread.previous != previous {
            break;
        }
        (previous, next) = (next, thread.next);
        threads.push(thread);
    }
    Ok(ListedThreads { threads, is_torn: !next.is_null() })
}
