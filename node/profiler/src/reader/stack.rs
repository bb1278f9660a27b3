//! The frames of one thread, from the root to the one that runs, while the thread runs on.
//!
//! One call of the system reads the thread's current frame and copies the ranges that hold the
//! frames, twice. The first copy shows which frames are live: a frame that runs has no saved stack
//! pointer, one that waits for a function it called has saved it, and what a call left behind has
//! saved it too. So a frame that runs proves itself and its callers, and what lies above it is no
//! more; the current frame is only where to start. The second copy shows which callers stood
//! still: of others the line is not known, since one copy takes as long as a short function does.
//! In 3.14 a frame that runs keeps its last saved stack pointer: there `calls` proves each caller,
//! by what it left for the function that it called. Frames that are objects: see `objects`.
//!
//! DESIGN N90.

use std::collections::BTreeSet;

use super::frame::{Chain, Frame, Link};
use super::single::WholeStack;
use super::threads::{ThreadStack, ThreadState};
use crate::layout::{CurrentFrame, Frames, GIL_BYTES, Layout};
use crate::limits::{
    CALLS_PER_SAMPLE_MAX, FRAMES_MAX, INTERRUPTIONS_MAX, LINKS_MAX, OBJECTS_MAX, SPANS_MAX,
    STACK_BYTES_MAX, STACK_SLACK_BYTES, STANDING_READS_MIN,
};
use crate::memory::{Address, Memory, Pass, ReadError, Span, address, mapped};

/// What to read of one thread; kept, since most frames are where they were a sample ago.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The thread's stack, then what lies elsewhere: frames of generators and of the interpreter.
    pub(super) spans: Vec<Span>,
    /// See [`ThreadState::current`].
    current: Address,
    copies: Vec<u8>,
    /// A chain without a frame that runs, or of objects, and how often in a row it was read.
    pub(super) standing: (Chain, usize),
    interruptions: usize,
    /// The named stack of the last sample, and whose it was.
    pub(super) named: Option<(u64, WholeStack)>,
}

/// How one try to read a stack ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    Whole(Chain),
    /// It changed, or part of it was not in the plan; the plan is better now.
    Again,
    /// The thread has ended, or the sample has no calls left.
    Ended,
}

/// Calls of the system that a sample may still take.
#[derive(Debug, Default)]
pub(super) struct Calls(usize);

/// A frame that is not in the plan.
struct Missing(Address);

/// The frames, read twice.
#[derive(Clone, Copy)]
struct Copies<'a> {
    first: &'a [u8],
    second: &'a [u8],
}

/// What was found on the way from the current frame to the root.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) chain: Chain,
    slots: Vec<Address>,
    /// Frames of the chain up to the current one; those above may have been left already.
    current: usize,
    /// A frame that C called has a caller that moved on; of an interrupted copy, any frame.
    pub(super) is_doubtful: bool,
}

/// What one call of the system read of a thread.
struct Reading {
    head_bytes: usize,
    /// Of each copy of the frames.
    frames_bytes: usize,
    copies: usize,
}

impl Calls {
    pub(super) fn of_sample() -> Self {
        Self(CALLS_PER_SAMPLE_MAX)
    }

    /// Takes this number if as many are left.
    pub(super) fn take(&mut self, calls: usize) -> bool {
        let left = self.0.checked_sub(calls);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

impl Plan {
    /// Starts a sample of `thread`.
    pub(super) fn start(&mut self, thread: &ThreadState) {
        self.aim(thread);
        self.standing = Default::default();
        self.interruptions = 0;
    }

    /// Tries to read the stack once.
    ///
    /// # Errors
    /// When the process has ended, or its memory may not be read.
    pub(super) fn attempt(
        &mut self,
        memory: &impl Memory,
        layout: &Layout,
        thread: &ThreadState,
        calls: &mut Calls,
    ) -> Result<Attempt, ReadError> {
        if !calls.take(1) {
            return Ok(Attempt::Ended);
        }
        let (pass, reading) = match self.read(memory, layout, thread) {
            // Stacks are unmapped as they shrink, and generators freed.
            Err(ReadError::Unmapped) if self.spans.len() > 1 => {
                self.spans.truncate(1);
                return Ok(Attempt::Again);
            }
            Err(ReadError::Unmapped) => return Ok(Attempt::Ended),
            read => read?,
        };
        // What was copied before and after an interruption may not belong together.
        let is_interrupted = pass == Pass::Interrupted;
        if is_interrupted && self.interruptions < INTERRUPTIONS_MAX {
            self.interruptions += 1;
            return Ok(Attempt::Again);
        }

        let bytes = std::mem::take(&mut self.copies);
        let read = (&bytes[..], reading, is_interrupted);
        let attempt = self.judge_reading(memory, layout, thread, calls, read);
        self.copies = bytes;
        attempt
    }

    fn judge_reading(
        &mut self,
        memory: &impl Memory,
        layout: &Layout,
        thread: &ThreadState,
        calls: &mut Calls,
        (bytes, reading, is_interrupted): (&[u8], Reading, bool),
    ) -> Result<Attempt, ReadError> {
        let (head, frames) = bytes.split_at(reading.head_bytes);
        let (first, rest) = frames.split_at(reading.frames_bytes);
        let (second, tail) = rest.split_at((reading.copies - 1) * reading.frames_bytes);
        let copies = Copies { first, second: if second.is_empty() { first } else { second } };

        let now = ThreadState::decode(layout, thread.address, thread.lock, head);
        if !thread.is_same(&now) {
            return Ok(Attempt::Ended);
        }
        let current = match layout.current_frame {
            CurrentFrame::InThread(_) => now.current,
            CurrentFrame::ByRecord { .. } if now.current == self.current => {
                address(head, head.len() - 8)
            }
            CurrentFrame::ByRecord { .. } => {
                self.current = now.current;
                return Ok(Attempt::Again);
            }
        };

        let is_still_current = address(tail, 0) == current;
        let walk = match self.walk(layout, copies, current, is_still_current) {
            Ok(mut walk) => {
                // On a machine where each copy takes long, callers must have stood still.
                let callers = walk.chain.links.split_last().map_or(&[][..], |(_, callers)| callers);
                walk.is_doubtful |= is_interrupted && callers.iter().any(|link| !link.stood);
                walk
            }
            Err(Missing(frame)) => {
                self.find(memory, layout, frame, calls)?;
                self.aim(&now);
                return Ok(Attempt::Again);
            }
        };
        self.forget_unused(layout, &walk);
        Ok(match layout.frames {
            Frames::Objects { .. } => {
                let gil = &head[head.len() - GIL_BYTES..];
                let is_proven = Self::could_not_run(thread.address, gil, tail);
                self.judge_objects(walk.chain, is_proven)
            }
            Frames::ByDepth { .. } | Frames::ByPointer { .. } => self.judge(walk),
        })
    }

    fn aim(&mut self, thread: &ThreadState) {
        let stack = window(thread.stack);
        match self.spans.first_mut() {
            Some(first) => *first = stack,
            None => self.spans.push(stack),
        }
        self.current = thread.current;
    }

    fn ranges_bytes(&self) -> usize {
        self.spans.iter().map(|span| span.bytes).sum()
    }

    /// Reads the thread with what leads to its frames, the ranges, and what shows whether it ran
    /// meanwhile.
    fn read(
        &mut self,
        memory: &impl Memory,
        layout: &Layout,
        thread: &ThreadState,
    ) -> Result<(Pass, Reading), ReadError> {
        let gil = Span { start: thread.lock.gil, bytes: GIL_BYTES };
        let mut spans = vec![Span { start: thread.address, bytes: layout.thread_bytes() }];
        let (copies, tail) = match layout.frames {
            Frames::Objects { .. } => {
                spans.push(gil);
                (1, Some(gil))
            }
            Frames::ByDepth { .. } => (2, None),
            Frames::ByPointer { .. } => {
                let current = thread.address.plus(layout.current_in_thread());
                (2, Some(Span { start: current, bytes: 8 }))
            }
        };
        if let CurrentFrame::ByRecord { frame, .. } = layout.current_frame {
            spans.push(Span { start: self.current.plus(frame), bytes: 8 });
        }

        let head_bytes = spans.iter().map(|span| span.bytes).sum();
        for _ in 0..copies {
            spans.extend_from_slice(&self.spans);
        }
        spans.extend(tail);
        self.copies.resize(spans.iter().map(|span| span.bytes).sum(), 0);
        let pass = memory.read_at_once(&spans, &mut self.copies)?;
        Ok((pass, Reading { head_bytes, frames_bytes: self.ranges_bytes(), copies }))
    }

    /// All frames below the current one, and those above it that it waits for.
    fn walk(
        &self,
        layout: &Layout,
        copies: Copies<'_>,
        current: Address,
        is_still_current: bool,
    ) -> Result<Walk, Missing> {
        let is_object = matches!(layout.frames, Frames::Objects { .. });
        let frames_max = if is_object { OBJECTS_MAX } else { FRAMES_MAX };
        let mut walk = Walk::default();
        let mut next = current;
        while !next.is_null() {
            if walk.chain.links.len() == frames_max || walk.slots.len() == LINKS_MAX {
                break;
            }
            let (frame, stood) = self.frame(layout, copies, next)?;
            walk.slots.push(next);
            if frame.is_of_interpreter {
                // What it leads to was called by C.
                if let Some(callee) = walk.chain.links.last_mut() {
                    callee.is_called_by_c = true;
                }
            } else {
                walk.chain.links.push(frame.link(layout, next, stood));
            }
            next = frame.previous;
        }
        walk.chain.links.reverse();
        walk.current = walk.chain.links.len();

        // The current frame may have called since it was read.
        while let Some(top) = walk.chain.links.last().copied().filter(|top| may_wait(layout, top)) {
            let Some(slot) = self.callee(layout, copies.first, top.slot) else { break };
            if walk.chain.links.len() == FRAMES_MAX {
                break;
            }
            let (frame, stood) = self.frame(layout, copies, slot)?;
            let link = frame.link(layout, slot, stood);
            if !top.waits && !self.calls(layout, copies.first, &top, &link) {
                break;
            }
            walk.chain.links.push(link);
        }
        if matches!(layout.frames, Frames::ByPointer { .. }) {
            self.prove_calls(layout, copies.first, &mut walk, is_still_current);
        }
        Ok(walk)
    }

    /// The frame at `slot`, and whether it stood still.
    fn frame(
        &self,
        layout: &Layout,
        copies: Copies<'_>,
        slot: Address,
    ) -> Result<(Frame, bool), Missing> {
        let at = self.offset_of(layout, slot, layout.frame_bytes()).ok_or(Missing(slot))?;
        let frame = Frame::decode(layout, &copies.first[at..]);
        // Of objects there is one copy.
        let is_object = matches!(layout.frames, Frames::Objects { .. });
        let stood = is_object || frame == Frame::decode(layout, &copies.second[at..]);
        Ok((frame, stood))
    }

    /// Where in a copy the bytes from `at` on are, if they are in the plan.
    pub(super) fn offset_of(&self, layout: &Layout, at: Address, bytes: usize) -> Option<usize> {
        if let Frames::Objects { .. } = layout.frames {
            // Many, of one length, and in order.
            let objects = self.spans.get(1..)?;
            let index = objects.binary_search_by_key(&at, |span| span.start).ok()?;
            return Some(index * layout.frame_bytes());
        }
        let mut before = 0;
        for span in &self.spans {
            if let Some(offset) = span.offset_of(at, bytes) {
                return Some(before + offset);
            }
            before += span.bytes;
        }
        None
    }

    /// The lowest frame on the stack whose caller is `caller`: nothing else there holds its
    /// address.
    fn callee(&self, layout: &Layout, copy: &[u8], caller: Address) -> Option<Address> {
        let stack = self.spans.first()?;
        let words = copy.get(..stack.bytes)?.chunks_exact(8);
        let at = words.into_iter().position(|bytes| address(bytes, 0) == caller)?;
        let slot = Address(stack.start.plus(at * 8).0.checked_sub(layout.frame_previous as u64)?);
        let is_within = stack.offset_of(slot, layout.frame_bytes()).is_some();
        (is_within && slot != caller).then_some(slot)
    }

    /// Leaves out what is no more. Without a frame that runs, the current one counts once all
    /// stands still: it leaves its function, or the thread has no processor meanwhile.
    fn judge(&mut self, Walk { mut chain, current, is_doubtful, .. }: Walk) -> Attempt {
        if is_doubtful {
            return Attempt::Again;
        }
        let is_over = |pair: &[Link]| !pair[1].is_called_by_c && !pair[0].waits;
        if let Some(last) = chain.links.windows(2).position(is_over) {
            chain.links.truncate(last + 1);
        }
        if chain.links.last().is_none_or(|top| !top.waits) {
            return Attempt::Whole(chain);
        }

        chain.links.truncate(current);
        let (standing, reads) = &mut self.standing;
        *reads = if *standing == chain { *reads + 1 } else { 1 };
        if *reads >= STANDING_READS_MIN {
            return Attempt::Whole(chain);
        }
        *standing = chain;
        Attempt::Again
    }

    /// Adds the pages of `frame` and of those behind it that are not in the plan.
    fn find(
        &mut self,
        memory: &impl Memory,
        layout: &Layout,
        frame: Address,
        calls: &mut Calls,
    ) -> Result<(), ReadError> {
        let bytes = layout.frame_bytes();
        let mut found = Vec::new();
        let mut next = frame;
        for _ in 0..LINKS_MAX {
            if next.is_null() || !calls.take(1) {
                break;
            }
            let is_found = found.iter().any(|span: &Span| span.offset_of(next, bytes).is_some());
            let is_planned = is_found || self.offset_of(layout, next, bytes).is_some();
            if !is_planned && self.spans.len() + found.len() < SPANS_MAX {
                found.push(match layout.frames {
                    Frames::Objects { .. } => Span { start: next, bytes },
                    Frames::ByDepth { .. } | Frames::ByPointer { .. } => pages(next, bytes),
                });
            }

            let read = mapped(memory.read_span(Span { start: next, bytes }))?;
            let Some(read) = read else { break };
            next = address(&read, layout.frame_previous);
        }
        self.spans.extend(found);
        if let (Frames::Objects { .. }, Some(objects)) = (layout.frames, self.spans.get_mut(1..)) {
            objects.sort_unstable_by_key(|span| span.start);
        }
        Ok(())
    }

    fn forget_unused(&mut self, layout: &Layout, walk: &Walk) {
        if let Frames::Objects { .. } = layout.frames {
            let used: BTreeSet<Address> = walk.slots.iter().copied().collect();
            let mut is_stack = true;
            self.spans.retain(|span| std::mem::take(&mut is_stack) || used.contains(&span.start));
            return;
        }
        let mut is_stack = true;
        let bytes = layout.frame_bytes();
        let holds = |span: &Span, slot: &Address| span.offset_of(*slot, bytes).is_some();
        self.spans.retain(|span| {
            std::mem::take(&mut is_stack) || walk.slots.iter().any(|slot| holds(span, slot))
        });
    }
}

/// Whether a frame may wait for one that is above the current one.
fn may_wait(layout: &Layout, top: &Link) -> bool {
    match layout.frames {
        Frames::Objects { .. } => false,
        Frames::ByDepth { .. } => top.waits,
        Frames::ByPointer { .. } => true,
    }
}

/// The stack from its start, or the part near its top, and what may be pushed meanwhile.
fn window(stack: ThreadStack) -> Span {
    let end = Address(stack.top.0.saturating_add(STACK_SLACK_BYTES as u64).min(stack.limit.0));
    let Some(bytes) = end.since(stack.chunk) else { return Span { start: stack.chunk, bytes: 0 } };
    let kept = bytes.min(STACK_BYTES_MAX);
    Span { start: stack.chunk.plus(bytes - kept), bytes: kept }
}

/// The whole pages around a frame: where the frame is mapped, they are.
fn pages(frame: Address, frame_bytes: usize) -> Span {
    const PAGE: u64 = 4_096;
    let start = Address(frame.0 / PAGE * PAGE);
    let end = frame.plus(frame_bytes).0.div_ceil(PAGE).saturating_mul(PAGE);
    Span { start, bytes: Address(end).since(start).unwrap_or(0) }
}
