//! One order from its arrival until it is no longer kept.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_schemas::ids::{Labels, NodeName, Series};
use plimsoll_schemas::limits::wire::CAPTURE_CHUNK_BYTES_MAX;
use plimsoll_schemas::time::{BootMillis, Mono, Now};
use plimsoll_schemas::wire::capture::{
    CaptureFacts, CaptureFailure, CaptureId, CaptureOrder, CaptureRefusal, CaptureResponse,
    CaptureState,
};

use crate::limits::{
    CAPTURE_CHUNK_PAUSE, CAPTURE_KEPT_FOR, CAPTURE_RESPONSE_WAIT, CAPTURE_SEARCH_AFTER,
    CAPTURE_SENDERS_MAX,
};

/// The label that an aggregator adds to the series of a node.
const NODE_LABEL: &str = "node";

/// A process that the kernel states as a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendingProcess {
    pub pid: u32,
    /// When it was there: one that started later has taken over its number.
    pub alive_at: BootMillis,
}

#[derive(Debug)]
pub(super) struct KnownOrder {
    pub(super) order: CaptureOrder,
    pub(super) facts: CaptureFacts,
    pub(super) profile: Bytes,
    /// When each chunk of the profile was last sent.
    sent_chunks: BTreeMap<u32, Mono>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Waiting {
        start_at: Mono,
        expires_at: Mono,
        /// `None` when the order has the number of the process.
        search: Option<Search>,
    },
    Running {
        until: Mono,
    },
    Ended {
        state: CaptureState,
        kept_until: Mono,
    },
}

#[derive(Debug)]
struct Search {
    series: Series,
    /// Processes that send it, and the first instant that each was there.
    senders: BTreeMap<u32, BootMillis>,
}

/// What an order is due for.
pub(super) enum Due {
    Start { pid: u32, alive_at: Option<BootMillis> },
    End { state: CaptureState, fix: String },
}

impl KnownOrder {
    pub(super) fn new(now: Now, order: CaptureOrder, node: &NodeName, labels: &Labels) -> Self {
        // From here on by the clock that does not jump.
        let start_at = now.mono.plus(order.start_at.since(now.wall));
        let expires_at = now.mono.plus(order.expires_at.since(now.wall));
        let search = order.process.operation.clone().map(|operation| {
            let own = |key: &str, value: &str| {
                labels.get(key) == Some(value) || (key == NODE_LABEL && value == node.as_str())
            };
            let sent = order.process.labels.iter().filter(|(key, value)| !own(key, value));
            let labels = Labels::new(sent).unwrap_or_default();
            Search { series: Series { operation, labels }, senders: BTreeMap::new() }
        });
        let phase = Phase::Waiting { start_at, expires_at, search };
        Self {
            order,
            facts: CaptureFacts::default(),
            profile: Bytes::new(),
            sent_chunks: BTreeMap::new(),
            phase,
        }
    }

    fn state(&self) -> CaptureState {
        match self.phase {
            Phase::Waiting { .. } => CaptureState::Waiting,
            Phase::Running { .. } => CaptureState::Running,
            Phase::Ended { state, .. } => state,
        }
    }

    /// Whether both are an alert's, for one instant, and none has started.
    pub(super) fn is_of_one_pair(&self, other: &CaptureOrder) -> bool {
        let CaptureOrder { rule, start_at, .. } = &self.order;
        let is_waiting = matches!(self.phase, Phase::Waiting { .. });
        is_waiting && rule.is_some() && (rule, start_at) == (&other.rule, &other.start_at)
    }

    pub(super) fn response(&self, number: u64, id: CaptureId) -> CaptureResponse {
        let (facts, bytes) = (self.facts.clone(), self.profile.len() as u64);
        CaptureResponse { facts, bytes, ..CaptureResponse::new(number, id, self.state()) }
    }

    /// The response with a chunk of the profile; none when that was sent just now.
    pub(super) fn chunk(
        &mut self,
        now: Mono,
        number: u64,
        id: CaptureId,
        chunk: u32,
    ) -> Option<CaptureResponse> {
        let rest = self.profile.get(chunk as usize * CAPTURE_CHUNK_BYTES_MAX..).unwrap_or_default();
        let bytes = rest[..rest.len().min(CAPTURE_CHUNK_BYTES_MAX)].to_vec();
        // A request may be recorded and sent again, at any rate; one without bytes costs no more.
        if !bytes.is_empty() {
            let before = self.sent_chunks.get(&chunk);
            if before.is_some_and(|before| now.since(*before) < CAPTURE_CHUNK_PAUSE) {
                return None;
            }
            self.sent_chunks.insert(chunk, now);
        }
        Some(CaptureResponse { chunk: bytes, ..self.response(number, id) })
    }

    pub(super) fn searched(&self) -> Option<&Series> {
        match &self.phase {
            Phase::Waiting { search, .. } => search.as_ref().map(|search| &search.series),
            Phase::Running { .. } | Phase::Ended { .. } => None,
        }
    }

    pub(super) fn on_sender(&mut self, sender: SendingProcess) {
        let Phase::Waiting { search: Some(Search { senders, .. }), .. } = &mut self.phase else {
            return;
        };
        let SendingProcess { pid, alive_at } = sender;
        if senders.len() < CAPTURE_SENDERS_MAX || senders.contains_key(&pid) {
            // The process must be as old as all that was sent under its number.
            let first = senders.entry(pid).or_insert(alive_at);
            *first = alive_at.min(*first);
        }
    }

    pub(super) fn next_deadline(&self) -> Mono {
        match &self.phase {
            // A sender that is found later starts it on the turn that finds it.
            Phase::Waiting { start_at, expires_at, search: Some(Search { senders, .. }) }
                if senders.is_empty() =>
            {
                start_at.plus(CAPTURE_SEARCH_AFTER).min(*expires_at)
            }
            Phase::Waiting { start_at, .. } => *start_at,
            Phase::Running { until } => *until,
            Phase::Ended { kept_until, .. } => *kept_until,
        }
    }

    /// `None` while there is nothing to do.
    pub(super) fn due(&self, now: Mono) -> Option<Due> {
        let end = |state, fix: String| Some(Due::End { state, fix });
        match &self.phase {
            Phase::Waiting { expires_at, .. } if now >= *expires_at => {
                end(CaptureState::Expired, String::new())
            }
            Phase::Waiting { start_at, .. } if now < *start_at => None,
            Phase::Waiting { search: None, .. } => {
                Some(Due::Start { pid: self.order.process.pid?, alive_at: None })
            }
            Phase::Waiting { start_at, search: Some(Search { senders, .. }), .. } => {
                let pids: Vec<String> = senders.keys().map(u32::to_string).collect();
                match senders.first_key_value() {
                    Some((pid, alive_at)) if senders.len() == 1 => {
                        Some(Due::Start { pid: *pid, alive_at: Some(*alive_at) })
                    }
                    Some(_) => end(
                        CaptureState::Refused(CaptureRefusal::ProcessAmbiguous),
                        format!("processes {} send it: order with more labels", pids.join(", ")),
                    ),
                    None if now >= start_at.plus(CAPTURE_SEARCH_AFTER) => end(
                        CaptureState::Refused(CaptureRefusal::ProcessNotFound),
                        "no process sends it over a Unix socket of the node: set listen.unix, \
                         listen.stream, or order by the number of the process"
                            .to_owned(),
                    ),
                    None => None,
                }
            }
            Phase::Running { until } if now >= *until => end(
                CaptureState::Failed(CaptureFailure::ProfilerTimeout),
                "the profiler does not respond: see its log".to_owned(),
            ),
            Phase::Running { .. } | Phase::Ended { .. } => None,
        }
    }

    pub(super) fn start(&mut self, now: Mono) {
        let length = Duration::from_secs(self.order.seconds.into());
        self.phase = Phase::Running { until: now.plus(length + CAPTURE_RESPONSE_WAIT) };
    }

    pub(super) fn end(&mut self, now: Mono, state: CaptureState) {
        self.phase = Phase::Ended { state, kept_until: now.plus(CAPTURE_KEPT_FOR) };
    }

    pub(super) fn is_over(&self, now: Mono) -> bool {
        matches!(self.phase, Phase::Ended { kept_until, .. } if now >= kept_until)
    }
}
