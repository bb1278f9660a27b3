//! The difference of two profiles as evidence of an alert.

use plimsoll_profile::FunctionDifference;
use plimsoll_schemas::alert::{FunctionEvidence, ProfileEvidence};
use plimsoll_schemas::remote_text::one_line;
use plimsoll_schemas::time::Wall;

use super::store::{ProfileError, ProfileStore};
use crate::core::captures::ComparedPair;
use crate::limits::captures::FUNCTIONS_NAMED;

const NANOSECONDS: f64 = 1e9;

/// In which functions the node of an alert is longer than its peer, the most first. `page_url` is
/// that of the page for people.
///
/// # Errors
/// When either profile cannot be read, or they measure different things.
pub fn evidence(
    store: &ProfileStore,
    now: Wall,
    pair: &ComparedPair,
    page_url: &str,
) -> Result<ProfileEvidence, ProfileError> {
    let ComparedPair { culprit, peer, peer_target, .. } = pair;
    let difference = store.difference(now, *culprit, *peer)?;
    let function = |of: FunctionDifference| FunctionEvidence {
        // Names come from the process.
        function: one_line(&of.location()),
        culprit: of.own.culprit / NANOSECONDS,
        peer: of.own.peer / NANOSECONDS,
    };
    // What the culprit does less follows from what it does more: it waits less for others.
    let more = difference.rank(usize::MAX).into_iter().filter(|of| of.own.delta() > 0.0);
    Ok(ProfileEvidence {
        id: culprit.to_string(),
        peer_id: peer.to_string(),
        peer: peer_target.node.clone(),
        peer_labels: peer_target.labels.clone(),
        functions: more.take(FUNCTIONS_NAMED).map(function).collect(),
        link: Some(format!("{page_url}/?view=profile&id={culprit}&minus={peer}")),
    })
}
