//! How often captures start: in sliding windows, those of alerts and those of operators apart.

use std::collections::VecDeque;

use plimsoll_schemas::ids::RuleName;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::capture::CaptureRefusal;

use crate::limits::{CAPTURE_RULE_PAUSE, CAPTURE_WINDOW, CAPTURES_PER_WINDOW};

/// Captures that started within the window, oldest first: at most twice
/// [`CAPTURES_PER_WINDOW`].
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<Started>);

#[derive(Debug)]
struct Started {
    at: Mono,
    rule: Option<RuleName>,
}

impl Recent {
    /// Whether one more may start for this rule, or by an operator.
    ///
    /// `pending` have not started yet.
    pub(super) fn check(
        &self,
        now: Mono,
        rule: Option<&RuleName>,
        pending: usize,
    ) -> Result<(), CaptureRefusal> {
        let within = |span| self.0.iter().filter(move |started| now.since(started.at) < span);
        let mut soon = within(CAPTURE_RULE_PAUSE);
        if rule.is_some() && soon.any(|started| started.rule.as_ref() == rule) {
            return Err(CaptureRefusal::TooSoon);
        }
        // An alert that repeats leaves the operator a capture.
        let alike = within(CAPTURE_WINDOW).filter(|of| of.rule.is_some() == rule.is_some());
        if alike.count() + pending < CAPTURES_PER_WINDOW {
            Ok(())
        } else {
            Err(CaptureRefusal::TooMany)
        }
    }

    pub(super) fn push(&mut self, now: Mono, rule: Option<RuleName>) {
        self.0.retain(|started| now.since(started.at) < CAPTURE_WINDOW);
        self.0.push_back(Started { at: now, rule });
    }
}
