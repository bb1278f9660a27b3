//! Stacks of CPython 3.9 and 3.10, whose frames are objects anywhere in memory. Each refers to its
//! caller and shows that its function runs, whatever that calls.
//!
//! Frames are read at different moments, so one reading proves nothing of a thread that runs. A
//! thread that did not hold the GIL from before the reading until after it cannot have changed. Of
//! one that did, several readings in a row show what was there all the while: the calls that are
//! the same in all of them, up to the first function that went on. What that one called came and
//! went meanwhile, and counts as its own time.
//!
//! DESIGN N90.

use super::frame::{Chain, Link};
use super::stack::{Attempt, Plan};
use crate::layout::{GIL_HOLDER, GIL_SWITCHES};
use crate::limits::{FRAMES_MAX, STANDING_READS_MIN};
use crate::memory::{Address, address, word};

impl Plan {
    /// Whether a thread did not hold the lock before a reading, nor after it, nor in between.
    pub(super) fn could_not_run(thread: Address, before: &[u8], after: &[u8]) -> bool {
        let is_other = |gil: &[u8]| address(gil, GIL_HOLDER) != thread;
        let switches = |gil: &[u8]| word(gil, GIL_SWITCHES);
        is_other(before) && is_other(after) && switches(before) == switches(after)
    }

    pub(super) fn judge_objects(&mut self, chain: Chain, is_proven: bool) -> Attempt {
        // One starts, or leaves its function.
        if chain.links.iter().any(|link| link.waits) {
            return Attempt::Again;
        }
        if is_proven || chain.links.is_empty() {
            return Attempt::Whole(leaf_most(chain));
        }

        let (kept, reads) = &mut self.standing;
        match *reads {
            0 => *kept = chain,
            _ => keep_common(&mut kept.links, &chain.links),
        }
        *reads = if is_complete(kept) { *reads + 1 } else { 0 };
        if *reads < STANDING_READS_MIN {
            return Attempt::Again;
        }
        *reads = 0;
        Attempt::Whole(leaf_most(std::mem::take(kept)))
    }
}

/// Keeps the calls that are the same in both, and the function after them if it only went on.
fn keep_common(kept: &mut Vec<Link>, now: &[Link]) {
    let Some(root) = now.first() else { return kept.clear() };
    // A deep stack was cut at its root, further up if it had more frames.
    let skipped = kept.iter().position(|link| link.slot == root.slot);
    kept.drain(..skipped.unwrap_or(0));
    let start = kept.first().and_then(|root| now.iter().position(|link| link.slot == root.slot));
    let now = &now[start.unwrap_or(0)..];

    let is_same_call =
        |a: &Link, b: &Link| (a.slot, a.code, a.previous) == (b.slot, b.code, b.previous);
    let pairs = || kept.iter().zip(now);
    let same = pairs().take_while(|(a, b)| is_same_call(a, b)).count();
    let stood = pairs().take_while(|(a, b)| a == b).count();
    kept.truncate(same.min(stood + 1));
}

/// Whether it starts at the root of the stack, or has more frames than a profile keeps.
fn is_complete(chain: &Chain) -> bool {
    chain.links.first().is_some_and(|root| root.previous.is_null())
        || chain.links.len() >= FRAMES_MAX
}

fn leaf_most(mut chain: Chain) -> Chain {
    let excess = chain.links.len().saturating_sub(FRAMES_MAX);
    chain.links.drain(..excess);
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames at these slots; the code of each is that of its slot, unless the offset is odd.
    fn links(frames: &[(u64, i64)]) -> Vec<Link> {
        let mut previous = Address(0);
        let of = |&(slot, offset): &(u64, i64)| {
            let code = Address(slot + 100 * (offset & 1).cast_unsigned());
            let link = Link { code, offset, previous, ..Link::at(slot) };
            previous = Address(slot);
            link
        };
        frames.iter().map(of).collect()
    }

    #[test]
    fn what_two_readings_share_ends_with_the_first_that_went_on() {
        let before = [(1, 2), (2, 4), (3, 6)];
        for (now, common) in [
            (&before[..], &before[..]),
            (&[(1, 2), (2, 4), (3, 8)], &before),
            (&[(1, 2), (2, 8), (3, 6)], &before[..2]),
            (&[(1, 2), (2, 4)], &before[..2]),
            (&[(1, 2), (2, 4), (7, 6)], &before[..2]),
            // Another function in the same place.
            (&[(1, 2), (2, 5), (3, 6)], &before[..1]),
            // Deeper, and cut at its root.
            (&[(2, 4), (3, 6), (4, 2)], &before[1..]),
            (&[(9, 2), (1, 2)], &[]),
        ] {
            let mut kept = links(&before);
            let mut now = links(now);
            // What was cut keeps what it led to.
            if now[0].slot.0 == 2 {
                now[0].previous = Address(1);
            }
            keep_common(&mut kept, &now);
            let slots = |links: &[Link]| links.iter().map(|link| link.slot.0).collect::<Vec<_>>();
            assert_eq!(slots(&kept), common.iter().map(|(slot, _)| *slot).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_thread_that_did_not_hold_the_lock_did_not_run() {
        let gil = |holder: u64, switches: u64| {
            [0, holder, 1, switches].into_iter().flat_map(u64::to_ne_bytes).collect::<Vec<u8>>()
        };
        let of = |before: (u64, u64), after: (u64, u64)| {
            Plan::could_not_run(Address(7), &gil(before.0, before.1), &gil(after.0, after.1))
        };
        assert!(of((8, 3), (8, 3)));
        for (before, after) in [((7, 3), (7, 3)), ((8, 3), (7, 4)), ((7, 3), (8, 4))] {
            assert!(!of(before, after));
        }
        // It was its turn in between.
        assert!(!of((8, 3), (8, 5)));
    }
}
