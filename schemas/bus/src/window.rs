//! Counts the messages in flight, so that never more answers come back at once than the client can
//! keep: pure, `now` is an argument.
//!
//! DESIGN S25.

use std::collections::VecDeque;

use crate::limits::{REQUEST_WAIT, UNANSWERED_MAX};
use plimsoll_schemas::time::Mono;

/// Send times of the messages in flight, oldest first.
///
/// Replies are only counted, not matched: a broker sends them nearly in order. A message without a
/// reply (for example, a stream's leader died) frees its slot after `REQUEST_WAIT`.
#[derive(Debug, Default)]
pub(crate) struct Window {
    sent: VecDeque<Mono>,
    generation: u64,
    answers: u64,
}

impl Window {
    /// A message was sent.
    pub(crate) fn on_sent(&mut self, now: Mono) {
        self.sent.push_back(now);
    }

    /// Updates the window for the current connection and the number of answers ever received. A
    /// message of an older connection gets no answer any more.
    pub(crate) fn on_replies(&mut self, now: Mono, generation: u64, answers: u64) {
        let new = usize::try_from(answers.saturating_sub(self.answers)).unwrap_or(usize::MAX);
        self.answers = answers;
        let answered = if self.generation == generation { new.min(self.sent.len()) } else { 0 };
        self.sent.drain(..answered);
        if self.generation != generation {
            self.sent.clear();
            self.generation = generation;
        }
        // An answer that is overdue for so long will not come, and must not hold its place for
        // ever.
        while self.sent.front().is_some_and(|sent| now.since(*sent) >= REQUEST_WAIT) {
            self.sent.pop_front();
        }
    }

    /// Whether another message may go out.
    pub(crate) fn has_room(&self) -> bool {
        self.sent.len() < UNANSWERED_MAX
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn full() -> Window {
        let mut window = Window::default();
        (0..UNANSWERED_MAX).for_each(|_| window.on_sent(Mono(0)));
        window
    }

    #[test]
    fn each_answer_makes_room_for_one_message() {
        let mut window = full();
        assert!(!window.has_room());
        window.on_replies(Mono(1), 0, 1);
        assert!(window.has_room());
        window.on_sent(Mono(1));
        assert!(!window.has_room());
    }

    #[test]
    fn an_answer_that_never_comes_is_not_waited_for() {
        let mut window = full();
        window.on_replies(Mono(0).plus(REQUEST_WAIT / 2), 0, 0);
        assert!(!window.has_room());
        window.on_replies(Mono(0).plus(REQUEST_WAIT), 0, 0);
        assert!(window.has_room());
    }

    #[test]
    fn a_new_connection_owes_no_answers() {
        let mut window = full();
        window.on_replies(Mono(1), 1, 5);
        assert_eq!(window.sent.len(), 0);
    }

    proptest! {
        #[test]
        fn what_is_under_way_is_what_was_sent_less_what_was_answered(
            steps in prop::collection::vec((0_usize..5, 0_usize..5), 0..50),
        ) {
            let mut window = Window::default();
            let (mut under_way, mut answers) = (0_usize, 0);
            for (sent, answered) in steps {
                (0..sent).for_each(|_| window.on_sent(Mono(0)));
                answers += answered as u64;
                window.on_replies(Mono(0), 0, answers);
                under_way = (under_way + sent).saturating_sub(answered);
                prop_assert_eq!(window.sent.len(), under_way);
            }
        }
    }
}
