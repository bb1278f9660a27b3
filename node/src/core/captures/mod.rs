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

use std::collections::BTreeMap;

use bytes::Bytes;
use plimsoll_schemas::ids::{NodeName, Series};
use plimsoll_schemas::time::{Mono, Now};
use plimsoll_schemas::wire::capture::{
    CaptureFacts, CaptureFailure, CaptureId, CaptureKind, CaptureOrder, CaptureRefusal,
    CaptureRequest, CaptureResponse, CaptureState, CaptureStep, PastRange, ProfilerOrder,
};
use plimsoll_schemas::wire::signature::{ConfirmKey, Purpose, SignatureError};

use self::limits::Recent;
pub use self::order::SendingProcess;
use self::order::{KnownOrder, Unstarted};
pub use self::stats::CaptureStats;
use super::Identity;
use crate::limits::{
    CAPTURE_EARLY_MAX, CAPTURE_ORDERS_MAX, CAPTURES_AT_ONCE, PAST_ORDERS_MAX, PAST_PAUSE,
};

/// The key of those who may order, or why no order is permitted.
pub type CaptureGate = Result<ConfirmKey, CaptureRefusal>;

#[derive(Debug)]
pub struct Captures {
    identity: Identity,
    gate: CaptureGate,
    /// Of those, one waits or runs, or two of an alert at one instant: for a process at fault and a
    /// healthy one beside it. Those of the past, a few, wait for each other alone.
    orders: BTreeMap<CaptureId, KnownOrder>,
    recent: Recent,
    /// When the last one of the past started.
    past_started: Option<Mono>,
    /// Those that run and are to end now.
    stopped: Vec<CaptureId>,
    stats: CaptureStats,
}

/// A capture to start now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureStart {
    pub id: CaptureId,
    /// Of the past the number of its process, or 0 for all.
    pub order: ProfilerOrder,
    /// What the node has recorded before is wanted, for which no profiler is asked.
    pub past: Option<PastRange>,
    /// Whether the client inside of the process is left alone.
    pub from_outside: bool,
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
    pub fn new(identity: Identity, gate: CaptureGate) -> Self {
        Self {
            identity,
            gate,
            orders: BTreeMap::new(),
            recent: Recent::default(),
            past_started: None,
            stopped: Vec::new(),
            stats: CaptureStats::default(),
        }
    }

    /// The file of the key has changed.
    pub fn set_key(&mut self, key: ConfirmKey) {
        if let Ok(former) = &mut self.gate {
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
        let mut response = CaptureResponse::new(number, id, CaptureState::Unknown);

        // Before anything of it is looked up: what is not signed learns nothing.
        let accepted = self.admit(&node, payload).and_then(|()| match &step {
            CaptureStep::Order(order) => self.on_order(now, id, order),
            CaptureStep::Stop => {
                self.stop(now.mono, id);
                Ok(())
            }
            CaptureStep::Chunk(_) => Ok(()),
        });

        if let Err(refusal) = accepted {
            self.stats.refuse(refusal);
            response.state = CaptureState::Refused(refusal);
        } else if let Some(known) = self.orders.get_mut(&id) {
            if let CaptureStep::Chunk(chunk) = step {
                response.chunk = known.chunk(now.mono, chunk)?;
            }
            response.state = known.state();
            response.facts = known.facts.clone();
            response.bytes = known.profile.len() as u64;
        }
        Some(CaptureAnswer { asker, response })
    }

    /// One that waits is over; one that runs ends with what was taken, once its profiler responds
    /// or what it recorded is read.
    fn stop(&mut self, now: Mono, id: CaptureId) {
        let Some(known) = self.orders.get_mut(&id) else { return };
        match known.state() {
            CaptureState::Waiting => {
                self.end(now, id, CaptureState::Failed(CaptureFailure::Cancelled));
            }
            CaptureState::Running if known.is_recording() => known.stop(now),
            CaptureState::Running => self.stopped.push(id),
            _ => {}
        }
    }

    /// The captures whose profiler is to end now.
    pub fn take_stopped(&mut self) -> Vec<CaptureId> {
        std::mem::take(&mut self.stopped)
    }

    fn admit(&self, node: &NodeName, payload: &[u8]) -> Result<(), CaptureRefusal> {
        let key = self.gate.as_ref().map_err(|refusal| *refusal)?;
        key.verify(Purpose::Capture, &self.identity.mesh, payload).map_err(
            |error| match error {
                SignatureError::Unsigned => CaptureRefusal::Unsigned,
                SignatureError::Wrong => CaptureRefusal::Signature,
            },
        )?;
        if *node == self.identity.node { Ok(()) } else { Err(CaptureRefusal::OtherNode) }
    }

    /// Keeps an order with its state. One that is sent again asks for it.
    fn on_order(
        &mut self,
        now: Now,
        id: CaptureId,
        order: &CaptureOrder,
    ) -> Result<(), CaptureRefusal> {
        match self.orders.get(&id) {
            Some(known) if known.order.is_repeated_by(order) => return Ok(()),
            Some(_) => return Err(CaptureRefusal::Replayed),
            None if is_read(order.kind) => self.make_room_for_past()?,
            None if self.orders.len() >= CAPTURE_ORDERS_MAX => return Err(CaptureRefusal::Full),
            None => {}
        }

        let state = self.first_state(now, order);
        if order.kind == CaptureKind::Continuous && !state.is_final() {
            // One at a time: an aggregator that restarted cannot end the one that it ordered.
            self.orders.values_mut().for_each(|known| known.stop(now.mono));
        }
        self.stats.ordered += 1;
        self.orders.insert(id, KnownOrder::new(now, order.clone(), &self.identity));
        if state.is_final() {
            self.end(now.mono, id, state);
        }
        Ok(())
    }

    /// Profiles of the past are as large as others, and there is no limit by the hour: of those
    /// that have ended the first makes room.
    fn make_room_for_past(&mut self) -> Result<(), CaptureRefusal> {
        let past = || self.orders.iter().filter(|(_, known)| is_read(known.order.kind));
        if past().count() < PAST_ORDERS_MAX {
            return Ok(());
        }
        let ended = past().filter(|(_, known)| known.state().is_final());
        let first = ended.min_by_key(|(_, known)| known.next_deadline()).map(|(id, _)| *id);
        first.and_then(|id| self.orders.remove(&id)).map(drop).ok_or(CaptureRefusal::Full)
    }

    fn first_state(&self, now: Now, order: &CaptureOrder) -> CaptureState {
        let is_early = order.start_at > now.wall.plus(CAPTURE_EARLY_MAX);
        if is_read(order.kind) {
            return match order.kind {
                _ if now.wall >= order.expires_at => CaptureState::Expired,
                CaptureKind::Continuous if is_early => CaptureState::Refused(CaptureRefusal::Early),
                _ => CaptureState::Waiting,
            };
        }
        // Nothing may be under way but the other half of an alert's pair.
        let under_way = || self.active().filter(|known| !is_read(known.order.kind));
        let pending = under_way().count();
        let is_busy =
            pending == CAPTURES_AT_ONCE || under_way().any(|known| !known.is_of_one_pair(order));
        match self.recent.check(now.mono, order.rule.as_ref(), pending) {
            _ if now.wall >= order.expires_at => CaptureState::Expired,
            _ if is_early => CaptureState::Refused(CaptureRefusal::Early),
            _ if is_busy => CaptureState::Refused(CaptureRefusal::Busy),
            Err(refusal) => CaptureState::Refused(refusal),
            Ok(()) => CaptureState::Waiting,
        }
    }

    /// Whether a sender of some series is searched for now.
    pub fn is_searching(&self) -> bool {
        self.orders.values().any(|known| known.searched().is_some())
    }

    /// This process has sent something; `is_sent` is whether a series, without labels that the node
    /// adds, is in it.
    pub fn on_sender(&mut self, sender: SendingProcess, is_sent: impl Fn(&Series) -> bool) {
        for known in self.orders.values_mut() {
            if known.searched().is_some_and(&is_sent) {
                known.on_sender(sender);
            }
        }
    }

    /// The recording that is under way.
    pub fn recording(&self) -> Option<&CaptureOrder> {
        self.orders.values().find(|known| known.is_recording()).map(|known| &known.order)
    }

    fn active(&self) -> impl Iterator<Item = &KnownOrder> {
        self.orders.values().filter(|known| !known.state().is_final())
    }

    /// Whether an order captures a process, or will.
    pub fn is_capturing(&self, pid: u32) -> bool {
        self.active().any(|known| !is_read(known.order.kind) && known.has_found(pid))
    }

    /// Before then no order of the past starts: one runs at a time, and few in a second.
    fn past_at(&self) -> Mono {
        let is_running = |known: &&KnownOrder| is_read(known.order.kind) && known.is_running();
        match self.active().find(is_running) {
            Some(running) => running.next_deadline(),
            None => self.past_started.map_or(Mono(0), |at| at.plus(PAST_PAUSE)),
        }
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        let past_at = self.past_at();
        let deadline = |known: &KnownOrder| match known.past() {
            Some(_) if !known.is_running() => known.next_deadline().max(past_at),
            _ => known.next_deadline(),
        };
        self.active().map(deadline).min()
    }

    /// The capture to start, if it is its time.
    pub fn on_deadline(&mut self, now: Mono) -> Option<CaptureStart> {
        self.forget(now);
        let ids: Vec<CaptureId> = self.orders.keys().copied().collect();
        ids.into_iter().find_map(|id| self.start_due(now, id))
    }

    fn start_due(&mut self, now: Mono, id: CaptureId) -> Option<CaptureStart> {
        let past_at = self.past_at();
        let known = self.orders.get_mut(&id)?;
        known.record(now);
        let past = known.past();
        match known.due(now)? {
            Ok(_) if past.is_some() && now < past_at => None,
            Ok(order) => {
                known.start(now);
                match past {
                    Some(_) => self.past_started = Some(now),
                    None => self.recent.push(now, known.order.rule.clone()),
                }
                Some(CaptureStart { id, order, past, from_outside: false })
            }
            Err(Unstarted { state, fix }) => {
                known.facts.fix = fix;
                self.end(now, id, state);
                None
            }
        }
    }

    /// The profiler has responded, or could not be asked.
    pub fn on_captured(&mut self, now: Mono, end: CaptureEnd) {
        let CaptureEnd { id, state, facts, profile } = end;
        // One that was given up stays so, whatever comes of it in the end.
        let known = self.orders.get_mut(&id).filter(|known| !known.state().is_final());
        let Some(known) = known else { return };
        (known.facts, known.profile) = (facts, profile);
        self.end(now, id, state);
    }

    fn end(&mut self, now: Mono, id: CaptureId, state: CaptureState) {
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
        CaptureStats { active: self.active().count() as u64, ..self.stats.clone() }
    }
}

/// Whether it is read from what the node records, for which no profiler is asked.
fn is_read(kind: CaptureKind) -> bool {
    matches!(kind, CaptureKind::Past | CaptureKind::Continuous)
}

impl CaptureEnd {
    pub fn failed(id: CaptureId, failure: CaptureFailure, fix: String) -> Self {
        let facts = CaptureFacts { fix, ..CaptureFacts::default() };
        Self { id, state: CaptureState::Failed(failure), facts, profile: Bytes::new() }
    }
}
