//! Captures: profiles that an operator or an alert orders of nodes.
//!
//! Owns every order from its request to its end, what became of all of them, and when alerts have
//! last ordered. An order is sent again until its node reports an end; then the profile is fetched
//! in chunks and stored. Of an alert's two orders, for the node at fault and for its peer, at one
//! instant, the difference follows. It sends and stores nothing: the driver carries out its
//! effects. Ids are derived from what is ordered, so that two aggregators that find one breach
//! order one capture. Orders are in memory alone; a restart gives those up that run.
//!
//! Interface: [`Captures::order`] and [`Captures::stop`] for clients, [`Captures::on_fired`] for
//! alerts, [`Captures::next_effect`] for the driver, which reports by [`Captures::on_response`] and
//! [`Captures::on_stored`].
//!
//! DESIGN A183.

mod breach;
mod capture;
mod effect;
mod sum;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use plimsoll_schemas::alert::AlertKey;
use plimsoll_schemas::ids::{MeshName, NodeName, RuleName};
use plimsoll_schemas::limits::wire::{CAPTURE_HZ_MAX, CAPTURE_SECONDS_MAX};
use plimsoll_schemas::summary::{ProfileRequest, ProfileRow, ProfileState};
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::wire::WireError;
use plimsoll_schemas::wire::capture::{
    CaptureId, CaptureKind, CaptureOrder, CaptureResponse, PastRange, ProcessSelector,
};
use thiserror::Error;

use self::breach::{Breaches, next_instant};
pub use self::breach::{CapturePair, CaptureTarget};
use self::capture::Capture;
pub use self::effect::{CaptureEffect, CaptureEnd, CaptureLedger, OrderedPair, RequestError};
use self::sum::Sum;
use crate::limits::captures::{
    ENDED_MAX, HZ_DEFAULT, PAIRS_SOUGHT_MAX, RECORDING_HZ_DEFAULT, RECORDING_SECONDS_DEFAULT,
    RECORDINGS_MAX, RUNNING_MAX, SECONDS_DEFAULT, START_WITHIN, SUMMED_AT_ONCE, SUMS_MAX,
};

#[derive(Debug, Default)]
pub struct Captures {
    captures: BTreeMap<CaptureId, Capture>,
    sums: BTreeMap<CaptureId, Sum>,
    breaches: Breaches,
    /// Pairs whose two captures have not ended yet.
    pairs: Vec<OrderedPair>,
    pub ledger: CaptureLedger,
    /// Whether alerts order captures.
    pub on_breach: bool,
}

#[derive(Debug, Error, PartialEq)]
pub enum CaptureError {
    #[error("node {0} is unknown")]
    UnknownNode(NodeName),
    #[error("name one node; kind past alone takes several, or without any all that are up")]
    Nodes,
    #[error("captures must be signed; set confirm.key_file here and on the node")]
    NoKey,
    #[error("profiles are kept beside the state file; set state.path")]
    NoStore,
    #[error("{0} captures are running; retry when one has ended")]
    Full(usize),
    #[error("no capture {0} was ordered here; GET /api/v1/profiles lists them")]
    Unknown(CaptureId),
    #[error("capture {0} is not running; GET /api/v1/profiles/{0} has how it ended")]
    NotRunning(CaptureId),
    #[error(
        "{0}; name the process by pid alone, or by operation and its labels; seconds are 1 to \
         {CAPTURE_SECONDS_MAX}, hz 1 to {CAPTURE_HZ_MAX}; kind past alone has from and to; \
         kind continuous names no process, lasts 60 to 86400 s, and alone has interval_seconds, \
         10 to 3600"
    )]
    Order(WireError),
}

impl Captures {
    /// Orders a capture for a client, of its `nodes`. The same order within one second is the same
    /// capture.
    ///
    /// # Errors
    /// When it is out of bounds, or there are too many.
    pub fn order(
        &mut self,
        now: Now,
        mesh: &MeshName,
        request: ProfileRequest,
    ) -> Result<ProfileRow, CaptureError> {
        let past = past_of(&request);
        let ProfileRequest { kind, native, nodes, pid, operation, labels, .. } = request;
        let node = nodes.first().cloned().ok_or(CaptureError::Nodes)?;
        let process = ProcessSelector { pid, operation, labels };
        let (seconds, hz) = match kind {
            // What was recorded is there at once.
            CaptureKind::Past => (1, HZ_DEFAULT),
            CaptureKind::Continuous => (RECORDING_SECONDS_DEFAULT, RECORDING_HZ_DEFAULT),
            CaptureKind::Cpu | CaptureKind::Memory | CaptureKind::Trace => {
                (SECONDS_DEFAULT, HZ_DEFAULT)
            }
        };
        let order = CaptureOrder {
            kind,
            native,
            past,
            seconds: request.seconds.unwrap_or(seconds),
            interval_seconds: request.interval_seconds,
            hz: request.hz.unwrap_or(hz),
            ..order_of(now, process, None)
        };
        order.check().map_err(CaptureError::Order)?;

        let id = capture::id(mesh, &node, &order);
        match nodes.len() {
            1 => {}
            _ if past.is_some() => return self.order_sum(Sum::new(now, id, order, nodes)),
            _ => return Err(CaptureError::Nodes),
        }
        match kind {
            _ if self.captures.contains_key(&id) => {}
            CaptureKind::Continuous if self.running(true) < RECORDINGS_MAX => {}
            CaptureKind::Continuous => return Err(CaptureError::Full(RECORDINGS_MAX)),
            _ => self.check_room(1)?,
        }
        Ok(self.add(now, id, node, order, None).row.clone())
    }

    fn order_sum(&mut self, sum: Sum) -> Result<ProfileRow, CaptureError> {
        let id = sum.row.id;
        if !self.sums.contains_key(&id) && self.sums.len() >= SUMS_MAX {
            let mut ended = self.sums.values().filter(|of| of.row.state != ProfileState::Running);
            let ended = ended.next().map(|of| of.row.id).ok_or(CaptureError::Full(SUMS_MAX))?;
            self.sums.remove(&ended);
        }
        Ok(self.sums.entry(id).or_insert(sum).row.clone())
    }

    /// The next nodes of sums are captured while half of all captures are left to others; a sum
    /// whose nodes have ended is stored.
    fn next_of_sums(&mut self, now: Now) -> Option<CaptureEffect> {
        let mut free = SUMMED_AT_ONCE.saturating_sub(self.running(false));
        for sum in self.sums.values_mut() {
            while free > 0 {
                let Some(part) = sum.next_part(now) else { break };
                self.ledger.ordered += 1;
                self.captures.insert(part.row.id, part);
                free -= 1;
            }
        }
        self.sums.values_mut().find_map(|sum| sum.finish(&mut self.captures))
    }

    /// The sum that a capture is a part of.
    fn sum_of(&self, part: CaptureId) -> Option<CaptureId> {
        self.sums.values().find(|sum| sum.parts.contains(&part)).map(|sum| sum.row.id)
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
            if self.is_spent(now.wall, &alert.rule, alert.scope.node()) {
                continue;
            }
            sought += 1;
            if let Some(pair) = pair_of(self, alert) {
                self.breaches.count(now.wall, &pair);
                self.order_pair(now, mesh, pair);
            }
        }
    }

    /// Whether a node was captured for this rule so recently that it refuses another capture.
    pub fn is_spent(&self, now: Wall, rule: &RuleName, node: &str) -> bool {
        self.breaches.is_spent(now, rule, node)
    }

    fn order_pair(&mut self, now: Now, mesh: &MeshName, pair: CapturePair) {
        let order = |target: &CaptureTarget| {
            let (operation, labels) = (Some(pair.alert.operation.clone()), target.labels.clone());
            let process = ProcessSelector { pid: None, operation, labels };
            order_of(now, process, Some(pair.alert.rule.clone()))
        };
        let [of_culprit, of_peer] = [&pair.culprit, &pair.peer].map(order);
        let culprit = capture::id(mesh, &pair.culprit.node, &of_culprit);
        let peer = capture::id(mesh, &pair.peer.node, &of_peer);

        self.add(now, culprit, pair.culprit.node.clone(), of_culprit, Some(peer));
        self.add(now, peer, pair.peer.node.clone(), of_peer, Some(culprit));
        self.pairs.push(OrderedPair { of: pair, culprit, peer });
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

    fn check_room(&self, wanted: usize) -> Result<(), CaptureError> {
        let is_free = self.running(false) + wanted <= RUNNING_MAX;
        if is_free { Ok(()) } else { Err(CaptureError::Full(RUNNING_MAX)) }
    }

    /// Captures without an end: recordings, which last for hours, or the others.
    fn running(&self, is_recording: bool) -> usize {
        let is_one = |of: &&Capture| (of.row.kind == CaptureKind::Continuous) == is_recording;
        self.captures.values().filter(|of| of.end().is_none()).filter(is_one).count()
    }

    /// The next thing to do, if there is one now.
    pub fn next_effect(&mut self, now: Now) -> Option<CaptureEffect> {
        let first = self.next_compared().or_else(|| self.next_of_sums(now));
        let effect =
            first.or_else(|| self.captures.values_mut().find_map(|of| of.next_effect(now)))?;
        match effect {
            CaptureEffect::Store { row, bytes } => Some(match self.sum_of(row.id) {
                Some(sum) => CaptureEffect::Add { sum, part: row.id, bytes },
                None => CaptureEffect::Store { row, bytes },
            }),
            other => Some(other),
        }
    }

    /// When [`Self::next_effect`] next returns one; `None` without an event before.
    pub fn next_deadline(&self) -> Option<Mono> {
        let has_turn = self.running(false) < SUMMED_AT_ONCE;
        let is_due = |sum: &Sum| sum.is_over(&self.captures) || (has_turn && sum.has_waiting());
        let at_once = self.sums.values().any(is_due).then_some(Mono(0));
        at_once.or_else(|| self.captures.values().filter_map(Capture::next_at).min())
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
        match self.sums.get_mut(&id) {
            Some(sum) => sum.on_stored(stored),
            None => self.advance(id, |capture| capture.on_stored(stored)),
        }
    }

    /// Ends a capture early for a client. Its node is asked for what was taken so far; without a
    /// response in time there is no profile of it. A sum has what was added.
    ///
    /// # Errors
    /// When it is unknown, or waits and runs no more.
    pub fn stop(&mut self, now: Now, id: CaptureId) -> Result<ProfileRow, CaptureError> {
        if let Some(sum) = self.sums.get_mut(&id) {
            if !sum.stop() {
                return Err(CaptureError::NotRunning(id));
            }
            let (row, parts) = (sum.row.clone(), sum.parts.clone());
            for part in parts {
                // One that has ended has its reason.
                let _ended = self.stop(now, part);
            }
            return Ok(row);
        }
        let capture = self.captures.get_mut(&id).ok_or(CaptureError::Unknown(id))?;
        if capture.stop(now) { Ok(capture.row.clone()) } else { Err(CaptureError::NotRunning(id)) }
    }

    fn advance(&mut self, id: CaptureId, advance: impl FnOnce(&mut Capture)) {
        let Some(capture) = self.captures.get_mut(&id).filter(|of| of.end().is_none()) else {
            return;
        };
        advance(capture);
        if let Some(end) = capture.end() {
            *self.ledger.ended.entry(end).or_default() += 1;
            self.evict();
        }
    }

    /// The two profiles of an alert, once both are stored.
    fn next_compared(&mut self) -> Option<CaptureEffect> {
        let state = |id: &CaptureId| self.captures.get(id).map(|of| of.row.state);
        let all = |pair: &OrderedPair, is: fn(ProfileState) -> bool| {
            [&pair.culprit, &pair.peer].into_iter().all(|id| state(id).is_some_and(is))
        };
        // Without one of the two there is no difference.
        self.pairs.retain(|pair| all(pair, |of| of.has_profile() || of == ProfileState::Running));
        let pair = self.pairs.extract_if(.., |pair| all(pair, ProfileState::has_profile)).next()?;
        Some(CaptureEffect::Compare(pair))
    }

    /// Of those that have ended, the one that started first makes room.
    fn evict(&mut self) {
        let ended = self.captures.values().map(|of| &of.row);
        let ended = ended.filter(|row| row.state != ProfileState::Running);
        if ended.clone().count() > ENDED_MAX {
            let oldest = ended.min_by(|a, b| a.made_at().total_cmp(&b.made_at()));
            let oldest = oldest.map(|row| row.id);
            self.captures.retain(|id, _| Some(*id) != oldest);
        }
    }

    /// All that are known and have no profile, in no order.
    pub fn rows(&self) -> Vec<ProfileRow> {
        let is_part = |of: &&Capture| self.sum_of(of.row.id).is_none();
        let rows = self.captures.values().filter(is_part).map(|of| &of.row);
        let rows = rows.chain(self.sums.values().map(|of| &of.row));
        rows.filter(|row| !row.state.has_profile()).cloned().collect()
    }
}

/// The stretch that a request asks for.
fn past_of(request: &ProfileRequest) -> Option<PastRange> {
    let at = |seconds: u64| Wall(seconds.saturating_mul(1_000_000_000));
    Some(PastRange { from: at(request.from?), to: at(request.to?) })
}

/// An order with the defaults, which starts as soon as all nodes can have it.
fn order_of(now: Now, process: ProcessSelector, rule: Option<RuleName>) -> CaptureOrder {
    let start_at = next_instant(now.wall);
    let expires_at = start_at.plus(START_WITHIN);
    CaptureOrder {
        kind: CaptureKind::Cpu,
        native: false,
        past: None,
        process,
        seconds: SECONDS_DEFAULT,
        interval_seconds: None,
        hz: HZ_DEFAULT,
        start_at,
        expires_at,
        rule,
    }
}
