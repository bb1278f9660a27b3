//! Undeliverable notifications: the newest are kept to be shown, and each is sent once to the bus.

use std::collections::VecDeque;

use crate::core::fleet::shorten;
use crate::limits::notifications::UNDELIVERED_KEPT_MAX;
use plimsoll_schemas::alert::{AlertKey, AlertState};
use plimsoll_schemas::time::{Wall, seconds};
use serde::{Deserialize, Serialize};

use std::borrow::Cow;

/// A notification that a receiver will not get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Undeliverable {
    pub receiver: String,
    /// Why: `refused`, `attempts`, `too_old`, `queue_full`, `no_room` or `removed`.
    pub reason: Cow<'static, str>,
    /// What the receiver answered to its latest post, in one line; empty if it takes posts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// When it became undeliverable, in seconds since 1970.
    pub at_seconds: f64,
    #[serde(flatten)]
    pub key: AlertKey,
    /// The state that was not sent.
    pub state: AlertState,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct UndeliverableLog {
    kept: VecDeque<Undeliverable>,
    #[serde(skip)]
    unreported: VecDeque<Undeliverable>,
}

impl UndeliverableLog {
    pub(super) fn push(
        &mut self,
        now: Wall,
        receiver: &str,
        (reason, cause): (&'static str, Option<&str>),
        (key, state): (&AlertKey, AlertState),
    ) {
        let entry = Undeliverable {
            receiver: receiver.to_owned(),
            reason: reason.into(),
            cause: cause.unwrap_or_default().to_owned(),
            at_seconds: seconds(now.0),
            key: key.clone(),
            state,
        };
        for undeliverable in [&mut self.kept, &mut self.unreported] {
            undeliverable.push_back(entry.clone());
            shorten(undeliverable, UNDELIVERED_KEPT_MAX, |of| of.key.scope.node());
        }
    }

    /// The newest, oldest first.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Undeliverable> {
        self.kept.iter()
    }

    /// The next one to send to the bus.
    pub(super) fn next_unreported(&mut self) -> Option<Undeliverable> {
        self.unreported.pop_front()
    }
}
