//! Two nodes with one name: which name to warn of, and not too often.

use crate::limits::NAME_CONFLICT_LOG_EVERY;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::Mono;

/// The name that two nodes were last seen to share.
#[derive(Clone, Debug, Default)]
pub(in crate::core) struct DuplicateNames {
    pending: Option<NodeName>,
    warned_at: Option<Mono>,
}

impl DuplicateNames {
    pub(super) fn add(&mut self, node: &NodeName) {
        self.pending.get_or_insert_with(|| node.clone());
    }

    /// A name to warn of; at most one in [`NAME_CONFLICT_LOG_EVERY`].
    pub(in crate::core) fn next(&mut self, now: Mono) -> Option<NodeName> {
        let recent = |warned: Mono| now.since(warned) < NAME_CONFLICT_LOG_EVERY;
        if self.warned_at.is_some_and(recent) {
            return None;
        }
        let node = self.pending.take()?;
        self.warned_at = Some(now);
        Some(node)
    }
}
