//! Captures: profiles that an operator or an alert orders of nodes.
//!
//! Owns every order from its request to its end, what became of all of them, and when alerts have
//! last ordered. An order is sent again until its node reports an end; then the profile is fetched
//! in chunks and stored. Of an alert's two orders, for the node at fault and for its peer, at one
//! instant, the difference follows. It sends and stores nothing: the driver carries out its
//! effects. Ids are derived from what is ordered, so that two aggregators that find one breach
//! order one capture. Orders are in memory alone; a restart gives those up that run.
//!
//! Interface: [`Captures::order`] for clients, [`Captures::on_fired`] for alerts,
//! [`Captures::next_effect`] for the driver, which reports by [`Captures::on_response`] and
//! [`Captures::on_stored`].
//!
//! DESIGN A183.

mod breach;
mod capture;
mod effect;
mod ledger;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_schemas::alert::AlertKey;
use plimsoll_schemas::ids::{MeshName, NodeName, RuleName};
use plimsoll_schemas::summary::ProfileRow;
use plimsoll_schemas::time::{Mono, Now, Wall, nanos};
use plimsoll_schemas::wire::WireError;
use plimsoll_schemas::wire::capture::{CaptureId, CaptureOrder, CaptureResponse, ProcessSelector};
use thiserror::Error;

pub use self::breach::CapturePair;
use self::breach::{AwaitedPair, Breaches};
use self::capture::Capture;
pub use self::effect::{CaptureEffect, CaptureTarget, ComparedPair, RequestError};
pub use self::ledger::{CaptureEnd, CaptureLedger};
use crate::limits::captures::{
    ENDED_MAX, HZ_DEFAULT, PAIRS_SOUGHT_MAX, RUNNING_MAX, SECONDS_DEFAULT, START_AHEAD,
    START_WITHIN,
};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub struct Captures {
    captures: BTreeMap<CaptureId, Capture>,
    breaches: Breaches,
    /// Alerts whose two captures have not ended yet.
    pairs: Vec<AwaitedPair>,
    pub ledger: CaptureLedger,
}

/// What a client orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureCommand {
    pub node: NodeName,
    pub process: ProcessSelector,
    pub seconds: Option<u32>,
    pub hz: Option<u32>,
}

#[derive(Debug, Error, PartialEq)]
pub enum CaptureError {
    #[error("node {0} is unknown")]
    UnknownNode(NodeName),
    #[error("captures must be signed; set confirm.key_file here and on the node")]
    NoKey,
    #[error("profiles are kept beside the state file; set state.path")]
    NoStore,
    #[error("{RUNNING_MAX} captures are running; retry when one has ended")]
    Full,
    #[error("{}", out_of_bounds(.0))]
    Order(WireError),
}

fn out_of_bounds(error: &WireError) -> String {
    match error {
        WireError::Bounds { field: "process" } => {
            "name the process by pid alone, or by operation and its labels".to_owned()
        }
        WireError::Bounds { field: "seconds" } => "seconds must be 1 to 60".to_owned(),
        WireError::Bounds { field: "hz" } => "hz must be 1 to 100".to_owned(),
        other => other.to_string(),
    }
}

impl Captures {
    /// Orders a capture for a client. The same order within one second is the same capture.
    ///
    /// # Errors
    /// When it is out of bounds, or there are too many.
    pub fn order(
        &mut self,
        now: Now,
        mesh: &MeshName,
        command: CaptureCommand,
    ) -> Result<ProfileRow, CaptureError> {
        let CaptureCommand { node, process, seconds, hz } = command;
        let start_at = next_instant(now.wall, SECOND);
        let order = CaptureOrder {
            process,
            seconds: seconds.unwrap_or(SECONDS_DEFAULT),
            hz: hz.unwrap_or(HZ_DEFAULT),
            start_at,
            expires_at: start_at.plus(START_WITHIN),
            rule: None,
        };
        order.check().map_err(CaptureError::Order)?;

        let id = capture::id(mesh, &node, &order);
        if let Some(known) = self.captures.get(&id) {
            return Ok(known.row());
        }
        self.check_room(1)?;
        Ok(self.add(now, id, node, order, None).row())
    }

    /// Alerts about one node fire: each such node and its peer are captured at one instant, unless
    /// enough was for this rule, this node, or in this hour. `pair_of` finds the peer. That is
    /// costly, so it is called for the few alerts alone that may order.
    pub fn on_fired(
        &mut self,
        now: Now,
        mesh: &MeshName,
        alerts: Vec<AlertKey>,
        mut pair_of: impl FnMut(&Self, AlertKey) -> Option<CapturePair>,
    ) {
        self.breaches.expire(now.wall);
        let mut sought = 0;
        for alert in alerts {
            if sought == PAIRS_SOUGHT_MAX || self.breaches.is_full() || self.check_room(2).is_err()
            {
                return;
            }
            if self.breaches.is_paused(&alert) {
                continue;
            }
            sought += 1;
            if let Some(pair) = pair_of(self, alert) {
                self.breaches.count(now.wall, &pair.alert);
                self.order_pair(now, mesh, pair);
            }
        }
    }

    /// Whether a node has started a capture for this rule so recently that it refuses another one.
    pub fn is_spent(&self, now: Wall, rule: &RuleName, node: &NodeName) -> bool {
        self.captures.values().any(|of| of.is_spent(now, rule, node))
    }

    fn order_pair(&mut self, now: Now, mesh: &MeshName, pair: CapturePair) {
        let start_at = next_instant(now.wall, SECOND);
        let [of_culprit, of_peer] =
            [&pair.culprit, &pair.peer].map(|target| pair.order(target, start_at));
        let culprit = capture::id(mesh, &pair.culprit.node, &of_culprit);
        let peer = capture::id(mesh, &pair.peer.node, &of_peer);

        self.add(now, culprit, pair.culprit.node, of_culprit, Some(peer));
        self.add(now, peer, pair.peer.node.clone(), of_peer, Some(culprit));
        self.pairs.push(AwaitedPair(ComparedPair {
            alert: pair.alert,
            culprit,
            peer,
            culprit_labels: pair.culprit.labels,
            peer_target: pair.peer,
        }));
    }

    fn add(
        &mut self,
        now: Now,
        id: CaptureId,
        node: NodeName,
        order: CaptureOrder,
        peer: Option<CaptureId>,
    ) -> &Capture {
        let ledger = &mut self.ledger;
        self.captures.entry(id).or_insert_with(|| {
            ledger.ordered += 1;
            Capture::new(now, id, node, order, peer)
        })
    }

    fn check_room(&self, wanted: u64) -> Result<(), CaptureError> {
        let is_free = self.ledger.running() + wanted <= RUNNING_MAX as u64;
        if is_free { Ok(()) } else { Err(CaptureError::Full) }
    }

    /// The next thing to do, if there is one now.
    pub fn next_effect(&mut self, now: Now) -> Option<CaptureEffect> {
        let compared = self.next_compared();
        compared.or_else(|| self.captures.values_mut().find_map(|of| of.next_effect(now)))
    }

    /// When [`Self::next_effect`] next returns one; `None` without an event before.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.captures.values().filter_map(Capture::next_at).min()
    }

    /// A request was responded to, or not.
    pub fn on_response(
        &mut self,
        now: Now,
        id: CaptureId,
        response: Result<CaptureResponse, RequestError>,
    ) {
        self.advance(id, |capture| capture.on_response(now, response));
    }

    /// A profile was stored, or why not, in one word.
    pub fn on_stored(&mut self, id: CaptureId, stored: Result<(), &'static str>) {
        self.advance(id, |capture| capture.on_stored(stored));
    }

    fn advance(&mut self, id: CaptureId, advance: impl FnOnce(&mut Capture)) {
        let Some(capture) = self.captures.get_mut(&id).filter(|of| of.end().is_none()) else {
            return;
        };
        advance(capture);
        if let Some(end) = capture.end() {
            self.ledger.count(end);
            self.evict();
        }
    }

    /// The two profiles of an alert, once both are stored.
    fn next_compared(&mut self) -> Option<CaptureEffect> {
        let captures = &self.captures;
        let of = |id: &CaptureId| {
            captures.get(id).filter(|of| of.end().is_none_or(|_| of.has_profile()))
        };
        // Without one of the two there is no difference.
        self.pairs
            .retain(|AwaitedPair(pair)| of(&pair.culprit).is_some() && of(&pair.peer).is_some());

        let is_stored = |id: &CaptureId| captures.get(id).is_some_and(Capture::has_profile);
        let ready = |AwaitedPair(of): &AwaitedPair| is_stored(&of.culprit) && is_stored(&of.peer);
        let AwaitedPair(pair) = self.pairs.extract_if(.., |of| ready(of)).next()?;
        Some(CaptureEffect::Compare(pair))
    }

    /// Those that started first make room.
    fn evict(&mut self) {
        let ended = self.captures.iter().filter(|(_, of)| of.end().is_some());
        let mut ended: Vec<_> = ended.map(|(id, of)| (of.start_at(), *id)).collect();
        ended.sort_unstable();
        let extra = ended.len().saturating_sub(ENDED_MAX);
        for (_, id) in ended.into_iter().take(extra) {
            self.captures.remove(&id);
        }
    }

    /// All that are known, in no order.
    pub fn rows(&self) -> Vec<ProfileRow> {
        self.captures.values().map(Capture::row).collect()
    }
}

/// The first multiple of `grid` that is far enough ahead.
fn next_instant(now: Wall, grid: Duration) -> Wall {
    let earliest = now.plus(START_AHEAD).0;
    Wall(earliest.div_ceil(nanos(grid)).saturating_mul(nanos(grid)))
}
