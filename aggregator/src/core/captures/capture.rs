//! One capture: what was ordered, and how far it has come.
//!
//! ```text
//! Polling --kept or torn--> Fetching --all bytes--> Storing --> Ended
//!    `--- refused, failed, expired, no response in time --------^
//! ```

use std::time::Duration;

use plimsoll_schemas::ids::{MeshName, NodeName, RuleName};
use plimsoll_schemas::limits::wire::CAPTURE_CHUNK_BYTES_MAX;
use plimsoll_schemas::summary::{ProfileRow, ProfileState};
use plimsoll_schemas::time::{Mono, Now, Wall, nanos, seconds};
use plimsoll_schemas::wire::capture::{
    CaptureFacts, CaptureId, CaptureOrder, CaptureResponse, CaptureState, CaptureStep,
    ProcessSelector,
};

use super::effect::{CaptureEffect, RequestError};
use super::ledger::CaptureEnd;
use crate::limits::captures::{
    ALERTS_APART, BREACH_PAUSE, GIVE_UP_AFTER, POLL_EVERY, UNANSWERED_AFTER,
};

/// What to change if a node never responds.
const UNANSWERED: &str = "the node is away, has not set captures.enabled, or the broker denies \
                          plimsoll.v1.<mesh>.capture.<node>";

/// An order that this aggregator has given.
#[derive(Clone, Debug)]
pub(super) struct Capture {
    id: CaptureId,
    node: NodeName,
    order: CaptureOrder,
    peer: Option<CaptureId>,
    progress: Progress,
    facts: CaptureFacts,
    was_answered: bool,
    /// Bytes of the whole profile.
    size: u64,
    /// When the next request is sent.
    next_at: Mono,
    /// Whether a request or a write is under way.
    is_busy: bool,
}

#[derive(Clone, Debug)]
enum Progress {
    Polling,
    Fetching { outcome: ProfileState, bytes: Vec<u8> },
    Storing { outcome: ProfileState, bytes: Vec<u8> },
    Ended(CaptureEnd),
}

/// The id of an order: the same for each aggregator that gives it.
pub(super) fn id(mesh: &MeshName, node: &NodeName, order: &CaptureOrder) -> CaptureId {
    let ProcessSelector { pid, operation, labels } = &order.process;
    let figures = [pid.unwrap_or_default(), order.seconds, order.hz].map(u32::to_be_bytes);
    let apart = if order.rule.is_some() { nanos(ALERTS_APART) } else { 1 };
    let start = (order.start_at.0 / apart).to_be_bytes();
    let rule = order.rule.as_ref().map_or("", |rule| rule.as_str());
    let operation = operation.as_ref().map_or("", |operation| operation.as_str());

    let mut parts: Vec<&[u8]> = [mesh.as_str(), node.as_str(), rule, operation]
        .map(str::as_bytes)
        .into_iter()
        .chain(figures.iter().map(|figure| &figure[..]))
        .chain([&start[..]])
        .collect();
    for (key, value) in labels.iter() {
        parts.extend([key.as_bytes(), value.as_bytes()]);
    }
    CaptureId::derived(&parts)
}

impl Capture {
    pub(super) fn new(
        now: Now,
        id: CaptureId,
        node: NodeName,
        order: CaptureOrder,
        peer: Option<CaptureId>,
    ) -> Self {
        Self {
            id,
            node,
            order,
            peer,
            progress: Progress::Polling,
            facts: CaptureFacts::default(),
            was_answered: false,
            size: 0,
            next_at: now.mono,
            is_busy: false,
        }
    }

    /// How it ended, if it has.
    pub(super) fn end(&self) -> Option<CaptureEnd> {
        match self.progress {
            Progress::Ended(end) => Some(end),
            Progress::Polling | Progress::Fetching { .. } | Progress::Storing { .. } => None,
        }
    }

    /// Whether it has kept its node from another capture for this rule since then. One that is to
    /// start is that of its peers too.
    pub(super) fn is_spent(&self, now: Wall, rule: &RuleName, node: &NodeName) -> bool {
        let start_at = self.order.start_at;
        self.node == *node
            && self.order.rule.as_ref() == Some(rule)
            && start_at <= now
            && now.since(start_at) < BREACH_PAUSE
    }

    /// Whether a profile of it is stored.
    pub(super) fn has_profile(&self) -> bool {
        let end = self.end().map(|end| end.outcome);
        matches!(end, Some(ProfileState::Kept | ProfileState::Torn))
    }

    pub(super) fn next_at(&self) -> Option<Mono> {
        (!self.is_busy && self.end().is_none()).then_some(self.next_at)
    }

    pub(super) fn start_at(&self) -> Wall {
        self.order.start_at
    }

    /// What is to be done now; only one thing at a time.
    pub(super) fn next_effect(&mut self, now: Now) -> Option<CaptureEffect> {
        if self.next_at().is_none_or(|at| at > now.mono) {
            return None;
        }
        let step = match &mut self.progress {
            Progress::Polling => CaptureStep::Order(self.order.clone()),
            Progress::Fetching { bytes, .. } => CaptureStep::Chunk(chunk_number(bytes)),
            Progress::Storing { outcome, bytes } => {
                let (state, bytes) = (*outcome, std::mem::take(bytes));
                self.is_busy = true;
                let row = ProfileRow { state, has_profile: true, ..self.row() };
                return Some(CaptureEffect::Store { id: self.id, row: Box::new(row), bytes });
            }
            Progress::Ended(_) => return None,
        };
        self.is_busy = true;
        Some(CaptureEffect::Request { id: self.id, node: self.node.clone(), step })
    }

    /// The node has responded, or not.
    pub(super) fn on_response(
        &mut self,
        now: Now,
        response: Result<CaptureResponse, RequestError>,
    ) {
        self.is_busy = false;
        self.next_at = now.mono.plus(POLL_EVERY);
        self.was_answered |= !matches!(response, Err(RequestError::NoResponse));
        let progress = std::mem::replace(&mut self.progress, Progress::Polling);
        self.progress = match (progress, response) {
            (Progress::Polling | Progress::Fetching { .. }, Err(error))
                if self.is_given_up(now) || error == RequestError::Invalid =>
            {
                Progress::Ended(CaptureEnd::failed(error.as_str()))
            }
            (Progress::Polling, Ok(response)) => self.polled(now, response),
            (Progress::Fetching { outcome, bytes }, Ok(response)) => {
                self.fetched(now, outcome, bytes, &response)
            }
            // It is requested again; a write has no response of a node.
            (progress, _) => progress,
        };
    }

    /// The profile was stored, or why not.
    pub(super) fn on_stored(&mut self, stored: Result<(), &'static str>) {
        self.is_busy = false;
        let Progress::Storing { outcome, .. } = self.progress else { return };
        self.progress = Progress::Ended(match stored {
            Ok(()) => CaptureEnd { outcome, reason: "" },
            Err(reason) => CaptureEnd::failed(reason),
        });
    }

    fn polled(&mut self, now: Now, response: CaptureResponse) -> Progress {
        self.facts = response.facts;
        let refused = |outcome, reason| Progress::Ended(CaptureEnd { outcome, reason });
        let outcome = match response.state {
            CaptureState::Waiting | CaptureState::Running if self.is_given_up(now) => {
                return Progress::Ended(CaptureEnd::failed("too_slow"));
            }
            CaptureState::Waiting | CaptureState::Running => {
                // It is known when there will be a profile; there is none before.
                let left = self.ends_at().since(now.wall);
                self.next_at = now.mono.plus(left.max(POLL_EVERY));
                return Progress::Polling;
            }
            CaptureState::Failed(of) => return Progress::Ended(CaptureEnd::failed(of.as_str())),
            CaptureState::Refused(of) => return refused(ProfileState::Refused, of.as_str()),
            CaptureState::Expired => return refused(ProfileState::Expired, ""),
            CaptureState::Unknown => return Progress::Ended(CaptureEnd::failed("unknown")),
            CaptureState::Kept => ProfileState::Kept,
            CaptureState::Torn => ProfileState::Torn,
        };
        if response.bytes == 0 {
            return Progress::Ended(CaptureEnd::failed("empty"));
        }
        self.size = response.bytes;
        self.next_at = now.mono;
        Progress::Fetching { outcome, bytes: Vec::new() }
    }

    fn fetched(
        &mut self,
        now: Now,
        outcome: ProfileState,
        mut bytes: Vec<u8>,
        response: &CaptureResponse,
    ) -> Progress {
        let left = self.size - bytes.len() as u64;
        let expected = left.min(CAPTURE_CHUNK_BYTES_MAX as u64);
        if response.bytes != self.size || response.chunk.len() as u64 != expected {
            return Progress::Ended(CaptureEnd::failed("incomplete"));
        }
        bytes.extend_from_slice(&response.chunk);
        self.next_at = now.mono;
        if expected == left {
            Progress::Storing { outcome, bytes }
        } else {
            Progress::Fetching { outcome, bytes }
        }
    }

    fn is_unanswered(&self) -> bool {
        self.end().is_some() && !self.was_answered
    }

    fn ends_at(&self) -> Wall {
        self.order.start_at.plus(Duration::from_secs(self.order.seconds.into()))
    }

    fn is_given_up(&self, now: Now) -> bool {
        let last = if self.was_answered {
            self.ends_at().plus(GIVE_UP_AFTER)
        } else {
            self.order.start_at.plus(UNANSWERED_AFTER)
        };
        now.wall >= last
    }

    pub(super) fn row(&self) -> ProfileRow {
        let CaptureOrder { process, seconds: length, hz, start_at, rule, .. } = &self.order;
        let end = self.end();
        let mut facts = self.facts.clone();
        if facts.pid == 0 {
            facts.pid = process.pid.unwrap_or_default();
        }
        if self.is_unanswered() {
            UNANSWERED.clone_into(&mut facts.fix);
        }
        ProfileRow {
            id: self.id.to_string(),
            node: self.node.clone(),
            operation: process.operation.clone(),
            labels: process.labels.clone(),
            seconds: *length,
            hz: *hz,
            start_seconds: seconds(start_at.0),
            rule: rule.clone(),
            peer: self.peer.map(|peer| peer.to_string()),
            state: end.map_or(ProfileState::Running, |end| end.outcome),
            reason: end.map(|end| end.reason.to_owned()).filter(|reason| !reason.is_empty()),
            facts,
            bytes: self.size,
            has_profile: self.has_profile(),
        }
    }
}

/// The number of the next chunk: all before it are full.
fn chunk_number(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len() / CAPTURE_CHUNK_BYTES_MAX).unwrap_or(u32::MAX)
}
