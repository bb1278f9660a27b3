//! Frames of the interpreter: what one's bytes say, and the chain that they make.

use crate::layout::{EntryMark, FRAME_BYTES, FRAME_DEPTH, FRAME_INSTRUCTION, Layout, SHIM_OWNER};
use crate::memory::{Address, Memory, ReadError, Span, address, byte, half, mapped, word};

/// Frames that were on a stack at one instant, root first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) links: Vec<Link>,
}

/// One function's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) code: Address,
    /// Of the instruction, in bytes behind the code object's first one.
    pub(super) offset: i64,
    /// Whether the frame was at this instruction in both copies.
    pub(super) stood: bool,
    pub(super) slot: Address,
    previous: Address,
    pub(super) has_saved_stack: bool,
    pub(super) is_called_by_c: bool,
}

/// What a frame's bytes say.
#[derive(PartialEq, Eq)]
pub(super) struct Frame {
    code: Address,
    pub(super) previous: Address,
    instruction: u64,
    has_saved_stack: bool,
    /// C called it.
    is_entry: bool,
    /// It is no function's.
    pub(super) is_of_interpreter: bool,
}

impl Chain {
    /// Whether each frame still has its code object and its caller: then the objects are alive.
    ///
    /// # Errors
    /// When the process has ended, or its memory may not be read.
    pub(super) fn still_holds(
        &self,
        memory: &impl Memory,
        layout: &Layout,
    ) -> Result<bool, ReadError> {
        let span = |link: &Link| Span { start: link.slot, bytes: FRAME_BYTES };
        let spans: Vec<Span> = self.links.iter().map(span).collect();
        let mut now = vec![0; FRAME_BYTES * spans.len()];
        if mapped(memory.read(&spans, &mut now))?.is_none() {
            return Ok(false);
        }

        let frames = now.chunks_exact(FRAME_BYTES).map(|bytes| Frame::decode(layout, bytes));
        let mut pairs = self.links.iter().zip(frames);
        Ok(pairs.all(|(link, frame)| link.code == frame.code && link.previous == frame.previous))
    }
}

impl Link {
    /// For a function that it called without C in between. One that has not started does not.
    pub(super) fn waits(&self) -> bool {
        self.has_saved_stack && self.offset > 0
    }
}

impl Frame {
    pub(super) fn decode(layout: &Layout, bytes: &[u8]) -> Self {
        let (is_entry, is_of_interpreter) = match layout.entry {
            EntryMark::Flag(offset) => (byte(bytes, offset) != 0, false),
            EntryMark::Owner(offset) => (false, byte(bytes, offset) >= SHIM_OWNER),
        };
        Self {
            code: address(bytes, layout.frame_code),
            previous: address(bytes, layout.frame_previous),
            instruction: word(bytes, FRAME_INSTRUCTION),
            has_saved_stack: half(bytes, FRAME_DEPTH) != u32::MAX,
            is_entry,
            is_of_interpreter,
        }
    }

    pub(super) fn link(&self, layout: &Layout, slot: Address, stood: bool) -> Link {
        let start = self.code.plus(layout.instructions);
        Link {
            code: self.code,
            offset: self.instruction.wrapping_sub(start.0).cast_signed(),
            stood,
            slot,
            previous: self.previous,
            has_saved_stack: self.has_saved_stack,
            is_called_by_c: self.is_entry,
        }
    }
}
