//! One capture: what was ordered, and how far it has come.
//!
//! ```text
//! Polling --kept or torn--> Fetching --all bytes--> Storing --> Ended
//!    `--- refused, failed, expired, no response in time --------^
//! ```

use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::limits::wire::CAPTURE_CHUNK_BYTES_MAX;
use plimsoll_schemas::summary::{ProfileRow, ProfileState};
use plimsoll_schemas::time::{Mono, Now, Wall, nanos, seconds};
use plimsoll_schemas::wire::capture::{
    CaptureFacts, CaptureId, CaptureKind, CaptureOrder, CaptureRefusal, CaptureResponse,
    CaptureState, CaptureStep, PastRange, ProcessSelector,
};

use super::effect::{CaptureEffect, CaptureEnd, RequestError};
use crate::limits::captures::{
    ALERTS_APART, GIVE_UP_AFTER, POLL_EVERY, RECORDED_WITHIN, RECORDING_POLL_EVERY, STOPPED_WITHIN,
    UNANSWERED_AFTER,
};

/// Why it is shorter than ordered, or has no profile.
pub(super) const STOPPED: &str = "stopped";
/// What to change if a node never responds.
const UNANSWERED: &str = "the node is away, has not set captures.enabled, is of an earlier version \
                          (over 100 Hz, or the past), or the broker denies \
                          plimsoll.v1.<mesh>.capture.<node>";

/// What to do about a node that has started enough.
const TOO_MANY: &str = "a node starts 6 captures an hour for operators and 6 for alerts: retry \
                        when the first of them was an hour ago, or ask for its past (kind past), \
                        which has no such limit";

/// An order that this aggregator has given.
#[derive(Clone, Debug)]
pub(super) struct Capture {
    /// As it is shown.
    pub(super) row: ProfileRow,
    order: CaptureOrder,
    progress: Progress,
    was_answered: bool,
    /// A client has stopped it, and waits until then for what was taken.
    stopping_until: Option<Mono>,
    /// When the next request is sent.
    next_at: Mono,
    /// Whether a request or a write is under way.
    is_busy: bool,
}

/// `state` is what it ends as once its profile is stored.
#[derive(Clone, Debug)]
enum Progress {
    Polling,
    Fetching { state: ProfileState, bytes: Vec<u8> },
    Storing { state: ProfileState },
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

    // Of stacks alone nothing more is named: an earlier version gives such an order the same id.
    let past = order.past.map(|past| [past.from, past.to].map(|at| at.0.to_be_bytes()));
    let interval = order.interval_seconds.map(u32::to_be_bytes);
    let more = [
        (order.kind != CaptureKind::Cpu).then(|| order.kind.as_str().as_bytes()),
        order.native.then_some(&b"native"[..]),
        interval.as_ref().map(|seconds| &seconds[..]),
    ];
    let more = more.into_iter().flatten().chain(past.iter().flatten().map(|at| &at[..]));

    let names = [mesh.as_str(), node.as_str(), rule, operation].map(str::as_bytes);
    let labels = labels.iter().flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()]);
    let figures = figures.iter().map(|figure| &figure[..]).chain([&start[..]]);
    CaptureId::derived(
        &names.into_iter().chain(figures).chain(labels).chain(more).collect::<Vec<_>>(),
    )
}

impl Capture {
    pub(super) fn new(
        now: Now,
        id: CaptureId,
        node: NodeName,
        order: CaptureOrder,
        peer: Option<CaptureId>,
    ) -> Self {
        let ProcessSelector { pid, operation, labels } = order.process.clone();
        // Of the past it is shown when that was.
        let shown = order.past.map_or(order.seconds, |PastRange { from, to }| {
            u32::try_from(to.since(from).as_secs()).unwrap_or(u32::MAX)
        });
        let start_at = order.past.map_or(order.start_at, |past| past.from);

        let row = ProfileRow {
            id,
            kind: order.kind,
            native: order.native,
            node,
            nodes: None,
            operation,
            labels,
            seconds: shown,
            // Of the past it is stated with what was recorded.
            hz: if order.past.is_some() { 0 } else { order.hz },
            ordered_seconds: seconds(order.start_at.0),
            start_seconds: seconds(start_at.0),
            rule: order.rule.clone(),
            peer,
            state: ProfileState::Running,
            reason: None,
            facts: CaptureFacts { pid: pid.unwrap_or_default(), ..CaptureFacts::default() },
            bytes: 0,
            kept_as: None,
        };

        let (progress, next_at) = (Progress::Polling, now.mono);
        Self {
            row,
            order,
            progress,
            was_answered: false,
            stopping_until: None,
            next_at,
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

    pub(super) fn next_at(&self) -> Option<Mono> {
        (!self.is_busy && self.end().is_none()).then_some(self.next_at)
    }

    /// Asks its node to end it; false if it has ended, there or here, or is stopped already.
    pub(super) fn stop(&mut self, now: Now) -> bool {
        let is_stopped =
            matches!(self.progress, Progress::Polling) && self.stopping_until.is_none();
        if is_stopped {
            let mut within = STOPPED_WITHIN;
            if self.order.kind == CaptureKind::Continuous {
                within = RECORDED_WITHIN;
                let length = now.wall.since(self.order.start_at).as_secs();
                self.row.seconds = u32::try_from(length).unwrap_or(u32::MAX);
            }
            self.stopping_until = Some(now.mono.plus(within));
            self.row.reason = Some(STOPPED.to_owned());
            self.next_at = now.mono;
        }
        is_stopped
    }

    /// What is to be done now; only one thing at a time.
    pub(super) fn next_effect(&mut self, now: Now) -> Option<CaptureEffect> {
        if self.next_at().is_none_or(|at| at > now.mono) {
            return None;
        }
        self.is_busy = true;
        let step = match &mut self.progress {
            Progress::Polling if self.stopping_until.is_some() => CaptureStep::Stop,
            Progress::Polling => CaptureStep::Order(self.order.clone()),
            Progress::Fetching { state, bytes } if bytes.len() as u64 == self.row.bytes => {
                let (state, bytes) = (*state, std::mem::take(bytes));
                self.progress = Progress::Storing { state };
                let row = Box::new(ProfileRow { state, ..self.row.clone() });
                return Some(CaptureEffect::Store { row, bytes });
            }
            Progress::Fetching { bytes, .. } => CaptureStep::Chunk(chunk_number(bytes)),
            Progress::Storing { .. } | Progress::Ended(_) => return None,
        };
        Some(CaptureEffect::Request { id: self.row.id, node: self.row.node.clone(), step })
    }

    /// The node has responded, or not.
    pub(super) fn on_response(
        &mut self,
        now: Now,
        response: Result<CaptureResponse, RequestError>,
    ) {
        if let Progress::Storing { .. } = self.progress {
            return;
        }
        self.is_busy = false;
        self.next_at = now.mono.plus(POLL_EVERY);
        self.was_answered |= !matches!(response, Err(RequestError::NoResponse));
        match response {
            Ok(response) => self.progressed(now, &response),
            Err(error) if self.is_given_up(now) || error == RequestError::Invalid => {
                self.end_as(ProfileState::Failed, error.as_str());
            }
            // It is requested again.
            Err(_) => {}
        }
    }

    /// The profile was stored, or why not.
    pub(super) fn on_stored(&mut self, stored: Result<(), &'static str>) {
        let Progress::Storing { state } = self.progress else { return };
        match stored {
            Ok(()) => self.end_as(state, ""),
            Err(reason) => self.end_as(ProfileState::Failed, reason),
        }
    }

    fn progressed(&mut self, now: Now, response: &CaptureResponse) {
        let size = self.row.bytes;
        let Progress::Fetching { bytes, .. } = &mut self.progress else {
            return self.polled(now, response);
        };
        let expected = (size - bytes.len() as u64).min(CAPTURE_CHUNK_BYTES_MAX as u64);
        if response.bytes != size || response.chunk.len() as u64 != expected {
            return self.end_as(ProfileState::Failed, "incomplete");
        }
        bytes.extend_from_slice(&response.chunk);
        self.next_at = now.mono;
    }

    fn polled(&mut self, now: Now, response: &CaptureResponse) {
        let ordered_pid = self.row.facts.pid;
        self.row.facts = response.facts.clone();
        if self.row.facts.pid == 0 {
            self.row.facts.pid = ordered_pid;
        }

        let state = match response.state {
            CaptureState::Waiting | CaptureState::Running if self.is_given_up(now) => {
                return self.end_as(ProfileState::Failed, "too_slow");
            }
            CaptureState::Waiting | CaptureState::Running => {
                // It is known when there will be a profile; there is none before.
                let is_stopped = self.stopping_until.is_some();
                let left = match self.order.kind {
                    _ if is_stopped => POLL_EVERY,
                    CaptureKind::Continuous => {
                        self.ends_at().since(now.wall).min(RECORDING_POLL_EVERY)
                    }
                    _ => self.ends_at().since(now.wall),
                };
                self.next_at = now.mono.plus(left.max(POLL_EVERY));
                return;
            }
            CaptureState::Failed(of) => return self.end_as(ProfileState::Failed, of.as_str()),
            CaptureState::Refused(of) => {
                if of == CaptureRefusal::TooMany {
                    self.row.facts.fix = TOO_MANY.to_owned();
                }
                return self.end_as(ProfileState::Refused, of.as_str());
            }
            CaptureState::Expired => return self.end_as(ProfileState::Expired, ""),
            CaptureState::Unknown => return self.end_as(ProfileState::Failed, "unknown"),
            CaptureState::Kept
                if self.order.kind == CaptureKind::Continuous && self.stopping_until.is_some() =>
            {
                ProfileState::Torn
            }
            CaptureState::Kept => {
                // It was over before.
                self.row.reason = None;
                ProfileState::Kept
            }
            CaptureState::Torn => ProfileState::Torn,
        };
        if response.bytes == 0 {
            return self.end_as(ProfileState::Failed, "empty");
        }
        let is_native = response.facts.native || !self.order.native;
        if response.facts.kind != self.order.kind || !is_native {
            return self.end_as(ProfileState::Failed, "not_supported");
        }
        self.row.bytes = response.bytes;
        self.next_at = now.mono;
        self.progress = Progress::Fetching { state, bytes: Vec::new() };
    }

    fn end_as(&mut self, state: ProfileState, reason: &'static str) {
        let has_none = !state.has_profile() && self.stopping_until.is_some();
        let reason = if has_none { STOPPED } else { reason };
        self.progress = Progress::Ended(CaptureEnd { state, reason });
        self.row.state = state;
        self.row.reason = (!reason.is_empty()).then(|| reason.to_owned());
        if !self.was_answered {
            self.row.facts.fix = UNANSWERED.to_owned();
        }
    }

    fn ends_at(&self) -> Wall {
        self.order.start_at.plus(std::time::Duration::from_secs(self.order.seconds.into()))
    }

    fn is_given_up(&self, now: Now) -> bool {
        let last = if self.was_answered {
            self.ends_at().plus(GIVE_UP_AFTER)
        } else {
            self.order.start_at.plus(UNANSWERED_AFTER)
        };
        now.wall >= last || self.stopping_until.is_some_and(|until| now.mono >= until)
    }
}

/// The number of the next chunk: all before it are full.
fn chunk_number(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len() / CAPTURE_CHUNK_BYTES_MAX).unwrap_or(u32::MAX)
}
