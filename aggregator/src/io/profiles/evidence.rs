//! The difference of two profiles as evidence of an alert.

use plimsoll_profile::{FunctionDifference, Profile, subtract};
use plimsoll_schemas::alert::{FunctionEvidence, ProfileEvidence};
use plimsoll_schemas::remote_text::one_line;
use plimsoll_schemas::time::Wall;

use super::store::{ProfileError, ProfileStore};
use crate::core::captures::OrderedPair;
use crate::limits::captures::{DIFFERENCE_MIN, FUNCTIONS_NAMED, NOISE_DEVIATIONS};

const NANOSECONDS: f64 = 1e9;

/// In which functions the node of an alert is longer than its peer, beyond noise, the most first.
/// `page_url` is that of the page for people.
///
/// # Errors
/// When either profile cannot be read, they measure different things, or are of one process.
pub fn evidence(
    store: &ProfileStore,
    now: Wall,
    pair: &OrderedPair,
    page_url: &str,
) -> Result<ProfileEvidence, ProfileError> {
    let OrderedPair { of, culprit, peer } = pair;
    check_processes(store, pair)?;

    let (own, of_peer) = (store.profile(now, *culprit)?, store.profile(now, *peer)?);
    let difference = subtract(&own, &of_peer, None)?;
    // What the culprit does less follows from what it does more: it waits less for others.
    let more = difference.rank(usize::MAX).into_iter().filter(|of| {
        let noise = noise(of.own.culprit, &own).hypot(noise(of.own.peer, &of_peer));
        of.own.delta() > (NOISE_DEVIATIONS * noise).max(DIFFERENCE_MIN * NANOSECONDS)
    });
    let function = |of: FunctionDifference| FunctionEvidence {
        // Names come from the process.
        function: one_line(&of.frame.to_string()),
        culprit: of.own.culprit / NANOSECONDS,
        peer: of.own.peer / NANOSECONDS,
    };

    Ok(ProfileEvidence {
        id: culprit.to_string(),
        peer_id: peer.to_string(),
        labels: of.culprit.labels.clone(),
        peer: of.peer.node.clone(),
        peer_labels: of.peer.labels.clone(),
        functions: more.take(FUNCTIONS_NAMED).map(function).collect(),
        link: Some(format!("{page_url}/?view=profile&id={culprit}&minus={peer}")),
    })
}

/// Two ranks of one process have one profile, whose halves differ by chance.
fn check_processes(store: &ProfileStore, pair: &OrderedPair) -> Result<(), ProfileError> {
    let rows = store.row(pair.culprit).zip(store.row(pair.peer));
    let Some((culprit, peer)) = rows else { return Ok(()) };
    let pid = culprit.facts.pid;
    // 0 is unknown.
    if pid != 0 && pid == peer.facts.pid && culprit.node == peer.node {
        return Err(ProfileError::SameProcess { node: culprit.node, pid });
    }
    Ok(())
}

/// The standard deviation of a rate of which samples were counted: as many counts vary by their
/// square root.
fn noise(per_second: f64, of: &Profile) -> f64 {
    let of_one_sample = of.period() as f64 / (of.duration_ns as f64 / NANOSECONDS);
    (per_second * of_one_sample).sqrt()
}
