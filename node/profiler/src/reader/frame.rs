//! Frames of the interpreter: what one's bytes say, and the chain that they make.

use crate::layout::{
    EntryMark, FRAME_DEPTH, FRAME_FUNCTION, FRAME_INSTRUCTION, Frames, Instructions, Layout,
    SHIM_OWNER,
};
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
    pub(super) previous: Address,
    /// For a function that it called without C in between; of an object that it does not run.
    pub(super) waits: bool,
    pub(super) is_called_by_c: bool,
    pub(super) call: Call,
}

/// Where a frame's saved stack ends, and its function: of a version that marks calls by them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) stack: Address,
    pub(super) function: Address,
}

/// What a frame's bytes say.
#[derive(PartialEq, Eq)]
pub(super) struct Frame {
    code: Address,
    pub(super) previous: Address,
    /// Its address; of an object the offset.
    instruction: u64,
    waits: bool,
    call: Call,
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
        let bytes = layout.frame_bytes();
        let span = |link: &Link| Span { start: link.slot, bytes };
        let spans: Vec<Span> = self.links.iter().map(span).collect();
        let mut now = vec![0; bytes * spans.len()];
        if mapped(memory.read(&spans, &mut now))?.is_none() {
            return Ok(false);
        }

        let frames = now.chunks_exact(bytes).map(|bytes| Frame::decode(layout, bytes));
        let mut pairs = self.links.iter().zip(frames);
        Ok(pairs.all(|(link, frame)| link.code == frame.code && link.previous == frame.previous))
    }
}

#[cfg(test)]
impl Link {
    /// One that stands still and waits for nothing.
    pub(super) fn at(slot: u64) -> Self {
        Self {
            code: Address(slot),
            offset: 2,
            stood: true,
            slot: Address(slot),
            previous: Address(0),
            waits: false,
            is_called_by_c: false,
            call: Call::default(),
        }
    }
}

impl Frame {
    pub(super) fn decode(layout: &Layout, bytes: &[u8]) -> Self {
        let of_interpreter = |owner: usize| byte(bytes, owner) >= SHIM_OWNER;
        let (is_entry, is_of_interpreter) = match layout.frames {
            Frames::Objects { .. } => (false, false),
            Frames::ByDepth { entry: EntryMark::Flag(offset), .. } => {
                (byte(bytes, offset) != 0, false)
            }
            Frames::ByDepth { entry: EntryMark::Owner(owner), .. }
            | Frames::ByPointer { owner, .. } => (false, of_interpreter(owner)),
        };
        let (waits, call) = match layout.frames {
            Frames::Objects { state, runs, .. } => (byte(bytes, state) != runs, Call::default()),
            Frames::ByDepth { .. } => (half(bytes, FRAME_DEPTH) != u32::MAX, Call::default()),
            Frames::ByPointer { .. } => {
                let function = address(bytes, FRAME_FUNCTION);
                (false, Call { stack: address(bytes, FRAME_DEPTH), function })
            }
        };
        let instruction = match layout.frames {
            Frames::Objects { instruction, unit, .. } => {
                (i64::from(half(bytes, instruction).cast_signed()) * unit).cast_unsigned()
            }
            Frames::ByDepth { .. } | Frames::ByPointer { .. } => word(bytes, FRAME_INSTRUCTION),
        };
        Self {
            code: untagged(address(bytes, layout.frame_code)),
            previous: address(bytes, layout.frame_previous),
            instruction,
            waits,
            call,
            is_entry,
            is_of_interpreter,
        }
    }

    pub(super) fn link(&self, layout: &Layout, slot: Address, stood: bool) -> Link {
        let start = match layout.instructions {
            Instructions::Inside(offset) => self.code.plus(offset).0,
            Instructions::Bytes(_) => 0,
        };
        let offset = self.instruction.wrapping_sub(start).cast_signed();
        // Of a frame on the stack, one that has not started has called nothing.
        let is_object = matches!(layout.frames, Frames::Objects { .. });
        Link {
            code: self.code,
            offset,
            stood,
            slot,
            previous: self.previous,
            waits: self.waits && (is_object || offset > 0),
            is_called_by_c: self.is_entry,
            call: self.call,
        }
    }
}

/// Since 3.14 the lowest bits of a reference state who counts it.
pub(super) fn untagged(reference: Address) -> Address {
    Address(reference.0 & !3)
}
