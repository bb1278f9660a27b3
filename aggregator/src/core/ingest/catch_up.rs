//! Which past times are judged after a restart.
//!
//! After a restart from a checkpoint the streams hold what happened meanwhile, and when: the
//! broker stamps each message. Rules are judged at those times, as a core that never stopped
//! would have done, so that a breach in the meantime is still notified, with how far behind that
//! is. Without a checkpoint the past is read and counted, but not judged.
//!
//! DESIGN A12.

use crate::limits::{CATCH_UP_STEPS_MAX, EVALUATE_EVERY};
use plimsoll_schemas::time::Wall;

/// A span that is being caught up with.
#[derive(Clone, Copy, Debug)]
pub(super) struct CatchUp {
    /// When the last core that ran last judged.
    pub(super) from: Wall,
    /// Up to when it has been judged by now.
    pub(super) judged: Wall,
}

impl CatchUp {
    pub(super) fn since(from: Wall) -> Self {
        Self { from, judged: from }
    }

    /// The next time to judge, if it lies before `before`. Steps grow with the span, so that a
    /// long one costs no more than [`CATCH_UP_STEPS_MAX`] evaluations.
    pub(super) fn next(&mut self, now: Wall, before: Wall) -> Option<Wall> {
        let step = now.since(self.from) / CATCH_UP_STEPS_MAX;
        let due = self.judged.plus(step.max(EVALUATE_EVERY));
        if due >= before {
            return None;
        }
        self.judged = due;
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn however_long_the_gap_its_judgements_are_bounded() {
        let from = Wall(1_700_000_000_000_000_000);
        for seconds in [1, 599, 600, 601, 86_400, 10_000_000] {
            let now = from.plus(Duration::from_secs(1) * seconds);
            let mut catch_up = CatchUp::since(from);
            let mut judgements = 0;
            while catch_up.next(now, now.plus(Duration::from_nanos(1))).is_some() {
                judgements += 1;
            }
            assert_eq!(judgements, seconds.min(CATCH_UP_STEPS_MAX), "{seconds} s");
        }
    }
}
