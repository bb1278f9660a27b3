//! What an aggregator's state must be: a fold over the messages it has read, each once.

use std::collections::BTreeSet;

use super::history::{History, Name};
use crate::sim::cores::aggregator::{Held, Merged};

/// What an aggregator's state was made of, as far as one node is concerned.
#[derive(Clone, Debug, Default)]
pub(super) struct Fold {
    names: BTreeSet<Name>,
    samples: u64,
    /// Samples in its histograms, and of those the ones that jobs reported.
    shown: (u64, u64),
    /// Events that it has counted.
    events: u64,
    /// Whether the node is expired now.
    is_expired: bool,
    /// Whether it ever was: then histograms are not all there is.
    was_expired: bool,
    /// Whether nothing was left of it once, as of a node that expires and never had a sample: then
    /// events of a message that arrives again count again.
    was_dropped: bool,
}

impl Fold {
    /// The empty fold of an aggregator that starts again.
    pub(super) fn restarted(&self) -> Self {
        let Self { was_expired, was_dropped, .. } = *self;
        Self { was_expired, was_dropped, ..Self::default() }
    }

    /// Whether the node ever was expired.
    pub(super) fn was_expired(&self) -> bool {
        self.was_expired
    }

    /// Adds a message that was read; returns how many samples of jobs it carries.
    pub(super) fn add(&mut self, history: &History, name: Name) -> u64 {
        let Some(sent) = history.messages.get(&name) else { return 0 };
        let reported = sent.samples.len() as u64;
        if self.names.insert(name) {
            self.samples += reported + sent.others;
            self.shown.0 += reported + sent.others;
            self.shown.1 += reported;
            self.events += sent.events;
        }
        reported
    }

    /// Takes the histograms of a node that was expired as they are: what was read does not
    /// determine when exactly it was expired last.
    pub(super) fn adopt_shown(&mut self, held: &Held) {
        (self.shown, self.events) = ((held.samples, held.reported), held.events);
    }

    /// An expired node has no histograms; its next message starts new ones. One of which messages
    /// were read and nothing is left (`None`) has expired, too. True when it has just expired.
    pub(super) fn set_expired(&mut self, is_hidden: Option<bool>) -> bool {
        let is_dropped = is_hidden.is_none() && !self.names.is_empty();
        self.was_dropped |= is_dropped;
        let is_expired = is_hidden.unwrap_or(is_dropped);
        let expires = is_expired && !std::mem::replace(&mut self.is_expired, is_expired);
        self.is_expired = is_expired;
        if expires {
            (self.was_expired, self.shown, self.events) = (true, (0, 0), 0);
        }
        expires
    }

    /// The invariant that the aggregator's state breaks, if any.
    pub(super) fn broken_by(&self, held: &Held) -> Option<&'static str> {
        let events = if self.was_dropped { held.events } else { self.events };
        let expected = (self.samples, self.shown.0, self.shown.1, events);
        if held.doubled.is_some() {
            Some("no sample is merged twice")
        } else if (held.merged, held.samples, held.reported, held.events) != expected {
            Some("what is merged is what was read, once")
        } else if held.recorded != held.known {
            Some("recorded = merged + held + unaccounted + unread + lost")
        } else {
            None
        }
    }

    /// What was merged of a node that was expired once.
    pub(super) fn merged(&self, history: &History) -> Merged {
        let mut merged = Merged::default();
        for sent in self.names.iter().filter_map(|name| history.messages.get(name)) {
            merged.reported.extend(sent.samples.iter().map(|sample| (*sample, 1)));
            merged.others += sent.others;
        }
        merged.reported.sort_unstable();
        merged
    }
}
