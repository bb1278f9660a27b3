//! What became of notifications, by receiver, for metrics.

use std::collections::BTreeMap;

use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use super::receiver::Waits;
use std::borrow::Cow;

/// What became of the notifications of one receiver. Counts only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverCounts {
    /// Notifications by outcome: `delivered`; `superseded` by a newer state before they were sent;
    /// `suppressed` by a silence or an acknowledgement; `undeliverable`.
    pub outcomes: BTreeMap<Cow<'static, str>, u64>,
    /// Posts by how they ended.
    pub posts: BTreeMap<Cow<'static, str>, u64>,
    /// Undeliverable notifications, by reason.
    pub undeliverable: BTreeMap<Cow<'static, str>, u64>,
    /// When a post was last taken.
    pub last_success: Option<Wall>,
}

/// One receiver's figures at one point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverStats {
    pub name: String,
    /// What became of its notifications so far.
    pub tally: ReceiverCounts,
    /// Why its latest post was not taken, in one line; `None` if it was.
    pub failure: Option<String>,
    /// What it has still to be sent.
    pub waits: Waits,
}

impl ReceiverCounts {
    pub(super) fn count(&mut self, outcome: &'static str) {
        self.count_n(outcome, 1);
    }

    pub(super) fn count_n(&mut self, outcome: &'static str, n: usize) {
        if n > 0 {
            *self.outcomes.entry(outcome.into()).or_default() += n as u64;
        }
    }

    pub(super) fn count_post(&mut self, result: &'static str) {
        *self.posts.entry(result.into()).or_default() += 1;
    }

    pub(super) fn count_undeliverable(&mut self, reason: &'static str) {
        self.count("undeliverable");
        *self.undeliverable.entry(reason.into()).or_default() += 1;
    }
}
