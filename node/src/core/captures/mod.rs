//! Ordered captures: which are permitted, of which process, and what became of each.
//!
//! Owns the orders of the last minutes with their profiles, the limits, and the ledger
//! ([`CaptureStats`]). An order waits for its instant and for its process, then runs, then is kept.
//! [`Captures::on_deadline`] returns what is to be captured now; [`Captures::on_sender`] takes the
//! senders of what is searched for, which the kernel states. Refuses to find processes and to
//! read them.
//!
//! DESIGN N93.

mod limits;
mod order;
mod stats;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use plimsoll_schemas::ids::{Labels, MeshName, NodeName, Series};
use plimsoll_schemas::time::{BootMillis, Mono, Now};
use plimsoll_schemas::wire::capture::{
    CaptureFacts, CaptureFailure, CaptureId, CaptureOrder, CaptureRefusal, CaptureRequest,
    CaptureResponse, CaptureState, CaptureStep,
};
use plimsoll_schemas::wire::signature::{ConfirmKey, Purpose, SignatureError};

use self::limits::Recent;
pub use self::order::SendingProcess;
use self::order::{Due, KnownOrder};
pub use self::stats::CaptureStats;
use super::Identity;
use crate::limits::{CAPTURE_EARLY_MAX, CAPTURE_ORDERS_MAX, CAPTURES_AT_ONCE};

/// Whether orders are carried out.
#[derive(Clone, Debug)]
pub enum CaptureGate {
    /// Those that are signed with this key.
    Signed(ConfirmKey),
    /// None, and why.
    Closed(CaptureRefusal),
}

#[derive(Debug)]
pub struct Captures {
    mesh: MeshName,
    node: NodeName,
    /// Labels that the node adds to all series.
    labels: Labels,
    gate: CaptureGate,
    orders: BTreeMap<CaptureId, KnownOrder>,
    /// Orders that wait or run: one, or two of an alert at one instant, for a process at fault and
    /// a healthy one beside it.
    active: BTreeSet<CaptureId>,
    recent: Recent,
    stats: CaptureStats,
}

/// A capture to start now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureStart {
    pub id: CaptureId,
    pub pid: u32,
    pub seconds: u32,
    pub hz: u32,
    /// When the sender was there; `None` when it was ordered by its number.
    pub alive_at: Option<BootMillis>,
}

/// How a capture ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureEnd {
    pub id: CaptureId,
    pub state: CaptureState,
    pub facts: CaptureFacts,
    pub profile: Bytes,
}

/// A response, and the last token of its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureAnswer {
    pub asker: String,
    pub response: CaptureResponse,
}

impl Captures {
    pub fn new(identity: &Identity, gate: CaptureGate) -> Self {
        Self {
            mesh: identity.mesh.clone(),
            node: identity.node.clone(),
            labels: identity.labels.clone(),
            gate,
            orders: BTreeMap::new(),
            active: BTreeSet::new(),
            recent: Recent::default(),
            stats: CaptureStats::default(),
        }
    }

    /// The file of the key has changed.
    pub fn set_key(&mut self, key: ConfirmKey) {
        if let CaptureGate::Signed(former) = &mut self.gate {
            *former = key;
        }
    }

    /// The response to a request; none to bytes that are no request, which are counted, and to a
    /// request of what was sent just now.
    pub fn on_request(&mut self, now: Now, payload: &[u8]) -> Option<CaptureAnswer> {
        self.forget(now.mono);
        let Ok(request) = CaptureRequest::decode(payload) else {
            self.stats.undecodable += 1;
            return None;
        };
        let CaptureRequest { number, asker, node, id, step } = request;
        let answer = |response| Some(CaptureAnswer { asker, response });

        // Before anything of it is looked up: what is not signed learns nothing.
        if let Err(refusal) = self.admit(&node, payload) {
            self.stats.refuse(refusal);
            return answer(refused(number, id, refusal));
        }
        answer(match step {
            CaptureStep::Order(order) => self.on_order(now, number, id, order),
            CaptureStep::Chunk(chunk) => match self.orders.get_mut(&id) {
                Some(known) => known.chunk(now.mono, number, id, chunk)?,
                None => CaptureResponse::new(number, id, CaptureState::Unknown),
            },
        })
    }

    fn admit(&self, node: &NodeName, payload: &[u8]) -> Result<(), CaptureRefusal> {
        let key = match &self.gate {
            CaptureGate::Signed(key) => key,
            CaptureGate::Closed(refusal) => return Err(*refusal),
        };
        key.verify(Purpose::Capture, &self.mesh, payload).map_err(|error| match error {
            SignatureError::Unsigned => CaptureRefusal::Unsigned,
            SignatureError::Wrong => CaptureRefusal::Signature,
        })?;
        if *node == self.node { Ok(()) } else { Err(CaptureRefusal::OtherNode) }
    }

    fn on_order(
        &mut self,
        now: Now,
        number: u64,
        id: CaptureId,
        order: CaptureOrder,
    ) -> CaptureResponse {
        match self.orders.get(&id) {
            // Sent again, it asks for the state.
            Some(known) if known.order.is_repeated_by(&order) => {
                return known.response(number, id);
            }
            Some(_) => return self.refuse_unkept(number, id, CaptureRefusal::Replayed),
            None if self.orders.len() == CAPTURE_ORDERS_MAX => {
                return self.refuse_unkept(number, id, CaptureRefusal::Full);
            }
            None => {}
        }

        self.stats.ordered += 1;
        let state = self.first_state(now, &order);
        let mut known = KnownOrder::new(now, order, &self.node, &self.labels);
        if state.is_final() {
            known.end(now.mono, state);
            self.stats.end(state);
        } else {
            self.active.insert(id);
        }
        let response = known.response(number, id);
        self.orders.insert(id, known);
        response
    }

    fn first_state(&self, now: Now, order: &CaptureOrder) -> CaptureState {
        let is_early = order.start_at > now.wall.plus(CAPTURE_EARLY_MAX);
        match self.recent.check(now.mono, order.rule.as_ref(), self.active.len()) {
            _ if now.wall >= order.expires_at => CaptureState::Expired,
            _ if is_early => CaptureState::Refused(CaptureRefusal::Early),
            _ if !self.is_free_for(order) => CaptureState::Refused(CaptureRefusal::Busy),
            Err(refusal) => CaptureState::Refused(refusal),
            Ok(()) => CaptureState::Waiting,
        }
    }

    /// Whether nothing is under way but the other half of an alert's pair.
    fn is_free_for(&self, order: &CaptureOrder) -> bool {
        let is_half =
            |id: &CaptureId| self.orders.get(id).is_some_and(|known| known.is_of_one_pair(order));
        self.active.len() < CAPTURES_AT_ONCE && self.active.iter().all(is_half)
    }

    /// Refuses what has no state of its own.
    fn refuse_unkept(
        &mut self,
        number: u64,
        id: CaptureId,
        refusal: CaptureRefusal,
    ) -> CaptureResponse {
        self.stats.refuse(refusal);
        refused(number, id, refusal)
    }

    /// Whether a sender of some series is searched for now.
    pub fn is_searching(&self) -> bool {
        self.active().any(|known| known.searched().is_some())
    }

    /// This process has sent something; `is_sent` is whether a series, without labels that the node
    /// adds, is in it.
    pub fn on_sender(&mut self, sender: SendingProcess, is_sent: impl Fn(&Series) -> bool) {
        for id in &self.active {
            let Some(known) = self.orders.get_mut(id) else { continue };
            if known.searched().is_some_and(&is_sent) {
                known.on_sender(sender);
            }
        }
    }

    fn active(&self) -> impl Iterator<Item = &KnownOrder> {
        self.active.iter().filter_map(|id| self.orders.get(id))
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.active().map(KnownOrder::next_deadline).min()
    }

    /// The capture to start, if it is its time.
    pub fn on_deadline(&mut self, now: Mono) -> Option<CaptureStart> {
        self.forget(now);
        let active: Vec<CaptureId> = self.active.iter().copied().collect();
        active.into_iter().find_map(|id| self.start_due(now, id))
    }

    fn start_due(&mut self, now: Mono, id: CaptureId) -> Option<CaptureStart> {
        let known = self.orders.get_mut(&id)?;
        match known.due(now)? {
            Due::End { state, fix } => {
                known.facts.fix = fix;
                self.end(now, id, state);
                None
            }
            Due::Start { pid, alive_at } => {
                known.start(now);
                let CaptureOrder { seconds, hz, ref rule, .. } = known.order;
                self.recent.push(now, rule.clone());
                Some(CaptureStart { id, pid, seconds, hz, alive_at })
            }
        }
    }

    /// The profiler has responded, or could not be asked.
    pub fn on_captured(&mut self, now: Mono, end: CaptureEnd) {
        let CaptureEnd { id, state, facts, profile } = end;
        // One that was given up stays so, whatever comes of it in the end.
        let is_awaited = self.active.contains(&id);
        let Some(known) = self.orders.get_mut(&id).filter(|_| is_awaited) else { return };
        (known.facts, known.profile) = (facts, profile);
        self.end(now, id, state);
    }

    fn end(&mut self, now: Mono, id: CaptureId, state: CaptureState) {
        self.active.remove(&id);
        self.stats.end(state);
        if let Some(known) = self.orders.get_mut(&id) {
            known.end(now, state);
        }
    }

    /// Removes what is no longer kept.
    fn forget(&mut self, now: Mono) {
        self.orders.retain(|_, known| !known.is_over(now));
    }

    pub fn stats(&self) -> CaptureStats {
        CaptureStats { active: self.active.len() as u64, ..self.stats.clone() }
    }
}

fn refused(number: u64, id: CaptureId, refusal: CaptureRefusal) -> CaptureResponse {
    CaptureResponse::new(number, id, CaptureState::Refused(refusal))
}

impl CaptureEnd {
    pub fn failed(id: CaptureId, failure: CaptureFailure, fix: String) -> Self {
        let facts = CaptureFacts { fix, ..CaptureFacts::default() };
        Self { id, state: CaptureState::Failed(failure), facts, profile: Bytes::new() }
    }
}
