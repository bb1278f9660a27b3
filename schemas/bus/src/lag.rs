//! Judges whether the server that serves a reader lacks messages that the stream's leader has:
//! pure.
//!
//! DESIGN S72.

use crate::limits::BEHIND_TRIES_MAX;

/// What a reader was found to lack.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    /// Number of the message that was lacking, and how often in a row it was.
    lacking: (u64, u32),
}

impl Lag {
    /// A consumer had nothing more, and `next_seq` is the next message. Message `due` was in the
    /// stream one look before the latest, so it should have come. True if another consumer may
    /// bring it: the broker chooses a server for each.
    pub(crate) fn is_behind(&mut self, next_seq: u64, due: u64) -> bool {
        if next_seq > due {
            self.lacking = (0, 0);
            return false;
        }
        let (message, tries) = &mut self.lacking;
        if *message != due {
            (*message, *tries) = (due, 0);
        }
        *tries = tries.saturating_add(1);
        *tries <= BEHIND_TRIES_MAX
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_that_is_due_is_tried_for_a_bounded_number_of_times() {
        let mut lag = Lag::default();
        assert!(!lag.is_behind(1, 0), "an empty stream");
        assert!(!lag.is_behind(8, 7), "all was read");
        let tried = (0..10).filter(|_| lag.is_behind(7, 7)).count();
        assert_eq!(tried, 4, "its last message may have been deleted");
        assert!(lag.is_behind(7, 8), "more was stored");
        assert!(!lag.is_behind(9, 8));
        assert!(lag.is_behind(9, 9), "and the next lag counts anew");
    }

    proptest! {
        #[test]
        fn who_has_read_what_is_due_is_never_behind(due: u64, more in 1..100_u64, tries in 0..9) {
            let mut lag = Lag::default();
            for _ in 0..tries {
                let _ = lag.is_behind(due, due);
            }
            prop_assert!(!lag.is_behind(due.saturating_add(more), due) || due == u64::MAX);
        }
    }
}
