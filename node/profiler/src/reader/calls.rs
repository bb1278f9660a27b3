//! Which frames wait for which, in a version whose frames do not show it by themselves: 3.14.
//!
//! A call takes a function and its arguments from the caller's stack, whose saved pointer then
//! leads to where the function still lies; the result takes that place. A generator stays there,
//! right below the pointer.
//!
//! DESIGN N90.

use super::frame::{Link, untagged};
use super::stack::{Plan, Walk};
use crate::layout::{Frames, Layout};
use crate::memory::{Address, address};

impl Plan {
    /// Sets which frames wait for the next one, of a version in which frames themselves do not show
    /// it.
    pub(super) fn prove_calls(
        &self,
        layout: &Layout,
        copy: &[u8],
        walk: &mut Walk,
        is_still_current: bool,
    ) {
        let links = &mut walk.chain.links;
        let mut is_of_class = false;
        for at in 1..links.len() {
            let (caller, callee) = (links[at - 1], links[at]);
            let is_direct = self.calls(layout, copy, &caller, &callee);
            // A class is called through a frame in between, which then calls `__init__`.
            let init = links.get(at + 1).filter(|_| !is_direct);
            let is_class = init.is_some_and(|init| self.calls(layout, copy, &caller, init));
            // Some calls leave something else: there nothing must have moved.
            let stands = caller.stood && is_still_current;
            links[at - 1].waits = is_direct || is_class || is_of_class || stands;
            walk.is_doubtful |= callee.is_called_by_c && !caller.stood;
            is_of_class = is_class;
        }
    }

    /// Whether the caller's stack ends where it had this function, or right behind this generator.
    pub(super) fn calls(&self, layout: &Layout, copy: &[u8], caller: &Link, callee: &Link) -> bool {
        let Frames::ByPointer { generator, .. } = layout.frames else { return false };
        let end = caller.call.stack;
        let at_end = self.word(layout, copy, end);
        let below = end.0.checked_sub(8).and_then(|at| self.word(layout, copy, Address(at)));
        let is_generator = |word: Address| untagged(word).plus(generator) == callee.slot;
        // Frames of no function, and empty places, have a reference to nothing.
        let is_function = !untagged(callee.call.function).is_null();
        (is_function && at_end == Some(callee.call.function)) || below.is_some_and(is_generator)
    }

    fn word(&self, layout: &Layout, copy: &[u8], at: Address) -> Option<Address> {
        self.offset_of(layout, at, 8).map(|offset| address(copy, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::table::V3_12;
    use crate::memory::Span;
    use crate::reader::frame::Call;

    const STACK: u64 = 0x1000;
    const FUNCTION: u64 = 0x7001;
    const OBJECT: u64 = 0x9000;

    fn link(slot: u64, stack: u64, function: u64) -> Link {
        let call = Call { stack: Address(stack), function: Address(function) };
        Link { call, ..Link::at(slot) }
    }

    /// Whether the caller waits for the callee, when these words are on its stack.
    fn waits(words: [u64; 3], callee: Link) -> bool {
        let frames = Frames::ByPointer { chunk: 0, owner: 74, generator: 72 };
        let layout = Layout { frames, ..V3_12 };
        let mut plan = Plan::default();
        plan.spans.push(Span { start: Address(STACK), bytes: 24 });
        let copy: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        plan.calls(&layout, &copy, &link(0x500, STACK + 16, FUNCTION), &callee)
    }

    #[test]
    fn a_call_is_proven_by_what_it_left_on_the_callers_stack() {
        let function = link(0x600, 0, FUNCTION);
        let generator = link(OBJECT + 72, 0, 0x8001);
        assert!(waits([0, 0, FUNCTION], function));
        // Its result is there, or another function; what was left of it has no function any more.
        assert!(!waits([0, 0, OBJECT], function));
        assert!(!waits([0, 0, FUNCTION + 8], function));
        assert!(!waits([0, 0, 1], link(0x600, 0, 1)));
        // The tag of a reference is no part of it.
        assert!(waits([0, OBJECT + 1, 0], generator));
        assert!(!waits([0, OBJECT + 8, 0], generator));
        assert!(!waits([OBJECT, 0, 0], generator));
    }
}
