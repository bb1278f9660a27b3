//! Which confirmations are those of aggregators.
//!
//! With a key, a confirmation counts only if it is signed with it and newer than the last one of
//! the same aggregator: an earlier one states what was stored then, and other limits. Without a key
//! every confirmation counts, as each client of the broker that may publish could send one.
//!
//! Owns the key and when each aggregator last confirmed. Refuses to read confirmations and to
//! decide what they remove.
//!
//! DESIGN N81.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::{AggregatorName, MeshName};
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::confirmation::Confirmation;
use plimsoll_schemas::wire::signature::{ConfirmKey, Purpose, SignatureError};

use crate::limits::{CONFIRMERS_MAX, REPLAYS_REFUSED_FOR};

/// Label of a confirmation that is no newer than one before.
const REPLAYED: &str = "replayed";

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Confirmers {
    /// Without one every confirmation counts.
    pub(super) key: Option<ConfirmKey>,
    /// When each aggregator issued its newest confirmation, and when that came.
    newest: BTreeMap<AggregatorName, (Wall, Mono)>,
}

impl Confirmers {
    /// Checks who has sent a confirmation.
    pub(super) fn check(
        &mut self,
        now: Mono,
        mesh: &MeshName,
        payload: &[u8],
        confirmation: &Confirmation,
    ) -> Result<(), &'static str> {
        let Some(key) = &self.key else { return Ok(()) };
        key.verify(Purpose::Confirmation, mesh, payload).map_err(SignatureError::reason)?;
        let issue = confirmation.issue.as_ref();
        let issue = issue.ok_or(SignatureError::Unsigned.reason())?;
        // An aggregator whose clock was set back before it started anew is believed after a while.
        let is_recent = |came: Mono| now.since(came) < REPLAYS_REFUSED_FOR;
        let newest = self.newest.get(&issue.aggregator);
        if newest.is_some_and(|(at, came)| issue.at <= *at && is_recent(*came)) {
            return Err(REPLAYED);
        }
        self.newest.insert(issue.aggregator.clone(), (issue.at, now));

        // The key was verified, so only aggregators can take places here.
        if self.newest.len() > CONFIRMERS_MAX {
            let oldest = self.newest.iter().min_by_key(|(_, (_, came))| *came);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.newest.remove(&name);
            }
        }

        Ok(())
    }
}
