//! What became of notifications, by receiver. Of the undeliverable ones the newest are kept to be
//! shown, and each is sent once to the bus.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use plimsoll_schemas::alert::{AlertKey, AlertState};
use plimsoll_schemas::time::{Wall, seconds};
use serde::{Deserialize, Serialize};

use super::receiver::Waits;
use crate::core::fleet::shorten;
use crate::limits::notifications::UNDELIVERED_KEPT_MAX;

/// A notification that a receiver will not get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Undeliverable {
    /// Its name.
    pub receiver: String,
    /// Why: `refused`, `attempts`, `too_old`, `queue_full`, `no_room` or `removed`.
    pub reason: Cow<'static, str>,
    /// What the receiver answered to its latest post, in one line, and, after the last `; `, what
    /// ends it; absent if it takes posts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// When it became undeliverable, in seconds since 1970.
    pub at_seconds: f64,
    #[serde(flatten)]
    pub key: AlertKey,
    /// The state that was not sent.
    pub state: AlertState,
}

/// The state of an alert that a receiver will not be sent.
#[derive(Clone, Copy)]
pub(super) struct UnsentState<'a> {
    pub(super) key: &'a AlertKey,
    pub(super) state: AlertState,
    /// See [`Undeliverable`].
    pub(super) reason: &'static str,
    /// Why the receiver's latest post was not taken, if it was not.
    pub(super) cause: Option<&'a str>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct UndeliverableLog {
    /// The newest, oldest first.
    pub(super) kept: VecDeque<Undeliverable>,
    #[serde(skip)]
    /// Still to be sent to the bus.
    pub(super) unreported: VecDeque<Undeliverable>,
}

impl UndeliverableLog {
    pub(super) fn push(&mut self, now: Wall, receiver: &str, unsent: UnsentState<'_>) {
        let entry = Undeliverable {
            receiver: receiver.to_owned(),
            reason: unsent.reason.into(),
            cause: unsent.cause.unwrap_or_default().to_owned(),
            at_seconds: seconds(now.0),
            key: unsent.key.clone(),
            state: unsent.state,
        };
        for undeliverable in [&mut self.kept, &mut self.unreported] {
            undeliverable.push_back(entry.clone());
            shorten(undeliverable, UNDELIVERED_KEPT_MAX, |of| of.key.scope.node());
        }
    }
}

/// What became of the notifications of one receiver. Counts only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverCounts {
    /// Notifications by outcome: `delivered`; `superseded` by a newer state before they were sent;
    /// `suppressed` by a silence or an acknowledgement; `undeliverable`.
    pub outcomes: BTreeMap<Cow<'static, str>, u64>,
    /// Posts by how they ended.
    pub posts: BTreeMap<Cow<'static, str>, u64>,
    pub undeliverable: BTreeMap<Cow<'static, str>, u64>,
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
